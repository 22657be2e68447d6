"""Hits@k, mean rank and mean reciprocal rank, in expectation over the order of ties."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from decentrl.evaluation.ranks import Ranks

HITS = (1, 5, 10, 50)


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


def summary(ranks: Ranks, at: Sequence[int] = HITS) -> dict[str, float]:
    """Mean metrics ``hits@k``, ``mr`` and ``mrr``; fractions, not per cent."""
    result = {f"hits@{k}": hits(ranks, k).mean().item() for k in at}
    result["mr"] = mean_rank(ranks).mean().item()
    result["mrr"] = reciprocal_rank(ranks).mean().item()
    return result
