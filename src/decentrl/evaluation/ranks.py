"""Ranks of right answers among scores, with ties counted apart."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from decentrl.matching.similarity import Scores, threads
from decentrl.matching.sparse import SparseScores

TOLERANCE = 1e-6
"""Two scores are tied if they differ by at most this much of the largest absolute score."""
CELLS = 2**25
"""Number of scores in memory at a time."""
_LINKS = 1 << 16  # ranked at a time


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

    def of(part: list[slice]) -> None:
        for rows in part:
            block = scores.block(rows)
            right = block.gather(1, targets[rows, None])[:, 0]
            at = torch.arange(len(right), device=right.device)
            better[rows], tied[rows] = count_above(block, at, right + slack, right - slack)

    with threads(scores) as apply:
        list(apply(of, scores.parts()))
    return Ranks(better.cpu(), tied.cpu())


def rank_pairs(
    scores: SparseScores, rows: Tensor, targets: Tensor, tolerance: float = TOLERANCE
) -> Ranks:
    """Rank column ``targets[i]`` in row ``rows[i]`` of scores of which the best pairs are stored.

    All columns that are not stored share the ranks behind those that are. Arguments as of
    :func:`rank`, where every row is asked for.
    """
    values, columns, offsets = (x.cpu() for x in (scores.values, scores.columns, scores.offsets))
    rows, targets, width = rows.cpu(), targets.cpu(), max(1, scores.shape[1])
    slack = tolerance * values.abs().max().item() if tolerance and len(values) else 0.0
    keys = scores.rows.cpu() * width + columns
    counts = []
    for some in torch.split(torch.arange(len(rows)), _LINKS):
        row, target = rows[some], targets[some]
        key = row * width + target
        place = torch.searchsorted(keys, key).clamp(max=max(0, len(keys) - 1))
        stored = keys[place] == key if len(keys) else torch.zeros(len(row), dtype=torch.bool)
        mine = values[place].where(stored, -torch.inf) if len(keys) else torch.zeros(len(row))
        first, own = offsets[row], offsets[row + 1] - offsets[row]
        link = torch.repeat_interleave(torch.arange(len(row)), own)
        start = own.cumsum(0) - own
        found = values[first[link] + torch.arange(len(link)) - start[link]]
        above, level = (
            torch.zeros(len(row), dtype=torch.int64).index_add_(0, link, x.long())
            for x in (found > (mine + slack)[link], found >= (mine - slack)[link])
        )
        tied = torch.where(stored, level - above, scores.shape[1] - own)
        counts.append(torch.stack((above.where(stored, own), tied)))
    better, tied = torch.cat(counts, 1) if counts else torch.empty(2, 0, dtype=torch.int64)
    return Ranks(better, tied)


def count_above(block: Tensor, at: Tensor, high: Tensor, low: Tensor) -> tuple[Tensor, Tensor]:
    """Count the scores of row ``at[k]`` of ``block`` above ``high[k]``, and the tied ones.

    Tied are those not above ``high[k]`` and not below ``low[k]``. Returns int64[len(at)] twice.
    """
    if block.device.type != "cpu":
        return _count_above_in_blocks(block, at, high, low)
    # A row at a time stays in the cache and is not copied, and NumPy counts it without threads,
    # which would wait for each other more than they count.
    scores = block.contiguous().numpy()
    counts = np.empty((2, len(at)), np.int64)
    limits = zip(at.tolist(), high.numpy(), low.numpy(), strict=True)
    for k, (row, top, bottom) in enumerate(limits):
        counts[0, k] = np.count_nonzero(scores[row] > top)
        counts[1, k] = np.count_nonzero(scores[row] >= bottom)
    return torch.from_numpy(counts[0]), torch.from_numpy(counts[1] - counts[0])


def _count_above_in_blocks(
    block: Tensor, at: Tensor, high: Tensor, low: Tensor
) -> tuple[Tensor, Tensor]:
    """The same as :func:`count_above`, many rows at a time."""
    above, level = torch.empty_like(at), torch.empty_like(at)
    step = max(1, CELLS // max(1, block.shape[1]))
    for start in range(0, len(at), step):
        part = slice(start, start + step)
        scores = block[at[part]]
        above[part] = (scores > high[part, None]).sum(1)
        level[part] = (scores >= low[part, None]).sum(1)
    return above, level - above
