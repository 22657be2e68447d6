"""Where the right answer stands among ties, against brute force and against PyKEEN."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from decentrl.evaluation.metrics import mean_rank
from decentrl.evaluation.ranks import Ranks, rank, rank_pairs
from decentrl.matching.similarity import Scores
from decentrl.matching.sparse import top_pairs

tied_scores = st.integers(1, 6).flatmap(
    lambda m: st.lists(
        st.tuples(st.lists(st.integers(-2, 2), min_size=m, max_size=m), st.integers(0, m - 1)),
        min_size=1,
        max_size=6,
    )
)


def as_scores(matrix: Tensor, budget: int = 1) -> Scores:
    """Vectors whose dot products are exactly this matrix."""
    return Scores.cosine(matrix, torch.eye(matrix.shape[1], dtype=matrix.dtype), budget)


@given(tied_scores, st.sampled_from([1, 1 << 20]))
@settings(deadline=None)
def test_better_and_tied_candidates_are_counted(
    queries: list[tuple[list[int], int]], budget: int
) -> None:
    matrix = torch.tensor([row for row, _ in queries], dtype=torch.float64)
    found = rank(as_scores(matrix, budget), torch.tensor([target for _, target in queries]))
    assert found.better.tolist() == [sum(s > row[t] for s in row) for row, t in queries]
    assert found.tied.tolist() == [sum(s == row[t] for s in row) for row, t in queries]


@given(tied_scores)
@settings(deadline=None)
def test_ranks_among_stored_pairs_are_those_among_all_and_others_share_the_last(
    queries: list[tuple[list[int], int]],
) -> None:
    matrix = torch.tensor([row for row, _ in queries], dtype=torch.float64)
    targets = torch.tensor([target for _, target in queries])
    rows, (n, m) = torch.arange(len(queries)).flip(0), matrix.shape
    every = top_pairs(as_scores(matrix), max(n, m))
    found, expected = rank_pairs(every, rows, targets[rows]), rank(as_scores(matrix), targets)
    assert found.better.flip(0).tolist() == expected.better.tolist()
    assert found.tied.flip(0).tolist() == expected.tied.tolist()
    few = top_pairs(as_scores(matrix), 1)
    ranks = rank_pairs(few, rows, targets[rows])
    for row, target, better, tied in zip(
        rows.tolist(), targets[rows].tolist(), ranks.better.tolist(), ranks.tied.tolist(),
        strict=True,
    ):  # fmt: skip
        stored = few.columns[few.rows == row].tolist()
        if target not in stored:
            assert (better, tied) == (len(stored), m - len(stored))


def test_scores_are_tied_within_a_millionth_of_the_largest() -> None:
    matrix = torch.tensor([[50.0, 50.00009, 50.0002, 49.99991, -100]], dtype=torch.float64)
    found = rank(as_scores(matrix), torch.tensor([0]))
    assert (found.better.item(), found.tied.item()) == (1, 3)
    exact = rank(as_scores(matrix), torch.tensor([0]), tolerance=0)
    assert (exact.better.item(), exact.tied.item()) == (2, 1)


def test_identical_vectors_are_tied_in_single_precision() -> None:
    # What a decentralised encoder gives to entities with the same neighbours.
    vectors = torch.nn.functional.normalize(torch.randn(40, 64), dim=1)
    twins = torch.cat((vectors, vectors))
    found = rank(Scores.cosine(twins, twins), torch.arange(80))
    assert found.better.tolist() == [0] * 80
    assert found.tied.tolist() == [2] * 80


def test_ranks_can_be_chosen_from() -> None:
    ranks = Ranks(torch.tensor([0, 4, 2]), torch.tensor([1, 2, 3]))
    chosen = ranks[torch.tensor([True, False, True])]
    assert (len(chosen), chosen.better.tolist(), chosen.tied.tolist()) == (2, [0, 2], [1, 3])


def pykeens_rank(matrix: Tensor, targets: Tensor) -> Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pykeen.evaluation.ranks import Ranks as PyKEENRanks
    theirs = PyKEENRanks.from_scores(matrix.gather(1, targets[:, None]), matrix)
    return theirs.realistic


@pytest.mark.parametrize("kind", ["integers", "cosines of twins"])
def test_the_rank_is_pykeens_realistic_rank(kind: str) -> None:
    random = np.random.default_rng(0)
    n, m = 1000, 300
    targets = torch.from_numpy(random.integers(0, m, n))
    if kind == "integers":
        scores = as_scores(torch.from_numpy(random.integers(-9, 10, (n, m))).float())
    else:
        right = torch.from_numpy(random.normal(size=(m, 16))).float()
        right[m // 2 :] = right[: m - m // 2]
        left = right[targets] + torch.from_numpy(random.normal(size=(n, 16))).float()
        normalise = torch.nn.functional.normalize
        scores = Scores.cosine(normalise(left, dim=1), normalise(right, dim=1))
    matrix = torch.cat([block for _, block in scores.blocks()])
    ours = rank(scores, targets, tolerance=0)
    assert (ours.tied > 1).sum() >= 500
    assert torch.equal(mean_rank(ours).float(), pykeens_rank(matrix, targets))
