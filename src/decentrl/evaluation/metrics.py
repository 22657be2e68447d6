"""Hits@k, mean rank and mean reciprocal rank, in expectation over the order of ties."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from decentrl.evaluation.ranks import Ranks

LINKS = ("hits@1", "hits@5", "hits@10", "hits@50", "mr", "mrr")
"""Metrics of alignment."""
ANSWERS = ("mrr", "hits@1", "hits@3", "hits@10", "mr")
"""Metrics of prediction."""


def hits(ranks: Ranks, k: int) -> Tensor:
    """Hits@k: chance to be among the first k, min(max(k - b, 0), t) / t, float64[n]."""
    room = (k - ranks.better).clamp(min=0).double()
    tied = ranks.tied.double()
    return torch.minimum(room, tied) / tied


def mean_rank(ranks: Ranks) -> Tensor:
    """Expected rank: b + (t + 1) / 2, float64[n]."""
    return ranks.better.double() + (ranks.tied.double() + 1) / 2


def reciprocal_rank(ranks: Ranks) -> Tensor:
    """Expected reciprocal rank: the mean of 1 / (b + 1) … 1 / (b + t), float64[n]."""
    last = int((ranks.better + ranks.tied).max()) if len(ranks) else 0
    harmonic = torch.zeros(last + 1, dtype=torch.float64)
    harmonic[1:] = torch.arange(1, last + 1, dtype=torch.float64).reciprocal().cumsum(0)
    return (harmonic[ranks.better + ranks.tied] - harmonic[ranks.better]) / ranks.tied


def summary(ranks: Ranks, names: Sequence[str] = LINKS) -> dict[str, float]:
    """Mean metrics by name: ``hits@k``, ``mr`` and ``mrr``; fractions, not per cent."""
    others = {"mr": mean_rank, "mrr": reciprocal_rank}
    values = (others[x](ranks) if x in others else hits(ranks, int(x[5:])) for x in names)
    return {name: value.mean().item() for name, value in zip(names, values, strict=True)}
