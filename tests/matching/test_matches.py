"""From scores to answers: which pairs are looked at, who gets whom, and who gets nobody."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from decentrl.config import MatchingConfig
from decentrl.matching.confidence import FEATURES, Confidence, evidence
from decentrl.matching.matchers import MATCHERS, apply_matcher
from decentrl.matching.matches import ASSIGNMENTS, KEPT, answer, best_pairs
from decentrl.matching.similarity import Scores
from decentrl.matching.sparse import SparseScores

SHAPES = [(12, 12), (14, 7), (7, 14), (1, 6), (6, 1)]
DENSE = MatchingConfig()


def unit(n: int, seed: int, d: int = 6) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return F.normalize(torch.randn(n, d, dtype=torch.float64, generator=generator), dim=1)


def cosines(n: int, m: int) -> Scores:
    return Scores.cosine(unit(n, 0), unit(m, 1))


def whole(scores: Scores) -> Tensor:
    return torch.cat([block for _, block in scores.blocks()])


def as_pairs(matrix: list[list[float]]) -> SparseScores:
    """Every pair of a matrix; what is not a number is not stored."""
    values = torch.tensor(matrix, dtype=torch.float32)
    rows, columns = (~values.isnan()).nonzero().unbind(1)
    return SparseScores(rows, columns, values[rows, columns], tuple(values.shape))  # type: ignore[arg-type]


def by(feature: str, threshold: float = 0.5) -> Confidence:
    """Sure exactly as far as one feature is high: P = 1 / (1 + exp(-feature))."""
    weights = torch.tensor([float(name == feature) for name in FEATURES], dtype=torch.float64)
    zeros, ones = torch.zeros_like(weights), torch.ones_like(weights)
    return Confidence(weights, 0.0, zeros, ones, threshold)


# Which pairs are looked at


@pytest.mark.parametrize("matcher", MATCHERS)
@pytest.mark.parametrize(("n", "m"), SHAPES)
@pytest.mark.parametrize("top", [1, 3, 100])
def test_the_best_of_every_row_and_column_are_there(n: int, m: int, matcher: str, top: int) -> None:
    cosine = cosines(n, m)
    pairs, _ = best_pairs(cosine, matcher, DENSE, top)
    matrix = whole(apply_matcher(cosine, matcher, DENSE))
    torch.testing.assert_close(pairs.values, matrix[pairs.rows, pairs.columns])
    stored = set(zip(pairs.rows.tolist(), pairs.columns.tolist(), strict=True))
    best = {(i, j) for i in range(n) for j in matrix[i].topk(min(top, m)).indices.tolist()}
    best |= {(i, j) for j in range(m) for i in matrix[:, j].topk(min(top, n)).indices.tolist()}
    assert stored == best
    assert pairs.shape == (n, m)


@pytest.mark.parametrize("matcher", MATCHERS)
@pytest.mark.parametrize(("n", "m"), SHAPES)
@pytest.mark.parametrize("keep", [0, 2, 100])
def test_the_cosines_beside_the_scores_are_of_the_same_pairs(
    n: int, m: int, matcher: str, keep: int
) -> None:
    cosine = cosines(n, m)
    pairs, found = best_pairs(cosine, matcher, replace(DENSE, keep=keep), top=2)
    assert found.rows.tolist() == pairs.rows.tolist()
    assert found.columns.tolist() == pairs.columns.tolist()
    torch.testing.assert_close(found.values, whole(cosine)[pairs.rows, pairs.columns])


@pytest.mark.parametrize("matcher", MATCHERS)
@pytest.mark.parametrize(("n", "m"), SHAPES)
def test_who_keeps_everything_gets_the_dense_scores(n: int, m: int, matcher: str) -> None:
    kept, _ = best_pairs(cosines(n, m), matcher, replace(DENSE, keep=100))
    dense, _ = best_pairs(cosines(n, m), matcher, DENSE, 100)
    assert len(kept) == len(dense) == n * m
    assert kept.columns.tolist() == dense.columns.tolist()
    torch.testing.assert_close(kept.values, dense.values)


def test_who_keeps_few_looks_at_few_but_at_as_many_as_asked_for() -> None:
    def stored(keep: int, top: int = KEPT) -> int:
        return len(best_pairs(cosines(40, 40), "csls", replace(DENSE, keep=keep), top)[0])

    assert stored(1, top=1) < stored(3, top=1) < 40 * 40
    assert stored(1) == stored(KEPT) == stored(3)  # evidence and assignment want so many
    assert stored(1, top=40) == 40 * 40


def test_keeping_few_changes_scores_but_hardly_who_is_first() -> None:
    left = unit(60, 3, d=16)
    right = F.normalize(left + 0.05 * unit(60, 4, d=16), dim=1)
    firsts = [
        best_pairs(Scores.cosine(left, right), matcher, replace(DENSE, keep=keep))[0].best(1)[1]
        for matcher in MATCHERS
        for keep in (0, 5)
    ]
    for first in firsts:
        assert first[:, 0].tolist() == list(range(60))


# Who gets whom

#       columns: 0    1    2
RIVALS = [[0.9, 0.8, 0.1],
          [0.7, 0.2, 0.1],
          [0.6, 0.5, 0.4]]  # fmt: skip


def test_the_nearest_are_the_best_few_in_order() -> None:
    pairs = as_pairs(RIVALS)
    found = answer(pairs, pairs, top=2)
    assert found.columns.tolist() == [[0, 1], [0, 1], [0, 1]]
    assert found.scores.equal(torch.tensor([[0.9, 0.8], [0.7, 0.2], [0.6, 0.5]]))
    assert found.confidence.isnan().all()
    assert (found.columns.dtype, found.scores.dtype) == (torch.int64, torch.float32)
    assert found.confidence.dtype == torch.float32


def test_mutual_leaves_out_whose_best_prefers_another() -> None:
    pairs = as_pairs(RIVALS)
    found = answer(pairs, pairs, assign="mutual")
    assert found.columns.tolist() == [[0], [-1], [-1]]
    assert found.scores[0].item() == pytest.approx(0.9)
    assert found.scores[1:].isnan().all()


def test_one_to_one_gives_the_next_best_that_is_free() -> None:
    pairs = as_pairs(RIVALS)
    found = answer(pairs, pairs, assign="one-to-one")
    assert found.columns.tolist() == [[0], [2], [1]]  # (2, 1) is better than (1, 1)
    assert found.scores[:, 0].tolist() == pytest.approx([0.9, 0.1, 0.5])


def test_where_pairs_are_not_stored_there_is_nothing_to_give() -> None:
    nan = math.nan
    pairs = as_pairs([[0.9, nan], [0.8, nan], [nan, nan]])
    for assign in ASSIGNMENTS:
        found = answer(pairs, pairs, assign=assign, confidence=by("score"))
        assert found.columns[2].tolist() == [-1]
        assert found.scores[2].isnan().all()
    both = answer(pairs, pairs, top=2)
    assert both.columns.tolist() == [[0, -1], [0, -1], [-1, -1]]
    assert both.scores.isnan().tolist() == [[False, True], [False, True], [True, True]]
    assert answer(pairs, pairs, assign="one-to-one").columns.tolist() == [[0], [-1], [-1]]


def test_nobody_asks_and_nobody_is_there() -> None:
    for n, m in ((0, 4), (4, 0), (0, 0)):
        pairs, cosine = best_pairs(cosines(n, m), "csls", DENSE)
        found = answer(pairs, cosine, confidence=by("score"))
        assert found.columns.tolist() == [[-1]] * n
        assert found.confidence.tolist() == [0] * n


# How sure, and who gets nobody


def test_confidence_is_learned_from_the_evidence_of_these_pairs() -> None:
    for matcher in MATCHERS:
        pairs, cosine = best_pairs(cosines(9, 8), matcher, DENSE)
        for feature in FEATURES:
            found = answer(pairs, cosine, confidence=by(feature))
            features = evidence(pairs, cosine)[1][:, FEATURES.index(feature)]
            torch.testing.assert_close(found.confidence, features.sigmoid().float())


def test_confidence_of_an_assigned_one_is_that_of_the_best_or_none() -> None:
    pairs = as_pairs(RIVALS)
    sure = answer(pairs, pairs, confidence=by("score")).confidence
    assert sure.tolist() == pytest.approx([1 / (1 + math.exp(-x)) for x in (0.9, 0.7, 0.6)])
    for assign in ("mutual", "one-to-one"):
        found = answer(pairs, pairs, assign=assign, confidence=by("score")).confidence
        assert found[0] == sure[0]
        assert found[1:].isnan().all()  # they got another, or nobody


@pytest.mark.parametrize("top", [1, 2])
def test_a_threshold_leaves_out_the_less_sure_with_all_their_candidates(top: int) -> None:
    pairs = as_pairs(RIVALS)
    given = answer(pairs, pairs, top=top, confidence=by("score"))
    bound = given.confidence.double().sort().values[1].item() - 1e-6
    found = answer(pairs, pairs, top=top, confidence=by("score"), threshold=bound)
    assert found.columns[:2].equal(given.columns[:2])
    assert found.columns[2].tolist() == [-1] * top
    assert found.scores[2].isnan().all()
    assert found.confidence.equal(given.confidence)  # how sure it would have been
    all_of_them = answer(pairs, pairs, top=top, confidence=by("score"), threshold=0.0)
    assert all_of_them.columns.equal(given.columns)


def test_just_as_sure_as_the_threshold_is_sure_enough() -> None:
    pairs = as_pairs(RIVALS)
    score = pairs.values[0].double()
    exact = by("score")(torch.tensor([[score.item(), 0, 0, 0]], dtype=torch.float64)).item()
    found = answer(pairs, pairs, confidence=by("score"), threshold=exact)
    assert found.columns[0].tolist() == [0]
    told = found.confidence[0].item()  # rounded, and perhaps up
    assert answer(pairs, pairs, confidence=by("score"), threshold=told).columns[0].tolist() == [0]
    above = torch.nextafter(found.confidence[0], torch.tensor(1.0)).item()
    more = answer(pairs, pairs, confidence=by("score"), threshold=above)
    assert more.columns[0].tolist() == [-1]


def test_an_assigned_one_of_whom_nothing_is_known_does_not_pass_a_threshold() -> None:
    pairs = as_pairs(RIVALS)
    found = answer(pairs, pairs, assign="one-to-one", confidence=by("score"), threshold=0.0)
    assert found.columns.tolist() == [[0], [-1], [-1]]


def test_asking_again_gives_the_same() -> None:
    """Leaving out the unsure must not write into the scores that others look at."""
    vectors = unit(9, 0).float(), unit(8, 1).float()
    pairs, cosine = best_pairs(Scores.cosine(*vectors), "csls", DENSE)
    before = pairs.values.clone(), pairs.columns.clone()
    first = answer(pairs, cosine, top=3, confidence=by("score"), threshold=1.0)
    assert (first.columns == -1).all()
    for assign in ASSIGNMENTS:
        answer(pairs, cosine, assign=assign, confidence=by("score"), threshold=1.0)
    assert pairs.values.equal(before[0])
    assert pairs.columns.equal(before[1])
    assert (answer(pairs, cosine, top=3).columns >= 0).all()
