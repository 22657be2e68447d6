"""What an aligner has learned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from decentrl.config import Config
from decentrl.data.alignment_task import AlignmentTask
from decentrl.data.knowledge_graph import row_keys
from decentrl.data.memory import Source
from decentrl.data.vocabulary import Ids
from decentrl.graph.merged import MergedGraph
from decentrl.growth.growing import Growing
from decentrl.growth.learned import Learned, Model, all_triples, graphs_of
from decentrl.growth.newcomers import VECTORS, Newcomers
from decentrl.growth.settled import Settled
from decentrl.growth.texts import text_rows
from decentrl.matching.confidence import FEATURES, Confidence
from decentrl.nn.running import cuda_devices
from decentrl.storage.bundle import Bundle
from decentrl.storage.validate import NEWCOMER
from decentrl.training.fitting import NO_LINKS, Fitted, Pass, TrainingContext
from decentrl.views.base import INPUTS
from decentrl.views.fused import FusedViews
from decentrl.views.part import Mask
from decentrl.views.propagation import LINKS
from decentrl.views.registry import view_type

Side = Literal["left", "right"]
SIDES: tuple[Side, Side] = ("left", "right")


@dataclass(frozen=True, eq=False, kw_only=True)
class AlignmentState(Learned):
    """What training on two graphs has left.

    Attributes:
        weights: of the encoder.
        found: links that self-training has found, int64[n, 2].
        potentials: solutions of matching problems, as :class:`~decentrl.growth.potentials.Matching`
            stores them.
        settled: matches that stay when more arrives; None if they were not found out.
        newcomer: confidence in matches of newcomers; None if it was not rehearsed.
    """

    config: Config
    task: AlignmentTask
    weights: Mapping[str, Tensor]
    found: Ids
    potentials: Mapping[str, Tensor] = field(default_factory=dict)
    settled: Settled | None = None
    newcomer: Confidence | None = None

    # Between training, files and this object

    @classmethod
    def from_fitted(
        cls, device: torch.device, task: AlignmentTask, fitted: Fitted
    ) -> AlignmentState:
        """What a training has left."""
        return cls(
            config=fitted.config,
            device=device,
            task=task,
            weights=fitted.weights,
            vectors=by_side(fitted.vectors, task),
            confidence=fitted.confidence,
            found=fitted.found - np.array([0, len(task.left.entities)]),
        ).checked()

    @classmethod
    def _model_of(cls, bundle: Bundle[Any, Any]) -> Model:
        left, right = bundle.task.left, bundle.task.right
        entities = len(left.entities) + len(right.entities)
        relations = len(left.relations) + len(right.relations)
        views = FusedViews(bundle.config, entities, relations)
        weights = {} if views.encoder is None else views.encoder.state_dict()
        if views.names is not None and bundle.memory:
            views.names.check(bundle.memory)
        return weights, views.dim, views.memories, len(FEATURES)

    @classmethod
    def _parts_of(cls, bundle: Bundle[Any, Any], device: torch.device) -> dict[str, Any]:
        matching = bundle.matching
        return {
            "weights": bundle.weights,
            "found": matching["found"].numpy() if "found" in matching else NO_LINKS.copy(),
            "potentials": {k: v for k, v in matching.items() if k.startswith("potential.")},
            "settled": Settled.from_tensors(matching),
            "newcomer": _newcomer_of(matching),
        }

    def _tensors(self) -> tuple[Mapping[str, Tensor], dict[str, Tensor]]:
        settled = {} if self.settled is None else self.settled.to_tensors()
        new = {} if self.newcomer is None else self.newcomer.to_tensors()
        named = {NEWCOMER + name: tensor for name, tensor in new.items()}
        found = {"found": torch.from_numpy(self.found)}
        return self.weights, {**found, **self.potentials, **settled, **named}

    # What newcomers need

    def _made_memory(self) -> Mapping[str, Tensor]:
        rows = self._pass().memory("now")
        found = {name: tensor.cpu() for name, tensor in rows.shared.items()}
        for name, tensor in rows.memory.items():
            sides = by_side(tensor.cpu(), self.task)
            found |= {f"{side}.{name}": sides[side] for side in SIDES}
        return found

    @cached_property
    def shared(self) -> dict[str, Tensor]:
        found = {name: x for name, x in self.memories.items() if "." not in name}
        # Bundles of earlier versions do not hold the number of links.
        found.setdefault(LINKS, torch.tensor([len(self._learned_links()) + len(self.found)]))
        return found

    def _newcomers(self, seen_relations: Mask) -> Newcomers:
        """What makes rows of new entities."""
        views = FusedViews(self.config, 1, len(seen_relations))
        views.load(self.weights, with_entities=False)
        if views.encoder is not None:
            views.encoder.to(self.device).eval()
        parts = [view for view, _ in views.parts]
        return Newcomers(
            views,
            getattr(views.encoder, "distillation", None),
            {VECTORS: views.dim, **views.memories},
            max(view.reach for view in parts),
            seen_relations,
            self.device,
            any(view.reads_two_hops for view in parts),
            self.shared,
            views.names is not None,
        )

    @cached_property
    def spans(self) -> dict[str, slice]:
        """Which columns of a vector each view has; see :attr:`FusedViews.spans`."""
        with torch.random.fork_rng(devices=[]), torch.device("meta"):  # nothing is computed
            return FusedViews(self.config, 1, 1).spans

    # With all that was added

    def grown_task(self, growing: Growing) -> AlignmentTask:
        if not growing.additions:
            return self.task
        left, right = (growing.sides[side] for side in SIDES)
        train = np.concatenate((self.task.train, growing.links))
        task = replace(self.task, left=left.graph, right=right.graph, train=train)
        later = left.arrivals.triples, right.arrivals.triples
        if task.auxiliary is None and not any(map(len, later)):  # links alone
            return task
        unknown = task.unknown
        if unknown is None:
            unknown = new_ends(growing, task.test)
        return replace(task, auxiliary=later, unknown=unknown)

    def grown(self, growing: Growing) -> Self:
        task = self.grown_task(growing)
        return replace(self, task=task, weights=self._grown_weights(task))

    def refreshed(self, growing: Growing) -> Self:
        return replace(super().refreshed(growing), potentials={}, settled=None)

    def encoded(self) -> tuple[dict[str, Tensor], None]:
        return by_side(self._pass().vectors("now"), self.task), None

    def _pass(self) -> Pass:
        """A pass in the state that training has left, over the graphs as they are."""
        known, now = merged_graphs(self.task, self.config.names.weight != 0)
        offset = np.array([0, known.n_left])
        context = TrainingContext(known, now, self.config, self.device)
        final = Pass(context, self._learned_links() + offset, NO_LINKS)
        with torch.random.fork_rng(devices=cuda_devices(self.device)):
            final.restore(self.found + offset, self.weights)
        return final

    def _learned_links(self) -> Ids:
        """The links that the last pass of training has learned from."""
        known, valid = self.task.train, self.task.valid
        return np.concatenate((known, valid)) if self.config.training.refit else known

    # To train again

    def settled_task(self, task: AlignmentTask, links: Source | None = None) -> AlignmentTask:
        train = task.train
        if links is not None:
            sizes = len(task.left.entities), len(task.right.entities)
            known = row_keys(np.concatenate((train, task.valid, task.test)), sizes)
            more = task.read_links(links)
            train = np.concatenate((train, more[~np.isin(row_keys(more, sizes), known)]))
        left, right = (
            graph.with_triples(all_triples(graph, arrived))
            for graph, arrived in graphs_of(task).values()
        )
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

    def _entity_tables(self) -> list[str]:
        """Names of weights with a row for each entity."""
        name = self.config.model.encoder
        tables = () if name == "none" else view_type(name).entity_tables
        return [table for table in tables if table in self.weights]

    def _grown_weights(self, task: AlignmentTask) -> dict[str, Tensor]:
        """The weights with rows of 0 for entities that came since."""
        grown = dict(self.weights)
        for name in self._entity_tables():
            sides, parts = by_side(self.weights[name], self.task), list[Tensor]()
            for graph, rows in zip((task.left, task.right), sides.values(), strict=True):
                later = len(graph.entities) - len(rows)
                parts += [rows, rows.new_zeros(later, *rows.shape[1:])]
            grown[name] = torch.cat(parts)
        return grown


def _newcomer_of(matching: Mapping[str, Tensor]) -> Confidence | None:
    named = {k.removeprefix(NEWCOMER): x for k, x in matching.items() if k.startswith(NEWCOMER)}
    return Confidence.from_tensors(named) if named else None


def new_ends(growing: Growing, links: Ids) -> npt.NDArray[np.bool_]:
    """bool[n]: links of entities that training has not seen."""
    sides = [growing.sides[side].arrivals for side in SIDES]
    seen = [side.is_trained(links[:, i]) for i, side in enumerate(sides)]
    new: npt.NDArray[np.bool_] = ~(seen[0] & seen[1])
    return new


def by_side(rows: Tensor, task: AlignmentTask) -> dict[str, Tensor]:
    """Rows of all entities, the left graph's first, by the side's name."""
    n_left = len(task.left.entities)
    return {"left": rows[:n_left], "right": rows[n_left:]}


def merged_graphs(task: AlignmentTask, names: bool = False) -> tuple[MergedGraph, MergedGraph]:
    """The graph known in training, and the one that queries see.

    Args:
        names: with names and attributes, if both graphs have the one or the other.
    """
    entities = (len(task.left.entities), len(task.right.entities))
    relations = (len(task.left.relations), len(task.right.relations))
    known = MergedGraph.merge(
        task.left.triples, task.right.triples, task.train, entities, relations
    )
    graphs = task.left, task.right
    if names and (all(len(x.names) for x in graphs) or all(len(x.attributes) for x in graphs)):
        left, right = (text_rows(x.names, x.attributes, len(x.entities)) for x in graphs)
        known = replace(known, texts=(left, right))
    if task.auxiliary is None:
        return known, known
    later = MergedGraph.merge(*task.auxiliary, task.train, entities, relations)
    return known, known.grown(later.left, later.right)
