"""Two-hop neighbours, as the paper's alignment encoder uses them in every other layer."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from decentrl.graph.adjacency import Adjacency, Ids, unique_pairs

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


class _Paths(NamedTuple):
    """Directed paths h → x → t with h ≠ t and not adjacent."""

    heads: Ids
    tails: Ids
    first: Ids  # the triple (h, r, x) of each
    second: Ids  # and (x, r, t)


def _paths(triples: Ids, n_entities: int) -> _Paths:
    by_tail = np.argsort(triples[:, 2], kind="stable")
    by_head = np.argsort(triples[:, 0], kind="stable")
    middles = triples[by_tail, 2]
    starts = np.searchsorted(triples[by_head, 0], np.arange(n_entities + 1))
    fan_out = starts[middles + 1] - starts[middles]

    place = np.repeat(np.arange(len(by_tail)), fan_out)
    within = np.arange(len(place)) - np.repeat(np.cumsum(fan_out) - fan_out, fan_out)
    first, second = by_tail[place], by_head[starts[middles[place]] + within]
    heads, tails = triples[first, 0], triples[second, 2]

    ends = heads * n_entities + tails
    edges = np.unique(
        np.concatenate(
            (
                triples[:, 0] * n_entities + triples[:, 2],
                triples[:, 2] * n_entities + triples[:, 0],
            )
        )
    )
    kept = (heads != tails) & ~np.isin(ends, edges)
    return _Paths(heads[kept], tails[kept], first[kept], second[kept])


def _patterns(triples: Ids, paths: _Paths) -> Ids:
    """The pair of relations of each path, as one number."""
    return _codes(triples[paths.first, 1], triples[paths.second, 1])


def _codes(first: Ids, second: Ids) -> Ids:
    codes: Ids = first * 2**31 + second
    return codes


def frequent_patterns(triples: Ids, n_entities: int, count: int = DROPPED) -> Ids:
    """The pairs of relations that most paths have: [count, 2], or fewer.

    Ties at the cut are decided by the relations' ids, so that the graph is reproducible.
    """
    found = _most_frequent(_patterns(triples, _paths(triples, n_entities)), count)
    return np.stack((found // 2**31, found % 2**31), 1)


def _most_frequent(patterns: Ids, count: int) -> Ids:
    codes, counts = np.unique(patterns, return_counts=True)
    return codes[np.lexsort((codes, -counts))[:count]]


def two_hop_pairs(
    triples: Ids, n_entities: int, dropped_patterns: int = DROPPED, growth: Growth | None = None
) -> tuple[Ids, Ids]:
    """Ends (h, t) of the directed paths h → x → t of one graph, with h ≠ t and not adjacent.

    A path's pattern is its pair of relations. Paths of the ``dropped_patterns`` most frequent
    patterns are left out as uninformative.
    """
    paths = _paths(triples, n_entities)
    if growth is None:
        dropped = _most_frequent(_patterns(triples, paths), dropped_patterns)
    else:
        dropped = _codes(*growth.dropped.T)
    kept = ~np.isin(_patterns(triples, paths), dropped)
    if growth is not None:
        through = growth.trained[triples[paths.first, 2]]
        kept &= ~(through & growth.later[paths.first] & growth.later[paths.second])
    return unique_pairs(paths.heads[kept], paths.tails[kept], n_entities)


def two_hop_neighbours(
    graphs: tuple[Ids, ...],
    n_entities: int,
    dropped_patterns: int = DROPPED,
    growth: Growth | None = None,
) -> Adjacency:
    """Both directions of the two-hop pairs of each graph, in one adjacency.

    The graphs share the entity ids ``0 … n_entities - 1``; the frequent patterns are each
    graph's own.
    """
    pairs = [two_hop_pairs(triples, n_entities, dropped_patterns, growth) for triples in graphs]
    heads = np.concatenate([pair[0] for pair in pairs])
    tails = np.concatenate([pair[1] for pair in pairs])
    rows, columns = unique_pairs(
        np.concatenate((heads, tails)), np.concatenate((tails, heads)), n_entities
    )
    return Adjacency.from_pairs(rows, columns, n_entities, n_entities)
