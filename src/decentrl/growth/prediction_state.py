"""What a predictor has learned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from decentrl.config import PredictionConfig
from decentrl.data.graph_task import GraphTask
from decentrl.data.knowledge_graph import row_keys
from decentrl.data.memory import Source
from decentrl.data.vocabulary import Ids
from decentrl.errors import BundleError, ConfigError
from decentrl.graph.splits import Splits
from decentrl.growth.growing import Growing
from decentrl.growth.learned import SIDE, Learned, Model, all_triples, graphs_of
from decentrl.growth.newcomers import VECTORS, Newcomers
from decentrl.matching.confidence import Confidence
from decentrl.nn.running import cuda_devices
from decentrl.scorers.base import Scorer
from decentrl.scorers.completion import Completion
from decentrl.scorers.model import make_scorer
from decentrl.storage.bundle import Bundle
from decentrl.views.part import Mask


@dataclass(frozen=True, eq=False, kw_only=True)
class PredictionState(Learned):
    """What training on one graph has left.

    Attributes:
        model: what was trained to answer questions.
        taught: its training triples, if ``task`` is of another graph.
    """

    config: PredictionConfig
    task: GraphTask
    model: Scorer
    taught: Ids | None = None

    @classmethod
    def from_model(
        cls, config: PredictionConfig, device: torch.device, task: GraphTask, model: Scorer
    ) -> PredictionState:
        """What a training has left."""
        learned = cls(config=config, device=device, task=task, model=model)
        vectors, stored = learned.encoded()
        learned = replace(learned, vectors=vectors, stored=stored).checked()
        return replace(learned, confidence=learned._calibrated())

    def _calibrated(self) -> Confidence | None:
        """Probabilities from the validation triples, over the graph as it was while training."""
        splits = splits_of(self.task)
        then, valid = replace(splits, later=splits.later[:0]), splits.known_valid
        if not len(valid):
            return None
        if most := self.config.model.calibrated:
            order = np.random.default_rng(self.config.seed).permutation(len(valid))
            valid = valid[np.sort(order[:most])]
        ground = self.model.ground_of(view_of(self.model, then.now, self.task, self.device))
        return Completion(self.model, ground, then).calibrated(then.queries(valid), then.known)

    @classmethod
    def _model_of(cls, bundle: Bundle[Any, Any]) -> Model:
        sizes = len(bundle.task.graph.entities), len(bundle.task.graph.relations)
        model = make_scorer(*sizes, bundle.config)
        return model.state_dict(), model.width, model.memories, 2

    @classmethod
    def _parts_of(cls, bundle: Bundle[Any, Any], device: torch.device) -> dict[str, Any]:
        model = _new_model(bundle.config, bundle.task, device)
        try:
            model.load_state_dict(dict(bundle.weights))
        except RuntimeError as error:
            raise BundleError(
                f"{bundle.task.name}: its weights are not those of its settings; train it again"
            ) from error
        return {"model": model}

    def _tensors(self) -> tuple[Mapping[str, Tensor], dict[str, Tensor]]:
        return dict(self.model.state_dict()), {}

    # Vectors, and what newcomers need

    def encoded(self) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        now = all_triples(*graphs_of(self.task)[SIDE])
        # What makes no vectors need not read the graph.
        view = view_of(self.model, now, self.task, self.device) if self.model.width else None
        rows = self.model.rows(view)
        return {SIDE: rows.vectors}, {name: part.cpu() for name, part in rows.memory.items()}

    def _newcomers(self, seen_relations: Mask) -> Newcomers:
        model = make_scorer(1, len(seen_relations), self.config)
        model.load_frozen(self.model.state_dict())
        model.to(self.device)
        return Newcomers(
            model,
            model.distillation,
            {VECTORS: model.width, **model.memories},
            model.reach,
            seen_relations,
            self.device,
            False,
            self.shared,
        )

    # With all that was added

    def grown_task(self, growing: Growing) -> GraphTask:
        if not growing.additions:
            return self.task
        side = growing.sides[SIDE]
        new = side.arrivals.new_entities()
        if self.task.new_entities is not None:
            new = np.union1d(self.task.new_entities, new)
        return replace(
            self.task, graph=side.graph, auxiliary=side.arrivals.triples, new_entities=new
        )

    def grown(self, growing: Growing) -> Self:
        task = self.grown_task(growing)
        model = _new_model(self.config, task, self.device)
        model.load_state_dict(self.weights_for(model))
        return replace(self, task=task, model=model)

    # Another graph

    def over(self, task: GraphTask) -> Self:
        """The same model, to be asked about another graph with the same relations."""
        if not self.config.model.any_graph:
            raise ConfigError(
                f"{self.config.model.encoder} knows the entities of its own graph alone; "
                "train with the preset paths to ask about other graphs"
            )
        task = task.with_relations(self.task.graph.relations)
        taught = self.task.graph.triples if self.taught is None else self.taught
        model = _new_model(self.config, task, self.device)
        model.load_state_dict(self.model.state_dict())
        vectors = {SIDE: torch.zeros(len(task.graph.entities), 0, device=self.device)}
        return replace(self, task=task, model=model, taught=taught, vectors=vectors)

    # To train again

    def settled_task(self, task: GraphTask, links: Source | None = None) -> GraphTask:
        if links is not None:
            raise ConfigError("this run is about prediction; it has no links")
        every, sizes = all_triples(*graphs_of(task)[SIDE]), task.graph.sizes
        held_out = row_keys(np.concatenate((task.valid, task.test)), sizes)
        graph = task.graph.with_triples(every[~np.isin(row_keys(every, sizes), held_out)])
        return replace(task, graph=graph, auxiliary=None, new_entities=None)

    def weights_for(self, model: Scorer, fresh: bool = False) -> dict[str, Tensor]:
        """The weights with rows for all entities of a larger model.

        Args:
            fresh: new rows are those of the model, to start training from; otherwise they are 0,
                and not read.
        """
        weights = dict(self.model.state_dict())
        for name, larger in model.state_dict().items():
            if larger.shape != weights[name].shape:
                rows = self.model.grown_row(name, larger[len(weights[name]) :], fresh)
                weights[name] = torch.cat((weights[name], rows))
        return weights


def _new_model(config: PredictionConfig, task: GraphTask, device: torch.device) -> Scorer:
    """A model to be loaded; the global random state stays as it is."""
    with torch.random.fork_rng(devices=cuda_devices(device)):
        sizes = len(task.graph.entities), len(task.graph.relations)
        return make_scorer(*sizes, config).to(device)


def view_of(model: Scorer, triples: Ids, task: GraphTask, device: torch.device) -> Any:
    """What a scorer reads of triples after training on a task."""
    return model.read(triples, task.graph.triples, device)


def splits_of(task: GraphTask) -> Splits:
    """All triples of a task, each set by its part in it."""
    sizes = len(task.graph.entities), len(task.graph.relations)
    _, arrived = graphs_of(task)[SIDE]
    return Splits(task.graph.triples, arrived, task.valid, task.test, *sizes)
