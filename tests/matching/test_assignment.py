"""Matches equal those that plain loops over the pairs find, ties included."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from decentrl.matching.assignment import mutual_nearest, one_to_one
from decentrl.matching.sparse import SparseScores

Pairs = dict[tuple[int, int], float]
SIZE = 7

few_values = st.dictionaries(
    st.tuples(st.integers(0, SIZE - 1), st.integers(0, SIZE - 1)),
    st.integers(-2, 2).map(float) | st.floats(-1, 1, width=32),
    max_size=SIZE * SIZE,
)


def nearest(scores: SparseScores) -> Tensor:
    return scores.best(1)[1][:, 0]


def sparse(pairs: Pairs, shape: tuple[int, int] = (SIZE, SIZE)) -> SparseScores:
    keys = sorted(pairs)
    rows, columns = torch.tensor(keys, dtype=torch.int64).view(-1, 2).unbind(1)
    values = torch.tensor([pairs[key] + 0.0 for key in keys], dtype=torch.float64)
    return SparseScores(rows, columns, values, shape)


def best_columns(pairs: Pairs, n: int = SIZE) -> list[int]:
    found = []
    for i in range(n):
        own = [(-value, j) for (row, j), value in pairs.items() if row == i]
        found.append(min(own)[1] if own else -1)
    return found


def greedy(pairs: Pairs, n: int = SIZE) -> list[int]:
    found = [-1] * n
    for i, j in sorted(pairs, key=lambda pair: (-pairs[pair], pair)):
        if found[i] < 0 and j not in found:
            found[i] = j
    return found


@given(few_values)
@settings(deadline=None)
def test_nearest_is_the_best_column(pairs: Pairs) -> None:
    assert nearest(sparse(pairs)).tolist() == best_columns(pairs)


@given(few_values)
@settings(deadline=None)
def test_mutual_nearest_is_the_best_of_both(pairs: Pairs) -> None:
    columns = best_columns(pairs)
    rows = best_columns({(j, i): value for (i, j), value in pairs.items()})
    expected = [j if j >= 0 and rows[j] == i else -1 for i, j in enumerate(columns)]
    assert mutual_nearest(sparse(pairs)).tolist() == expected


@given(few_values)
@settings(deadline=None, max_examples=300)
def test_one_to_one_is_greedy(pairs: Pairs) -> None:
    assert one_to_one(sparse(pairs)).tolist() == greedy(pairs)


@pytest.mark.parametrize("shape", [(60, 40), (40, 60)])
@pytest.mark.parametrize("levels", [1, 5, 1000])
def test_one_to_one_is_greedy_among_many(shape: tuple[int, int], levels: int) -> None:
    generator = torch.Generator().manual_seed(levels)
    values = torch.randint(levels, shape, generator=generator).double()
    stored = (torch.rand(shape, generator=generator) < 0.3).nonzero().tolist()
    pairs = {(i, j): values[i, j].item() for i, j in stored}
    assert one_to_one(sparse(pairs, shape)).tolist() == greedy(pairs, shape[0])


@given(few_values)
@settings(deadline=None)
def test_nobody_is_matched_twice_and_no_pair_is_left(pairs: Pairs) -> None:
    found = one_to_one(sparse(pairs)).tolist()
    taken = [j for j in found if j >= 0]
    assert len(taken) == len(set(taken))
    assert all(found[i] >= 0 or j in taken for i, j in pairs)


def test_the_loser_takes_what_is_left() -> None:
    pairs = {(0, 0): 0.9, (1, 0): 0.8, (1, 1): 0.1, (2, 0): 0.7}
    assert nearest(sparse(pairs, (4, 2))).tolist() == [0, 0, 0, -1]
    assert mutual_nearest(sparse(pairs, (4, 2))).tolist() == [0, -1, -1, -1]
    assert one_to_one(sparse(pairs, (4, 2))).tolist() == [0, 1, -1, -1]


def test_a_chain_takes_a_round_a_pair() -> None:
    # Every pair has to wait for the one before it.
    pairs = {(i, j): -float(i + j) for i in range(50) for j in (i, i + 1)}
    assert one_to_one(sparse(pairs, (50, 51))).tolist() == list(range(50))


@pytest.mark.parametrize("shape", [(0, 0), (0, 2), (2, 0), (2, 2)])
@pytest.mark.parametrize("method", [nearest, mutual_nearest, one_to_one])
def test_without_pairs_nobody_is_matched(method, shape: tuple[int, int]) -> None:
    assert method(sparse({}, shape)).tolist() == [-1] * shape[0]
