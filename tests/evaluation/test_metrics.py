"""Every metric is its mean over all orders that tied candidates could have come in."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from decentrl.evaluation.metrics import hits, mean_rank, reciprocal_rank, summary
from decentrl.evaluation.ranks import Ranks, rank
from decentrl.matching.similarity import Scores

queries = st.lists(st.integers(-1, 1), min_size=1, max_size=6).flatmap(
    lambda scores: st.tuples(st.just(scores), st.integers(0, len(scores) - 1))
)


def positions(scores: list[int], target: int) -> list[int]:
    """The target's place in each order of the candidates that sorting could leave them in."""
    orders = permutations(range(len(scores)))
    ranked = (sorted(order, key=lambda j: -scores[j]) for order in orders)
    return [order.index(target) + 1 for order in ranked]


@given(queries)
@settings(deadline=None)
def test_metrics_are_expectations_over_the_order_of_ties(query: tuple[list[int], int]) -> None:
    scores, target = query
    matrix = torch.tensor([scores], dtype=torch.float64)
    found = rank(Scores.cosine(matrix, torch.eye(len(scores)).double()), torch.tensor([target]))
    places = positions(scores, target)
    n = len(places)
    assert mean_rank(found).item() == float(Fraction(sum(places), n))
    expected = float(sum(Fraction(1, place) for place in places) / n)
    assert reciprocal_rank(found).item() == pytest.approx(expected, rel=1e-14)
    for k in range(1, 8):
        chance = float(Fraction(sum(place <= k for place in places), n))
        assert hits(found, k).item() == pytest.approx(chance, rel=1e-15)


@given(
    st.lists(
        st.tuples(st.integers(0, 60), st.integers(1, 60)),
        min_size=1,
        max_size=20,
    )
)
@settings(deadline=None)
def test_a_summary_is_the_mean_of_the_formulas(counts: list[tuple[int, int]]) -> None:
    ranks = Ranks(*torch.tensor(counts).T)
    found = summary(ranks)
    n = len(counts)
    for k in (1, 5, 10, 50):
        share = sum(Fraction(min(max(k - b, 0), t), t) for b, t in counts) / n
        assert found[f"hits@{k}"] == pytest.approx(float(share), rel=1e-12)
    assert found["mr"] == pytest.approx(sum(b + (t + 1) / 2 for b, t in counts) / n, rel=1e-12)
    inverse = sum(sum(Fraction(1, b + i) for i in range(1, t + 1)) / t for b, t in counts) / n
    assert found["mrr"] == pytest.approx(float(inverse), rel=1e-12)


def test_without_ties_the_metrics_are_the_usual_ones() -> None:
    ranks = Ranks(torch.tensor([0, 1, 9]), torch.ones(3, dtype=torch.int64))
    assert mean_rank(ranks).tolist() == [1, 2, 10]
    assert hits(ranks, 1).tolist() == [1, 0, 0]
    assert reciprocal_rank(ranks).tolist() == pytest.approx([1, 1 / 2, 1 / 10])


def test_two_tied_for_the_first_place_share_it() -> None:
    both = Ranks(torch.tensor([0]), torch.tensor([2]))
    assert (hits(both, 1).item(), hits(both, 5).item()) == (0.5, 1.0)
    assert (mean_rank(both).item(), reciprocal_rank(both).item()) == (1.5, 0.75)


def test_a_model_that_cannot_tell_anybody_apart_is_as_good_as_chance() -> None:
    same = torch.ones(100, 1)
    found = summary(rank(Scores.cosine(same, same), torch.arange(100)))
    assert found["hits@1"] == pytest.approx(1 / 100)
    assert found["hits@10"] == pytest.approx(10 / 100)
    assert found["mr"] == pytest.approx(50.5)
