"""Nearest neighbours among many vectors: exactly, or faster and almost always right.

Both indexes answer ``search(queries, top)`` alike: of every query the ``top`` candidates with the
highest ``scale · query·candidate + bias[candidate]``, which is the form of a cosine, of CSLS and of
Sinkhorn. Scores are summed in float64 and rounded to float32; of equal ones the lower id comes
first, so that neither block sizes nor threads change an answer.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Protocol

import torch
from torch import Tensor

from decentrl.matching.sparse import dots

BLOCK = 16 << 20
"""Bytes that the scores of a block, and vectors that are read for it, may take at once."""
Found = tuple[Tensor, Tensor]
"""The best scores of each query, float32[b, top], and their ids; filled up with -inf and -1."""


class Vectors(Protocol):
    """Vectors float32[n, d], each of length 1 or 0: a tensor, or rows made as they are read."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def __len__(self) -> int: ...

    def __getitem__(self, chosen: slice | Tensor, /) -> Tensor:
        """float32[k, d], the vectors of some ids, int64[k]."""
        ...


class Index(ABC):
    """What both indexes share: queries are searched a block at a time, and the best kept."""

    def search(
        self,
        queries: Tensor,
        top: int,
        *,
        scale: float = 1.0,
        bias: Tensor | None = None,
        allowed: Tensor | None = None,
        products: Tensor | None = None,
    ) -> Found:
        """Find the candidates with the highest scale · query·candidate + bias, best first.

        Args:
            queries: float32[b, d].
            bias: float32[n], one for each candidate, finite.
            allowed: bool[n], the candidates that may be found.
            products: float32[b, n], query·candidate, where they were needed for something else.
        Returns:
            scores float32[b, top] and ids int64[b, top] on the CPU, filled up with -inf and -1.
        """
        some = self._queries_at_once(top)
        blocks = torch.split(queries, some)
        known = [None] * len(blocks) if products is None else torch.split(products, some)
        found = [
            self._search(block, top, scale, bias, allowed, made)
            for block, made in zip(blocks, known, strict=True)
        ]
        scores, ids = (torch.cat(parts).cpu() for parts in zip(*found, strict=True))
        return scores, ids

    @abstractmethod
    def _queries_at_once(self, top: int) -> int: ...

    @abstractmethod
    def _search(
        self,
        queries: Tensor,
        top: int,
        scale: float,
        bias: Tensor | None,
        allowed: Tensor | None,
        products: Tensor | None,
    ) -> Found: ...


class ExactIndex(Index):
    """Compares every query with every candidate, in blocks; the vectors are not copied."""

    def __init__(self, vectors: Vectors) -> None:
        self.vectors = vectors

    def _queries_at_once(self, top: int) -> int:
        return 512  # more would make a block's rows too few for a fast product

    def _search(
        self,
        queries: Tensor,
        top: int,
        scale: float,
        bias: Tensor | None,
        allowed: Tensor | None,
        products: Tensor | None,
    ) -> Found:
        n, dim = self.vectors.shape
        device = self.vectors[:0].device
        queries = queries.to(device)
        bias = None if bias is None else bias.to(device)
        # Of a tensor a block is a view, which takes nothing beside its scores.
        numbers = len(queries) if isinstance(self.vectors, Tensor) else max(dim, len(queries))
        size = max(1, BLOCK // (4 * max(1, numbers)))
        # How much two rough scores may be wrong together: in float32, summed in any order.
        largest = 0.0 if bias is None or not len(bias) else bias.abs().max().item()
        lengths = scale * queries.norm(dim=1, keepdim=True)
        slack = ((dim + 4) * lengths + 4 * largest) * 2.0**-22
        best = nothing(queries, top)
        for start in range(0, n, size):
            ids = slice(start, min(start + size, n))
            block = self.vectors[ids]
            if products is None:
                rough = torch.matmul(queries * scale, block.t())
            else:
                rough = products[:, ids] * scale
            if bias is not None:
                rough += bias[ids]
            if allowed is not None:
                rough.masked_fill_(~allowed[ids].to(device), -torch.inf)
            rows, columns = _candidates(rough, top, best[0][:, -1:], slack)
            best = better(best, queries, rows, block, columns, columns + start, scale, bias)
        return best


def nothing(queries: Tensor, top: int) -> Found:
    """What is found before anything was looked at."""
    scores = queries.new_full((len(queries), top), -torch.inf)
    return scores, torch.full_like(scores, -1, dtype=torch.int64)


def _candidates(rough: Tensor, top: int, known: Tensor, slack: Tensor) -> tuple[Tensor, Tensor]:
    """Rows and columns of the scores [b, m] that may be among the top of their row, ascending.

    Args:
        known: [b, 1], a score that as many as asked for have reached in other blocks.
        slack: [b, 1], how far below the top a rough score may be.
    """
    m = rough.shape[1]
    # The best of each of a few hundred groups are looked at first, and most groups never again.
    # A group is every so manieth column, as neighbours often have neighbouring ids.
    groups = min(m, 32 * top)
    whole = m - m % groups
    grouped = rough[:, :whole].view(len(rough), m // groups, groups)
    best = grouped.amax(1)
    if groups >= top:  # so many at least reach the last of these
        known = torch.maximum(known, best.topk(top, dim=1).values[:, -1:])
    # Never -inf: such candidates are not allowed.
    least = (known - slack).clamp(min=torch.finfo(rough.dtype).min)
    rows, group = (best >= least).nonzero().T
    which, step = (grouped[rows, :, group] >= least[rows]).nonzero().T
    rest = (rough[:, whole:] >= least).nonzero().T
    rows = torch.cat((rows[which], rest[0]))
    columns = torch.cat((step * groups + group[which], rest[1] + whole))
    order = (rows * m + columns).sort().indices
    return rows[order], columns[order]


def better(
    best: Found,
    queries: Tensor,
    rows: Tensor,
    vectors: Tensor,
    columns: Tensor,
    ids: Tensor,
    scale: float,
    bias: Tensor | None,
) -> Found:
    """The best of those found before, and of p more pairs: queries[rows] and vectors[columns].

    ``ids`` of the vectors, int64[p], are higher than those found before, and ascending.
    """
    sums = scale * dots(queries, rows, vectors, columns)
    if bias is not None:
        sums += bias[ids]

    b, top = best[0].shape
    known = torch.arange(b, device=rows.device).repeat_interleave(top)
    rows = torch.cat((known, rows))
    scores = torch.cat((best[0].reshape(-1), sums.float()))
    ids = torch.cat((best[1].reshape(-1), ids))
    order = scores.sort(descending=True, stable=True).indices
    order = order[rows[order].sort(stable=True).indices]
    rows, scores, ids = rows[order], scores[order], ids[order]
    counts = rows.bincount(minlength=b)
    place = torch.arange(len(rows), device=rows.device) - (counts.cumsum(0) - counts)[rows]
    kept = place < top  # every row has top entries at least
    return scores[kept].view(b, top), ids[kept].view(b, top)
