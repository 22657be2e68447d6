"""The blend of CSLS and Sinkhorn: its ends, its equations, and how its balance is found."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from decentrl.config import MatchingConfig
from decentrl.matching.matchers import LEAST, MOST, apply_matcher, balance_of
from decentrl.matching.similarity import Scores, blend, csls, mutual_share, sinkhorn
from decentrl.matching.sparse import sparse_blend, sparse_csls, top_pairs

SHAPES = [(7, 7), (9, 4), (4, 9), (1, 5), (5, 1), (40, 30)]


def unit(n: int, seed: int, d: int = 6) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return F.normalize(torch.randn(n, d, dtype=torch.float64, generator=generator), dim=1)


def cosines(n: int, m: int) -> Scores:
    return Scores.cosine(unit(n, 0), unit(m, 1))


def whole(scores: Scores) -> Tensor:
    return torch.cat([block for _, block in scores.blocks()])


def by_hand(cosine: np.ndarray, balance: float, t: float, iterations: int) -> np.ndarray:
    """The equations of the docstring, in NumPy."""

    def anchor(axis: int) -> np.ndarray:
        return -np.sort(-cosine, axis=axis).take(range(min(2, cosine.shape[axis])), axis).mean(axis)

    def sums(scores: np.ndarray, axis: int) -> np.ndarray:
        return t * np.log(np.exp(scores / t).sum(axis))

    r, c = anchor(1), anchor(0)
    g = -c / 2
    for turn in range(iterations + 1):
        f = -(1 - balance) * r / 2 - balance * sums(cosine + g, 1)
        if turn < iterations:
            g = -(1 - balance) * c / 2 - balance * sums(cosine + f[:, None], 0)
            g += balance * t * np.log(len(cosine) / cosine.shape[1])
    return cosine + f[:, None] + g


@pytest.mark.parametrize(("n", "m"), SHAPES)
@pytest.mark.parametrize("balance", [0.0, 0.3, 0.75, 1.0])
@pytest.mark.parametrize("temperature", [0.02, 0.2])
def test_dense_and_sparse_scores_are_those_of_the_equations(
    n: int, m: int, balance: float, temperature: float
) -> None:
    expected = by_hand(whole(cosines(n, m)).numpy(), balance, temperature, 7)
    cosine = cosines(n, m)
    found = whole(blend(cosine, csls(cosine), balance, temperature, 7))
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-9)
    stored = top_pairs(cosines(n, m), max(n, m))
    pairs = sparse_blend(stored, sparse_csls(stored), balance, temperature, 7)
    np.testing.assert_allclose(pairs.values.view(n, m).numpy(), expected, atol=1e-9)


@pytest.mark.parametrize(("n", "m"), SHAPES)
def test_its_ends_are_csls_and_sinkhorn(n: int, m: int) -> None:
    scaled = whole(csls(cosines(n, m))) / 2
    cosine = cosines(n, m)
    torch.testing.assert_close(whole(blend(cosine, csls(cosine), 0.0)), scaled)
    full = whole(blend(cosine, csls(cosine), 1.0, temperature=0.2, iterations=300))
    torch.testing.assert_close(full, whole(sinkhorn(cosines(n, m), 0.2, 300)))


@given(st.integers(1, 8), st.integers(1, 8), st.integers(0, 99))
@settings(deadline=None)
def test_mutual_bests_are_counted(n: int, m: int, seed: int) -> None:
    scores = Scores.cosine(unit(n, seed), unit(m, seed + 100))
    matrix = whole(scores)
    pairs = [(i, int(j)) for i, j in enumerate(matrix.argmax(1)) if matrix[:, j].argmax() == i]
    assert mutual_share(scores) == pytest.approx(2 * len(pairs) / (n + m))


def twins(linked: int, size: int) -> Scores:
    """As many entities a side, the first of which are alike, far from all others."""
    left, right = unit(size, 0, 24), unit(size, 1, 24)
    right[:linked] = F.normalize(left[:linked] + 0.1 * right[:linked], dim=1)
    return Scores.cosine(left, right)


def test_the_balance_tells_where_most_have_a_counterpart() -> None:
    few, most = (balance_of(csls(twins(linked, 200))) for linked in (20, 190))
    assert LEAST <= few < most == MOST
    for linked in (20, 120, 190):
        cosine = twins(linked, 200)
        balance = balance_of(csls(cosine))
        assert balance_of(sparse_csls(top_pairs(cosine, 200))) == pytest.approx(balance)
        assert apply_matcher(cosine, "blend", MatchingConfig()).balance == balance


def test_no_entity_is_no_error() -> None:
    nothing = Scores.cosine(unit(3, 0), unit(0, 1))
    assert apply_matcher(nothing, "blend", MatchingConfig()).shape == (3, 0)
    assert len(apply_matcher(top_pairs(nothing, 2), "blend", MatchingConfig())) == 0
