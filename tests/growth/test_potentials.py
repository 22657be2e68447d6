"""One entity alone is matched as if all had been matched together."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from decentrl.config import MatchingConfig
from decentrl.growth import potentials
from decentrl.growth.neighbours import Indexes
from decentrl.growth.potentials import Matching, Pairs
from decentrl.matching.confidence import evidence
from decentrl.matching.matchers import MATCHERS, apply_matcher
from decentrl.matching.matches import KEPT, answer
from decentrl.matching.potentials import Potentials
from decentrl.matching.similarity import Scores
from decentrl.matching.sparse import SparseScores, rescore, top_pairs

N, M, D = 30, 40, 6
CONFIG = MatchingConfig(temperature=0.1)


def unit(n: int, seed: int) -> Tensor:
    x = torch.randn(n, D, generator=torch.Generator().manual_seed(seed))
    return torch.nn.functional.normalize(x)


LEFT, RIGHT = unit(N, 0), unit(M, 1)
# The last five of the left and the last seven of the right are in known links, some twice.
FREE = {"left": torch.arange(N) < N - 5, "right": torch.arange(M) < M - 7}
IDS = tuple(mask.nonzero()[:, 0] for mask in FREE.values())
LINKS = np.array([[N - 1 - i % 5, M - 1 - i] for i in range(7)])


def graph(vectors: Tensor) -> Any:
    there = torch.ones(len(vectors), dtype=torch.bool)
    return SimpleNamespace(vectors=vectors, entities=range(len(vectors)), has_vector=lambda: there)


def matching(links: Any = LINKS, config: MatchingConfig = CONFIG, **tensors: Tensor) -> Matching:
    sides = {"left": graph(LEFT), "right": graph(RIGHT)}
    growing: Any = SimpleNamespace(sides=sides, growths=[])
    named = {f"potential.left.{name}": tensor for name, tensor in tensors.items()}
    named["potential.balance"] = named.pop("potential.left.balance", torch.tensor(1.0))
    return Matching(growing, Indexes(growing, unit=True), config, links, named)


def question(asked: Matching, matcher: str, *entities: int, top: int = 3) -> Pairs:
    ids = np.array(entities)
    return asked.pairs("left", ids, matcher, "nearest", top=top, rivals=True, ann=False)


@pytest.fixture(autouse=True)
def exact_indexes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Approximate indexes find everything here."""
    get = Indexes.get
    monkeypatch.setattr(Indexes, "get", lambda self, side, ann: get(self, side, False))


def solve(matcher: str, config: MatchingConfig = CONFIG) -> Scores:
    return apply_matcher(Scores.cosine(LEFT[IDS[0]], RIGHT[IDS[1]]), matcher, config)


def columns_alone(matcher: str) -> Matching:
    """As if no entity of the rows had been in the full problem."""
    scores, other = solve(matcher), torch.full((M,), torch.nan)
    if scores.column is not None:
        other[IDS[1]] = scores.column
    config = replace(CONFIG, matcher=matcher)
    balance, own = torch.tensor(scores.balance), torch.full((N,), torch.nan)
    return matching(config=config, own=own, other=other, balance=balance)


@pytest.mark.parametrize("matcher", MATCHERS)
def test_an_answer_and_its_evidence_are_those_of_the_full_problem(matcher: str) -> None:
    asked, scores = matching(), solve(matcher)
    pairs, cosines = rescore(top_pairs(scores, KEPT), scores)
    every, seen = answer(pairs, cosines, top=3), evidence(pairs, cosines)
    for i in range(len(IDS[0])):
        rows, columns, *found = question(asked, matcher, i)
        one, row = answer(*found, top=3), rows.tolist().index(i)
        assert columns[one.columns[row]].tolist() == every.columns[i].tolist()
        assert torch.equal(one.scores[row], every.scores[i])
        assert torch.equal(evidence(*found)[1][row], seen[1][i])


@pytest.mark.parametrize("matcher", MATCHERS)
def test_an_own_term_that_is_not_known_is_made_as_the_full_problem_makes_it(matcher: str) -> None:
    scores = solve(matcher)
    _, columns, pairs, _ = question(columns_alone(matcher), matcher, *IDS[0].tolist())
    expected = rescore(top_pairs(scores, 3), scores)[0].best(1)
    best = pairs.best(1)
    assert torch.equal(torch.from_numpy(columns)[best[1]], expected[1])
    assert torch.allclose(best[0], expected[0], atol=1e-5)


@pytest.mark.parametrize("matcher", MATCHERS)
def test_products_that_are_shared_change_nothing(
    matcher: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a few entities the products are made once; those that follow know nothing of it."""
    entities = [0, 3, N - 1]
    found = question(columns_alone(matcher), matcher, *entities)
    made = 0

    def counted(*given: Any) -> Tensor | None:
        nonlocal made
        made += 1
        return None

    monkeypatch.setattr(potentials, "_products", counted)
    apart = question(columns_alone(matcher), matcher, *entities)
    assert made == 1
    assert found[1].tolist() == apart[1].tolist()
    for one, other in zip(found[2:], apart[2:], strict=True):
        assert torch.equal(one.columns, other.columns)
        assert torch.allclose(one.values, other.values, atol=1e-6)


@pytest.mark.parametrize("matcher", ["csls", "sinkhorn", "blend"])
def test_who_was_in_no_full_problem_gets_what_it_would_have_got_there(matcher: str) -> None:
    """A half-step gives a column what the last turn gave it, up to the turn that is to come."""
    scores = solve(matcher, MatchingConfig(temperature=0.1, iterations=200))
    assert scores.row is not None
    assert scores.column is not None
    solved = {"left": torch.full((N,), torch.nan), "right": torch.full((M,), torch.nan)}
    solved["left"][IDS[0]], solved["right"][IDS[1]] = scores.row, scores.column
    known = solved["right"].clone()
    kept = Potentials(matcher, CONFIG, "left", solved, scores.balance)
    kept.discard("right", torch.arange(3), M)
    assert kept.solved["right"][:3].isnan().all()
    made = kept.values("right", FREE["right"], torch.tensor([M - 1]), RIGHT, LEFT)
    shift = 0.0
    if matcher != "csls":  # three columns fewer to share the rows' mass
        shift = scores.balance * 0.1 * np.log((M - 7) / (M - 10))
    assert torch.allclose(made[:3], known[:3] + shift, atol=1e-4)
    assert torch.equal(made[3 : M - 7], known[3 : M - 7])
    assert made[M - 1] != 0


def test_a_known_counterpart_is_a_candidate_for_who_asks() -> None:
    asked = matching()
    for entity in (0, N - 2):
        rows, columns, pairs, _ = question(asked, "sinkhorn", entity, top=M)
        assert (M - 2 in columns.tolist()) == (entity == N - 2)
        own = pairs.rows == rows.tolist().index(entity)
        mass = (pairs.values[own].double() / CONFIG.temperature).exp().sum()
        assert mass.item() == pytest.approx(1, abs=1e-4)  # as of every row


@pytest.mark.parametrize("matcher", MATCHERS)
def test_by_what_was_found_a_term_is_the_same_if_all_were_found(matcher: str) -> None:
    asked, found = np.array([1, N - 2]), []
    for ann in (False, True):
        some = columns_alone(matcher)
        rows, _, pairs, _ = some.pairs(
            "left", asked, matcher, "nearest", top=3, rivals=True, ann=ann
        )
        found.append(pairs.best(2)[0][np.searchsorted(rows, asked)])
    assert torch.allclose(*found, atol=1e-5)


@pytest.mark.parametrize("matcher", MATCHERS)
@pytest.mark.parametrize("ann", [False, True])
def test_where_nobody_is_free_only_the_counterpart_is_found(matcher: str, ann: bool) -> None:
    links = np.array([[i % N, i] for i in range(M)])
    links[links[:, 0] == 3, 0] = 4
    nobody = matching(links)
    for entity, counterparts in ((3, []), (2, [2, 32])):
        found = nobody.pairs(
            "left", np.array([entity]), matcher, "nearest", top=2, rivals=True, ann=ann
        )
        assert found[1].tolist() == counterparts
        assert found[2].values.isfinite().all()
        if not counterparts:
            assert answer(*found[2:], top=2).columns.tolist() == [[-1, -1]]


def test_csls_is_the_same_from_both_sides() -> None:
    asked = matching()
    question(asked, "csls", 1)
    rows, columns, pairs, _ = asked.pairs(
        "right", np.array([4]), "csls", "nearest", top=M, rivals=False, ann=False
    )
    scores = solve("csls")
    expected = rescore(top_pairs(scores, M), scores)[0].T.best(1)
    assert rows.tolist() == [4]
    assert pairs.best(1)[0][0] == expected[0][4]
    assert columns[pairs.best(1)[1][0]] == expected[1][4]


@pytest.mark.parametrize("matcher", MATCHERS)
def test_graphs_whose_cosines_are_too_many_are_matched_by_the_best_pairs_of_each(
    matcher: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    dense = matching().pairs_together("left", None, matcher, KEPT)
    expected = answer(*dense[2:], top=3)
    passes: list[int] = []
    monkeypatch.setattr("decentrl.growth.potentials.LARGE_KEEP", M)  # every pair is among them
    monkeypatch.setattr(Scores, "cosine", lambda left, right: Scores(left, right))

    def counted(cosine: Scores, k: int) -> SparseScores:
        passes.append(k)
        return top_pairs(cosine, k)

    monkeypatch.setattr("decentrl.growth.potentials.nearest_pairs", counted)
    asked = matching()
    for side in ("left", "left", "right"):
        found = asked.pairs_together(side, None, matcher, KEPT)
        if side == "left":
            answers = answer(*found[2:], top=3)
            assert torch.equal(answers.columns, expected.columns)
            assert torch.allclose(answers.scores, expected.scores, atol=1e-4)
            # A single question is answered by the same potentials.
            rows, columns, *one = question(asked, matcher, 3)
            row = rows.tolist().index(3)
            assert columns[answer(*one).columns[row, 0]] == found[1][answers.columns[3, 0]]
    assert passes == [M]  # what is costly is done once
