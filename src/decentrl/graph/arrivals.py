"""Triples added after training, indexed by the new entities in them; ids only."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from decentrl.graph.adjacency import Adjacency, Ids
from decentrl.graph.hops import frequent_patterns


@dataclass(frozen=True, eq=False)
class Neighbourhood:
    """New entities to encode, with the triples and neighbours that their vectors depend on.

    Attributes:
        entities: ids of the graph, increasing int64[n]; their places are the local ids.
        triples: int64[m, 3], local entity ids, relations as in the graph.
        new: bool[n], the entities to be encoded; the states of the others are frozen.
        later: bool[m], the triples that came after training.
        dropped: the patterns of paths that training left out, [k, 2]; None without two-hop
            neighbours.
    """

    entities: Ids
    triples: Ids
    new: NDArray[np.bool_]
    later: NDArray[np.bool_]
    dropped: Ids | None = None

    @classmethod
    def of(cls, triples: Ids, new: Ids, n_later: int, dropped: Ids | None) -> Neighbourhood:
        """The part of a graph with these triples, of which the first ``n_later`` came later."""
        entities = np.union1d(triples[:, [0, 2]], new)
        local = triples.copy()
        local[:, [0, 2]] = np.searchsorted(entities, triples[:, [0, 2]])
        later = np.arange(len(local)) < n_later
        return cls(entities, local, np.isin(entities, new), later, dropped)

    @property
    def made(self) -> Ids:
        """The ids of the entities to be encoded, increasing."""
        return self.entities[self.new]


class Arrivals:
    """All triples of a graph that training has not seen.

    An entity is *new* if it is in no training triple. Vectors of the others never change, so
    what arrives has an effect on new entities only, and reaches further ones through new ones only.

    Args:
        trained: bool[n], the entities of training; ids from n on are new.
        base: the training triples int64[n, 3], read where neighbours' neighbours count.
    """

    def __init__(self, trained: NDArray[np.bool_], base: Ids) -> None:
        self._trained = trained
        self._base = base
        self._triples: list[tuple[int, int, int]] = []
        self._known: set[tuple[int, int, int]] = set()
        self._about: dict[int, list[int]] = {}  # of each new entity, places in the list

    def __len__(self) -> int:
        return len(self._triples)

    def __contains__(self, triple: tuple[int, int, int]) -> bool:
        return triple in self._known

    def fork(self) -> Arrivals:
        """A copy to which more may be added."""
        _ = self._by_end  # made once, for all copies
        other = copy(self)
        other._triples, other._known = list(self._triples), set(self._known)
        other._about = {entity: list(places) for entity, places in self._about.items()}
        return other

    @property
    def triples(self) -> Ids:
        """Everything that arrived, in order: int64[n, 3]."""
        return self._rows(range(len(self)))

    def is_trained(self, entities: Ids) -> NDArray[np.bool_]:
        inside = entities < len(self._trained)
        inside[inside] = self._trained[entities[inside]]
        return inside

    def new_entities(self) -> Ids:
        """The new entities that something has arrived about, increasing."""
        return np.array(sorted(self._about), np.int64)

    def arrived(self, entities: Ids) -> Ids:
        """Those of the entities that are new and that something has arrived about, increasing."""
        return np.array([i for i in np.unique(entities).tolist() if i in self._about], np.int64)

    def first_seen(self, triples: Ids) -> Ids:
        """The new entities in ``triples`` that nothing has arrived about so far, increasing."""
        return np.array([end for end in self._new(triples) if end not in self._about], np.int64)

    def about(self, entity: int) -> Ids:
        """All triples about one entity, of training and since: int64[m, 3]."""
        later = self._about.get(entity)
        if later is None:  # of trained entities what arrived is not listed by entity
            later = [i for i, row in enumerate(self._triples) if entity in (row[0], row[2])]
        return np.concatenate((self._base_of(np.array([entity])), self._rows(later)))

    def add(self, triples: Ids) -> None:
        """Take in triples int64[n, 3]; known ones change nothing."""
        new = set(self._new(triples))
        for triple in map(tuple, triples.tolist()):
            if triple in self._known:
                continue
            for end in {triple[0], triple[2]} & new:
                self._about.setdefault(end, []).append(len(self))
            self._triples.append(triple)
            self._known.add(triple)

    def affected(self, triples: Ids, hops: int) -> Ids:
        """New entities whose vectors depend on whether these triples are there, increasing.

        These are the new entities in ``triples`` and those at most ``hops`` steps away from one,
        all steps through new entities. Call it once the triples are added.
        """
        found = edge = set(self._new(triples))
        for _ in range(hops):
            ends = {end for place in self._places(edge) for end in self._triples[place][::2]}
            edge = (ends & self._about.keys()) - found
            found = found | edge
        return np.array(sorted(found), np.int64)

    def neighbourhood(self, new: Ids, around: bool = False) -> Neighbourhood:
        """What the vectors of new entities are made of.

        Args:
            around: take the triples of their neighbours in too, for two-hop neighbours.
        """
        places = self._places(new.tolist())
        triples = self._rows(sorted(places))
        n_later = len(triples)
        if around:
            near = np.setdiff1d(triples[:, [0, 2]], new)
            more = self._rows(sorted(self._places(near.tolist()) - places))
            n_later += len(more)
            triples = np.concatenate((triples, more, self._base_of(near)))
        return Neighbourhood.of(triples, new, n_later, self.dropped if around else None)

    @cached_property
    def dropped(self) -> Ids:
        """The patterns of paths that training has left out of two-hop neighbours: [k, 2]."""
        return frequent_patterns(self._base, len(self._trained))

    def _new(self, triples: Ids) -> list[int]:
        """The new entities in some triples, increasing."""
        ends = np.unique(triples[:, [0, 2]])
        found: list[int] = ends[~self.is_trained(ends)].tolist()
        return found

    def _places(self, entities: Iterable[int]) -> set[int]:
        """Where in the list the triples about these entities are; none for trained ones."""
        return {place for entity in entities for place in self._about.get(entity, ())}

    def _rows(self, places: Iterable[int]) -> Ids:
        return np.array([self._triples[place] for place in places], np.int64).reshape(-1, 3)

    @cached_property
    def _by_end(self) -> Adjacency:
        """Entity ← its training triples."""
        ends, n = self._base[:, [0, 2]].T.reshape(-1), len(self._base)
        return Adjacency.from_pairs(ends, np.tile(np.arange(n), 2), len(self._trained), n)

    def _base_of(self, entities: Ids) -> Ids:
        """Training triples about some entities."""
        inside = torch.from_numpy(entities[entities < len(self._trained)])
        rows = self._by_end.take_rows(inside)[0].columns
        found: Ids = self._base[np.unique(rows.numpy())]
        return found
