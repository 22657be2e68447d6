"""What an aligner has learned, as one object that never changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from decentrl.config import Config, must_grow
from decentrl.data.alignment_task import AlignmentTask
from decentrl.data.knowledge_graph import row_keys
from decentrl.data.vocabulary import Ids
from decentrl.errors import ConfigError
from decentrl.graph.merged import MergedGraph
from decentrl.graph.view import relations_of
from decentrl.growth.growing_graph import Growing, Trained
from decentrl.growth.newcomers import AlignmentNewcomers
from decentrl.matching.confidence import Confidence
from decentrl.nn.device import cuda_devices
from decentrl.storage.bundle import Bundle
from decentrl.storage.card import alignment_card, quality_of
from decentrl.storage.mapped import MappedRows, mapped_rows
from decentrl.training.fitting import NO_LINKS, Fitted, Pass, TrainingContext
from decentrl.views.base import INPUTS
from decentrl.views.propagation import LINKS
from decentrl.views.registry import view_type

Side = Literal["left", "right"]
SIDES: tuple[Side, Side] = ("left", "right")
Memory = Mapping[str, Mapping[str, MappedRows]]
"""What newcomers read of each entity: rows by side and name."""
_NO_TRIPLES = np.empty((0, 3), np.int64)


@dataclass(frozen=True, eq=False)
class AlignmentState:
    """Two graphs, the vectors of their entities, and what new entities need to have theirs.

    Attributes:
        task: the graphs and links it was trained on, with what was compacted since.
        weights: of the encoder.
        vectors: of all entities of a side, [n, d].
        found: links that self-training has found, int64[n, 2].
        sureness: how sure entities are of having a counterpart, by side; empty where vectors do
            not hold it.
        potentials: solutions of matching problems, as :class:`PotentialCache` stores them.
        quality: what its card says of its results.
        stored: memories that a bundle holds; empty if they have to be made.
    """

    config: Config
    device: torch.device
    task: AlignmentTask
    weights: Mapping[str, Tensor]
    vectors: Mapping[str, Tensor | MappedRows]
    confidence: Confidence | None = None
    found: Ids = field(default_factory=NO_LINKS.copy)
    sureness: Mapping[str, Tensor] = field(default_factory=dict)
    potentials: Mapping[str, Tensor] = field(default_factory=dict)
    quality: str = ""
    stored: Mapping[str, Tensor] = field(default_factory=dict)

    kind = "aligner"
    unit_vectors = True

    # Between training, files and this object

    @classmethod
    def from_fitted(
        cls, config: Config, device: torch.device, task: AlignmentTask, fitted: Fitted
    ) -> AlignmentState:
        """What a training has left."""
        n_left = len(task.left.entities)
        sureness = fitted.sureness
        return cls(
            config,
            device,
            task,
            fitted.weights,
            by_side(fitted.vectors, n_left),
            fitted.confidence,
            fitted.found - np.array([0, n_left]),
            {} if sureness is None else by_side(sureness.cpu(), n_left),
        )

    @classmethod
    def from_bundle(
        cls, bundle: Bundle[Config, AlignmentTask], device: torch.device
    ) -> AlignmentState:
        """What a bundle holds; vectors and memories stay in its files until they are read."""
        matching = dict(bundle.matching)
        found = matching.pop("found").numpy() if "found" in matching else NO_LINKS.copy()
        sureness: Mapping[str, Tensor] = {
            s: matching.pop(f"sure.{s}") for s in SIDES if f"sure.{s}" in matching
        }
        vectors: Mapping[str, Tensor | MappedRows] = mapped_rows(bundle.vectors)
        if device.type != "cpu":
            vectors = {side: rows.to(device) for side, rows in bundle.vectors.items()}
        return cls(
            bundle.config,
            device,
            bundle.task,
            bundle.weights,
            vectors,
            Confidence.from_tensors(matching) if "weights" in matching else None,
            found,
            sureness,
            {k: v for k, v in matching.items() if k.startswith("potential.")},
            quality_of(bundle.card),
            bundle.memory,
        )

    def to_bundle(self, results: Sequence[dict[str, object]] = ()) -> Bundle[Config, AlignmentTask]:
        """Everything there is, to be written."""
        matching = {"found": torch.from_numpy(self.found)}
        matching |= {f"sure.{side}": rows for side, rows in self.sureness.items()}
        if self.confidence is not None:
            matching |= self.confidence.to_tensors()
        memory: dict[str, Tensor] = {}
        if self.config.model.inductive:
            for side, parts in self.memory.items():
                memory |= {f"{side}.{name}": rows.all() for name, rows in parts.items()}
            memory |= self.shared
        return Bundle(
            self.config,
            self.task,
            self.weights,
            {side: whole(rows) for side, rows in self.vectors.items()},
            alignment_card(self.task, self.config, results, self.quality),
            matching | dict(self.potentials),
            memory,
        )

    # What newcomers need

    @cached_property
    def _memories(self) -> Mapping[str, Tensor]:
        """All memories by name, as a bundle holds them; made now if it holds none."""
        if self.stored:
            return self.stored
        rows = self._pass(self.task, self.weights).memory("now")
        found = {name: tensor.cpu() for name, tensor in rows.shared.items()}
        for name, tensor in rows.memory.items():
            sides = by_side(tensor.cpu(), len(self.task.left.entities))
            found |= {f"{side}.{name}": sides[side] for side in SIDES}
        return found

    @cached_property
    def memory(self) -> Memory:
        """What newcomers read of each entity, by side and name."""
        found: dict[str, dict[str, MappedRows]] = {side: {} for side in SIDES}
        for name, rows in mapped_rows(self._memories).items():
            side, dot, part = name.partition(".")
            if dot:
                found[side][part] = rows
        return found

    @cached_property
    def shared(self) -> dict[str, Tensor]:
        """What newcomers read that does not belong to one entity, by name."""
        found = {name: x for name, x in self._memories.items() if "." not in name}
        # Bundles of earlier versions do not hold the number of links.
        found.setdefault(LINKS, torch.tensor([len(self._learned_links()) + len(self.found)]))
        return found

    def sides(self) -> dict[str, Trained]:
        """Both graphs as they were trained, by the side's name."""
        task = self.task
        later = task.auxiliary or (_NO_TRIPLES, _NO_TRIPLES)
        shift = {"left": 0, "right": len(task.left.relations)}
        return {
            side: Trained(
                graph, arrived, self.vectors[side], partial(self._memory_of, side), shift[side]
            )
            for side, graph, arrived in zip(SIDES, (task.left, task.right), later, strict=True)
        }

    def _memory_of(self, side: str) -> Mapping[str, MappedRows]:
        return self.memory[side]

    def newcomers(self) -> AlignmentNewcomers:
        """What makes rows of new entities."""
        must_grow(self.config)
        graphs = (self.task.left, self.task.right)
        relations = [relations_of(graph.triples, len(graph.relations)) for graph in graphs]
        with torch.random.fork_rng(devices=cuda_devices(self.device)):
            return AlignmentNewcomers(
                self.config,
                self.weights,
                self.shared,
                np.concatenate(relations),
                self.device,
                bool(self.sureness),
            )

    # With all that was added

    def grown_task(self, growing: Growing) -> AlignmentTask:
        """The task with all that was added to its graphs."""
        if not growing.changed:
            return self.task
        sides = [growing.sides[side] for side in SIDES]
        unknown = self.task.unknown
        if unknown is None:
            unknown = new_ends(growing, self.task.test)
        return replace(
            self.task,
            left=sides[0].graph,
            right=sides[1].graph,
            auxiliary=(sides[0].arrivals.triples, sides[1].arrivals.triples),
            unknown=unknown,
        )

    def compacted(self, growing: Growing) -> AlignmentState:
        """The state in which all that was added is part of what was trained."""
        task = self.grown_task(growing)
        memory: dict[str, Tensor] = dict(self.shared)
        for side in SIDES:
            rows = growing.sides[side].memory(growing.model)
            memory |= {f"{side}.{name}": tensor for name, tensor in rows.items()}
        return replace(
            self,
            task=task,
            weights=self._grown_weights(task),
            vectors={side: growing.sides[side].vectors for side in SIDES},
            stored=memory,
        )

    def refreshed(self, growing: Growing) -> AlignmentState:
        """The state in which everything is encoded anew; every vector may change."""
        task = self.grown_task(growing)
        weights = self._grown_weights(task)
        vectors = self.encoded(task, weights)
        return replace(self, task=task, weights=weights, vectors=vectors, potentials={}, stored={})

    def refreshed_vectors(self, growing: Growing) -> Mapping[str, Tensor]:
        """The vectors that :meth:`refreshed` would have, by side."""
        task = self.grown_task(growing)
        return self.encoded(task, self._grown_weights(task))

    def encoded(self, task: AlignmentTask, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Vectors of all entities over a grown graph, by side."""
        vectors = self._pass(task, weights).vectors("now")
        return by_side(vectors, len(task.left.entities))

    def _pass(self, task: AlignmentTask, weights: Mapping[str, Tensor]) -> Pass:
        """A pass in the state that training has left, over a grown graph."""
        known, now = merged_graphs(task)
        offset = np.array([0, known.n_left])
        context = TrainingContext(known, now, self.config, self.device)
        final = Pass(context, self._learned_links() + offset, NO_LINKS)
        with torch.random.fork_rng(devices=cuda_devices(self.device)):
            final.restore(self.found + offset, weights, self.sureness_now(task))
        return final

    def _learned_links(self) -> Ids:
        """The links that the last pass of training has learned from."""
        known, valid = self.task.train, self.task.valid
        return np.concatenate((known, valid)) if self.config.training.refit else known

    def sureness_now(self, task: AlignmentTask, later: float = 0.0) -> Tensor | None:
        """How sure all entities there are now are of a counterpart; None where unknown.

        Args:
            later: the value of entities that came since.
        """
        if not self.sureness:
            return None
        sizes = len(task.left.entities), len(task.right.entities)
        rows = zip(self.sureness.values(), sizes, strict=True)
        return torch.cat(
            [F.pad(known, (0, size - len(known)), value=later) for known, size in rows]
        )

    # To train again

    def settled_task(self, task: AlignmentTask, links: Ids | None = None) -> AlignmentTask:
        """What a refit learns from: all triples, known links, and those that became known."""
        known = np.concatenate((task.train, task.valid, task.test))
        more = task.train[:0]
        if links is not None:
            sizes = len(task.left.entities), len(task.right.entities)
            more = links[~np.isin(row_keys(links, sizes), row_keys(known, sizes))]
        later = task.auxiliary or (_NO_TRIPLES, _NO_TRIPLES)
        left, right = (
            graph.with_triples(np.concatenate((graph.triples, arrived)))
            for graph, arrived in zip((task.left, task.right), later, strict=True)
        )
        train = np.concatenate((task.train, more))
        return replace(task, left=left, right=right, train=train, auxiliary=None, unknown=None)

    def warm_weights(self, task: AlignmentTask, growing: Growing) -> dict[str, Tensor]:
        """The weights to start from; new entities start from their induced inputs."""
        warm = self._grown_weights(task)
        for name in self._entity_tables():
            for side, offset in zip(SIDES, (0, len(task.left.entities)), strict=True):
                graph, model = growing.sides[side], growing.model
                new = graph.arrivals.new_entities()
                if len(new) and INPUTS in model.widths:
                    inputs = graph.take(model, INPUTS, new)
                    warm[name][torch.from_numpy(new + offset)] = inputs.to(warm[name].device)
        return warm

    def _entity_tables(self) -> tuple[str, ...]:
        """Names of weights with a row for each entity."""
        name = self.config.model.encoder
        return () if name == "none" else view_type(name).entity_tables

    def _grown_weights(self, task: AlignmentTask) -> dict[str, Tensor]:
        """The weights with rows for entities that came since."""
        sizes = [len(graph.entities) for graph in (self.task.left, self.task.right)]
        grown = [len(graph.entities) for graph in (task.left, task.right)]
        tables = self._entity_tables()
        return {
            name: _with_more_rows(tensor, sizes, grown) if name in tables else tensor
            for name, tensor in self.weights.items()
        }


def new_ends(growing: Growing, links: Ids) -> npt.NDArray[np.bool_]:
    """bool[n]: links of entities that training has not seen."""
    sides = [growing.sides[side].arrivals for side in SIDES]
    seen = [side.is_trained(links[:, i]) for i, side in enumerate(sides)]
    new: npt.NDArray[np.bool_] = ~(seen[0] & seen[1])
    return new


def by_side(rows: Tensor, n_left: int) -> dict[str, Tensor]:
    """Rows of all entities, the left graph's first, by the side's name."""
    return {"left": rows[:n_left], "right": rows[n_left:]}


def check_side(side: str) -> None:
    """Raise unless it names one of the two graphs."""
    if side not in SIDES:
        raise ConfigError(f"no side {side!r}; there are: left, right")


def whole(rows: Tensor | MappedRows) -> Tensor:
    """All rows in memory."""
    return rows.all() if isinstance(rows, MappedRows) else rows


def _with_more_rows(table: Tensor, sizes: Sequence[int], grown: Sequence[int]) -> Tensor:
    """A table of a row an entity, left entities first, with rows of 0 for those that came since."""
    left, right = table[: sizes[0]], table[sizes[0] :]
    parts = [left, left.new_zeros(grown[0] - sizes[0], table.shape[1])]
    parts += [right, right.new_zeros(grown[1] - sizes[1], table.shape[1])]
    return torch.cat(parts)


def merged_graphs(task: AlignmentTask) -> tuple[MergedGraph, MergedGraph]:
    """The graph known in training, and the one that queries see."""
    entities = (len(task.left.entities), len(task.right.entities))
    relations = (len(task.left.relations), len(task.right.relations))
    known = MergedGraph.merge(
        task.left.triples, task.right.triples, task.train, entities, relations
    )
    if task.auxiliary is None:
        return known, known
    later = MergedGraph.merge(*task.auxiliary, task.train, entities, relations)
    return known, known.grown(later.left, later.right)
