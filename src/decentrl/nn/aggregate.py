"""Softmax over neighbours and weighted sums of their vectors: the only custom autograd.

Both work on the edges of an :class:`~decentrl.graph.adjacency.Adjacency` and never build an
edges × dimensions tensor: a weighted sum is a sparse product, its gradient for the values is the
product with the transpose, its gradient for the weights is one sampled dot product an edge.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from decentrl.graph.adjacency import Adjacency

with warnings.catch_warnings():
    # torch announces once a process that sparse CSR is young; take the announcement here.
    warnings.simplefilter("ignore")
    torch.sparse_csr_tensor([0], [], torch.empty(0), (0, 0))


def _csr(indptr: Tensor, columns: Tensor, weights: Tensor, n_columns: int) -> Tensor:
    shape = (len(indptr) - 1, n_columns)
    # The CUDA products read the memory behind a tensor as it lies, whatever its strides.
    parts = indptr.contiguous(), columns.contiguous(), weights.contiguous()
    return torch.sparse_csr_tensor(*parts, shape, check_invariants=False)


def _sparse_product(graph: Adjacency, weights: Tensor, values: Tensor, t: bool = False) -> Tensor:
    """out[i] = Σ over edges e of row i of weights[e] · values[columns[e]]; ``t``: transposed."""
    indptr, columns = (graph.t_indptr, graph.t_rows) if t else (graph.indptr, graph.columns)
    weights = weights[graph.t_order] if t else weights
    if values.device.type == "cuda":
        product: Tensor = _csr(indptr, columns, weights, len(values)) @ values
        return product
    return F.embedding_bag(
        columns,
        values.detach(),  # we are inside our own autograd; torch would prepare a second one
        indptr,
        mode="sum",
        per_sample_weights=weights.detach(),
        include_last_offset=True,
    )


def _edge_dots(graph: Adjacency, left: Tensor, right: Tensor) -> Tensor:
    """out[e] = left[i] · right[j] for every edge e = (i ← j)."""
    if graph.n_edges > graph.n_rows * graph.n_columns:
        # Parallel edges of a tiny graph: sampled_addmm refuses more edges than matrix cells.
        return (left @ right.t())[graph.rows, graph.columns]
    pattern = _csr(graph.indptr, graph.columns, left.new_zeros(graph.n_edges), graph.n_columns)
    dots: Tensor = torch.sparse.sampled_addmm(pattern, left, right.t(), beta=0.0).values()
    return dots


class _WeightedSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weights: Tensor, values: Tensor, graph: Adjacency) -> Tensor:
        ctx.save_for_backward(weights, values)
        ctx.graph = graph
        return _sparse_product(graph, weights, values)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        weights, values = ctx.saved_tensors
        graph: Adjacency = ctx.graph
        gradient = gradient.contiguous()
        for_weights = for_values = None
        if ctx.needs_input_grad[0]:
            for_weights = _edge_dots(graph, gradient, values)
        if ctx.needs_input_grad[1]:
            for_values = _sparse_product(graph, weights, gradient, t=True)
        return for_weights, for_values, None


class _EdgeDots(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, left: Tensor, right: Tensor, graph: Adjacency) -> Tensor:
        ctx.same = left is right
        ctx.save_for_backward(left, right)
        ctx.graph = graph
        return _edge_dots(graph, left, right)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        left, right = ctx.saved_tensors
        graph: Adjacency = ctx.graph
        for_left = for_right = None
        if ctx.needs_input_grad[0]:
            for_left = _sparse_product(graph, gradient, right)
        if ctx.needs_input_grad[1]:
            for_right = _sparse_product(graph, gradient, left, t=True)
        if ctx.same and for_left is not None and for_right is not None:
            return for_left.add_(for_right), None, None
        return for_left, for_right, None


class _SegmentSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, graph: Adjacency) -> Tensor:
        highest = torch.segment_reduce(logits, "max", offsets=graph.indptr, unsafe=True)
        exponentials = (logits - highest[graph.rows]).exp_()
        totals = segment_sum(exponentials, graph)
        weights = exponentials.div_(totals[graph.rows])
        ctx.save_for_backward(weights)
        ctx.graph = graph
        return weights

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (weights,) = ctx.saved_tensors
        graph: Adjacency = ctx.graph
        weighted = weights * gradient
        return weighted - weights * segment_sum(weighted, graph)[graph.rows], None


def segment_sum(per_edge: Tensor, graph: Adjacency) -> Tensor:
    """Sum of each row's edges: [n_edges] → [n_rows], 0 where a row has none."""
    return torch.segment_reduce(per_edge, "sum", offsets=graph.indptr, unsafe=True)


def segment_softmax(logits: Tensor, graph: Adjacency, kept: Tensor | None = None) -> Tensor:
    """α_e = exp(logit_e) / Σ over the edges e' of the same row of exp(logit_e').

    Args:
        logits: [n_edges].
        kept: bool[n_edges], the edges that count; all by default. The others get 0.
    Returns:
        [n_edges], summing to 1 over every row that has an edge.
    """
    if kept is not None:
        return segment_softmax(logits.masked_fill(~kept, -1e30), graph) * kept
    result: Tensor = _SegmentSoftmax.apply(logits, graph)  # type: ignore[no-untyped-call]
    return result


def weighted_sum(weights: Tensor, values: Tensor, graph: Adjacency) -> Tensor:
    """g_i = Σ over edges e = (i ← j) of weights[e] · values[j].

    Args:
        weights: [n_edges].
        values: [n_columns, d].
    Returns:
        [n_rows, d], 0 where a row has no edge.
    """
    result: Tensor = _WeightedSum.apply(weights, values, graph)  # type: ignore[no-untyped-call]
    return result


def gather(values: Tensor, ids: Tensor) -> Tensor:
    """values[ids]: [n, d], int64[k] → [k, d].

    On a CPU its backward pass makes one tensor, torch's two; on a card torch's is a single kernel.
    """
    if values.is_cuda:
        return values.index_select(0, ids)
    graph = Adjacency.regular(ids[:, None], len(values))
    return weighted_sum(values.new_ones(len(ids)), values, graph)


def take(values: Tensor, ids: Tensor) -> Tensor:
    """values[ids]: [n], int64[…] → […].

    Gradients of the same value are added up in the order of ``ids``. torch's own ``[]`` adds them
    as its threads come, so that no two trainings are the same to the last bit.
    """
    return values.index_select(0, ids.reshape(-1)).view(ids.shape)


def edge_dots(left: Tensor, right: Tensor, graph: Adjacency) -> Tensor:
    """out[e] = left[i] · right[j] for every edge e = (i ← j).

    The way to compare many pairs of vectors without gathering them.

    Args:
        left: [n_rows, d].
        right: [n_columns, d].
    Returns:
        [n_edges].
    """
    result: Tensor = _EdgeDots.apply(left, right, graph)  # type: ignore[no-untyped-call]
    return result


def pool(values: Tensor, graph: Adjacency, how: str = "mean", kept: Tensor | None = None) -> Tensor:
    """The mean or sum of the neighbours' vectors; 0 without neighbours.

    Args:
        kept: bool[n_edges], the edges that count; all by default.
    """
    weights = values.new_ones(graph.n_edges) if kept is None else kept.to(values.dtype)
    if how == "mean":
        counts = graph.degrees() if kept is None else segment_sum(weights, graph).clamp(min=1)
        weights = weights / counts[graph.rows]
    return weighted_sum(weights, values, graph)


class _RowNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, epsilon: float) -> Tensor:
        normed, _, scale = torch.native_layer_norm(rows, rows.shape[-1:], None, None, epsilon)
        ctx.save_for_backward(normed, scale)
        return normed

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        normed, scale = ctx.saved_tensors
        # The gradient of a layer normalisation depends on its input only through its output, so
        # the output, which the next layer keeps anyway, stands in for an input with mean 0 and
        # deviation 1.
        for_rows, _, _ = torch.ops.aten.native_layer_norm_backward(
            gradient.contiguous(),
            normed,
            normed.shape[-1:],
            torch.zeros_like(scale),
            torch.ones_like(scale),
            None,
            None,
            [True, False, False],
        )
        return for_rows.mul_(scale), None


class RowNorm(torch.nn.Module):
    """Layer normalisation without an affine part: rows of mean 0 and length √d (0 stays 0).

    The same function as ``LayerNorm(elementwise_affine=False)``; it keeps its output for the
    backward pass instead of its input, which saves a tensor of the size of g in every layer.
    """

    def forward(self, rows: Tensor) -> Tensor:
        normed: Tensor = _RowNorm.apply(rows, 1e-5)  # type: ignore[no-untyped-call]
        return normed
