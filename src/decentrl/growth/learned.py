"""What a model has learned, as one object that never changes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from os import PathLike
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from decentrl.config import must_grow
from decentrl.data.graph_task import GraphTask
from decentrl.data.knowledge_graph import NO_TRIPLES, KnowledgeGraph
from decentrl.data.memory import Source
from decentrl.data.vocabulary import Ids
from decentrl.errors import BundleError, ConfigError, DivergedError
from decentrl.graph.view import relations_of
from decentrl.growth.growing import Growing
from decentrl.growth.growing_graph import GrowingGraph, whole
from decentrl.growth.newcomers import Newcomers
from decentrl.matching.confidence import Confidence
from decentrl.nn.running import all_finite, cuda_devices
from decentrl.storage.additions import Store
from decentrl.storage.bundle import Bundle, Manifest, open_bundle, read_bundle
from decentrl.storage.card import model_card, quality_of
from decentrl.storage.kinds import AnyTask, KindName
from decentrl.storage.mapped import MappedRows, mapped_rows
from decentrl.storage.validate import check_like, check_matching, check_rows
from decentrl.views.part import Mask

STORE = "store"
"""The folder of a run that keeps what was added."""
SIDE = ""
"""Name of the one graph of a predictor, where an aligner has two sides."""


def graphs_of(task: AnyTask) -> dict[str, tuple[KnowledgeGraph, Ids]]:
    """Each graph of a task by its side's name, and the triples that arrived after training."""
    if isinstance(task, GraphTask):
        return {SIDE: (task.graph, NO_TRIPLES if task.auxiliary is None else task.auxiliary)}
    left, right = task.auxiliary or (NO_TRIPLES, NO_TRIPLES)
    return {"left": (task.left, left), "right": (task.right, right)}


def all_triples(graph: KnowledgeGraph, arrived: Ids) -> Ids:
    """The triples of a graph, those of training first."""
    return np.concatenate((graph.triples, arrived))


def _start(side: str) -> str:
    """What the names of a side's memories begin with in a bundle."""
    return f"{side}." if side else ""


Model = tuple[Mapping[str, Tensor], int, Mapping[str, int], int]
"""Of a model: weights, width of vectors, widths of memories, number of features of confidence."""


def _check(bundle: Bundle[Any, Any], model: Model) -> None:
    """A :class:`ValueError` unless a bundle has what its settings ask for, of every entity."""
    weights, width, memories, features = model
    sizes = {side: len(graph.entities) for side, (graph, _) in graphs_of(bundle.task).items()}
    wanted = {name: f"{tensor.dtype}{list(tensor.shape)}" for name, tensor in weights.items()}
    check_like("weights", mapped_rows(bundle.weights), wanted)
    shapes = {side or "entities": (n, width) for side, n in sizes.items()}
    check_rows("vectors", mapped_rows(bundle.vectors), shapes)
    rows = mapped_rows(bundle.memory)
    if rows:
        shapes = {
            _start(side) + name: (n, w) for side, n in sizes.items() for name, w in memories.items()
        }
        check_rows("memory", {x: rows[x] for x in rows if x in shapes or "." in x}, shapes)
    check_matching(bundle.matching, sizes, features)


@dataclass(frozen=True, eq=False, kw_only=True)
class Learned(ABC):
    """The graphs, the vectors of their entities, and what new entities need to have theirs.

    Methods that take ``growing`` make something new of it and of what was added.

    Attributes:
        task: what it was trained on, with what was compacted since.
        vectors: of all entities of a side, [n, d].
        quality: what its card says of its results.
        stored: what newcomers read, as a bundle holds it; None if it has to be made.
    """

    config: Any
    device: torch.device
    task: Any
    vectors: Mapping[str, Tensor | MappedRows] = field(default_factory=dict)
    confidence: Confidence | None = None
    quality: str = ""
    stored: Mapping[str, Tensor] | None = None

    # What differs between alignment and prediction

    @classmethod
    @abstractmethod
    def _model_of(cls, bundle: Bundle[Any, Any]) -> Model:
        """What the weights, vectors and memories of a bundle must be like, from its settings."""

    @classmethod
    @abstractmethod
    def _parts_of(cls, bundle: Bundle[Any, Any], device: torch.device) -> dict[str, Any]:
        """The attributes of a subclass, from a bundle."""

    @abstractmethod
    def _tensors(self) -> tuple[Mapping[str, Tensor], dict[str, Tensor]]:
        """The same for a bundle: weights, and what belongs to matching."""

    @abstractmethod
    def encoded(self) -> tuple[dict[str, Tensor], dict[str, Tensor] | None]:
        """Vectors of all entities by side, and what newcomers read if that was made on the way."""

    def _made_memory(self) -> Mapping[str, Tensor]:
        """What newcomers read, as a bundle holds it."""
        return self.encoded()[1] or {}

    @abstractmethod
    def _newcomers(self, seen_relations: Mask) -> Newcomers:
        """What makes rows of new entities."""

    @abstractmethod
    def grown_task(self, growing: Growing) -> Any:
        """The task with all that was added to its graphs."""

    @abstractmethod
    def grown(self, growing: Growing) -> Self:
        """The same, with that task and room for all entities in it, but the vectors of before."""

    @abstractmethod
    def settled_task(self, task: Any, links: Source | None = None) -> Any:
        """What a refit learns from: all triples but those held out, known links, and others."""

    def checked(self) -> Self:
        """The same, if training has left finite numbers only; else an error."""
        vectors = {f"vectors {side}".strip(): whole(rows) for side, rows in self.vectors.items()}
        every = {**self._tensors()[0], **vectors, **(self.stored or {})}
        for name, tensor in every.items():
            if not all_finite(tensor):
                raise DivergedError(f"what was learned is not finite ({name})")
        return self

    # Files

    @classmethod
    def from_bundle(cls, bundle: Bundle[Any, Any], device: torch.device) -> Self:
        """What a bundle holds; vectors and memories stay in its files until they are read."""
        try:
            with torch.random.fork_rng(devices=[]), torch.device("meta"):  # nothing is computed
                model = cls._model_of(bundle)
            _check(bundle, model)
        except (ValueError, RuntimeError, OverflowError) as error:
            raise BundleError(
                f"{bundle.task.name}: its weights are not those of its settings ({error}); "
                "copy the run again, or train it again"
            ) from error
        vectors: Mapping[str, Tensor | MappedRows] = mapped_rows(bundle.vectors)
        if device.type != "cpu":
            vectors = {name: rows.to(device) for name, rows in bundle.vectors.items()}
        return cls(
            config=bundle.config,
            device=device,
            task=bundle.task,
            vectors={side: vectors[side or "entities"] for side in graphs_of(bundle.task)},
            confidence=(
                Confidence.from_tensors(bundle.matching) if "weights" in bundle.matching else None
            ),
            quality=quality_of(bundle.card),
            stored=bundle.memory or None,
            **cls._parts_of(bundle, device),
        )

    @classmethod
    def opened(
        cls, run: str | PathLike[str], kind: KindName, device: torch.device, durable: bool
    ) -> Growing:
        """What a run or a bundle holds, with its additions; see :meth:`GrowingModel.load`."""
        for more in (True, True, True, False):
            opened = open_bundle(run, write=durable)
            try:
                return cls._opened(opened, kind, device, durable)
            except BundleError:
                if opened.is_current() or not more:
                    raise  # else it was compacted meanwhile
                run = Path(opened)
        raise AssertionError

    @classmethod
    def _opened(
        cls, opened: Manifest, kind: KindName, device: torch.device, durable: bool
    ) -> Growing:
        bundle = read_bundle(opened, kind)
        if durable:
            must_grow(bundle.config)
        learned, place = cls.from_bundle(bundle, device), Path(opened)
        if opened.folder == place:
            if durable:
                raise ConfigError(f"{place}: this is a bundle; give the run that it belongs to")
            return Growing(learned)
        store = Store(place / STORE, opened.id, write=durable, grown_from=opened.origin)
        try:
            if durable and not opened.is_current():
                raise BundleError(
                    f"{opened.folder}: this bundle was replaced just now; load it again"
                )
            return Growing(learned, store, place=place, durable=durable)
        except BaseException:
            store.close()
            raise

    def to_bundle(self, results: Sequence[dict[str, Any]] = ()) -> Bundle[Any, Any]:
        """Everything there is, to be written."""
        weights, matching = self._tensors()
        return Bundle(
            self.config,
            self.task,
            weights,
            {side or "entities": whole(rows) for side, rows in self.vectors.items()},
            model_card(self.task, self.config, results, self.quality),
            matching | ({} if self.confidence is None else self.confidence.to_tensors()),
            {**self.memories, **self.shared} if self.config.model.inductive else {},
        )

    # What newcomers need

    @cached_property
    def memories(self) -> Mapping[str, Tensor]:
        """What newcomers read, as a bundle holds it."""
        return self._made_memory() if self.stored is None else self.stored

    def memory(self, side: str) -> dict[str, MappedRows]:
        """What newcomers read of each entity of a side, by name."""
        every, start = mapped_rows(self.memories).items(), side and f"{side}."
        return {name.removeprefix(start): x for name, x in every if name.startswith(start)}

    @property
    def shared(self) -> Mapping[str, Tensor]:
        """What newcomers read that does not belong to one entity, by name."""
        return {}

    def newcomers(self) -> Newcomers:
        """What makes rows of new entities."""
        must_grow(self.config)
        graphs = graphs_of(self.task).values()
        seen = [relations_of(graph.triples, len(graph.relations)) for graph, _ in graphs]
        with torch.random.fork_rng(devices=cuda_devices(self.device)):
            return self._newcomers(np.concatenate(seen))

    # With all that was added

    def sides(self) -> dict[str, GrowingGraph]:
        """The graphs as they were trained, by the side's name; new objects, to grow."""
        found: dict[str, GrowingGraph] = {}
        shift = 0
        for side, (graph, arrived) in graphs_of(self.task).items():
            memory = partial(self.memory, side)
            found[side] = GrowingGraph(graph, arrived, self.vectors[side], memory, shift)
            shift += len(graph.relations)
        return found

    def compacted(self, growing: Growing) -> Self:
        """The state in which all that was added is part of what was trained."""
        memory = dict(self.shared)
        for side, graph in growing.sides.items():
            rows, start = graph.memory(growing.model), side and f"{side}."
            memory |= {start + name: tensor for name, tensor in rows.items()}
        return replace(
            self.grown(growing),
            vectors={side: graph.vectors for side, graph in growing.sides.items()},
            stored=memory,
        )

    def refreshed(self, growing: Growing) -> Self:
        """The state in which everything is encoded anew; every vector may change."""
        grown = replace(self.grown(growing), stored=None)
        vectors, memory = grown.encoded()
        return replace(grown, vectors=vectors, stored=memory)
