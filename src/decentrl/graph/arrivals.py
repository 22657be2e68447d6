"""Triples added after training, indexed by the new entities in them; ids only."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from decentrl.graph.adjacency import Ids
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
        self._by_end: tuple[Ids, Ids] | None = None
        self._triples: list[tuple[int, int, int]] = []
        self._known: set[tuple[int, int, int]] = set()
        self._about: dict[int, list[int]] = {}

    def __len__(self) -> int:
        return len(self._triples)

    def __contains__(self, triple: tuple[int, int, int]) -> bool:
        return triple in self._known

    @property
    def triples(self) -> Ids:
        """Everything that arrived, in order: int64[n, 3]."""
        return np.array(self._triples, np.int64).reshape(-1, 3)

    def is_trained(self, entities: Ids) -> NDArray[np.bool_]:
        inside = entities < len(self._trained)
        return inside & self._trained[np.where(inside, entities, 0)] if len(entities) else inside

    def new_entities(self) -> Ids:
        """The new entities that something has arrived about, increasing."""
        return np.array(sorted(self._about), np.int64)

    def first_seen(self, triples: Ids) -> Ids:
        """The new entities in ``triples`` that nothing has arrived about so far, increasing."""
        ends = np.unique(triples[:, [0, 2]])
        new = ends[~self.is_trained(ends)]
        return new[[end not in self._about for end in new.tolist()]] if len(new) else new

    def about(self, entity: int) -> Ids:
        """All triples about one entity, of training and since: int64[m, 3]."""
        later = self._rows(set(self._about.get(entity, ())))
        if not len(later):  # of trained entities what arrived is not listed by entity
            later = np.array(
                [row for row in self._triples if entity in (row[0], row[2])], np.int64
            ).reshape(-1, 3)
        return np.concatenate((self._base_of(np.array([entity])), later))

    def add(self, triples: Ids) -> None:
        """Take in triples int64[n, 3]; known ones change nothing."""
        ends = np.unique(triples[:, [0, 2]])
        new = set(ends[~self.is_trained(ends)].tolist())
        for triple in map(tuple, triples.tolist()):
            if triple in self._known:
                continue
            place = len(self._triples)
            self._triples.append(triple)
            self._known.add(triple)
            for end in {triple[0], triple[2]} & new:
                self._about.setdefault(end, []).append(place)

    def affected(self, triples: Ids, hops: int) -> Ids:
        """New entities whose vectors depend on whether these triples are there, increasing.

        These are the new entities in ``triples`` and those at most ``hops`` steps away from one,
        all steps through new entities. Call it once the triples are added.
        """
        ends = np.unique(triples[:, [0, 2]])
        found = set(ends[~self.is_trained(ends)].tolist())
        edge = found
        for _ in range(hops):
            edge = {end for end in self._others(edge) if end in self._about} - found
            if not edge:
                break
            found |= edge
        return np.array(sorted(found), np.int64)

    def _others(self, entities: Iterable[int]) -> set[int]:
        ends: set[int] = set()
        for entity in entities:
            for place in self._about.get(entity, ()):
                head, _, tail = self._triples[place]
                ends.update((head, tail))
        return ends

    def neighbourhood(self, new: Ids, around: bool = False) -> Neighbourhood:
        """What the vectors of new entities are made of.

        Args:
            around: take the triples of their neighbours in too, for two-hop neighbours.
        """
        places = {place for entity in new.tolist() for place in self._about.get(entity, ())}
        triples = self.triples if len(places) == len(self) else self._rows(places)
        n_later = len(triples)
        if around:
            near = np.setdiff1d(triples[:, [0, 2]], new)
            later = {place for end in near.tolist() for place in self._about.get(end, ())}
            more = self._rows(later - places)
            n_later += len(more)
            triples = np.concatenate((triples, more, self._base_of(near)))
        entities = np.union1d(triples[:, [0, 2]], new)
        local = triples.copy()
        local[:, [0, 2]] = np.searchsorted(entities, triples[:, [0, 2]])
        return Neighbourhood(
            entities,
            local,
            np.isin(entities, new),
            np.arange(len(local)) < n_later,
            self.dropped if around else None,
        )

    @cached_property
    def dropped(self) -> Ids:
        """The patterns of paths that training has left out of two-hop neighbours: [k, 2]."""
        return frequent_patterns(self._base, len(self._trained))

    def _rows(self, places: set[int]) -> Ids:
        rows = [self._triples[place] for place in sorted(places)]
        return np.array(rows, np.int64).reshape(-1, 3)

    def _base_of(self, entities: Ids) -> Ids:
        """Training triples about some entities."""
        if self._by_end is None:
            ends = self._base[:, [0, 2]].T.reshape(-1)
            order = np.argsort(ends, kind="stable")
            self._by_end = ends[order], order % max(1, len(self._base))
        ends, rows = self._by_end
        first, last = np.searchsorted(ends, entities), np.searchsorted(ends, entities + 1)
        chosen = [rows[a:b] for a, b in zip(first, last, strict=True)]
        found: Ids = self._base[np.unique(np.concatenate([rows[:0], *chosen]))]
        return found
