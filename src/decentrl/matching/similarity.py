"""Scores between two sets of vectors, in blocks: cosine, CSLS, Sinkhorn, and a blend of the two.

All have the form ``scale · a·b + row + column`` with two vectors ``row`` and ``column``, so
one class serves them and the whole matrix need never be in memory.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from decentrl.config.memory import score_budget

_LOWEST = 80.0  # exp(-80) is still a normal float32
_BLOCK = 1024, 4096  # rows and columns of a product that are made at once
_PARTS = 8  # of the rows in a turn of Sinkhorn; their number must not depend on that of threads
_FEW = 4  # highest values that are found one after the other


@dataclass(frozen=True, eq=False)
class Scores:
    """A matrix of scores, computed in blocks: scale · left[i]·right[j] + row[i] + column[j].

    If the n × m similarities fit the budget they are ``kept``; otherwise every pass over the
    scores computes them again.
    """

    left: Tensor  # [n, d], of length 1 for cosines
    right: Tensor  # [m, d]
    budget: int = field(default_factory=score_budget)  # bytes that similarities may take at once
    scale: float = 1.0
    row: Tensor | None = None
    column: Tensor | None = None
    kept: Tensor | None = None
    balance: float = 1.0  # of a blend: the weight of Sinkhorn in its terms

    @classmethod
    def cosine(cls, left: Tensor, right: Tensor, budget: int | None = None) -> Scores:
        """Cosine similarity of vectors of length 1; by default within the budget of the job."""
        budget = score_budget() if budget is None else budget
        kept = None
        if len(left) * len(right) * left.element_size() <= budget:
            kept = dot_products(left, right, empty_matrix(len(left), len(right), left))
        return cls(left, right, budget, kept=kept)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.left), len(self.right)

    @property
    def T(self) -> Scores:  # noqa: N802 (as of a matrix)
        """The same scores, transposed."""
        kept = None if self.kept is None else self.kept.t()
        return replace(
            self, left=self.right, right=self.left, row=self.column, column=self.row, kept=kept
        )

    def rows(self, chosen: Tensor) -> Scores:
        """The scores of some rows, int64[k], against all columns."""
        return replace(
            self,
            left=self.left[chosen],
            row=None if self.row is None else self.row[chosen],
            kept=None if self.kept is None else self.kept[chosen],
        )

    def columns(self, chosen: Tensor) -> Scores:
        """The scores of all rows against some columns, int64[k]."""
        return self.T.rows(chosen).T

    def block(self, rows: slice) -> Tensor:
        """Scores of some rows against all columns; read only, as it may be a view of ``kept``."""
        if self.kept is not None:
            scores = self.kept[rows]
        else:
            scores = torch.matmul(self.left[rows], self.right.t())
        if self.column is not None:
            scores = torch.add(self.column, scores, alpha=self.scale)
        elif self.scale != 1:
            scores = self.scale * scores
        if self.row is None:
            return scores
        row, own = self.row[rows, None], self.column is not None or self.scale != 1
        return scores.add_(row) if own else scores + row

    def slices(self) -> Iterator[slice]:
        """Slices of rows, so small that a block and its temporaries keep to the budget.

        On a CPU blocks are small anyway: allocations of a few MB are reused, larger ones are
        mapped and zeroed by the kernel every time.
        """
        per_row = max(1, len(self.right)) * self.left.element_size()
        block_bytes = (256 if self.left.is_cuda else 8) << 20
        size = max(1, min(self.budget // 8, block_bytes) // per_row)
        for start in range(0, len(self.left), size):
            yield slice(start, min(start + size, len(self.left)))

    def parts(self) -> list[list[slice]]:
        """The slices in a few parts of consecutive ones, for threads."""
        slices = list(self.slices())
        size = max(1, -(-len(slices) // _PARTS))
        return [slices[start : start + size] for start in range(0, len(slices), size)]

    def blocks(self) -> Iterator[tuple[slice, Tensor]]:
        """Slices of rows and their scores; see :meth:`block`."""
        for rows in self.slices():
            yield rows, self.block(rows)

    def largest(self) -> float:
        """The largest absolute score, to which the tolerance for ties is relative."""
        if not min(self.shape):
            return 0.0

        def of(part: list[slice]) -> float:
            ends = (torch.stack(self.block(rows).aminmax()).abs().max() for rows in part)
            return float(max(end.item() for end in ends))

        with threads(self) as apply:
            return float(max(apply(of, self.parts())))


def csls(cosine: Scores, k: int = 2) -> Scores:
    """Cross-domain similarity local scaling: 2 cos(i, j) - r(i) - c(j).

    r(i) is the mean of i's k best cosines, c(j) that of j's, so that an entity near to all others
    is pushed away. k larger than a side counts as that side's size.
    """
    n, m = cosine.shape
    row = cosine.left.new_empty(n)

    def of(part: list[slice]) -> Tensor:
        """Put the terms of the rows of a part; each column's best cosines among these."""
        best = cosine.left.new_full((min(k, n), m), -torch.inf)
        for rows in part:
            block = cosine.block(rows)
            row[rows] = _highest(block, min(k, m)).mean(1)
            best = _best_of_columns(best, block)
        return best

    with threads(cosine) as apply:
        found = torch.cat([cosine.left.new_empty(0, m), *apply(of, cosine.parts())])
    best = found.topk(min(k, n), dim=0).values
    return replace(cosine, scale=2.0, row=-row, column=-best.mean(0))


def mean_of_finite(best: Tensor) -> Tensor:
    """Mean of each row without -inf, [n, k] → [n]; 0 for a row that is nothing else."""
    known = best > -torch.inf
    return best.where(known, 0).sum(1) / known.sum(1).clamp(min=1)


def _highest(block: Tensor, k: int) -> Tensor:
    """The k highest values of each row, highest first: [n, m] → [n, k]."""
    if not _is_plain(block) or not 0 < k <= _FEW:
        return block.topk(k, dim=1).values
    # For few, as many maxima are faster than sorting, and with NumPy faster than with torch.
    found, places = [], []
    for _ in range(k):
        place = _argmax(block)[:, None]
        found.append(block.gather(1, place))
        places.append(place)
        block.scatter_(1, place, -torch.inf)
    for value, place in zip(found[::-1], places[::-1], strict=True):
        block.scatter_(1, place, value)  # as it was
    return torch.cat(found, 1)


def _is_plain(block: Tensor) -> bool:
    """Whether NumPy can work on it."""
    return block.device.type == "cpu" and not block.requires_grad


def _argmax(block: Tensor) -> Tensor:
    """The first column of the highest value of each row, int64[n]."""
    if not _is_plain(block) or not block.numel():
        return block.argmax(1)
    return torch.from_numpy(block.numpy().argmax(1))


def _best_of_columns(best: Tensor, block: Tensor) -> Tensor:
    """The k highest values of each column, highest first, [k, m], with those of a block's rows."""
    if not _is_plain(block) or len(best) > _FEW:
        return torch.cat((best, block)).topk(len(best), dim=0).values
    # Row by row all of it stays in the cache.
    highest, lower = best.numpy(), best.new_empty(2, best.shape[1]).numpy()
    for row in block.numpy():
        for number, known in enumerate(highest):
            row, last = np.minimum(known, row, out=lower[number % 2]), row
            np.maximum(known, last, out=known)
    return best


def sinkhorn(cosine: Scores, temperature: float = 0.02, iterations: int = 10) -> Scores:
    """Sinkhorn: rows and columns of exp(cos / t) are normalised in turn, towards one-to-one.

    The mass of a pair is exp(score / t); the score is cos(i, j) + t·log u(i) + t·log v(j), which
    keeps the unit of a cosine. Every row sums to 1 (and, n × m, every column to n / m) as far as
    the iterations get. A column whose mass is below the smallest float beside every row's best
    (87 t of cosine: 1.7 at t = 0.02, 0.09 at t = 0.001) is pulled up only that far.
    """
    return _balanced(cosine, temperature, iterations)


def blend(
    cosine: Scores, scaled: Scores, balance: float, temperature: float = 0.02, iterations: int = 15
) -> Scores:
    """CSLS and Sinkhorn in one: balanced only so far that entities may be without a counterpart.

    The score is cos(i, j) + f(i) + g(j). In turn, with t the temperature and b the balance,
    f(i) = -(1 - b) r(i) / 2 - b·t·log Σⱼ exp((cos(i, j) + g(j)) / t), and g(j) by columns alike,
    plus b·t·log(n / m), rows last; r(i) is the mean of i's k best cosines. b = 0 is CSLS
    (halved), b = 1 Sinkhorn. Between them it is transport whose sums may be missed at a
    price (unbalanced), and the price is each entity's own: what is far from everything need not be
    matched.

    Args:
        scaled: the scores of CSLS.
    """
    if not min(cosine.shape):
        return cosine
    assert scaled.row is not None
    assert scaled.column is not None
    anchors = scaled.row / 2, scaled.column / 2
    return _balanced(cosine, temperature, iterations, anchors, balance)


def mutual_share(scores: Scores) -> float:
    """The share of the entities of both sides that are the best of their own best."""
    n, m = scores.shape
    if not n or not m:
        return 0.0
    best = torch.empty(n, dtype=torch.int64, device=scores.left.device)
    highest = scores.left.new_full((m,), -torch.inf)
    claimant = torch.zeros(m, dtype=torch.int64, device=best.device)
    for rows, block in scores.blocks():
        best[rows] = _argmax(block)
        values = block.amax(0)
        higher = (values > highest).nonzero()[:, 0]  # fewer from block to block
        highest[higher] = values[higher]
        claimant[higher] = _argmax(block[:, higher].t().contiguous()) + rows.start
    own = torch.arange(n, device=best.device)
    return 2 * int((claimant[best] == own).sum()) / (n + m)


def _balanced(
    cosine: Scores,
    temperature: float,
    iterations: int,
    anchors: tuple[Tensor, Tensor] | None = None,
    balance: float = 1.0,
) -> Scores:
    """:func:`sinkhorn`, or :func:`blend` with the terms of rows and columns that CSLS has."""
    n, m = cosine.shape
    if not n or not m:
        return cosine
    row = cosine.left.new_empty(n)
    column = cosine.left.new_ones(m)
    tiny = torch.finfo(column.dtype).tiny
    parts = cosine.parts()
    with _masses(cosine, temperature) as (highest, masses), threads(cosine) as apply:
        pulls = None
        if anchors is not None:
            ends = anchors[0] + highest, anchors[1]
            pulls = [(1 - balance) / temperature * end for end in ends]
            column = (anchors[1] / temperature).exp().clamp(min=tiny)

        def normalise(part: list[slice]) -> Tensor:
            """Make the rows of a part sum to 1, as far as they have to, then sum its columns."""
            totals = torch.zeros_like(column)
            for rows in part:
                mass = masses(rows)
                sums = (mass @ column).clamp(min=tiny)
                if pulls is None:
                    row[rows] = 1 / sums
                else:
                    exponent = pulls[0][rows] - balance * sums.log()
                    row[rows] = exponent.clamp(-_LOWEST / 2, _LOWEST / 2).exp()
                totals += row[rows] @ mass
            return totals

        for _ in range(iterations):
            totals = torch.stack(list(apply(normalise, parts))).sum(0).clamp(min=tiny)
            if pulls is None:
                column = n / m / totals
            else:
                column = (pulls[1] - balance * (totals * m / n).log()).exp().clamp(min=tiny)
        list(apply(normalise, parts))
    return replace(
        cosine,
        row=temperature * row.log() - highest,
        column=temperature * column.log(),
        balance=balance,
    )


@contextmanager
def _masses(
    cosine: Scores, temperature: float
) -> Iterator[tuple[Tensor, Callable[[slice], Tensor]]]:
    """Each row's highest cosine, and a function: rows → exp((cos - highest) / t) of these.

    Masses overwrite the kept cosines, which are restored at the end to within a rounding error.
    Where a mass would be too small for that, masses are computed anew every time.
    """
    highest = cosine.left.new_empty(cosine.shape[0])
    spread = 0.0
    for rows, block in cosine.blocks():
        highest[rows] = block.amax(1)
        spread = max(spread, (highest[rows].max() - block.min()).item())
    kept = cosine.kept if spread <= _LOWEST * temperature else None

    def made(rows: slice) -> Tensor:
        return cosine.block(rows).sub(highest[rows, None]).div_(temperature).exp_()

    if kept is None:
        yield highest, made
        return
    for rows in cosine.slices():
        kept[rows].sub_(highest[rows, None]).div_(temperature).exp_()
    try:
        yield highest, kept.__getitem__
    finally:
        for rows in cosine.slices():
            kept[rows].log_().mul_(temperature).add_(highest[rows, None])


@contextmanager
def threads(scores: Scores) -> Iterator[Callable[..., Iterator[Any]]]:
    """``map``, in threads where passes over a kept matrix would leave cores idle."""
    if scores.kept is None or scores.kept.is_cuda or scores.kept.numel() < 1 << 22:
        yield map
        return
    with ThreadPoolExecutor(torch.get_num_threads()) as pool:
        yield pool.map


def dot_products(left: Tensor, right: Tensor, out: Tensor) -> Tensor:
    """Put the products of rows, left[i] · right[j], into ``out``, [n, m], and return it.

    On a CPU large products are made by oneDNN, block by block: it is as precise as the library
    that PyTorch takes by default, and twice as fast on processors that this one is not made for.
    """
    n, m = out.shape
    large = n * m >= 1 << 22 and left.dtype == torch.float32 and not left.requires_grad
    if left.is_cuda or not large or not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return torch.mm(left, right.t(), out=out)
    for first in range(0, m, _BLOCK[1]):
        columns = slice(first, first + _BLOCK[1])
        theirs = right[columns].to_mkldnn()
        for start in range(0, n, _BLOCK[0]):
            rows = slice(start, start + _BLOCK[0])
            out[rows, columns] = F.linear(left[rows].to_mkldnn(), theirs).to_dense()
    return out


def empty_matrix(n: int, m: int, like: Tensor) -> Tensor:
    """An uninitialised n × m matrix; before a large one, freed memory is returned to the system."""
    if n * m > 1 << 24 and not like.is_cuda and sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
    return like.new_empty(n, m)
