"""How alike the neighbourhoods of entities of two graphs are, by what their neighbours match.

The cosine of two entities' vectors sees neighbours as far as training carried them. Here they are
compared one by one: the neighbours of an entity of one graph have counterparts, by links or by
matches of their own, and another entity is like it if it has these counterparts as neighbours, in
relations that say the same. So what is known of the neighbours by name helps an entity without one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from decentrl.data.vocabulary import Ids
from decentrl.growth.growing_graph import GrowingGraph

UNSEEN = 0.05
"""The weight of a pair of relations that no links agree on."""
Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Edges:
    """The triples of a graph from both their ends, int64[2t] each, ordered by neighbour.

    Attributes:
        own: the entity on this end.
        relation: its directed relation: r where it is the head, r + all relations where the tail.
        neighbour: the entity on the other end.
    """

    own: Ids
    relation: Ids
    neighbour: Ids

    @classmethod
    def of(cls, graph: GrowingGraph) -> Edges:
        """Those of a graph as it is now."""
        triples = np.concatenate((graph.trained.triples, graph.arrivals.triples))
        head, relation, tail = triples.T
        inverse = relation + len(graph.trained.relations)
        own, other = np.concatenate((head, tail)), np.concatenate((tail, head))
        order = other.argsort(kind="stable")
        return cls(own[order], np.concatenate((relation, inverse))[order], other[order])


class Neighbourhoods:
    """Compares entities of a source graph, given by their triples, with those of a target graph.

    Two neighbourhoods are sets of neighbours, each weighted by its rarity, log(n / triples of its
    kind); their likeness is the cosine of these sets. A pair of relations counts by how often a
    triple between linked entities has the other relation between their counterparts.

    Args:
        pairs: int64[k, 2], entities of the source and of the target that are the same; which
            relations say the same is learned from triples between them.
    """

    def __init__(self, source: GrowingGraph, target: GrowingGraph, pairs: Ids) -> None:
        self._n, self._relations = len(target.entities), len(source.trained.relations)
        self._edges = edges = Edges.of(target)
        self._starts = np.searchsorted(edges.neighbour, np.arange(self._n + 1))
        # Triples of a neighbour in the same relation are of one kind.
        kinds = edges.relation * self._n + edges.neighbour
        _, kind, sizes = np.unique(kinds, return_inverse=True, return_counts=True)
        self._rarity = np.log(self._n / np.minimum(sizes, self._n))[kind]
        self._rarity_of = np.log(self._n / np.diff(self._starts).clip(1, self._n))
        squares = np.bincount(edges.own, self._rarity**2, minlength=self._n)
        self._lengths = np.sqrt(squares).clip(min=1e-9)
        self._agreeing = _agreeing(Edges.of(source), edges, pairs, self._n)
        self._n_directed = 2 * len(target.trained.relations)

    def compare(
        self,
        triples: Sequence[tuple[int, int, bool]],
        counterparts: Mapping[int, tuple[int, float]],
    ) -> Numbers:
        """How alike each entity of the target is, float64[n] from 0 to 1.

        Args:
            triples: of an entity of the source: relation, neighbour, whether it is the head.
            counterparts: of neighbours: the entity of the target, and how sure that is.
        """
        found, length = np.zeros(self._n), 0.0
        for relation, neighbour, head in triples:
            if neighbour not in counterparts:
                continue
            other, sure = counterparts[neighbour]
            near = slice(self._starts[other], self._starts[other + 1])
            agree = np.full(self._n_directed, UNSEEN)
            seen, share = self._agreeing.get(relation + (not head) * self._relations, ([], []))
            agree[seen] = np.maximum(share, UNSEEN)
            values = sure * self._rarity[near] ** 2 * agree[self._edges.relation[near]]
            owns, place = np.unique(self._edges.own[near], return_inverse=True)
            best = np.zeros(len(owns))  # once, in the relation that agrees best
            np.maximum.at(best, place, values)
            found[owns] += best
            length += (sure * self._rarity_of[other]) ** 2
        likeness: Numbers = (found / (self._lengths * max(length, 1e-18) ** 0.5)).clip(max=1.0)
        return likeness


def _agreeing(source: Edges, target: Edges, pairs: Ids, n: int) -> dict[int, tuple[Ids, Numbers]]:
    """Directed relations of the target that go with each of the source, and in which share of the
    triples between paired entities; n entities are in the target.
    """
    size = max(int(source.own.max(initial=-1)), int(pairs[:, 0].max(initial=-1))) + 1
    same = np.full(size, -1)
    same[pairs[:, 0]] = pairs[:, 1]
    own, other = same[source.own], same[source.neighbour]
    both = (own >= 0) & (other >= 0)
    sought, relations = (own * n + other)[both], source.relation[both]
    keys = target.own * n + target.neighbour
    order = keys.argsort(kind="stable")
    first, last = (np.searchsorted(keys[order], sought, side) for side in ("left", "right"))
    times = last - first
    within = np.arange(times.sum()) - np.repeat(times.cumsum() - times, times)
    matched = target.relation[order[np.repeat(first, times) + within]]
    together = np.stack((np.repeat(relations, times), matched), axis=1)
    rows, counts = np.unique(together, axis=0, return_counts=True)
    totals = dict(zip(*(x.tolist() for x in np.unique(relations, return_counts=True)), strict=True))
    found = {}
    for relation in np.unique(rows[:, 0]).tolist():
        mine = rows[:, 0] == relation
        # One more than were seen: a single triple is no proof.
        found[relation] = rows[mine, 1], counts[mine] / (totals[relation] + 1)
    return found
