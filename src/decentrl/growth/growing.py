"""The graphs of a model as they have grown, and the list of additions to them.

The state is the trained one and that list; applying additions one after the other gives the same
labels, triples, rows, vectors and links in every process.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from copy import copy
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from decentrl.data.alignment_task import NO_LINKS
from decentrl.data.memory import Source
from decentrl.data.vocabulary import Ids
from decentrl.errors import BundleError, DecentRLError, InputError
from decentrl.graph.arrivals import Neighbourhood
from decentrl.growth.arriving import check_growth
from decentrl.growth.decided import Decided
from decentrl.growth.growing_graph import GrowingGraph
from decentrl.growth.newcomers import VECTORS, Newcomers
from decentrl.growth.texts import text_rows
from decentrl.storage.addition import Addition, Growth
from decentrl.storage.additions import Store
from decentrl.views.part import Part


class Growing:
    """The graphs of a model, one or two, and the additions to them.

    Additions are appended, and all is made again from the others when one is undone or fails.

    Args:
        learned: what training, or the last compaction, has left
            (:class:`~decentrl.growth.learned.Learned`).
        store: where additions are written; without one they are in memory only.
        past: additions that are part of the trained state, if there is no store to list them.
        place: the run that it was loaded from.
        durable: whether additions are kept there.
        decided: decisions about matches; those in the store are read.

    Attributes:
        links: links of two graphs that were added, int64[k, 2], left then right.
        version: changes with every change.
    """

    def __init__(
        self,
        learned: Any,
        store: Store | None = None,
        past: Sequence[Addition] = (),
        place: Path | None = None,
        durable: bool = False,
        decided: Decided | None = None,
    ) -> None:
        self.learned, self.store, self.past = learned, store, past
        self.place, self.durable, self.decided = place, durable, decided or Decided()
        self.sides: dict[str, GrowingGraph] = learned.sides()
        self.additions: list[tuple[Addition, Growth]] = []
        self.links: Ids = NO_LINKS
        self.version = 0
        self.sync()

    @cached_property
    def model(self) -> Newcomers:
        """The model that computes rows, built at its first use."""
        model: Newcomers = self.learned.newcomers()
        return model

    @property
    def growths(self) -> list[Growth]:
        """What was added to the trained state, the oldest first."""
        return [growth for _, growth in self.additions]

    @property
    def last(self) -> int:
        """The number of the last addition; 0 if there is none."""
        return self.additions[-1][0].number if self.additions else 0

    def add(
        self,
        side: str,
        triples: Source,
        source: str,
        strict: bool = False,
        names: Source | None = None,
    ) -> Addition:
        """Add triples; if there is a store, the addition is on disk when this returns."""
        graph = self.sides[side]
        new = graph.encode(triples, strict, names)
        first, fresh = len(graph.entities), graph.arrivals.first_seen(new.triples)
        try:
            graph.arrive(new.triples, new.labels, new.literals)
            affected = graph.arrivals.affected(new.triples, self.model.reach)
            # What is said of entities later counts as if it had come with them.
            affected = np.union1d(affected, graph.arrivals.arrived(new.literals.entities))
            hood = graph.arrivals.neighbourhood(affected, self.model.reads_two_hops)
            made = self.model.rows(self.part(graph, hood))
            facts = new.facts | self._report(graph, hood, made)
            facts["recomputed"] = len(made) - len(fresh)
            growth = Growth(
                side, new.triples, new.labels, first, affected, made.numpy(), new.literals
            )
            addition = self._write(growth, source, facts)
        except BaseException:
            self._rebuild()
            with suppress(DecentRLError):  # an interrupt may come after the addition was stored
                self.sync()
            raise
        graph.put(affected, made)
        self.additions.append((addition, growth))
        self.version += 1
        return addition

    def add_links(self, links: Ids, source: str, facts: dict[str, Any]) -> Addition:
        """Add known links, int64[k, 2]; if there is a store, they are on disk when this returns."""
        growth = Growth.of_links(links)
        try:
            addition = self._write(growth, source, facts)
        except BaseException:
            with suppress(DecentRLError):  # as in :meth:`add`
                self.sync()
            raise
        self._apply(growth)
        self.additions.append((addition, growth))
        return addition

    def _write(self, growth: Growth, source: str, facts: dict[str, Any]) -> Addition:
        """The line of an addition, which is on disk if there is a store."""
        if self.store is not None:
            return self.store.add(growth, source, facts)
        number = len(self.past) + len(self.additions) + 1
        return Addition.of(growth, number, source, facts)

    def part(self, graph: GrowingGraph, hood: Neighbourhood) -> Part:
        """A neighbourhood with what is known of its entities, for :attr:`model`."""
        model, shift, known = self.model, graph.shift, ~hood.new

        def read(name: str) -> Tensor:
            rows = torch.zeros(len(hood.entities), model.widths[name])
            if known.any():
                rows[torch.from_numpy(known)] = graph.take(model, name, hood.entities[known])
            return rows.to(model.device)

        shifted = replace(
            hood,
            triples=hood.triples + np.array([0, shift, 0]),
            dropped=None if hood.dropped is None else hood.dropped + shift,
        )
        trained = graph.arrivals.is_trained(hood.entities)
        side = next(name for name, other in self.sides.items() if other is graph)
        texts = None
        if model.reads_names:  # of the new ones only: all other rows stay as they are
            said = graph.literals_of(hood.entities[hood.new]).placed(hood.entities)
            texts = text_rows(said.names, said.attributes, len(hood.entities))
        return Part(
            shifted, trained, model.seen_relations, read, model.shared, model.device, texts, side
        )

    def _report(self, graph: GrowingGraph, hood: Neighbourhood, made: Tensor) -> dict[str, Any]:
        """Counts that describe an addition."""
        vectors = self.model.split(made)[VECTORS]
        if not vectors.shape[1]:  # what has no vector lacks none
            hood = replace(hood, new=np.zeros_like(hood.new))
            vectors = vectors[:0]
        without = hood.made[~vectors.any(1).numpy()]
        near = graph.arrivals.is_trained(hood.entities)
        joined = np.zeros(len(near), bool)
        for a, b in ((0, 2), (2, 0)):
            joined[hood.triples[near[hood.triples[:, b]], a]] = True
        return {
            "made": len(made),
            "without_trained_neighbour": int((hood.new & ~joined).sum()),
            "without_vector": len(without),
            "for_example": graph.entities.take(without[:5]),
        }

    def fork(self) -> Growing:
        """A copy in memory that may grow apart from this one, as long as this one stays."""
        for graph in self.sides.values() if self.model.reads_two_hops else ():
            _ = graph.arrivals.dropped  # made once, for all copies
        other = copy(self)
        other.store, other.durable, other.additions = None, False, list(self.additions)
        other.sides = {side: graph.fork() for side, graph in self.sides.items()}
        other.decided = Decided(self.decided.log)
        return other

    def undo(self) -> Addition:
        """Remove the last addition."""
        if self.store is not None:
            addition = self.store.undo()
        elif self.additions:
            addition = self.additions[-1][0]
        else:
            raise InputError("there is no addition to take back", remedy="add something first")
        if self.last == addition.number:
            self.additions.pop()
        self._rebuild()
        return addition

    def sync(self) -> int:
        """Apply the additions and decisions of other processes; returns the number of additions."""
        if self.store is None:
            return 0
        if self.decided.sync(self.store):
            self.version += 1
        fresh = self.store.since(self.last)
        for addition, growth in fresh:
            try:
                self._check(growth)
                self._apply(growth)
            except ValueError as error:
                raise BundleError(
                    f"{self.store.file}: damaged (addition {addition.number}: {error}); "
                    "copy the run again"
                ) from error
            self.additions.append((addition, growth))
        return len(fresh)

    def read_again(self) -> None:
        """Apply all additions in the store anew, after one was taken back by another process."""
        self.additions = []
        self._rebuild()
        self.sync()

    def _check(self, growth: Growth) -> None:
        """That an addition which was read goes with the graphs as they are."""
        if self._is_links(growth):
            if (growth.links >= [len(side.entities) for side in self.sides.values()]).any():
                raise ValueError("a link of other entities")
            return
        side, rows = self.sides.get(growth.side), growth.rows.shape[1]
        if side is None or growth.first != len(side.entities):
            raise ValueError("it is of another graph")
        known = [x for _, x in self.additions if x.side == growth.side][:1]
        if rows < side.width or (known and known[0].rows.shape[1] != rows):
            raise ValueError("its rows are of another width")
        check_growth(growth, side.entities, len(side.trained.relations))

    def _is_links(self, growth: Growth) -> bool:
        """Whether an addition is of links: of two graphs one of triples names its side."""
        return not growth.side and len(self.sides) == 2

    def leave_store(self) -> None:
        """Close the store: later additions are in this process alone."""
        if self.store is not None:
            self.past = [a for a in self.store.log() if a.folded]
            self.store.close()
            self.store = None

    def log(self) -> list[Addition]:
        """All additions, including those already folded into the bundle."""
        if self.store is not None:
            return self.store.log()
        return [*self.past, *(addition for addition, _ in self.additions)]

    def _apply(self, growth: Growth) -> None:
        self.version += 1
        if self._is_links(growth):
            self.links = np.concatenate((self.links, growth.links))
            return
        graph = self.sides[growth.side]
        graph.arrive(growth.triples, growth.labels, growth.literals)
        graph.put(growth.ids, torch.from_numpy(growth.rows))

    def _rebuild(self) -> None:
        """Rebuild the state from the trained one and the remaining additions."""
        self.version += 1
        self.sides, self.links = self.learned.sides(), NO_LINKS
        for _, growth in self.additions:
            self._apply(growth)
