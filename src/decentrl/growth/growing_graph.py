"""Growing graphs: triples and entities added to a trained model without training.

The state is the trained one and a list of additions; applying these one after the other gives the
same labels, triples, rows and vectors in every process. Rows of trained entities never change. A
new entity's row is computed when triples about it arrive, and again whenever an addition could
change it, so the order and the number of additions in which triples come do not matter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import torch
from torch import Tensor

from decentrl.data.knowledge_graph import KnowledgeGraph, distinct_rows, row_keys
from decentrl.data.memory import Source
from decentrl.data.readers import read_columns
from decentrl.data.vocabulary import Ids, Vocabulary, did_you_mean
from decentrl.errors import DecentRLError, InputError, UnknownLabelError
from decentrl.graph.arrivals import Arrivals, Neighbourhood
from decentrl.graph.view import entities_of
from decentrl.growth.newcomers import VECTORS, Newcomers, Take
from decentrl.storage.additions import Addition, Growth, Store
from decentrl.storage.mapped import MappedRows
from decentrl.views.base import Attention

NewTriples = Source
"""Triples in labels: a file, rows, a data frame, an array."""


@dataclass(frozen=True, eq=False)
class Trained:
    """One graph as training, or the last compaction, has left it.

    Attributes:
        graph: the training triples; its vocabularies may have more entities.
        auxiliary: triples int64[n, 3] that arrived since and are part of the state.
        vectors: vectors of all entities, [n, d].
        memory: returns rows of all entities by name, see :mod:`decentrl.growth.newcomers`; they may
            have to be computed first.
        shift: a relation's id for the model minus its id in this graph.
    """

    graph: KnowledgeGraph
    auxiliary: Ids
    vectors: Tensor | MappedRows
    memory: Callable[[], Mapping[str, MappedRows]]
    shift: int = 0


class GrowingGraph:
    """One graph: its trained state and everything added since."""

    def __init__(self, trained: Trained) -> None:
        graph = trained.graph
        self.trained = trained
        self.entities: Vocabulary = graph.entities.copy()
        self.arrivals = Arrivals(entities_of(graph.triples, len(graph.entities)), graph.triples)
        self.arrivals.add(trained.auxiliary)
        self.rows: dict[int, Tensor] = {}
        self._grown: Tensor | None = None
        self._trained_has_vector: Tensor | None = None
        self._has_vector: Tensor | None = None
        self._known: Ids | None = None

    # The state now

    @property
    def vectors(self) -> Tensor:
        """Vectors of all entities there are now, [n, d]."""
        if self._grown is not None:
            return self._grown[: len(self.entities)]
        vectors = self.trained.vectors
        return vectors.all() if isinstance(vectors, MappedRows) else vectors

    def has_vector(self) -> Tensor:
        """Mask of the entities with a vector other than 0, bool[n] on the CPU.

        The same object until the graph changes.
        """
        if self._has_vector is not None:
            return self._has_vector
        if self._trained_has_vector is None:
            vectors = self.trained.vectors
            whole = vectors.all() if isinstance(vectors, MappedRows) else vectors
            blocks = range(0, len(whole), 2**16)
            found = [whole[i : i + 2**16].any(1).cpu() for i in blocks]
            self._trained_has_vector = torch.cat([torch.zeros(0, dtype=torch.bool), *found])
        later = torch.zeros(len(self.entities) - len(self._trained_has_vector), dtype=torch.bool)
        mask = torch.cat((self._trained_has_vector, later))
        width = self.trained.vectors.shape[1]
        for i, row in self.rows.items():
            mask[i] = bool(row[:width].any())
        self._has_vector = mask
        return mask

    def take_vectors(self, ids: Ids) -> Tensor:
        """Vectors of some entities, [k, d]; no others are read."""
        vectors = self.trained.vectors if self._grown is None else self._grown
        if isinstance(vectors, MappedRows):
            return vectors.take(ids)
        return vectors[torch.from_numpy(ids).to(vectors.device)]

    @property
    def graph(self) -> KnowledgeGraph:
        """The training triples, with the vocabulary of all entities there are now."""
        return replace(self.trained.graph, entities=self.entities.copy())

    def contains(self, triples: Ids) -> Any:
        """Whether each triple is in the training graph or was added, bool[n]."""
        relations = len(self.trained.graph.relations)
        sizes = (len(self.trained.graph.entities), relations, len(self.trained.graph.entities))
        if self._known is None:
            self._known = np.sort(row_keys(self.trained.graph.triples, sizes))
        inside = np.asarray((triples[:, [0, 2]] < sizes[0]).all(axis=1))
        keys = row_keys(np.where(inside[:, None], triples, 0), sizes)
        found = np.searchsorted(self._known, keys)
        trained = np.append(self._known, -1)[found] == keys
        arrived = [tuple(row) in self.arrivals for row in triples.tolist()]
        return (inside & trained) | np.array(arrived, bool)

    def memory(self, model: Newcomers) -> dict[str, Tensor]:
        """Rows that new entities read, of all entities there are now, by name: [n, width]."""
        before, n = len(self.trained.graph.entities), len(self.entities)
        later = np.array(sorted(self.rows), np.int64)
        made = model.split(self._stacked(later, model))
        found = {}
        for name, rows in self.trained.memory().items():
            found[name] = torch.zeros(n, model.widths[name])
            found[name][:before] = rows.all()
            found[name][torch.from_numpy(later)] = made[name]
        return found

    def _stacked(self, later: Ids, model: Newcomers) -> Tensor:
        """Rows of entities that were computed after training, [k, width]."""
        if not len(later):
            return torch.zeros(0, model.width)
        return torch.stack([self.rows[i] for i in later.tolist()])

    def take(self, model: Newcomers, name: str, ids: Ids) -> Tensor:
        """Rows of one memory of some entities, [k, width]."""
        memory = self.trained.memory()[name]
        later = np.array([i in self.rows for i in ids.tolist()], bool)
        out = torch.empty(len(ids), model.widths[name])
        if (~later).any():
            out[torch.from_numpy(~later)] = memory.take(ids[~later])
        if later.any():
            rows = self._stacked(ids[later], model)
            out[torch.from_numpy(later)] = model.split(rows)[name]
        return out

    # Additions

    def encode(self, triples: NewTriples, strict: bool) -> tuple[Ids, list[str], dict[str, Any]]:
        """New triples in ids, the labels of new entities, and counts of triples left out."""
        heads, names, tails = read_columns(triples)
        relations = self.trained.graph.relations.find_all(names)
        unknown = Counter(name for name, r in zip(names, relations, strict=True) if r < 0)
        if unknown and strict:
            name = next(iter(unknown))
            raise UnknownLabelError(
                f"the relation {name!r} is unknown: training has not seen it",
                remedy=did_you_mean(name, self.trained.graph.relations),
            )
        kept = np.flatnonzero(relations >= 0).tolist()
        ends = [label for i in kept for label in (heads[i], tails[i])]
        ids = self.entities.find_all(ends)
        new = sorted({label for label, i in zip(ends, ids.tolist(), strict=True) if i < 0})
        places = {label: len(self.entities) + i for i, label in enumerate(new)}
        ids = np.array(
            [places[label] if i < 0 else i for label, i in zip(ends, ids.tolist(), strict=True)],
            np.int64,
        ).reshape(-1, 2)
        rows = np.stack((ids[:, 0], relations[kept], ids[:, 1]), axis=1)
        n = len(self.entities) + len(new)
        rows = distinct_rows(rows, (n, len(self.trained.graph.relations), n))
        known = self.contains(rows)
        left_out = {
            "known": len(kept) - int((~known).sum()),
            "ignored": sum(unknown.values()),
            "ignored_relations": dict(unknown.most_common(5)),
        }
        return rows[~known], new, left_out

    def arrive(self, triples: Ids, labels: Sequence[str]) -> None:
        """Add triples and the labels of new entities."""
        self._has_vector = None
        self.entities.append(labels)
        self.arrivals.add(triples)

    def put(self, ids: Ids, rows: Tensor) -> None:
        """Store new rows of some entities."""
        self._has_vector = None
        if not len(ids):
            return
        width = self.trained.vectors.shape[1]
        grown = self._with_room()
        grown[torch.from_numpy(ids).to(grown.device)] = rows[:, :width].to(grown.device)
        self.rows |= dict(zip(ids.tolist(), rows, strict=True))

    def _with_room(self) -> Tensor:
        """The growing matrix of all vectors, allocated with room for more entities."""
        n, before = len(self.entities), self.vectors if self._grown is None else self._grown
        if self._grown is None or len(before) < n:
            self._grown = before.new_zeros(n + n // 8 + 64, before.shape[1])
            self._grown[: len(before)] = before
        return self._grown


@dataclass(eq=False)
class Growing:
    """The graphs of a run, one or two, and the additions to them.

    Args:
        trained: each graph's trained state, by its side's name.
        newcomers: builds the model that computes rows, when first needed.
        store: where additions are written; without one they are in memory only.
        past: additions that are part of the trained state, if there is no store to list them.
    """

    trained: Mapping[str, Trained]
    newcomers: Callable[[], Newcomers]
    store: Store | None = None
    past: list[Addition] = field(default_factory=list)
    sides: dict[str, GrowingGraph] = field(default_factory=dict)
    additions: list[tuple[Addition, Growth]] = field(default_factory=list)
    version: int = 0  # changes with every change
    _model: Newcomers | None = None

    def __post_init__(self) -> None:
        self.sides = {name: GrowingGraph(trained) for name, trained in self.trained.items()}
        self.sync()

    @property
    def model(self) -> Newcomers:
        """The model that computes rows, built at its first use."""
        if self._model is None:
            self._model = self.newcomers()
        return self._model

    @property
    def last(self) -> int:
        """The number of the last addition; 0 if there is none."""
        return self.additions[-1][0].number if self.additions else 0

    @property
    def changed(self) -> bool:
        """Whether anything was added to the trained state."""
        return bool(self.additions)

    def add(self, side: str, triples: NewTriples, source: str, strict: bool = False) -> Addition:
        """Add triples; if there is a store, the addition is on disk when this returns."""
        graph = self.sides[side]
        rows, labels, facts = graph.encode(triples, strict)
        first, fresh = len(graph.entities), graph.arrivals.first_seen(rows)
        try:
            graph.arrive(rows, labels)
            affected = graph.arrivals.affected(rows, self.model.reach)
            part = graph.arrivals.neighbourhood(affected, self.model.reads_two_hops)
            made = self.make(graph, part)
            facts |= self._report(graph, part, made)
            facts["recomputed"] = len(made) - len(fresh)
            growth = Growth(side, rows, labels, first, affected, made.numpy())
            if self.store is None:
                time = datetime.now(UTC).isoformat(timespec="milliseconds")
                number = len(self.past) + len(self.additions) + 1
                addition = Addition(
                    number, time, side, source, len(rows), len(labels), facts, False
                )
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

    def make(self, graph: GrowingGraph, part: Neighbourhood) -> Tensor:
        """Compute the rows of a neighbourhood's new entities, [k, width]."""
        if not part.new.any():
            return torch.zeros(0, self.model.width)
        return self.model.rows(*self._parts(graph, part))

    def attention(self, graph: GrowingGraph, part: Neighbourhood) -> list[Attention]:
        """The encoder's attention weights in computing the rows of :meth:`make`."""
        return self.model.attention(*self._parts(graph, part))

    def _parts(self, graph: GrowingGraph, part: Neighbourhood) -> tuple[Neighbourhood, Any, Take]:
        """Inputs of the model: neighbourhood in its ids, mask of trained entities, memories."""
        shift = graph.trained.shift
        shifted = replace(
            part,
            triples=part.triples + np.array([0, shift, 0]),
            dropped=None if part.dropped is None else part.dropped + shift,
        )
        trained = graph.arrivals.is_trained(part.entities)
        return shifted, trained, lambda name, ids: graph.take(self.model, name, ids)

    def _report(self, graph: GrowingGraph, part: Neighbourhood, made: Tensor) -> dict[str, Any]:
        """Counts that describe an addition."""
        without = part.made[:0]
        if len(made):
            without = part.made[(self.model.split(made)[VECTORS].abs().amax(1) == 0).numpy()]
        near = graph.arrivals.is_trained(part.entities)
        joined = np.zeros(len(near), bool)
        for a, b in ((0, 2), (2, 0)):
            joined[part.triples[near[part.triples[:, b]], a]] = True
        return {
            "made": len(made),
            "without_trained_neighbour": int((part.new & ~joined).sum()),
            "without_vector": len(without),
            "for_example": graph.entities.take(without[:5]),
        }

    def undo(self) -> Addition:
        """Remove the last addition."""
        if self.store is not None:
            addition = self.store.undo()
        elif self.additions:
            addition = self.additions[-1][0]
        else:
            raise InputError("there is no addition to take back", remedy="add something first")
        if self.additions and self.additions[-1][0].number == addition.number:
            self.additions.pop()
        self._rebuild()
        return addition

    def sync(self) -> int:
        """Apply the additions of other processes; returns their number."""
        if self.store is None:
            return 0
        fresh = self.store.since(self.last)
        for addition, growth in fresh:
            self._apply(growth)
            self.additions.append((addition, growth))
        return len(fresh)

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
        graph.arrive(growth.triples, growth.labels)
        graph.put(growth.ids, torch.from_numpy(growth.rows))

    def _rebuild(self) -> None:
        """Rebuild the state from the trained one and the remaining additions."""
        self.version += 1
        self.sides = {name: GrowingGraph(trained) for name, trained in self.trained.items()}
        for _, growth in self.additions:
            self._apply(growth)
