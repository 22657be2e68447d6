"""What a predictor has learned, as one object that never changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from decentrl.config import PredictionConfig, must_grow
from decentrl.data.graph_task import GraphTask
from decentrl.data.knowledge_graph import row_keys
from decentrl.data.vocabulary import Ids
from decentrl.errors import BundleError
from decentrl.graph.splits import Splits
from decentrl.graph.view import relations_of
from decentrl.growth.growing_graph import Growing, Trained
from decentrl.growth.newcomers import Newcomers, PredictionNewcomers
from decentrl.matching.confidence import Confidence
from decentrl.nn.device import cuda_devices
from decentrl.scorers.model import PredictionModel
from decentrl.storage.bundle import Bundle
from decentrl.storage.card import prediction_card, quality_of
from decentrl.storage.mapped import MappedRows, mapped_rows

SIDE = ""
"""Name of the one graph, where an aligner has two sides."""


@dataclass(frozen=True, eq=False)
class PredictionState:
    """A graph, its model, the vectors of its entities, and what new ones need to have theirs.

    Attributes:
        task: the graph and splits it was trained on, with what was compacted since.
        model: the trained encoder and decoder.
        vectors: of all entities, [n, d]; None if they have to be made.
        quality: what its card says of its results.
        stored: memories that a bundle holds; empty if they have to be made.
    """

    config: PredictionConfig
    device: torch.device
    task: GraphTask
    model: PredictionModel
    confidence: Confidence | None = None
    vectors: Tensor | MappedRows | None = None
    quality: str = ""
    stored: Mapping[str, Tensor] = field(default_factory=dict)

    # Between files and this object

    @classmethod
    def from_bundle(
        cls, bundle: Bundle[PredictionConfig, GraphTask], device: torch.device
    ) -> PredictionState:
        """What a bundle holds; vectors and memories stay in its files until they are read."""
        graph = bundle.task.graph
        sizes = len(graph.entities), len(graph.relations)
        model = new_model(bundle.config, *sizes, device)
        try:
            model.load_state_dict(dict(bundle.weights))
        except RuntimeError as error:
            raise BundleError(
                f"{bundle.task.name}: its weights are not those of its settings; train it again"
            ) from error
        vectors: Tensor | MappedRows = mapped_rows(bundle.vectors)["entities"]
        if device.type != "cpu":
            vectors = bundle.vectors["entities"].to(device)
        confidence = Confidence.from_tensors(bundle.matching) if bundle.matching else None
        return cls(
            bundle.config,
            device,
            bundle.task,
            model,
            confidence,
            vectors,
            quality_of(bundle.card),
            bundle.memory,
        )

    def to_bundle(
        self, results: Sequence[dict[str, Any]] = ()
    ) -> Bundle[PredictionConfig, GraphTask]:
        """Everything there is, to be written."""
        vectors, memory = self.kept_vectors, self.memory()
        return Bundle(
            self.config,
            self.task,
            dict(self.model.state_dict()),
            {"entities": vectors.all() if isinstance(vectors, MappedRows) else vectors},
            prediction_card(self.task, self.config, results, self.quality),
            {} if self.confidence is None else self.confidence.to_tensors(),
            {name: rows.all() for name, rows in memory.items()},
        )

    # Vectors, and what newcomers need

    @cached_property
    def _encoded(self) -> tuple[Tensor, dict[str, Tensor]]:
        return self.encoded(self.task, self.model)

    @cached_property
    def kept_vectors(self) -> Tensor | MappedRows:
        """The vectors of all entities, [n, d]; 0 where nothing known reaches an entity."""
        return self._encoded[0] if self.vectors is None else self.vectors

    def memory(self) -> Mapping[str, MappedRows]:
        """What newcomers read of each entity, by name."""
        return self._memory

    @cached_property
    def _memory(self) -> Mapping[str, MappedRows]:
        return mapped_rows(self.stored or self._encoded[1])

    def sides(self) -> dict[str, Trained]:
        """The graph as it was trained."""
        later = no_triples(self.task.auxiliary)
        return {SIDE: Trained(self.task.graph, later, self.kept_vectors, self.memory)}

    def newcomers(self) -> Newcomers:
        """What makes rows of new entities."""
        must_grow(self.config)
        graph = self.task.graph
        seen = relations_of(graph.triples, len(graph.relations))
        with torch.random.fork_rng(devices=cuda_devices(self.device)):
            return PredictionNewcomers(self.config, self.model.state_dict(), seen, self.device)

    def encoded(self, task: GraphTask, model: PredictionModel) -> tuple[Tensor, dict[str, Tensor]]:
        """Vectors of all entities over a grown graph, and what new ones will read."""
        now = np.concatenate((task.graph.triples, no_triples(task.auxiliary)))
        rows = model.rows(view_of(model, now, task, self.device))
        return rows.vectors, {name: part.cpu() for name, part in rows.memory.items()}

    # With all that was added

    def grown_task(self, growing: Growing) -> GraphTask:
        """The task with all that was added to its graph."""
        if not growing.changed:
            return self.task
        side = growing.sides[SIDE]
        new = side.arrivals.new_entities()
        if self.task.new_entities is not None:
            new = np.union1d(self.task.new_entities, new)
        return replace(
            self.task, graph=side.graph, auxiliary=side.arrivals.triples, new_entities=new
        )

    def compacted(self, growing: Growing) -> PredictionState:
        """The state in which all that was added is part of what was trained."""
        task, side = self.grown_task(growing), growing.sides[SIDE]
        return replace(
            self,
            task=task,
            model=self.grown_model(len(task.graph.entities)),
            vectors=side.vectors,
            stored=side.memory(growing.model),
        )

    def refreshed(self, growing: Growing) -> PredictionState:
        """The state in which everything is encoded anew; every vector may change."""
        task = self.grown_task(growing)
        model = self.grown_model(len(task.graph.entities))
        fresh = replace(self, task=task, model=model, vectors=None, stored={})
        _ = fresh.kept_vectors  # an error must come before anything is swapped
        return fresh

    def refreshed_vectors(self, growing: Growing) -> Mapping[str, Tensor]:
        """The vectors that :meth:`refreshed` would have."""
        task = self.grown_task(growing)
        return {SIDE: self.encoded(task, self.grown_model(len(task.graph.entities)))[0]}

    def grown_model(self, n_entities: int) -> PredictionModel:
        """The model with room for more entities; what it has learned stays as it is."""
        state = dict(self.model.state_dict())
        model = new_model(self.config, n_entities, len(self.task.graph.relations), self.device)
        for name, tensor in model.state_dict().items():
            if tensor.shape != state[name].shape:  # a row an entity: those of new ones are not read
                grown = torch.zeros_like(tensor)
                grown[: len(state[name])] = state[name]
                state[name] = grown
        model.load_state_dict(state)
        return model

    # To train again

    def settled_task(self, task: GraphTask) -> GraphTask:
        """What a refit learns from: all triples but those held out."""
        every = np.concatenate((task.graph.triples, no_triples(task.auxiliary)))
        sizes = len(task.graph.entities), len(task.graph.relations), len(task.graph.entities)
        held_out = row_keys(np.concatenate((task.valid, task.test)), sizes)
        graph = task.graph.with_triples(every[~np.isin(row_keys(every, sizes), held_out)])
        return replace(task, graph=graph, auxiliary=None, new_entities=None)

    def warm_weights(self, fresh: PredictionModel) -> dict[str, Tensor]:
        """The weights to start from; rows of new entities are those of a fresh model."""
        warm = dict(self.model.state_dict())
        for name, tensor in fresh.state_dict().items():
            if tensor.shape != warm[name].shape:
                grown = tensor.clone()
                grown[: len(warm[name])] = warm[name]
                if name == "own" and self.model.made:
                    grown[len(warm[name]) :] = 0  # as it was until now
                warm[name] = grown
        return warm


def new_model(
    config: PredictionConfig, n_entities: int, n_relations: int, device: torch.device
) -> PredictionModel:
    """A model to be loaded; the global random state stays as it is."""
    with torch.random.fork_rng(devices=cuda_devices(device)):
        return PredictionModel(n_entities, n_relations, config).to(device)


def view_of(model: PredictionModel, triples: Ids, task: GraphTask, device: torch.device) -> Any:
    """What the encoder reads of triples after training on a task."""
    sizes = len(task.graph.entities), len(task.graph.relations)
    return model.encoder.read(triples, task.graph.triples, *sizes, device)


def splits_of(task: GraphTask) -> Splits:
    """All triples of a task, each set by its part in it."""
    sizes = len(task.graph.entities), len(task.graph.relations)
    return Splits(task.graph.triples, no_triples(task.auxiliary), task.valid, task.test, *sizes)


def no_triples(triples: Ids | None) -> Ids:
    """The triples, or none of them."""
    return np.empty((0, 3), np.int64) if triples is None else triples
