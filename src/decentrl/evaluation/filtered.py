"""Filtered ranks of right answers among all entities, computed in blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from decentrl.evaluation.ranks import CELLS, TOLERANCE, Ranks, count_above
from decentrl.graph.adjacency import Ids
from decentrl.graph.queries import Queries

Score = Callable[[Tensor, Tensor], Tensor]
"""Score function: entities and relations, int64[b] each → scores of all entities, [b, n]."""


def rank_answers(
    score: Score,
    queries: Queries,
    known: Queries,
    n_entities: int,
    *,
    device: torch.device | str = "cpu",
    tolerance: float = TOLERANCE,
) -> Ranks:
    """Rank every answer of ``queries``, without the other answers that ``known`` has to the query.

    Args:
        score: scores all entities for a batch of queries.
        known: all queries with all true answers; may or may not hold those of ``queries``.
        tolerance: two scores are tied if they differ by at most this share of the largest absolute
            score of their query.
    Returns:
        ranks in the order of ``queries.answers``.
    """
    better = torch.empty(len(queries.answers), dtype=torch.int64)
    tied = torch.empty_like(better)
    places = known.find(queries.entities, queries.relations)
    size = max(1, CELLS // max(1, n_entities))
    for start in range(0, len(queries), size):
        chosen = np.arange(start, min(start + size, len(queries)))
        entities = torch.from_numpy(queries.entities[chosen]).to(device)
        relations = torch.from_numpy(queries.relations[chosen]).to(device)
        block = score(entities, relations)
        largest = torch.maximum(block.amax(1), -block.amin(1))
        slack = tolerance * largest if tolerance else torch.zeros_like(largest)

        rows, index = queries.places(chosen)
        answers = queries.answers[index]
        at = torch.from_numpy(rows).to(device)
        right = block[at, torch.from_numpy(answers).to(device)]
        high, low = right + slack[at], right - slack[at]
        above, level = count_above(block, at, high, low)

        # Subtract what the other right answers add to the counts: a pair for each of them.
        has = places[chosen] >= 0
        sizes = np.where(has, known.sizes[places[chosen]], 0) if len(known) else 0 * chosen
        others, begins = sizes[rows], known.indptr[places[chosen]][rows]
        for first, last in _portions(others, CELLS // 8):
            count = others[first:last]
            pair = np.repeat(np.arange(first, last), count)
            offset = np.arange(len(pair)) - np.repeat(np.cumsum(count) - count, count)
            other = known.answers[begins[pair] + offset]
            different = other != answers[pair]
            which = torch.from_numpy(pair[different]).to(device)
            values = block[at[which], torch.from_numpy(other[different]).to(device)]
            up, even = values > high[which], values >= low[which]
            above.index_add_(0, which, up.to(above.dtype), alpha=-1)
            level.index_add_(0, which, (even & ~up).to(level.dtype), alpha=-1)
        better[index], tied[index] = above.cpu(), level.cpu()
    return Ranks(better, tied)


def _portions(sizes: Ids, limit: int) -> Iterator[tuple[int, int]]:
    """Cut 0 … n where the sizes add up to about ``limit``."""
    part = (np.cumsum(sizes) - sizes) // max(1, limit)
    edges = [0, *(np.flatnonzero(np.diff(part)) + 1).tolist(), len(sizes)]
    for first, last in pairwise(edges):
        if first < last:
            yield first, last
