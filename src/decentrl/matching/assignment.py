"""Assignments: mutual nearest pairs, and greedy one-to-one."""

from __future__ import annotations

import torch
from torch import Tensor

from decentrl.matching.sparse import SparseScores


def mutual_nearest(scores: SparseScores) -> Tensor:
    """Best column of every row whose best row is this row, int64[n]; -1 for the other rows.

    Of tied columns, and of tied rows, the lowest is the best.
    """
    found = scores.rows.new_full((scores.shape[0],), -1)
    best = _mutual(_order(scores), scores.rows, scores.columns, scores.shape)
    found[scores.rows[best]] = scores.columns[best]
    return found


def one_to_one(scores: SparseScores) -> Tensor:
    """Greedy one-to-one assignment, int64[n], -1 where nothing is left.

    The pair with the highest score comes first, then the highest of those whose two ends are both
    free, and so on; of tied pairs the lower row, then the lower column comes first.

    Done in rounds that take every pair which is the best of both its ends: no pair that could
    take one of these ends away comes earlier in the greedy order. Each round takes the best pair
    of all that are left, so there are at most min(n, m) rounds, a handful for real scores.
    """
    order, rows, columns = _order(scores), scores.rows, scores.columns
    found = rows.new_full((scores.shape[0],), -1)
    taken = torch.zeros(scores.shape[1], dtype=torch.bool, device=rows.device)
    while len(order):
        best = _mutual(order, rows, columns, scores.shape)
        found[rows[best]] = columns[best]
        taken[columns[best]] = True
        free = (found[rows] < 0) & ~taken[columns]
        order, rows, columns = order[free], rows[free], columns[free]
    return found


def _order(scores: SparseScores) -> Tensor:
    """Each pair's place in the greedy order, int64[p]; distinct numbers, so without ties."""
    sorted_pairs = scores.values.argsort(descending=True, stable=True)
    order = torch.empty_like(sorted_pairs)
    order[sorted_pairs] = torch.arange(len(order), device=order.device)
    return order


def _mutual(order: Tensor, rows: Tensor, columns: Tensor, shape: tuple[int, int]) -> Tensor:
    """Mask of the pairs that come first in their row and in their column, bool[p]."""
    last = torch.iinfo(order.dtype).max
    of_row = order.new_full(shape[:1], last).scatter_reduce(0, rows, order, "amin")
    of_column = order.new_full(shape[1:], last).scatter_reduce(0, columns, order, "amin")
    return (order == of_row[rows]) & (order == of_column[columns])
