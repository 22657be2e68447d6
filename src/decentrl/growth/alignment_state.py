"""What an aligner has learned, how it grows and how it is kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
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
from decentrl.growth.explanation import Reason
from decentrl.growth.growing_graph import NewTriples, Trained
from decentrl.growth.growing_model import GrowingModel
from decentrl.growth.newcomers import INPUTS, SHARED, AlignmentInduction, Induction
from decentrl.growth.potentials import PotentialCache
from decentrl.matching.confidence import Confidence
from decentrl.nn.device import cuda_devices, pick_device
from decentrl.storage.additions import Addition
from decentrl.storage.bundle import (
    Bundle,
    bundle_folder,
    read_bundle,
)
from decentrl.storage.card import alignment_card, quality_of
from decentrl.storage.mapped import MappedRows, mapped_rows
from decentrl.training.fitting import Pass, TrainingContext

Side = Literal["left", "right"]
SIDES: tuple[Side, Side] = ("left", "right")
ENTITY_TABLES = ("entities", "encoder.entities")
_NONE = np.empty((0, 3), np.int64)


class AlignmentState(GrowingModel):
    """Two graphs, the vectors of their entities, and what new entities need to have theirs."""

    def __init__(self, config: Config, device: str = "auto") -> None:
        self.config = config
        self.device = pick_device(device)
        self._task: AlignmentTask | None = None
        self._weights: Mapping[str, Tensor] = {}
        self._vectors: Mapping[str, Tensor | MappedRows] = {}
        self._memory: dict[str, dict[str, MappedRows]] = {}
        self._shared: Mapping[str, Tensor] = {}
        self._confidence: Confidence | None = None
        self._found: Ids = np.empty((0, 2), np.int64)
        self._sure: Mapping[str, Tensor] = {}  # of having a counterpart, where vectors tell
        self._questions: PotentialCache | None = None

    @property
    def task(self) -> AlignmentTask:
        """The graphs and links, with all that was added."""
        if self._task is None:
            raise ConfigError("this aligner has learned nothing yet; call fit or load first")
        if self._growing is None or not self._growing.changed:
            return self._task
        return self._once(self._grown_task)

    def _grown_task(self) -> AlignmentTask:
        assert self._task is not None
        sides = [self.growing.sides[side] for side in SIDES]
        unknown = self._task.unknown
        if unknown is None:
            unknown = self._new_ends(self._task.test)
        return replace(
            self._task,
            left=sides[0].graph,
            right=sides[1].graph,
            auxiliary=(sides[0].arrivals.triples, sides[1].arrivals.triples),
            unknown=unknown,
        )

    def _new_ends(self, links: Ids) -> npt.NDArray[np.bool_]:
        """bool[n]: links of entities that training has not seen."""
        sides = [self.growing.sides[side].arrivals for side in SIDES]
        seen = [side.is_trained(links[:, i]) for i, side in enumerate(sides)]
        new: npt.NDArray[np.bool_] = ~(seen[0] & seen[1])
        return new

    @property
    def _known_links(self) -> Ids:
        """Those that training and validation have used: their entities have their counterparts."""
        task = self.task
        return np.concatenate((task.train, task.valid))

    def _learned_links(self) -> Ids:
        """The links that the last pass of training has learned from."""
        assert self._task is not None
        known, valid = self._task.train, self._task.valid
        return np.concatenate((known, valid)) if self.config.training.refit else known

    def _own_changes(self) -> None:
        must_grow(self.config)
        super()._own_changes()

    @property
    def _asking(self) -> PotentialCache:
        if self._questions is None:
            self._questions = PotentialCache(self.config.matching, self._known_links)
        return self._questions

    # Looking

    def vectors(self, side: Side) -> Tensor:
        """Of all entities of a side, [n, d], of length 1 (or 0 where nothing tells of one)."""
        return self.growing.sides[side].vectors

    def embed(self, labels: Sequence[str], side: Side = "left") -> npt.NDArray[np.float32]:
        """Vectors of the named entities, [n, d], of length 1."""
        check_side(side)
        graph = self.growing.sides[side]
        vectors: npt.NDArray[np.float32] = (
            graph.take_vectors(graph.entities.ids(labels)).cpu().numpy()
        )
        return vectors

    def explain(self, entity: str, *, side: Side = "left", moved: int = 5) -> list[Reason]:
        """Which neighbours and relations an entity's vector is made of, the weightiest first.

        Args:
            moved: for so many neighbours, and the last one, tell how far the vector would move
                without them.
        """
        check_side(side)
        must_grow(self.config)
        return self._explain(side, entity, moved)

    def neighbours(
        self,
        entity: str,
        *,
        side: Side = "left",
        among: Side | None = None,
        top: int = 10,
        ann: bool = False,
    ) -> pa.Table:
        """The entities nearest to one by cosine, of its own graph or of the other one.

        Args:
            entity: a label of ``side``.
            among: where to look; default: ``side``, and then the entity itself is left out.
            ann: look in an approximate index (FAISS), built at the first such question.
        Returns:
            table with the columns entity, rank (1 is nearest) and cosine.
        """
        check_side(side)
        check_side(among or side)
        return self._neighbours(entity, side, among or side, top, ann)

    # Keeping

    def save(self, run: str | PathLike[str], results: Sequence[dict[str, Any]] = ()) -> None:
        """Write ``run/bundle``: weights, vectors, labels, graphs and links, without pickle."""
        self._save(run, alignment_card(self.task, self.config, results, self._quality))

    def _bundle(self) -> Bundle[Config, AlignmentTask]:
        matching = {"found": torch.from_numpy(self._found)}
        matching |= {f"sure.{side}": rows for side, rows in self._sure.items()}
        if self._confidence is not None:
            matching |= self._confidence.to_tensors()
        if self._questions is not None:
            matching |= self._questions.to_tensors()
        vectors = {side: _whole(rows) for side, rows in self._vectors.items()}
        memory = {
            f"{side}.{name}": rows.all()
            for side, parts in self._memory.items()
            for name, rows in parts.items()
        }
        card = alignment_card(self.task, self.config, (), self._quality)
        return Bundle(
            self.config,
            self.task,
            self._weights,
            vectors,
            card,
            matching,
            memory | dict(self._shared),
        )

    @classmethod
    def _load(cls, run: str | PathLike[str], device: str, durable: bool) -> Self:
        bundle = read_bundle(bundle_folder(run), "aligner")
        aligner = cls(bundle.config, device)
        aligner._task, aligner._weights = bundle.task, bundle.weights
        aligner._quality = quality_of(bundle.card)
        aligner._vectors = bundle.mapped_vectors
        if aligner.device.type != "cpu":
            aligner._vectors = {k: v.to(aligner.device) for k, v in bundle.vectors.items()}
        aligner._keep(bundle.memory)
        matching = dict(bundle.matching)
        if "found" in matching:
            aligner._found = matching.pop("found").numpy()
        aligner._sure = {s: matching.pop(f"sure.{s}") for s in SIDES if f"sure.{s}" in matching}
        aligner._questions = PotentialCache(bundle.config.matching, aligner._known_links, matching)
        if "weights" in matching:
            aligner._confidence = Confidence.from_tensors(matching)
        aligner._open(run, bundle, durable)
        return aligner

    # Growing

    def add(
        self,
        triples: NewTriples,
        *,
        side: Side,
        strict: bool = False,
        refresh: bool = False,
        source: str = "",
    ) -> Addition:
        """Take in new triples of one graph, with new entities, without any training.

        New entities have vectors, and can be matched, at once; those of trained entities stay as
        they are. Triples with a relation that training has not seen are left out and counted.

        Args:
            triples: (head, relation, tail) in labels, or a file of them.
            strict: an unknown relation is an error.
            refresh: encode everything anew; see :meth:`refresh`.
            source: where they come from, for the log.
        """
        check_side(side)
        return self._add(side, triples, strict, refresh, source)

    def settled_task(self, links: str | PathLike[str] | None = None) -> AlignmentTask:
        """What :meth:`refit` learns from: all triples, known links, and those of a file."""
        task = self.task
        known = np.concatenate((task.train, task.valid, task.test))
        more = task.train[:0]
        if links is not None:
            more = task.read_links(links)
            sizes = len(task.left.entities), len(task.right.entities)
            more = more[~np.isin(row_keys(more, sizes), row_keys(known, sizes))]
        later = task.auxiliary or (_NONE, _NONE)
        left, right = (
            graph.with_triples(np.concatenate((graph.triples, arrived)))
            for graph, arrived in zip((task.left, task.right), later, strict=True)
        )
        train = np.concatenate((task.train, more))
        return replace(task, left=left, right=right, train=train, auxiliary=None, unknown=None)

    def _warm(self, task: AlignmentTask) -> Mapping[str, Tensor]:
        """The weights to start from; new entities start from what is told of their inputs."""
        warm = self._grown_weights(task)
        for name in ENTITY_TABLES:
            if name in warm:
                for side, offset in zip(SIDES, (0, len(task.left.entities)), strict=True):
                    new, inputs = self._inputs_of_new(side)
                    table = warm[name]
                    table[torch.from_numpy(new + offset)] = inputs.to(table.device)
        return warm

    def _inputs_of_new(self, side: str) -> tuple[Ids, Tensor]:
        graph, model = self.growing.sides[side], self.growing.model
        new = graph.arrivals.new_entities()
        return new, graph.take(model, INPUTS, new)

    def _grown_weights(self, task: AlignmentTask) -> dict[str, Tensor]:
        """The weights with rows for entities that came since."""
        assert self._task is not None
        sizes = [len(g.entities) for g in (self._task.left, self._task.right)]
        grown = [len(g.entities) for g in (task.left, task.right)]
        return {
            name: _relaid(tensor, sizes, grown) if name in ENTITY_TABLES else tensor
            for name, tensor in self._weights.items()
        }

    def _trained(self) -> Mapping[str, Trained]:
        task = self._task
        assert task is not None
        later = task.auxiliary or (_NONE, _NONE)
        graphs = zip(SIDES, (task.left, task.right), later, strict=True)
        shift = {"left": 0, "right": len(task.left.relations)}
        return {
            side: Trained(
                graph, arrived, self._vectors[side], self._memory.setdefault(side, {}), shift[side]
            )
            for side, graph, arrived in graphs
        }

    def _induction(self) -> Induction:
        must_grow(self.config)
        task = self._task
        assert task is not None
        if not self._memory.get("left"):
            self._keep(self._encode(task, self._weights)[1])
        relations = [relations_of(g.triples, len(g.relations)) for g in (task.left, task.right)]
        n_links = len(self._learned_links()) + len(self._found)
        seen, device = np.concatenate(relations), self.device
        told = self.config.self_training.told if self._sure else 0.0
        return AlignmentInduction(
            self.config, self._weights, self._shared, n_links, seen, device, told
        )

    def _encode(
        self, task: AlignmentTask, weights: Mapping[str, Tensor]
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Vectors of all entities over a grown graph, by side, and what new ones will read."""
        known, now = merged_graphs(task)
        offset = np.array([0, known.n_left])
        world = TrainingContext(known, now, self.config, self.device)
        final = Pass(world, self._learned_links() + offset, np.empty((0, 2), np.int64))
        with torch.random.fork_rng(devices=cuda_devices(self.device)):
            final.restore(self._found + offset, dict(weights), self._sure_now(task))
            memory: dict[str, Tensor] = {}
            vectors = final.vectors("now", memory)
        found = {name: memory.pop(name) for name in SHARED if name in memory}
        for name, tensor in memory.items():
            rows = by_side(tensor, known.n_left)
            found |= {f"{side}.{name}": rows[side].cpu() for side in rows}
        return by_side(vectors, known.n_left), found

    def _sure_now(self, task: AlignmentTask, later: float = 0.0) -> Tensor | None:
        """Of all entities there are now; who came later has no counterpart yet.

        None where vectors do not tell, as in runs of earlier versions.
        """
        if not self._sure:
            return None
        sizes = len(task.left.entities), len(task.right.entities)
        rows = zip(self._sure.values(), sizes, strict=True)
        return torch.cat(
            [F.pad(known, (0, size - len(known)), value=later) for known, size in rows]
        )

    def _keep(self, memory: Mapping[str, Tensor]) -> None:
        """Memories by side, and those of all; the dictionaries of sides stay the same ones."""
        self._shared = {name: memory[name] for name in SHARED if name in memory}
        for name, rows in mapped_rows(memory).items():
            side, dot, part = name.partition(".")
            if dot:
                self._memory.setdefault(side, {})[part] = rows

    def _refreshed(self) -> Mapping[str, Tensor]:
        task = self.task
        return self._encode(task, self._grown_weights(task))[0]

    def _settle(self, refresh: bool) -> None:
        task, growing = self.task, self.growing
        weights = self._grown_weights(task)
        vectors: Mapping[str, Tensor]
        if refresh:
            self._questions = None
            vectors, memory = self._encode(task, weights)
        else:
            self._asking.settle(growing)
            vectors = {side: growing.sides[side].vectors for side in SIDES}
            memory = {
                f"{side}.{name}": rows
                for side in SIDES
                for name, rows in growing.sides[side].memory(growing.model).items()
            } | dict(self._shared)
        self._task, self._weights, self._vectors, self._memory = task, weights, vectors, {}
        self._keep(memory)

    def _forget(self) -> None:
        self._growing, self._questions = None, None
        self._memory, self._shared = {}, {}


def by_side(rows: Tensor, n_left: int) -> dict[str, Tensor]:
    """Rows of all entities, the left graph's first, by the side's name."""
    return {"left": rows[:n_left], "right": rows[n_left:]}


def check_side(side: str) -> None:
    """Raise unless it names one of the two graphs."""
    if side not in SIDES:
        raise ConfigError(f"no side {side!r}; there are: left, right")


def _whole(rows: Tensor | MappedRows) -> Tensor:
    return rows.all() if isinstance(rows, MappedRows) else rows


def _relaid(table: Tensor, sizes: Sequence[int], grown: Sequence[int]) -> Tensor:
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
