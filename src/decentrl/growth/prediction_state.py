"""What a predictor has learned, how it grows and how it is kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch
from torch import Tensor

from decentrl.config import PredictionConfig, must_grow
from decentrl.data.graph_task import GraphTask
from decentrl.data.knowledge_graph import row_keys
from decentrl.data.vocabulary import Ids
from decentrl.errors import BundleError, ConfigError
from decentrl.graph.splits import Splits
from decentrl.graph.view import relations_of
from decentrl.growth.explanation import Reason
from decentrl.growth.growing_graph import Growing, NewTriples, Trained
from decentrl.growth.growing_model import GrowingModel
from decentrl.growth.newcomers import INPUTS, STATES, Induction, PredictionInduction
from decentrl.matching.confidence import Confidence
from decentrl.nn.device import cuda_devices, pick_device
from decentrl.nn.prediction import PredictionModel
from decentrl.scorers.completion import Completion
from decentrl.storage.additions import Addition
from decentrl.storage.bundle import (
    Bundle,
    bundle_folder,
    read_bundle,
)
from decentrl.storage.card import prediction_card, quality_of
from decentrl.storage.mapped import MappedRows, mapped_rows
from decentrl.training.prediction import make_view


class PredictionState(GrowingModel):
    """A graph, its model, the vectors of its entities, and what new ones need to have theirs."""

    _unit = False

    def __init__(self, config: PredictionConfig, device: str = "auto") -> None:
        self.config = config
        self.device = pick_device(device)
        self._task: GraphTask | None = None
        self._model: PredictionModel | None = None
        self._confidence: Confidence | None = None
        self._vectors: Tensor | MappedRows | None = None
        self._memory: dict[str, MappedRows] = {}
        self._derived: tuple[tuple[Growing, int], Splits, Completion] | None = None

    @property
    def task(self) -> GraphTask:
        """The graph and its splits, with all that was added."""
        if self._task is None:
            raise ConfigError("this predictor has learned nothing yet; call fit or load first")
        if self._growing is None or not self._growing.changed:
            return self._task
        return self._once(self._grown_task)

    def _grown_task(self) -> GraphTask:
        assert self._task is not None
        side = self.growing.sides[""]
        new = side.arrivals.new_entities()
        if self._task.new_entities is not None:
            new = np.union1d(self._task.new_entities, new)
        return replace(
            self._task, graph=side.graph, auxiliary=side.arrivals.triples, new_entities=new
        )

    def _own_changes(self) -> None:
        must_grow(self.config)
        super()._own_changes()

    # Looking

    @property
    def vectors(self) -> Tensor:
        """Every entity's vector, [n, d]; 0 where nothing tells of one."""
        return self.growing.sides[""].vectors

    def embed(self, labels: Sequence[str]) -> npt.NDArray[np.float32]:
        """Vectors of the named entities, [n, d]."""
        side = self.growing.sides[""]
        vectors: npt.NDArray[np.float32] = (
            side.take_vectors(side.entities.ids(labels)).cpu().numpy()
        )
        return vectors

    def explain(self, entity: str, *, moved: int = 5) -> list[Reason]:
        """Which neighbours and relations an entity's vector is made of, the weightiest first.

        Args:
            moved: for so many neighbours, and the last one, tell how far the vector would move
                without them.
        """
        must_grow(self.config)
        return self._explain("", entity, moved)

    def neighbours(self, entity: str, *, top: int = 10, ann: bool = False) -> pa.Table:
        """The entities nearest to one by cosine, itself left out.

        Args:
            ann: look in an approximate index (FAISS), built at the first such question.
        Returns:
            table with the columns entity, rank (1 is nearest) and cosine.
        """
        return self._neighbours(entity, "", "", top, ann)

    # Keeping

    def save(self, run: str | PathLike[str], results: Sequence[dict[str, Any]] = ()) -> None:
        """Write ``run/bundle``: weights, vectors, labels, the graph and its splits, no pickle."""
        self._save(run, prediction_card(self.task, self.config, results, self._quality))

    def _bundle(self) -> Bundle[PredictionConfig, GraphTask]:
        matching = {} if self._confidence is None else self._confidence.to_tensors()
        return Bundle(
            self.config,
            self.task,
            dict(self._learned.state_dict()),
            {"entities": self.vectors},
            prediction_card(self.task, self.config, (), self._quality),
            matching,
            {name: rows.all() for name, rows in self._memory.items()},
        )

    @classmethod
    def _load(cls, run: str | PathLike[str], device: str, durable: bool) -> Self:
        folder = bundle_folder(run)
        bundle = read_bundle(folder, "predictor")
        predictor = cls(bundle.config, device)
        if durable:
            must_grow(predictor.config)
        predictor._task = bundle.task
        predictor._quality = quality_of(bundle.card)
        with torch.random.fork_rng(devices=cuda_devices(predictor.device)):
            predictor._model = predictor._new_model(len(bundle.task.graph.entities))
        try:
            predictor._model.load_state_dict(bundle.weights)
        except RuntimeError as error:
            raise BundleError(
                f"{folder}: its weights are not those of its settings; train it again"
            ) from error
        predictor._vectors = bundle.mapped_vectors["entities"]
        if predictor.device.type != "cpu":
            predictor._vectors = bundle.vectors["entities"].to(predictor.device)
        predictor._memory = bundle.mapped_memory
        if bundle.matching:
            predictor._confidence = Confidence.from_tensors(bundle.matching)
        predictor._open(run, bundle, durable)
        return predictor

    # Growing

    def add(
        self,
        triples: NewTriples,
        *,
        strict: bool = False,
        refresh: bool = False,
        source: str = "",
    ) -> Addition:
        """Take in new triples, with new entities, without any training.

        New entities have vectors at once, to be asked about and to be answers; those of trained
        entities stay as they are. Triples with a relation that training has not seen are left out
        and counted.

        Args:
            triples: (head, relation, tail) in labels, or a file of them.
            strict: an unknown relation is an error.
            refresh: encode everything anew; see :meth:`refresh`.
            source: where they come from, for the log.
        """
        return self._add("", triples, strict, refresh, source)

    def settled_task(self) -> GraphTask:
        """What :meth:`refit` learns from: all triples but those held out."""
        task = self.task
        every = np.concatenate((task.graph.triples, _no_triples(task.auxiliary)))
        sizes = len(task.graph.entities), len(task.graph.relations), len(task.graph.entities)
        held_out = row_keys(np.concatenate((task.valid, task.test)), sizes)
        graph = task.graph.with_triples(every[~np.isin(row_keys(every, sizes), held_out)])
        return replace(task, graph=graph, auxiliary=None, new_entities=None)

    def _warm(self, fresh: PredictionModel) -> dict[str, Tensor]:
        """The weights to start from; rows of new entities are those of a fresh model."""
        warm = dict(self._learned.state_dict())
        for name, tensor in fresh.state_dict().items():
            if tensor.shape != warm[name].shape:
                grown = tensor.clone()
                grown[: len(warm[name])] = warm[name]
                if name == "own" and self.config.model.encoder != "none":
                    grown[len(warm[name]) :] = 0  # as it was until now
                warm[name] = grown
        return warm

    def _trained(self) -> Mapping[str, Trained]:
        task = self._task
        assert task is not None
        if self._vectors is None:
            self._vectors, self._memory = self._encode(task, self._learned)
        return {"": Trained(task.graph, _no_triples(task.auxiliary), self._vectors, self._memory)}

    def _induction(self) -> Induction:
        must_grow(self.config)
        task = self._task
        assert task is not None
        if not self._memory:
            self._memory |= self._encode(task, self._learned)[1]
        seen = relations_of(task.graph.triples, len(task.graph.relations))
        return PredictionInduction(self.config, dict(self._learned.state_dict()), seen, self.device)

    def _encode(
        self, task: GraphTask, model: PredictionModel
    ) -> tuple[Tensor, dict[str, MappedRows]]:
        """Vectors of all entities over a grown graph, and what new ones will read."""
        now = np.concatenate((task.graph.triples, _no_triples(task.auxiliary)))
        view = self._view(now, task)
        vectors, states = model.embed_with_states(view)
        if not states:
            return vectors, {}
        inputs = torch.where(view.seen[:, None], model.teacher.detach(), 0)
        return vectors, mapped_rows({STATES: torch.cat(states, 1).cpu(), INPUTS: inputs.cpu()})

    def _refreshed(self) -> Mapping[str, Tensor]:
        task = self.task
        return {"": self._encode(task, self._grown(len(task.graph.entities)))[0]}

    def _settle(self, refresh: bool) -> None:
        task, side = self.task, self.growing.sides[""]
        model = self._grown(len(task.graph.entities))
        if refresh:
            self._vectors, self._memory = self._encode(task, model)
        else:
            self._memory = mapped_rows(side.memory(self.growing.model))
            self._vectors = side.vectors
        self._model, self._task = model, task

    # What is derived from the state

    @property
    def _learned(self) -> PredictionModel:
        assert self._model is not None, "fit or load first"
        return self._model

    def _state(self) -> tuple[Splits, Completion]:
        """What was told so far, and what answers over it; made again when there is more."""
        now = (self.growing, self.growing.version)
        if self._derived is None or self._derived[0] != now:
            told, model = splits_of(self.task), self._learned
            if model.table is not None and len(model.table) < told.n_entities:
                model = self._grown(told.n_entities)
            completion = Completion(model, self.vectors, told, self._confidence)
            self._derived = (now, told, completion)
        return self._derived[1:]

    @property
    def _told(self) -> Splits:
        return self._state()[0]

    @property
    def _completion(self) -> Completion:
        return self._state()[1]

    def _forget(self) -> None:
        self._growing = self._derived = None

    def _view(self, triples: Ids, task: GraphTask) -> Any:
        sizes = len(task.graph.entities), len(task.graph.relations)
        return make_view(triples, task.graph.triples, *sizes, self.config, self.device)

    def _new_model(self, n_entities: int) -> PredictionModel:
        assert self._task is not None
        n_relations = len(self._task.graph.relations)
        return PredictionModel(n_entities, n_relations, self.config).to(self.device)

    def _grown(self, n_entities: int) -> PredictionModel:
        """The model with room for more entities; what it has learned stays as it is."""
        state = dict(self._learned.state_dict())
        with torch.random.fork_rng(devices=cuda_devices(self.device)):
            model = self._new_model(n_entities)
        for name, tensor in model.state_dict().items():
            if tensor.shape != state[name].shape:  # a row an entity: those of new ones are not read
                grown = torch.zeros_like(tensor)
                grown[: len(state[name])] = state[name]
                state[name] = grown
        model.load_state_dict(state)
        return model


def splits_of(task: GraphTask) -> Splits:
    """All triples of a task, each set by its part in it."""
    sizes = len(task.graph.entities), len(task.graph.relations)
    return Splits(task.graph.triples, _no_triples(task.auxiliary), task.valid, task.test, *sizes)


def _no_triples(triples: Ids | None) -> Ids:
    return np.empty((0, 3), np.int64) if triples is None else triples
