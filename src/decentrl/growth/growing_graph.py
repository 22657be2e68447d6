"""Growing graphs: triples and entities added to a trained model without training.

The state is the trained one and a list of additions; applying these one after the other gives the
same labels, triples, rows and vectors in every process. Rows of trained entities never change. A
new entity's row is computed when triples about it arrive, and again whenever an addition could
change it, so the order and the number of additions in which triples come do not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from decentrl.data.knowledge_graph import KnowledgeGraph, row_keys
from decentrl.data.literals import Literals
from decentrl.data.memory import Source
from decentrl.data.names import Names
from decentrl.data.vocabulary import Ids, Vocabulary
from decentrl.errors import BundleError, DecentRLError, InputError
from decentrl.graph.arrivals import Arrivals, Neighbourhood
from decentrl.graph.view import entities_of
from decentrl.growth.arriving import Arriving, check_growth, read_arriving
from decentrl.growth.decided import Decided
from decentrl.growth.newcomers import VECTORS, Newcomers
from decentrl.growth.texts import text_rows
from decentrl.storage.addition import Addition, Growth
from decentrl.storage.additions import Store
from decentrl.storage.mapped import MappedRows
from decentrl.views.part import Part


def whole(rows: Tensor | MappedRows) -> Tensor:
    """All rows in memory."""
    return rows.all() if isinstance(rows, MappedRows) else rows


class GrowingGraph:
    """One graph: its state after training, or the last compaction, and everything added since.

    Args:
        trained: the training triples; its vocabularies may have more entities.
        arrived: triples int64[n, 3] that arrived since and are part of the state.
        vectors: vectors of all entities, [n, d].
        trained_memory: returns rows of all entities by name, see
            :mod:`decentrl.growth.newcomers`; they may have to be computed first.
        shift: a relation's id for the model minus its id in this graph.
    """

    def __init__(
        self,
        trained: KnowledgeGraph,
        arrived: Ids,
        vectors: Tensor | MappedRows,
        trained_memory: Callable[[], Mapping[str, MappedRows]],
        shift: int,
    ) -> None:
        self.trained, self.shift = trained, shift
        self._trained_vectors, self._trained_memory = vectors, trained_memory
        self.entities: Vocabulary = trained.entities.copy()
        seen = entities_of(trained.triples, len(trained.entities))
        self.arrivals = Arrivals(seen, trained.triples)
        self.arrivals.add(arrived)
        self._literals = [Literals(trained.names, trained.attributes)]
        self.rows: dict[int, Tensor] = {}
        self._grown: Tensor | None = None
        self._has_vector: Tensor | None = None

    # The state now

    @property
    def vectors(self) -> Tensor:
        """Vectors of all entities there are now, [n, d]."""
        if self._grown is not None:
            return self._grown[: len(self.entities)]
        return whole(self._trained_vectors)

    @property
    def width(self) -> int:
        """The width of a vector."""
        return int(self._trained_vectors.shape[1])

    def has_vector(self) -> Tensor:
        """Mask of the entities with a vector other than 0, bool[n] on the CPU.

        The same object until the graph changes.
        """
        if self._has_vector is None:
            blocks = torch.split(self.vectors, 2**16)
            self._has_vector = torch.cat([block.any(1).cpu() for block in blocks])
        return self._has_vector

    def take_vectors(self, ids: Ids) -> Tensor:
        """Vectors of some entities, [k, d]; no others are read."""
        vectors = self._trained_vectors if self._grown is None else self._grown
        if isinstance(vectors, MappedRows):
            return vectors.take(ids)
        return vectors[torch.from_numpy(ids).to(vectors.device)]

    @property
    def graph(self) -> KnowledgeGraph:
        """The training triples, with all entities there are now, their names and attributes."""
        known: dict[str, Any] = {
            "names": self.literals.names,
            "attributes": self.literals.attributes,
        }
        return replace(self.trained, entities=self.entities.copy(), **known)

    @property
    def names(self) -> Names:
        """The names of all entities there are now."""
        return self.literals.names

    @property
    def literals(self) -> Literals:
        """The names and attributes of all entities there are now."""
        if len(self._literals) > 1:
            self._literals = [Literals.merged(self._literals)]
        return self._literals[0]

    def literals_of(self, ids: Ids) -> Literals:
        """What is said of some entities; what is said of others is not gone through."""
        return Literals.merged([x.take(ids) for x in self._literals])

    def contains(self, triples: Ids) -> Any:
        """Whether each triple is in the training graph or was added, bool[n]."""
        sizes = self.trained.sizes
        inside = np.asarray((triples[:, [0, 2]] < sizes[0]).all(axis=1))
        keys = row_keys(np.where(inside[:, None], triples, 0), sizes)
        found = np.searchsorted(self._trained_keys, keys)
        trained = np.append(self._trained_keys, -1)[found] == keys
        arrived = [tuple(row) in self.arrivals for row in triples.tolist()]
        return (inside & trained) | np.array(arrived, bool)

    @cached_property
    def _trained_keys(self) -> Ids:
        """One number for each training triple, increasing."""
        return np.sort(row_keys(self.trained.triples, self.trained.sizes))

    def memory(self, model: Newcomers) -> dict[str, Tensor]:
        """Rows that new entities read, of all entities there are now, by name: [n, width]."""
        new = len(self.entities) - len(self.trained.entities)
        later = np.array(sorted(self.rows), np.int64)
        made, found = self._made_later(model, later), {}
        for name, rows in self._trained_memory().items():
            found[name] = F.pad(rows.all(), (0, 0, 0, new))
            found[name][torch.from_numpy(later)] = made[name]
        return found

    def take(self, model: Newcomers, name: str, ids: Ids) -> Tensor:
        """Rows of one memory of some entities, [k, width]."""
        later = np.array([i in self.rows for i in ids.tolist()], bool)
        out = torch.empty(len(ids), model.widths[name])
        out[torch.from_numpy(~later)] = self._trained_memory()[name].take(ids[~later])
        out[torch.from_numpy(later)] = self._made_later(model, ids[later])[name]
        return out

    def _made_later(self, model: Newcomers, ids: Ids) -> dict[str, Tensor]:
        """The parts of rows that were computed after training, [k, width] each, by name."""
        rows = [self.rows[i] for i in ids.tolist()]
        return model.split(torch.stack(rows) if rows else torch.zeros(0, model.width))

    def fork(self) -> GrowingGraph:
        """A copy that may grow apart from this one, as long as this one stays as it is.

        Both share the vectors there are; those that come are written behind them.
        """
        self._with_room()
        self.has_vector()
        _ = self._trained_keys, self.literals
        other = copy(self)
        other.entities, other.arrivals = self.entities.copy(), self.arrivals.fork()
        other._literals, other.rows = list(self._literals), dict(self.rows)
        return other

    # Additions

    def encode(self, triples: Source, strict: bool, names: Source | None = None) -> Arriving:
        """What an addition says, without the triples that are known already."""
        new = read_arriving(triples, names, self.entities, self.trained.relations, strict)
        known = self.contains(new.triples)
        fresh = new.triples[~known]
        return replace(new, triples=fresh, facts={"known": new.size - len(fresh)} | new.facts)

    def arrive(self, triples: Ids, labels: Sequence[str], literals: Literals) -> None:
        """Add triples, the labels of new entities, and names and attributes."""
        self.entities.append(labels)
        self.arrivals.add(triples)
        if literals:
            self._literals.append(literals)

    def put(self, ids: Ids, rows: Tensor) -> None:
        """Store new rows of some entities."""
        if not len(ids):
            return
        grown, places = self._with_room(), torch.from_numpy(ids)
        vectors = rows[:, : grown.shape[1]]
        grown[places.to(grown.device)] = vectors.to(grown.device)
        if self._has_vector is not None:
            mask = F.pad(self._has_vector, (0, len(self.entities) - len(self._has_vector)))
            self._has_vector = mask.index_put((places,), vectors.any(1))
        self.rows |= dict(zip(ids.tolist(), rows, strict=True))

    def _with_room(self) -> Tensor:
        """The growing matrix of all vectors, allocated with room for more entities."""
        n, before = len(self.entities), self.vectors if self._grown is None else self._grown
        if self._grown is None or len(before) < n:
            self._grown = before.new_zeros(n + n // 8 + 64, before.shape[1])
            self._grown[: len(before)] = before
        return self._grown


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
            if self.store is None:
                number = len(self.past) + len(self.additions) + 1
                addition = Addition.of(growth, number, source, facts)
            else:
                addition = self.store.add(growth, source, facts)
        except BaseException:
            self._rebuild()
            with suppress(DecentRLError):  # an interrupt may come after the addition was stored
                self.sync()
            raise
        graph.put(affected, made)
        self.additions.append((addition, growth))
        self.version += 1
        return addition

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
        side, rows = self.sides.get(growth.side), growth.rows.shape[1]
        if side is None or growth.first != len(side.entities):
            raise ValueError("it is of another graph")
        known = [x for _, x in self.additions if x.side == growth.side][:1]
        if rows < side.width or (known and known[0].rows.shape[1] != rows):
            raise ValueError("its rows are of another width")
        check_growth(growth, side.entities, len(side.trained.relations))

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
        graph = self.sides[growth.side]
        graph.arrive(growth.triples, growth.labels, growth.literals)
        graph.put(growth.ids, torch.from_numpy(growth.rows))

    def _rebuild(self) -> None:
        """Rebuild the state from the trained one and the remaining additions."""
        self.version += 1
        self.sides = self.learned.sides()
        for _, growth in self.additions:
            self._apply(growth)
