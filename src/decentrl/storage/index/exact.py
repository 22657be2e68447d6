"""Nearest neighbours among many vectors: exactly, or faster and almost always right.

Both indexes answer ``search(queries, top)`` alike: of every query the ``top`` candidates with the
highest ``scale · query·candidate + bias[candidate]``, which is the form of a cosine, of CSLS and of
Sinkhorn. Scores are summed in float64 and rounded to float32; of equal ones the lower id comes
first, so that neither block sizes nor threads change an answer.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from decentrl.errors import ConfigError, InputError

BLOCK = 16 << 20
"""Bytes that the scores of a block, and vectors that are read for it, may take at once."""
_QUERIES = 512  # at once: more would make a block's rows too few for a fast product


class Rows(Protocol):
    """Vectors that need not be in memory: float32[n, d], each of length 1 or 0."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def __len__(self) -> int: ...

    def rows(self, chosen: slice, /) -> Tensor:
        """float32[k, d], the vectors of consecutive ids."""
        ...


Vectors = Tensor | Rows


def rows_of(vectors: Vectors, chosen: slice) -> Tensor:
    """float32[k, d], the vectors of consecutive ids."""
    return vectors[chosen] if isinstance(vectors, Tensor) else vectors.rows(chosen)


class ExactIndex:
    """Compares every query with every candidate, in blocks; the vectors are not copied.

    Args:
        vectors: float32[n, d], of length 1 or 0.
        block: bytes that a block may take.
    """

    def __init__(self, vectors: Vectors, block: int = BLOCK) -> None:
        self.vectors, self.block = vectors, block

    def __len__(self) -> int:
        return len(self.vectors)

    def search(
        self,
        queries: Tensor,
        top: int,
        *,
        scale: float = 1.0,
        bias: Tensor | None = None,
        allowed: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """See :class:`decentrl.matching.point.Search`."""
        check(queries, self.vectors.shape[1], top, scale)
        scores, ids = nothing(len(queries), top, torch.device("cpu"))
        for start in range(0, len(queries), _QUERIES):
            some = slice(start, start + _QUERIES)
            found = self._search(queries[some], top, scale, bias, allowed)
            scores[some], ids[some] = found[0].cpu(), found[1].cpu()
        return scores, ids

    def _search(
        self, queries: Tensor, top: int, scale: float, bias: Tensor | None, allowed: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        n, dim = self.vectors.shape
        # Of a tensor a block is a view, which takes nothing beside its scores.
        numbers = len(queries) if isinstance(self.vectors, Tensor) else max(dim, len(queries))
        size = max(1, self.block // (4 * numbers))
        slack = _slack(queries, dim, scale, bias)
        best: tuple[Tensor, Tensor] | None = None
        for start in range(0, n, size):
            ids = slice(start, min(start + size, n))
            block = rows_of(self.vectors, ids)
            device = block.device
            queries, slack = queries.to(device), slack.to(device)
            best = best or nothing(len(queries), top, device)
            extra = None if bias is None else bias[ids].to(device)
            rough = torch.matmul(queries * scale, block.t())
            if extra is not None:
                rough += extra
            if allowed is not None:
                rough.masked_fill_(~allowed[ids].to(device), -torch.inf)
            rows, columns = _candidates(rough, top, best[0][:, -1:], slack)
            sums = pair_scores(queries, rows, block, columns, scale)
            if extra is not None:
                sums += extra[columns]
            best = merge(best, rows, sums.float(), columns + start)
        return best or nothing(len(queries), top, queries.device)


def check(queries: Tensor, dim: int, top: int, scale: float) -> None:
    if top < 1:
        raise ConfigError(f"top is {top}; it must be at least 1")
    if scale <= 0:
        raise ConfigError(f"scale is {scale}; it must be above 0")
    if queries.dim() != 2 or queries.shape[1] != dim:
        raise InputError(
            f"queries of the shape {list(queries.shape)} for vectors of {dim} numbers",
            remedy=f"give a matrix [b, {dim}]",
        )


def nothing(b: int, top: int, device: torch.device) -> tuple[Tensor, Tensor]:
    scores = torch.full((b, top), -torch.inf, device=device)
    return scores, torch.full((b, top), -1, device=device)


def _slack(queries: Tensor, dim: int, scale: float, bias: Tensor | None) -> Tensor:
    """How much two rough scores may be wrong together, [b, 1]: in float32, summed in any order."""
    largest = 0.0 if bias is None or not len(bias) else bias.abs().max().item()
    lengths: Tensor = scale * queries.norm(dim=1, keepdim=True)
    return ((dim + 4) * lengths + 4 * largest) * 2.0**-22


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
    grouped = rough[:, :whole].view(len(rough), -1, groups)
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


def pair_scores(
    queries: Tensor, rows: Tensor, block: Tensor, columns: Tensor, scale: float
) -> Tensor:
    """float64[p], scale · queries[rows]·block[columns] for p pairs."""
    sums = queries.new_empty(len(rows), dtype=torch.float64)
    step = max(1, (8 << 20) // (8 * max(1, block.shape[1])))
    for start in range(0, len(rows), step):
        some = slice(start, start + step)
        pairs = queries[rows[some]].double() * block[columns[some]].double()
        sums[some] = pairs.sum(1)
    return sums.mul_(scale)


def merge(
    best: tuple[Tensor, Tensor], rows: Tensor, scores: Tensor, ids: Tensor
) -> tuple[Tensor, Tensor]:
    """The best of those found before, [b, top], and of new ones [p] with higher ids, ascending."""
    b, top = best[0].shape
    known = torch.arange(b, device=rows.device).repeat_interleave(top)
    rows = torch.cat((known, rows))
    scores = torch.cat((best[0].reshape(-1), scores))
    ids = torch.cat((best[1].reshape(-1), ids))
    order = scores.sort(descending=True, stable=True).indices
    order = order[rows[order].sort(stable=True).indices]
    rows, scores, ids = rows[order], scores[order], ids[order]
    counts = rows.bincount(minlength=b)
    place = torch.arange(len(rows), device=rows.device) - (counts.cumsum(0) - counts)[rows]
    kept = place < top  # every row has top entries at least
    return scores[kept].view(b, top), ids[kept].view(b, top)
