"""Scores between two sets of vectors, in blocks: cosine, CSLS and Sinkhorn.

All three have the form ``scale · a·b + row + column``, so one class serves them and nothing ever
needs a whole matrix: ``row`` and ``column`` are two vectors.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

DEFAULT_BUDGET = 1 << 30
"""Bytes that a matrix of similarities may take before it is recomputed block by block."""


@dataclass(frozen=True, eq=False)
class Scores:
    """scores[i, j] = scale · left[i]·right[j] + row[i] + column[j].

    Args:
        left: vectors [n, d], of length 1 for cosines.
        right: vectors [m, d].
        budget: bytes that similarities may take at once. If n × m fits it they are kept,
            otherwise every pass over the scores computes them again.
    """

    left: Tensor
    right: Tensor
    budget: int = DEFAULT_BUDGET
    scale: float = 1.0
    row: Tensor | None = None
    column: Tensor | None = None
    kept: Tensor | None = None

    @classmethod
    def cosine(cls, left: Tensor, right: Tensor, budget: int = DEFAULT_BUDGET) -> Scores:
        """Cosine similarity of vectors of length 1."""
        small = len(left) * len(right) * left.element_size() <= budget
        return cls(left, right, budget, kept=left @ right.t() if small else None)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.left), len(self.right)

    @property
    def T(self) -> Scores:  # noqa: N802 (as of a matrix)
        """The same scores seen from the other side."""
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
        """Scores of some rows against all columns, a fresh tensor."""
        if self.kept is not None:
            scores = self.scale * self.kept[rows]
        else:
            scores = torch.matmul(self.left[rows], self.right.t()).mul_(self.scale)
        if self.row is not None:
            scores += self.row[rows, None]
        if self.column is not None:
            scores += self.column
        return scores

    def blocks(self) -> Iterator[tuple[slice, Tensor]]:
        """All rows, so many at a time that a block and its temporaries keep to the budget.

        On a CPU blocks are small anyway: memory of a few MB is used again, larger pieces come
        fresh and zeroed from the kernel every time.
        """
        per_row = max(1, len(self.right)) * self.left.element_size()
        block_bytes = (256 if self.left.is_cuda else 8) << 20
        size = max(1, min(self.budget // 8, block_bytes) // per_row)
        for start in range(0, len(self.left), size):
            rows = slice(start, min(start + size, len(self.left)))
            yield rows, self.block(rows)

    def largest(self) -> float:
        """The largest absolute score, which ties are judged by."""
        return max((block.abs().max().item() for _, block in self.blocks()), default=0.0)


def csls(cosine: Scores, k: int = 2) -> Scores:
    """Cross-domain similarity local scaling: 2 cos(i, j) - r(i) - c(j).

    r(i) is the mean of i's k best cosines, c(j) that of j's: who is near to everybody is pushed
    away. k larger than a side counts as that side's size.
    """
    n, m = cosine.shape
    row = cosine.left.new_empty(n)
    best = cosine.left.new_full((min(k, n), m), -torch.inf)
    for rows, block in cosine.blocks():
        row[rows] = block.topk(min(k, m), dim=1).values.mean(1)
        best = torch.cat((best, block)).topk(len(best), dim=0).values
    return replace(cosine, scale=2.0, row=-row, column=-best.mean(0))


def sinkhorn(cosine: Scores, temperature: float = 0.02, iterations: int = 10) -> Scores:
    """Entropic one-to-one matching: rows and columns of exp(cos / t) are normalised in turn.

    The mass of a pair is exp(score / t); the score is cos(i, j) + t·log u(i) + t·log v(j), which
    keeps the unit of a cosine. Every row sums to 1 (and, n × m, every column to n / m) as far as
    the iterations get. A column whose mass is below the smallest float beside every row's best
    (87 t of cosine: 1.7 at t = 0.02, 0.09 at t = 0.001) is pulled up only that far.
    """
    n, m = cosine.shape
    if not m:
        return cosine
    highest = cosine.left.new_empty(n)  # of each row: exp((cos - highest) / t) is at most 1
    row = cosine.left.new_empty(n)
    column = cosine.left.new_ones(m)
    tiny = torch.finfo(column.dtype).tiny
    for turn in range(iterations + 1):
        # One pass a turn: a block's rows are normalised, then add to the column sums.
        totals = torch.zeros_like(column)
        for rows, block in cosine.blocks():
            if turn == 0:
                highest[rows] = block.amax(1)
            mass = block.sub_(highest[rows, None]).div_(temperature).exp_()
            row[rows] = 1 / (mass @ column).clamp(min=tiny)
            if turn < iterations:
                totals += row[rows] @ mass
        if turn < iterations:
            column = n / m / totals.clamp(min=tiny)
    return replace(
        cosine,
        row=temperature * row.log() - highest,
        column=temperature * column.log(),
    )
