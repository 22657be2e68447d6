"""Filtered ranks of right answers among all entities, computed in blocks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from decentrl.errors import DivergedError, InputError
from decentrl.evaluation.ranks import CELLS, TOLERANCE, Ranks, count_above
from decentrl.graph.adjacency import Ids
from decentrl.graph.queries import Queries

Score = Callable[[Tensor, Tensor], Tensor]
"""Score function: entities and relations, int64[b] each → scores of all entities, [b, n].

What it returns is overwritten."""


def rank_answers(
    score: Score,
    queries: Queries,
    known: Queries,
    n_entities: int,
    *,
    device: torch.device | str = "cpu",
    tolerance: float = TOLERANCE,
    among: Tensor | None = None,
    drawn: Tensor | None = None,
) -> Ranks:
    """Rank every answer of ``queries``, without the other answers that ``known`` has to the query.

    Args:
        score: scores all entities for a batch of queries.
        known: all queries with all true answers; may or may not hold those of ``queries``.
        tolerance: two scores are tied if they differ by at most this share of the largest absolute
            score of their query.
        among: bool[n_entities], the entities that answers are ranked among; default: all.
        drawn: int64[m, k], of each answer the entities that it is ranked among in place of all.
    Returns:
        ranks in the order of ``queries.answers``.
    """
    better = torch.empty(len(queries.answers), dtype=torch.int64)
    tied = torch.empty_like(better)
    size = max(1, CELLS // max(1, n_entities))
    for start in range(0, len(queries), size):
        chosen = np.arange(start, min(start + size, len(queries)))
        asked = queries.entities[chosen], queries.relations[chosen]
        block = score(*(torch.from_numpy(x).to(device) for x in asked))
        largest = torch.maximum(block.amax(1), -block.amin(1))
        if not largest.isfinite().all():  # a NaN would beat nothing, and tie with nothing
            raise DivergedError("the scores of answers are not finite")
        slack = tolerance * largest if tolerance else torch.zeros_like(largest)

        rows, index = queries.places(chosen)
        at, answers = (torch.from_numpy(x).to(device) for x in (rows, queries.answers[index]))
        right = block[at, answers]
        high, low = right + slack[at], right - slack[at]

        # A known answer is behind all others; each ties with itself by its score of before.
        hidden = tuple(torch.from_numpy(x).to(device) for x in known.held(*asked))
        block[hidden] = -torch.inf
        if among is not None:
            block[:, ~among.to(device)] = -torch.inf
        if drawn is not None:
            own = drawn[index].to(device)
            rivals = block[at[:, None], own]
            better[index] = (rivals > high[:, None]).sum(1).cpu()
            tied[index] = 1 + ((rivals >= low[:, None]) & (rivals <= high[:, None])).sum(1).cpu()
            continue
        above, level = count_above(block, at, high, low)
        level += right > block[at, answers]
        better[index], tied[index] = above.cpu(), level.cpu()
    return Ranks(better, tied)


def draw_wrong(
    queries: Queries, known: Queries, candidates: Ids, count: int, seed: int = 0
) -> Tensor:
    """For each answer of ``queries`` so many wrong ones, drawn once: int64[m, count].

    They differ from each other where there are enough.
    """
    rng, rows = np.random.default_rng(seed), []
    for i in range(len(queries)):
        asked = queries.entities[i : i + 1], queries.relations[i : i + 1]
        wrong = np.setdiff1d(candidates, known.held(*asked)[1])
        if not len(wrong):
            raise InputError("there are no wrong answers to draw", remedy="rank among all entities")
        for _ in range(int(queries.sizes[i])):
            rows.append(rng.choice(wrong, count, replace=len(wrong) < count))
    return torch.from_numpy(np.stack(rows))
