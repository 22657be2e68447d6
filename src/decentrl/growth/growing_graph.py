"""Growing graphs: triples and entities added to a trained model without training.

The state is the trained one and a list of additions; applying these one after the other gives the
same labels, triples, rows and vectors in every process. Rows of trained entities never change. A
new entity's row is computed when triples about it arrive, and again whenever an addition could
change it, so the order and the number of additions in which triples come do not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
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
from decentrl.graph.arrivals import Arrivals
from decentrl.graph.view import entities_of
from decentrl.growth.arriving import Arriving, read_arriving
from decentrl.growth.newcomers import Newcomers
from decentrl.storage.mapped import MappedRows


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
        self.make_room()
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
        grown, places = self.make_room(), torch.from_numpy(ids)
        vectors = rows[:, : grown.shape[1]]
        grown[places.to(grown.device)] = vectors.to(grown.device)
        if self._has_vector is not None:
            mask = F.pad(self._has_vector, (0, len(self.entities) - len(self._has_vector)))
            self._has_vector = mask.index_put((places,), vectors.any(1))
        self.rows |= dict(zip(ids.tolist(), rows, strict=True))

    def make_room(self) -> Tensor:
        """The growing matrix of all vectors, allocated with room for more entities."""
        n, before = len(self.entities), self.vectors if self._grown is None else self._grown
        if self._grown is None or len(before) < n:
            self._grown = before.new_zeros(n + n // 8 + 64, before.shape[1])
            self._grown[: len(before)] = before
        return self._grown
