"""Two-hop neighbours, as the paper's alignment encoder uses them in every other layer."""

from __future__ import annotations

import numpy as np

from decentrl.graph.adjacency import Adjacency, Ids, unique_pairs


def two_hop_pairs(triples: Ids, n_entities: int, dropped_patterns: int = 5) -> tuple[Ids, Ids]:
    """Ends (h, t) of the directed paths h → x → t of one graph, with h ≠ t and not adjacent.

    A path's pattern is its pair of relations. Paths of the ``dropped_patterns`` most frequent
    patterns are left out: they join everything to everything ("same country as") and say little.
    """
    incoming = triples[np.argsort(triples[:, 2], kind="stable")]
    outgoing = triples[np.argsort(triples[:, 0], kind="stable")]
    starts = np.searchsorted(outgoing[:, 0], np.arange(n_entities + 1))
    fan_out = starts[incoming[:, 2] + 1] - starts[incoming[:, 2]]

    first = np.repeat(np.arange(len(incoming)), fan_out)
    within = np.arange(len(first)) - np.repeat(np.cumsum(fan_out) - fan_out, fan_out)
    second = starts[incoming[first, 2]] + within
    heads, tails = incoming[first, 0], outgoing[second, 2]

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
    heads, tails = heads[kept], tails[kept]

    n_relations = int(triples[:, 1].max(initial=0)) + 1
    patterns = incoming[first[kept], 1] * n_relations + outgoing[second[kept], 1]
    codes, inverse, counts = np.unique(patterns, return_inverse=True, return_counts=True)
    # Ties at the cut are decided by the pattern's code, so that the graph is reproducible.
    frequent = np.lexsort((codes, -counts))[:dropped_patterns]
    informative = ~np.isin(inverse, frequent)
    return unique_pairs(heads[informative], tails[informative], n_entities)


def two_hop_neighbours(
    graphs: tuple[Ids, ...], n_entities: int, dropped_patterns: int = 5
) -> Adjacency:
    """Both directions of the two-hop pairs of each graph, in one adjacency.

    The graphs share the entity ids ``0 … n_entities - 1``; the frequent patterns are each
    graph's own.
    """
    pairs = [two_hop_pairs(triples, n_entities, dropped_patterns) for triples in graphs]
    heads = np.concatenate([pair[0] for pair in pairs])
    tails = np.concatenate([pair[1] for pair in pairs])
    rows, columns = unique_pairs(
        np.concatenate((heads, tails)), np.concatenate((tails, heads)), n_entities
    )
    return Adjacency.from_pairs(rows, columns, n_entities, n_entities)
