"""Assignments: mutual nearest pairs, and greedy one-to-one."""

from __future__ import annotations

import torch
from torch import Tensor

from decentrl.matching.sparse import SparseScores


def mutual_nearest(scores: SparseScores) -> Tensor:
    """Best column of every row whose best row is this row, int64[n]; -1 for the other rows.

    Of tied columns, and of tied rows, the lowest is the best.
    """
    return one_to_one(scores, rounds=1)


def one_to_one(scores: SparseScores, rounds: int | None = None) -> Tensor:
    """Greedy one-to-one assignment, int64[n], -1 where nothing is left.

    The pair with the highest score comes first, then the highest of those whose two ends are both
    free, and so on; of tied pairs the lower row, then the lower column comes first.

    Done in rounds, at most so many, that take every pair which is the best of both its ends: no
    pair that could take one of these ends away comes earlier in the greedy order. Each round takes
    the best pair of all that are left, so there are at most min(n, m), a handful for real scores.
    """
    rows, columns = scores.rows, scores.columns
    # Each pair's place in the greedy order, int64[p]: distinct numbers, so without ties.
    sorted_pairs = scores.values.argsort(descending=True, stable=True)
    order = torch.empty_like(sorted_pairs)
    order[sorted_pairs] = torch.arange(len(order), device=order.device)
    found, last = rows.new_full(scores.shape[:1], -1), len(order)
    taken = torch.zeros(scores.shape[1], dtype=torch.bool, device=rows.device)
    while len(order) and rounds != 0:
        best = torch.ones_like(order, dtype=torch.bool)
        for ends, size in ((rows, scores.shape[0]), (columns, scores.shape[1])):
            first = order.new_full((size,), last).scatter_reduce(0, ends, order, "amin")
            best &= order == first[ends]
        found[rows[best]] = columns[best]
        taken[columns[best]] = True
        free = (found[rows] < 0) & ~taken[columns]
        order, rows, columns = order[free], rows[free], columns[free]
        rounds = None if rounds is None else rounds - 1
    return found
