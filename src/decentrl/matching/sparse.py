"""Sparse scores: the best pairs only, for graphs whose n × m scores are too many to keep.

CSLS, Sinkhorn and their blend as in ``similarity``, over stored pairs: one pass over the cosines
finds the pairs, everything after it costs time and memory in proportion to their number.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from decentrl.matching.similarity import Scores, mean_of_finite

LARGE_KEEP = 64
"""Best pairs kept of each entity where all pairs are too many and the settings keep all."""


@dataclass(frozen=True, eq=False)
class SparseScores:
    """Scores of p of the n × m pairs; the others are lower and not stored."""

    rows: Tensor  # int64[p]; pairs are distinct, sorted by row and then by column
    columns: Tensor  # int64[p]
    values: Tensor  # float[p]
    shape: tuple[int, int]  # (n, m)
    terms: tuple[Tensor, Tensor] | None = None
    """What a matcher has added to each row and to each column, float[n] and float[m]."""
    balance: float = 1.0  # of a blend: the weight of Sinkhorn in its terms

    def __len__(self) -> int:
        return len(self.values)

    @property
    def T(self) -> SparseScores:  # noqa: N802 (as of a matrix)
        """The same pairs, transposed."""
        order = self.columns.argsort(stable=True)
        n, m = self.shape
        terms = None if self.terms is None else (self.terms[1], self.terms[0])
        values = self.values[order]
        ends = self.columns[order], self.rows[order]
        return SparseScores(*ends, values, (m, n), terms, self.balance)

    def among(self, chosen: Tensor) -> SparseScores:
        """The pairs of some columns, int64[k] ascending, which are numbered anew."""
        n, m = self.shape
        number = self.columns.new_full((m,), -1)
        number[chosen] = torch.arange(len(chosen), device=number.device)
        columns = number[self.columns]
        kept = columns >= 0
        return SparseScores(self.rows[kept], columns[kept], self.values[kept], (n, len(chosen)))

    def where(self, kept: Tensor) -> SparseScores:
        """Some of the pairs, by a mask bool[p]."""
        rows, columns, values = self.rows[kept], self.columns[kept], self.values[kept]
        return replace(self, rows=rows, columns=columns, values=values)

    def nearest(self, top: int) -> SparseScores:
        """Each row's best pairs and each column's, as :func:`top_pairs` keeps them."""
        kept = torch.zeros_like(self.rows, dtype=torch.bool)
        by_column = self.columns.argsort(stable=True)
        for places, order in ((self.places(top), None), (self.T.places(top), by_column)):
            chosen = places[places >= 0]
            kept[chosen if order is None else order[chosen]] = True
        return self.where(kept)

    def plus(self, scale: float, row: Tensor, column: Tensor) -> SparseScores:
        """scale · value + row[i] + column[j] of every stored pair."""
        values = scale * self.values + row[self.rows] + column[self.columns]
        return replace(self, values=values, terms=(row, column))

    @property
    def offsets(self) -> Tensor:
        """Row offsets, int64[n + 1]: row i holds the pairs offsets[i] … offsets[i + 1] - 1."""
        own = torch.arange(self.shape[0] + 1, device=self.rows.device)
        return torch.searchsorted(self.rows.contiguous(), own)

    def places(self, top: int) -> Tensor:
        """Positions of each row's best pairs, best first, int64[n, top], padded with -1.

        Of tied pairs the lower column comes first.
        """
        order = self.values.argsort(descending=True, stable=True)
        order = order[self.rows[order].argsort(stable=True)]
        # Each row has as many pairs as before, so the sorted pairs' rows are ``self.rows`` again.
        place = torch.arange(len(self), device=self.rows.device) - self.offsets[self.rows]
        kept = place < top
        places = self.rows.new_full((self.shape[0], top), -1)
        places[self.rows[kept], place[kept]] = order[kept]
        return places

    def best(self, top: int) -> tuple[Tensor, Tensor]:
        """Each row's best stored pairs in descending order, of tied pairs the lower column first.

        Returns:
            values float[n, top], padded with -inf; columns int64[n, top], padded with -1.
        """
        places = self.places(top)
        known = places >= 0
        values = self.values.new_full(places.shape, -torch.inf)
        columns = torch.full_like(places, -1)
        values[known], columns[known] = self.values[places[known]], self.columns[places[known]]
        return values, columns


def top_pairs(cosine: Scores, k: int) -> SparseScores:
    """The union of each row's k best and each column's k best pairs, in one pass.

    Of pairs tied for the last place the lower column (row) is kept: entities with the same
    neighbours have identical vectors, and the result must not depend on the size of blocks.
    Memory: a few blocks and O((n + m) k).
    """
    assert k >= 1
    n, m = cosine.shape
    device = cosine.left.device
    of_row = torch.empty(n, min(k, m), dtype=torch.int64, device=device)
    of_row_values = cosine.left.new_empty(of_row.shape)
    of_column = torch.full((m, min(k, n)), -1, device=device)
    of_column_values = cosine.left.new_full(of_column.shape, -torch.inf)
    if n and m:
        for rows, block in cosine.blocks():
            of_row_values[rows], of_row[rows] = _highest(block, of_row.shape[1])
            _merge_columns(of_column_values, of_column, block, rows.start)
    return union_of_pairs((of_row_values, of_row), (of_column_values, of_column))


def union_of_pairs(rows: tuple[Tensor, Tensor], columns: tuple[Tensor, Tensor]) -> SparseScores:
    """The pairs that are among the best of their row or of their column, or of both.

    Args:
        rows: values [n, k] of each row's best pairs and the columns, -1 for none.
        columns: values [m, k] of each column's best pairs and the rows, -1 for none.
    """
    (of_row_values, of_row), (of_column_values, of_column) = rows, columns
    n, m = len(of_row), len(of_column)
    own_row = torch.arange(n, device=of_row.device)[:, None]
    own_column = torch.arange(m, device=of_row.device)[:, None]
    keys = torch.cat((
        (own_row * m + of_row).where(of_row >= 0, -1).flatten(),
        (of_column * m + own_column).where(of_column >= 0, -1).flatten(),
    ))  # fmt: skip
    keys, order = keys.sort()
    first = keys >= 0
    first[1:] &= keys[1:] != keys[:-1]
    values = torch.cat((of_row_values.flatten(), of_column_values.flatten()))[order[first]]
    keys = keys[first]
    return SparseScores(keys // max(m, 1), keys % max(m, 1), values, (n, m))


def rescore(pairs: SparseScores, scores: Scores) -> tuple[SparseScores, SparseScores]:
    """Scores and cosines of pairs, summed in float64.

    So a pair has the same score in the full problem and in the search of one entity.
    """
    cosine = dots(scores.left, pairs.rows, scores.right, pairs.columns).cpu()
    score = scores.scale * cosine
    if scores.row is not None:
        score += scores.row[pairs.rows].double().cpu()
    if scores.column is not None:
        score += scores.column[pairs.columns].double().cpu()
    device = pairs.values.device
    return (
        replace(pairs, values=score.float().to(device)),
        replace(pairs, values=cosine.float().to(device)),
    )


def dots(left: Tensor, rows: Tensor, right: Tensor, columns: Tensor) -> Tensor:
    """Dot products left[rows]·right[columns] of p pairs, float64[p]."""
    sums = left.new_empty(len(rows), dtype=torch.float64)
    step = max(1, (8 << 20) // (8 * max(1, left.shape[1])))
    for start in range(0, len(rows), step):
        some = slice(start, start + step)
        sums[some] = (left[rows[some]].double() * right[columns[some]].double()).sum(1)
    return sums


def sparse_csls(pairs: SparseScores, k: int = 2) -> SparseScores:
    """CSLS over stored pairs: 2 cos(i, j) - r(i) - c(j).

    r and c are the means of the k best stored cosines of a row and of a column: exact if each has
    its k best pairs stored, otherwise the mean of those that are.
    """
    row, column = (mean_of_finite(side.best(min(k, side.shape[1]))[0]) for side in (pairs, pairs.T))
    return pairs.plus(2, -row, -column)


def sparse_sinkhorn(
    pairs: SparseScores, temperature: float = 0.02, iterations: int = 10
) -> SparseScores:
    """Sinkhorn over stored pairs: ``similarity.sinkhorn`` with all other masses 0.

    The score is cos(i, j) + t·log u(i) + t·log v(j), where in turn
    log u(i) = -log Σⱼ exp(cos(i, j) / t + log v(j)) and
    log v(j) = log(n / m) - log Σᵢ exp(cos(i, j) / t + log u(i)), rows last. Few pairs may allow no
    matching that satisfies all sums, and then u and v grow without end; in logarithms that is
    harmless.
    """
    if not len(pairs):
        return pairs
    target = math.log(pairs.shape[0] / pairs.shape[1])
    log_v = pairs.values.new_zeros(pairs.shape[1])
    return _balanced(pairs, temperature, iterations, log_v, (0.0, target), 1.0)


def sparse_blend(
    pairs: SparseScores,
    scaled: SparseScores,
    balance: float,
    temperature: float = 0.02,
    iterations: int = 15,
) -> SparseScores:
    """CSLS and Sinkhorn in one over stored pairs: ``similarity.blend`` with other masses 0."""
    if not len(pairs):
        return pairs
    assert scaled.terms is not None
    row, column = (end / (2 * temperature) for end in scaled.terms)
    target = math.log(pairs.shape[0] / pairs.shape[1])
    pulls = (1 - balance) * row, (1 - balance) * column + balance * target
    return _balanced(pairs, temperature, iterations, column, pulls, balance)


def _balanced(
    pairs: SparseScores,
    temperature: float,
    iterations: int,
    log_v: Tensor,
    pulls: tuple[float | Tensor, float | Tensor],
    balance: float,
) -> SparseScores:
    """Rows and columns normalised in turn: pull - balance · log Σ, from ``log_v`` on, rows last.

    An entity without a stored pair has the term 0.
    """
    other = replace(pairs, values=pairs.values / temperature).T  # sorted by column
    own, row_offsets, column_offsets = pairs.values / temperature, pairs.offsets, other.offsets

    def rows(log_v: Tensor) -> Tensor:
        return pulls[0] - balance * _log_sums(own + log_v[pairs.columns], pairs.rows, row_offsets)

    log_u = rows(log_v)
    for _ in range(iterations):
        sums = _log_sums(other.values + log_u[other.columns], other.rows, column_offsets)
        log_v = pulls[1] - balance * sums
        log_u = rows(log_v)
    row, column = (temperature * x.where(x.isfinite(), 0.0) for x in (log_u, log_v))
    return replace(pairs.plus(1, row, column), balance=balance)


def _merge_columns(values: Tensor, rows: Tensor, block: Tensor, start: int) -> None:
    """Merge the scores of a block into the k best of each column, [m, k], in place.

    Args:
        values, rows: the best of all rows before ``start``, -inf and -1 where there are fewer.
        block: scores of the rows from ``start`` on, [b, m].
    """
    k = values.shape[1]
    # Of tied rows the lower one is kept, so that a later one has to be above the last of the k.
    better = block > values.amin(1)
    chosen = better.any(0).nonzero()[:, 0]
    # Earlier rows stand before the block's, so the lower place is the lower row.
    merged = torch.cat((values[chosen], block.t()[chosen]), dim=1)
    values[chosen], place = _highest(merged, k)
    old = rows[chosen].gather(1, place.clamp(max=k - 1))
    rows[chosen] = torch.where(place < k, old, place - k + start)


def _highest(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k highest of each row, [a, b] → [a, k] twice, in the order of their columns.

    Of scores tied for the last place the lower columns are chosen, which ``topk`` does not
    promise.
    """
    values, columns = scores.topk(min(k + 1, scores.shape[1]), dim=1)
    last, columns = values[:, k - 1 : k], columns[:, :k]
    tied = (values[:, k:] == last).flatten().nonzero().flatten()
    if len(tied):
        some, last = scores[tied], last[tied]
        better, equal = some > last, some == last
        room = k - better.sum(1, keepdim=True)
        chosen = better | (equal & (equal.cumsum(1, dtype=torch.int32) <= room))
        columns[tied] = chosen.nonzero()[:, 1].view(-1, k)
    columns = columns.sort(1).values
    return scores.gather(1, columns), columns


def _log_sums(values: Tensor, index: Tensor, offsets: Tensor) -> Tensor:
    """log Σ exp(value) of each segment, float[segments]; -inf for one without any value."""
    highest = torch.segment_reduce(values, "max", offsets=offsets, unsafe=True)
    mass = (values - highest[index]).exp()
    return highest + torch.segment_reduce(mass, "sum", offsets=offsets, unsafe=True).log()
