"""Where the right answer stands, with ties told apart from luck."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from decentrl.matching.similarity import Scores

TOLERANCE = 1e-6
"""Two scores are tied if they differ by at most this much of the largest absolute score."""


@dataclass(frozen=True, eq=False)
class Ranks:
    """For each query, how many candidates beat the right answer and how many tie with it.

    ``better`` is int64[n]; ``tied`` is int64[n] and counts the right answer itself.
    """

    better: Tensor
    tied: Tensor

    def __len__(self) -> int:
        return len(self.better)

    def __getitem__(self, chosen: Tensor) -> Ranks:
        return Ranks(self.better[chosen], self.tied[chosen])


def rank(scores: Scores, targets: Tensor, tolerance: float = TOLERANCE) -> Ranks:
    """Rank column ``targets[i]`` in row i, in blocks.

    Decentralised models give *identical* vectors to entities with the same neighbours, so ties
    are common and must not count as wins.

    Args:
        scores: n × m.
        targets: int64[n], the right column of every row.
        tolerance: relative to the largest absolute score; 0 compares exactly.
    """
    assert len(targets) == scores.shape[0]
    slack = tolerance * scores.largest() if tolerance else 0.0
    better, tied = torch.empty_like(targets), torch.empty_like(targets)
    for rows, block in scores.blocks():
        right = block.gather(1, targets[rows, None])
        better[rows] = (block > right + slack).sum(1)
        tied[rows] = (block >= right - slack).sum(1) - better[rows]
    return Ranks(better.cpu(), tied.cpu())
