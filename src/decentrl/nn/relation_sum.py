"""Sums over edges of a vector times what its relation weighs, with a backward pass of their own.

An edges × width tensor never exists: edges that share their end and their relation are summed
first, and the sums are multiplied in blocks that stay in the cache.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from decentrl.graph.messages import Messages

logger = logging.getLogger(__name__)
CELLS = 2**19
"""Numbers in a block on a CPU, which then fits its cache."""
CUDA_CELLS = 2**26
"""The same on a card without Triton."""


class Ways(NamedTuple):
    """How both sums are computed; see :func:`summed` and :func:`by_relation`."""

    summed: Callable[[Tensor, Tensor, Messages], Tensor]
    by_relation: Callable[[Tensor, Tensor, Messages], Tensor]


class _RelationSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor, graph: Messages) -> Tensor:
        ctx.save_for_backward(x, w)
        ctx.graph, ctx.ways = graph, _ways(x)
        return ctx.ways.summed(x, w, graph)  # type: ignore[no-any-return]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        x, w = ctx.saved_tensors
        gradient = gradient.contiguous()
        for_x = for_w = None
        if ctx.needs_input_grad[0]:
            for_x = ctx.ways.summed(gradient, w, ctx.graph.transposed)
        if ctx.needs_input_grad[1]:
            for_w = ctx.ways.by_relation(x, gradient, ctx.graph)
        return for_x, for_w, None


def _most(x: Tensor) -> int:
    """Groups in a block."""
    return max(1, (CUDA_CELLS if x.is_cuda else CELLS) // max(1, x.shape[1]))


def _bags(values: Tensor, columns: Tensor, indptr: Tensor) -> Tensor:
    """Σ values[columns] of each stretch of ``indptr``, from its first number on."""
    start = indptr[:1]
    return F.embedding_bag(
        columns, values.detach(), indptr - start, mode="sum", include_last_offset=True
    )


def _sources(x: Tensor, graph: Messages, groups: slice) -> Tensor:
    """Σ x[u] over the edges of each of some groups: [k, width]."""
    indptr = graph.sources.indptr[groups.start : groups.stop + 1]
    edges = slice(int(indptr[0]), int(indptr[-1]))
    return _bags(x, graph.sources.columns[edges], indptr)


def summed(x: Tensor, w: Tensor, graph: Messages) -> Tensor:
    """out[v] = Σ over the edges v ←(ρ)– u of x[u] ⊙ w[ρ]: [n_rows, width]."""
    out = x.new_empty(graph.groups.n_rows, x.shape[1])
    relations, indptr = graph.groups.columns, graph.groups.indptr
    every = torch.arange(len(relations), device=x.device)
    for rows, groups in graph.blocks(_most(x)):
        if groups.start == groups.stop:
            out[rows] = 0
            continue
        sums = _sources(x, graph, groups).mul_(w.index_select(0, relations[groups]))
        size = groups.stop - groups.start
        out[rows] = _bags(sums, every[:size], indptr[rows.start : rows.stop + 1])
    return out


def by_relation(x: Tensor, gradient: Tensor, graph: Messages) -> Tensor:
    """out[ρ] = Σ over the edges v ←(ρ)– u of x[u] ⊙ gradient[v]: [n_relations, width]."""
    out = x.new_zeros(graph.groups.n_columns, x.shape[1])
    for _, groups in graph.blocks(_most(x)):
        if groups.start == groups.stop:
            continue
        sums = _sources(x, graph, groups)
        sums.mul_(gradient.index_select(0, graph.groups.rows[groups]))
        # Sorted, and each relation once, so that the sum is the same to the last bit every time.
        found, order = graph.groups.columns[groups].sort(stable=True)
        relations, counts = torch.unique_consecutive(found, return_counts=True)
        ends = torch.cat((counts.new_zeros(1), counts.cumsum(0)))
        out[relations] += _bags(sums, order, ends)
    return out


TORCH = Ways(summed, by_relation)
"""In torch alone: on a CPU, and where there is nothing better."""


def _ways(x: Tensor) -> Ways:
    """What is best where ``x`` is: on CUDA kernels in Triton, if they are right there."""
    exact = x.dtype == torch.float64  # kernels add up in single precision
    return _kernels(x.device) if x.is_cuda and not exact else TORCH


@cache
def _kernels(device: torch.device) -> Ways:
    """Kernels in Triton, looked at once in a process; what is missing or wrong is not used."""
    try:
        from decentrl.nn import triton_sum

        kernels = Ways(triton_sum.summed, triton_sum.by_relation)
        right = agree(kernels, device)
    except Exception as error:  # whatever a compiler or a driver may raise
        logger.info("no kernels in Triton: %s", error)
        return TORCH
    if not right:
        logger.warning("kernels in Triton give other sums than torch on %s: not used", device)
    return kernels if right else TORCH


def agree(ways: Ways, device: torch.device) -> bool:
    """Whether they give on this device what torch gives, on a small graph with a hub."""
    rng = torch.Generator().manual_seed(0)
    n, r, width, size = 60, 5, 150, 600
    heads, tails = torch.randint(n, (2, size), generator=rng)
    heads[: size // 4] = 3
    kinds = torch.randint(r, (size,), generator=rng)
    triples = torch.unique(torch.stack((heads, kinds, tails), 1), dim=0)
    graph = Messages.of_triples(triples.numpy(), n, r, device)
    x, w, g = (torch.randn(k, width, generator=rng).to(device) for k in (n, 2 * r, n))
    found, expected = (
        (way.summed(x, w, graph), way.by_relation(x, g, graph)) for way in (ways, TORCH)
    )
    return all(torch.allclose(*both, atol=1e-2) for both in zip(found, expected, strict=True))


def relation_sum(x: Tensor, w: Tensor, graph: Messages) -> Tensor:
    """out[v] = Σ over the edges v ←(ρ)– u of x[u] ⊙ w[ρ].

    Args:
        x: [n_columns, width].
        w: [n_relations, width].
    Returns:
        [n_rows, width], 0 where no edge ends.
    """
    result: Tensor = _RelationSum.apply(x, w, graph)  # type: ignore[no-untyped-call]
    return result
