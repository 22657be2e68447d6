"""The softmax loss over all answers of a question, in blocks that bound memory.

Scores of a block of questions are turned into gradients in the forward pass and dropped; the
backward pass only scales these gradients.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

BLOCK = 2**27
"""Scores in memory at a time, on a card; on a CPU an eighth of it."""


class _AnswerLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        queries: Tensor,
        vectors: Tensor,
        bias: Tensor | None,
        rows: Tensor,
        columns: Tensor,
        offset: Tensor | None,
        smoothing: float,
        root: bool,
    ) -> Tensor:
        n = len(vectors)
        size = max(1, (BLOCK if queries.is_cuda else BLOCK // 8) // max(1, n))
        for_queries = torch.empty_like(queries)
        for_vectors = torch.zeros_like(vectors)
        for_bias = None if bias is None else torch.zeros_like(bias)
        for_offset = None if offset is None else torch.empty_like(offset)
        total = queries.new_zeros((), dtype=torch.float64)
        # As long as one block is enough, nothing here makes the CPU wait for a card.
        counts = torch.zeros(len(queries), dtype=torch.int64, device=rows.device)
        counts.index_add_(0, rows, torch.ones_like(rows))
        ends = counts.cumsum(0).tolist() if size < len(queries) else None
        for start in range(0, len(queries), size):
            stop = min(start + size, len(queries))
            own = slice(None)
            if ends is not None:
                own = slice(ends[start - 1] if start else 0, ends[stop - 1])
            at = rows[own] - start, columns[own]
            # A small distance is what is left of large numbers: roots need all their digits.
            with products(queries, fast=not root):
                block = queries[start:stop] @ vectors.t()
            if bias is not None:
                block += bias
            if offset is not None:
                block += offset[start:stop, None]
            slope_of_root = -0.5 / take_root(block) if root else None
            gradient, loss = _slope(block, at, counts[start:stop, None], smoothing)
            if slope_of_root is not None:
                gradient *= slope_of_root
            total += loss
            with products(queries):
                torch.mm(gradient, vectors, out=for_queries[start:stop])
                for_vectors.addmm_(gradient.t(), queries[start:stop])
            if for_bias is not None:
                for_bias += gradient.sum(0)
            if for_offset is not None:
                for_offset[start:stop] = gradient.sum(1)
        scale = 1 / max(1, len(rows))
        kept = (for_queries, for_vectors, for_bias, for_offset)
        ctx.save_for_backward(*(None if part is None else part.mul_(scale) for part in kept))
        return (total * scale).to(queries.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        parts = [None if part is None else part * gradient for part in ctx.saved_tensors]
        return *parts[:3], None, None, parts[3], None, None


def take_root(scores: Tensor) -> Tensor:
    """-√(-s) in the place of scores s, which are squared distances."""
    return scores.neg_().clamp_(min=1e-6).sqrt_().neg_()


def _slope(
    scores: Tensor, at: tuple[Tensor, Tensor], counts: Tensor, smoothing: float
) -> tuple[Tensor, Tensor]:
    """The gradient for a block of scores [b, n], in their place, and the sum of the losses."""
    counts = counts.to(scores.dtype)
    n = scores.shape[1]
    right = scores[at]
    spread, share = smoothing / n, 1 - smoothing
    highest = scores.amax(1, keepdim=True)
    mean = scores.double().mean(1, keepdim=True) if smoothing else highest
    scores.sub_(highest).exp_()
    totals = scores.sum(1, keepdim=True)
    normaliser = totals.log() + highest
    loss = (counts * normaliser).double().sum() - share * right.double().sum()
    if smoothing:
        loss = loss - smoothing * (counts * mean).sum()
    slope = scores.mul_(counts / totals)
    if smoothing:
        slope.sub_(spread * counts)
    slope.index_put_(at, torch.full_like(right, -share), accumulate=True)
    return slope, loss


@contextmanager
def products(like: Tensor, fast: bool = True) -> Iterator[None]:
    """TF32 on a card: ten bits are enough for a gradient, and eight times as fast."""
    if not like.is_cuda:
        yield
        return
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = fast
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


def answer_loss(
    queries: Tensor,
    vectors: Tensor,
    bias: Tensor | None,
    rows: Tensor,
    columns: Tensor,
    *,
    offset: Tensor | None = None,
    smoothing: float = 0.0,
    root: bool = False,
) -> Tensor:
    r"""Make right answers score higher than all others; the mean over right answers.

    :math:`\log \sum_j e^{s_{ij}} - s_{it}` for every right answer t of question i. With smoothing ε
    a right answer has 1 - ε and all n share the rest.

    Args:
        queries: [b, d]; the scores are ``queries @ vectors.T + bias + offset[:, None]``.
        vectors: of the candidates, [n, d].
        bias: [n].
        rows, columns: int64[m], the right answers; rows increase.
        offset: [b]; it makes a difference with ``root`` alone.
        root: scores are squared distances, and what counts is the distance, :math:`-\sqrt{-s}`.
    """
    result: Tensor = _AnswerLoss.apply(  # type: ignore[no-untyped-call]
        queries, vectors, bias, rows, columns, offset, smoothing, root
    )
    return result
