"""Two-hop neighbours, as the paper's alignment encoder uses them in every other layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from decentrl.graph.adjacency import Adjacency, Ids

DROPPED = 5
"""So many of the most frequent patterns join everything to everything ("same country as")."""


class Growth(NamedTuple):
    """How paths are read where a graph has grown, so that it does not matter in which order.

    What arrives at a trained entity does not go on through it, so paths with a trained middle have
    an end that was there in training.
    """

    trained: NDArray[np.bool_]  # [n_entities]
    later: NDArray[np.bool_]  # [n_triples], which came after training
    dropped: Ids  # the patterns that training left out, [k, 2]


def _paths(triples: Ids, n_entities: int) -> tuple[Ids, Ids, Ids]:
    """Directed paths h → x → t with h ≠ t and not adjacent.

    Returns:
        of each path the triples (h, r, x) and (x, s, t), and its pattern, r · 2³¹ + s.
    """
    heads, relations, tails = triples.T
    by_head = torch.from_numpy(np.argsort(heads, kind="stable"))
    starting = Adjacency.from_sorted(
        torch.from_numpy(heads)[by_head], by_head, n_entities, len(triples)
    )
    steps = starting.take_rows(torch.from_numpy(tails))[0]
    first, second = steps.rows.numpy(), steps.columns.numpy()
    ends = heads[first] * n_entities + tails[second]
    adjacent = np.concatenate((heads * n_entities + tails, tails * n_entities + heads))
    kept = (heads[first] != tails[second]) & ~np.isin(ends, adjacent)
    first, second = first[kept], second[kept]
    return first, second, relations[first] * 2**31 + relations[second]


def _most_frequent(patterns: Ids, count: int) -> Ids:
    """Ties at the cut are decided by the relations' ids, so that the graph is reproducible."""
    codes, counts = np.unique(patterns, return_counts=True)
    return codes[np.lexsort((codes, -counts))[:count]]


def frequent_patterns(triples: Ids, n_entities: int, count: int = DROPPED) -> Ids:
    """The pairs of relations that most paths have: [count, 2], or fewer."""
    found = _most_frequent(_paths(triples, n_entities)[2], count)
    return np.stack((found // 2**31, found % 2**31), 1)


def two_hop_neighbours(
    graphs: Sequence[Ids], n_entities: int, growth: Growth | None = None, count: int = DROPPED
) -> Adjacency:
    """Entities joined by a directed path h → x → t, but not adjacent: t reads h, and h reads t.

    A path's pattern is its pair of relations. Paths of the ``count`` most frequent patterns of
    each graph, or of those that ``growth`` names, are left out as uninformative. The graphs share
    the entity ids ``0 … n_entities - 1``.
    """
    codes = []
    for triples in graphs:
        first, second, patterns = _paths(triples, n_entities)
        if growth is None:
            kept = ~np.isin(patterns, _most_frequent(patterns, count))
        else:
            kept = ~np.isin(patterns, growth.dropped[:, 0] * 2**31 + growth.dropped[:, 1])
            through = growth.trained[triples[first, 2]]
            kept &= ~(through & growth.later[first] & growth.later[second])
        heads, tails = triples[first[kept], 0], triples[second[kept], 2]
        codes += [heads * n_entities + tails, tails * n_entities + heads]
    found = torch.unique(torch.from_numpy(np.concatenate(codes)))
    return Adjacency.from_sorted(found // n_entities, found % n_entities, n_entities, n_entities)
