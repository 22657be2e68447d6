"""Which attributes of two graphs mean the same: those on which linked entities agree."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from decentrl.graph.adjacency import Ids
from decentrl.graph.texts import MIXER, ValueRows

Floats = npt.NDArray[np.float64]
LEAST_AGREEMENT = 0.1
"""How far two attributes must agree on linked entities, beyond chance, to mean the same."""
LEAST_EVIDENCE = 2.0
"""How many standard deviations of chance that must be."""
MOST_LINKS = 8192
"""Links that attributes are compared on, at most."""


def paired_attributes(left: ValueRows, right: ValueRows, links: Ids) -> tuple[Ids, Floats]:
    """The attributes of two graphs that mean the same: those on which linked entities agree.

    Two entities agree on a pair of attributes as far as their forms overlap (the cosine of the two
    sets). Chance is how far the entities of different links agree. A pair counts if each is the
    other's best, by the agreement beyond chance.

    Returns:
        hashes of attributes, int64[p, 2], and the agreement of each pair, above 0 and at most 1: 0
        would be chance, 1 that all linked entities have equal values.
    """
    rng = np.random.default_rng(0)
    links = links[rng.permutation(len(links))[:MOST_LINKS]]
    lefts = _indexed(left.take(links[:, 0]))
    rights = _indexed(right.take(links[:, 1]))
    others = _indexed(right.take(np.roll(links[:, 1], 1)))
    size = len(rights[3])
    pairs, agreed = _agreements(lefts, rights)
    chance = np.zeros(len(pairs))
    if len(pairs):
        found, sums = _agreements(lefts, others)
        known = np.isin(found, pairs)
        chance[np.searchsorted(pairs, found[known])] = sums[known]
    gain = agreed - chance
    sure = gain > LEAST_EVIDENCE * np.sqrt(agreed + chance)
    pairs, gain, chance = pairs[sure], gain[sure], chance[sure]
    firsts, seconds = pairs // max(1, size), pairs % max(1, size)
    best = _is_best(firsts, gain) & _is_best(seconds, gain)
    kept: list[tuple[int, int]] = []
    agreement: list[float] = []
    for place in np.flatnonzero(best):
        a, b = firsts[place], seconds[place]
        both = np.intersect1d(lefts[0][lefts[1] == a], rights[0][rights[1] == b])
        value = gain[place] / max(len(both) - chance[place], 1e-9)
        if value >= LEAST_AGREEMENT:
            kept.append((int(lefts[3][a]), int(rights[3][b])))
            agreement.append(min(1.0, float(value)))
    return np.array(kept, np.int64).reshape(-1, 2), np.array(agreement)


Items = tuple[Ids, Ids, Ids, Ids]


def _indexed(rows: ValueRows) -> Items:
    """Owner, attribute and form of each; attributes as places in the list of all, the last."""
    distinct, places = np.unique(rows.attributes, return_inverse=True)
    return rows.owners, places.reshape(-1), rows.forms, distinct


def _agreements(left: Items, right: Items) -> tuple[Ids, Floats]:
    """Pairs of attributes (left place · number of right ones + right place), and their overlap.

    The overlap is summed up over all owners.
    """
    size = max(1, len(right[3]))
    sets = [_set_sizes(*side[:2]) for side in (left, right)]
    keys = [side[2].astype(np.uint64) + side[0].astype(np.uint64) * MIXER for side in (left, right)]
    order = np.argsort(keys[0], kind="stable")
    ordered = keys[0][order]
    first, last = (np.searchsorted(ordered, keys[1], side) for side in ("left", "right"))
    times = last - first
    j = np.repeat(np.arange(len(keys[1])), times)
    i = order[np.arange(len(j)) + np.repeat(first - np.cumsum(times) + times, times)]
    overlap = 1 / np.sqrt(sets[0][i] * sets[1][j])
    pairs, places = np.unique(left[1][i] * size + right[1][j], return_inverse=True)
    sums = np.bincount(places.reshape(-1), overlap, len(pairs)).astype(np.float64)
    return pairs, sums


def _set_sizes(owners: Ids, attributes: Ids) -> Floats:
    """For each item, how many its owner has of the same attribute."""
    keys = owners * (attributes.max(initial=0) + 1) + attributes
    _, places, sizes = np.unique(keys, return_inverse=True, return_counts=True)
    return sizes[places.reshape(-1)].astype(np.float64)


def _is_best(groups: Ids, values: Floats) -> npt.NDArray[np.bool_]:
    """Whether each is the first of the largest in its group."""
    order = np.lexsort((-values, groups))
    found = np.zeros(len(groups), bool)
    found[order[np.unique(groups[order], return_index=True)[1]]] = True
    return found
