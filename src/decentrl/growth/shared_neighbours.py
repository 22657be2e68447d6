"""Neighbours that two entities of an aligner's graphs have in common, by links and by matches."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from decentrl.data.vocabulary import Ids
from decentrl.growth.alignment_state import AlignmentState
from decentrl.growth.growing import Growing
from decentrl.growth.growing_graph import GrowingGraph
from decentrl.growth.pair_explanation import Relation
from decentrl.growth.potentials import Matching
from decentrl.matching.assignment import mutual_nearest
from decentrl.matching.matches import answer

MOST_MATCHED = 200
"""Neighbours without a link whose matches are looked for, those with the fewest triples first."""
Kind = Literal["known", "found"]
"""Of a link: it was given, or self-training found it."""
Because = Literal["known", "found", "match"]
Weights = Mapping[int, float]
"""The weight of each neighbour in an entity's vector, by its id; empty where that is not known."""


class Links:
    """Links by their left entities, and by their right ones.

    Args:
        pairs: int64[n, 2], left then right.
    """

    def __init__(self, pairs: Ids) -> None:
        self._by: dict[str, dict[int, set[int]]] = {"left": {}, "right": {}}
        for left, right in pairs.tolist():
            self._by["left"].setdefault(left, set()).add(right)
            self._by["right"].setdefault(right, set()).add(left)

    def of(self, entity: int, side: str = "left") -> Collection[int]:
        """What the links say an entity of a side is."""
        return self._by[side].get(entity, ())


@dataclass(frozen=True)
class Shared:
    """A neighbour of the left entity and one of the right entity, in ids, and why they pair."""

    left: int
    right: int
    because: Because
    confidence: float | None = None


def relations_by_neighbour(graph: GrowingGraph, entity: int) -> dict[int, list[Relation]]:
    """The relations between an entity and each of its neighbours."""
    found: dict[int, list[Relation]] = defaultdict(list)
    names = graph.trained.relations
    for head, relation, tail in sorted(map(tuple, graph.arrivals.about(entity).tolist())):
        if head != tail:
            role: Literal["head", "tail"] = "head" if head == entity else "tail"
            found[tail if head == entity else head].append(Relation(names[relation], role))
    return found


def shared_neighbours(
    growing: Growing,
    matching: Matching,
    links: Mapping[Kind, Links],
    near: tuple[Iterable[int], Iterable[int]],
    weights: tuple[Weights, Weights],
) -> list[Shared]:
    """Pairs of neighbours that are the same by a link, or each other's best match.

    Those with the most weight in both vectors come first (by the geometric mean), or where weights
    are not known, those with the fewest triples.

    Args:
        links: of each kind, the surest kind first.
        near: neighbours of the left entity, and of the right one.
        weights: of these.
    """
    left, right = (set(ends) for ends in near)
    found: dict[tuple[int, int], Shared] = {}
    for because, known in links.items():
        for a in sorted(left):
            for b in sorted(right.intersection(known.of(a))):
                found.setdefault((a, b), Shared(a, b, because))
    degrees = [_degrees(growing.sides[side]) for side in ("left", "right")]
    for one in _matched(growing, matching, left, right, degrees[0]):
        found.setdefault((one.left, one.right), one)

    def order(one: Shared) -> tuple[float, int, int]:
        if weights[0] and weights[1]:
            matters = weights[0].get(one.left, 0.0) * weights[1].get(one.right, 0.0)
        else:
            matters = 1 / max(1, int(degrees[0][one.left]) * int(degrees[1][one.right]))
        return -matters, one.left, one.right

    return sorted(found.values(), key=order)


def _degrees(graph: GrowingGraph) -> Ids:
    """How many triples each entity is in, those of later times too."""
    ends = np.concatenate((graph.trained.triples, graph.arrivals.triples))[:, [0, 2]]
    return np.bincount(ends.reshape(-1), minlength=len(graph.entities))


def _matched(
    growing: Growing, matching: Matching, left: set[int], right: set[int], degrees: Ids
) -> list[Shared]:
    """Unlinked neighbours that are each other's best match among all entities."""
    learned: AlignmentState = growing.learned
    free = matching.unlinked("left") & growing.sides["left"].has_vector()
    asked = np.array(sorted(a for a in left if free[a]), np.int64)
    asked = np.sort(asked[degrees[asked].argsort(kind="stable")[:MOST_MATCHED]])
    if not len(asked) or not right:
        return []
    matcher = learned.config.matching.matcher
    mine, theirs, *pairs = matching.pairs(
        "left", asked, matcher, "nearest", top=1, rivals=True, ann=False
    )
    if not len(theirs):
        return []
    taken = mutual_nearest(pairs[0]).cpu().numpy()
    sure = answer(*pairs, confidence=learned.confidence).confidence.tolist()
    found = []
    for a, row in zip(asked.tolist(), np.searchsorted(mine, asked).tolist(), strict=True):
        if taken[row] >= 0 and (b := int(theirs[taken[row]])) in right:
            found.append(Shared(a, b, "match", sure[row] if learned.confidence else None))
    return found
