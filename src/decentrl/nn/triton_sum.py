"""The sums of :mod:`decentrl.nn.relation_sum` as kernels in Triton, for CUDA.

Imported there alone: torch brings Triton along where it brings CUDA. An entity with many edges is
divided into pieces of at most 32, so that hubs do not hold up the rest; a piece is added up in
single precision, and pieces are added to each other in any order, so the last bits may differ.
"""

from __future__ import annotations

import torch
import triton  # type: ignore[import-not-found,unused-ignore]
import triton.language as tl  # type: ignore[import-not-found,unused-ignore]
from torch import Tensor

from decentrl.graph.messages import Messages

PIECE = 32
"""Edges that one program adds up."""
BLOCK = 128
"""Columns that it adds up."""


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]
def _pieces(a, b, left, right, starts, stops, rows, out, width, block: tl.constexpr):  # type: ignore[no-untyped-def]
    """out[row of a piece] += Σ over its edges of a[left[e]] ⊙ b[right[e]]."""
    piece = tl.program_id(0)
    at = tl.program_id(1) * block + tl.arange(0, block)
    within = at < width
    total = tl.zeros((block,), tl.float32)
    for e in range(tl.load(starts + piece), tl.load(stops + piece)):
        one = tl.load(a + tl.load(left + e) * width + at, mask=within, other=0.0)
        other = tl.load(b + tl.load(right + e) * width + at, mask=within, other=0.0)
        total += one.to(tl.float32) * other.to(tl.float32)
    tl.atomic_add(out + tl.load(rows + piece) * width + at, total, mask=within)


def _sums(a: Tensor, b: Tensor, left: Tensor, right: Tensor, ends: Tensor) -> Tensor:
    """out[i] = Σ of a[left[e]] ⊙ b[right[e]] over the edges ends[i] … ends[i + 1] - 1."""
    a, b, left, right = (x.contiguous() for x in (a, b, left, right))
    out = torch.zeros(len(ends) - 1, a.shape[1], device=a.device)
    counts = (ends.diff() + PIECE - 1) // PIECE
    rows = torch.repeat_interleave(counts)
    place = torch.arange(len(rows), device=a.device) - (counts.cumsum(0) - counts)[rows]
    starts = ends[rows] + place * PIECE
    stops = torch.minimum(starts + PIECE, ends[rows + 1])
    if len(rows):
        grid = len(rows), triton.cdiv(a.shape[1], BLOCK)
        _pieces[grid](a, b, left, right, starts, stops, rows, out, a.shape[1], block=BLOCK)
    return out.to(a.dtype)


def summed(x: Tensor, w: Tensor, graph: Messages) -> Tensor:
    """See :func:`decentrl.nn.relation_sum.summed`."""
    ends = graph.sources.indptr[graph.groups.indptr]
    return _sums(x, w, graph.sources.columns, graph.groups.columns[graph.sources.rows], ends)


def by_relation(x: Tensor, gradient: Tensor, graph: Messages) -> Tensor:
    """See :func:`decentrl.nn.relation_sum.by_relation`."""
    rows, relations, columns = graph.edges
    order = relations.argsort(stable=True)
    counts = torch.bincount(relations, minlength=graph.groups.n_columns)
    ends = torch.cat((counts.new_zeros(1), counts.cumsum(0)))
    return _sums(x, gradient, columns[order], rows[order], ends)
