"""What an answer about a match would settle: the doubt about matches beside it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from decentrl.data.vocabulary import Ids
from decentrl.growth.growing_graph import GrowingGraph

Floats = npt.NDArray[np.float64]

LEAST = 1e-3
"""Doubt below which a pair is left out: most candidates of an entity have next to none."""


def doubt_nearby(
    graphs: tuple[GrowingGraph, GrowingGraph], matches: Ids, pairs: Ids, doubt: Floats
) -> Floats:
    """The sum of the doubts about pairs whose ends are neighbours of both ends of a match.

    If the match is right, it is a reason for each of these pairs.

    Args:
        graphs: the left one and the right one.
        matches: int64[n, 2], left then right, each left entity once.
        pairs: int64[m, 2], left then right.
        doubt: about each pair.
    Returns:
        float64[n].
    """
    chosen = doubt >= LEAST
    pairs, doubt = pairs[chosen], doubt[chosen]
    (starts, near), (first, last) = _neighbours(graphs[0]), _edges(graphs[1])
    row = np.full(len(graphs[0].entities), -1)
    row[matches[:, 0]] = np.arange(len(matches))
    # Every match beside the left end of a pair; it counts if its right end is beside the right one.
    counts = starts[pairs[:, 0] + 1] - starts[pairs[:, 0]]
    pair = np.repeat(np.arange(len(pairs)), counts)
    place = np.arange(len(pair)) - np.repeat(np.cumsum(counts) - counts, counts)
    beside = row[near[starts[pairs[pair, 0]] + place]]
    pair, beside = pair[beside >= 0], beside[beside >= 0]
    size = len(graphs[1].entities)
    known, asked = first * size + last, pairs[pair, 1] * size + matches[beside, 1]
    found = np.append(known, -1)[np.searchsorted(known, asked)] == asked
    summed = np.bincount(beside[found], doubt[pair[found]], len(matches))
    return summed.astype(np.float64)


def _edges(graph: GrowingGraph) -> Ids:
    """Pairs of neighbours, int64[2, E], both ways, in lexicographic order."""
    triples = np.concatenate((graph.trained.triples, graph.arrivals.triples))
    size = len(graph.entities)
    heads, tails = triples[triples[:, 0] != triples[:, 2]][:, [0, 2]].T
    keys = np.unique(np.concatenate((heads * size + tails, tails * size + heads)))
    return np.stack((keys // max(1, size), keys % max(1, size)))


def _neighbours(graph: GrowingGraph) -> tuple[Ids, Ids]:
    """Where each entity's neighbours start, int64[n + 1], and these."""
    first, last = _edges(graph)
    return np.searchsorted(first, np.arange(len(graph.entities) + 1)), last
