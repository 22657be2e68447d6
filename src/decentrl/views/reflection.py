"""The relational view: neighbours reflected along relations, self-distillation, induced inputs."""

from __future__ import annotations

from functools import partial

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from decentrl.config import Config
from decentrl.config.alignment import ReflectionSettings
from decentrl.graph.adjacency import Ids
from decentrl.graph.merged import MergedGraph
from decentrl.graph.relational import RelationalView
from decentrl.nn.distillation import SelfDistillation
from decentrl.nn.losses import hard_sample_loss
from decentrl.nn.propagation import same_relations
from decentrl.nn.reflection import RelationalEncoder
from decentrl.nn.running import eval_mode
from decentrl.views.base import INPUTS, STATES, LinkObjective, Rows, TrainingData, View
from decentrl.views.part import Part

LENGTH = "length"
"""Name of a shared memory: the mean length of trained input embeddings."""


class ReflectionView(View):
    """The relational encoder and the head of its self-distillation."""

    entity_tables = ("encoder.entities",)

    def __init__(self, config: Config, n_entities: int, n_relations: int) -> None:
        super().__init__()
        model: ReflectionSettings = config.model
        self.config, variant = config, config.distillation.variant
        self.encoder = RelationalEncoder(
            n_entities,
            n_relations,
            model.dim,
            model.layers,
            context=model.context,
            dropout=model.dropout,
            edge_dropout=model.edge_dropout,
            entity_dropout=model.entity_dropout,
        )
        self.distillation: SelfDistillation | None = None
        if variant != "none":
            self.distillation = SelfDistillation(self.encoder.dim, model.dim, variant)
        self.dim = self.encoder.dim
        self.memories = {STATES: self.dim, INPUTS: model.dim}
        self.reach = model.layers + 1
        self.stages = 2 * (model.layers + 1)

    def read(
        self, graph: MergedGraph, trained_on: MergedGraph, device: torch.device
    ) -> RelationalView:
        return graph.relational_view(trained_on, device)

    def objective(self, structure: RelationalView, data: TrainingData) -> ReflectionObjective:
        threshold = self.config.model.same_relations
        if threshold <= 1:
            n_left = data.graph.n_left_relations
            shared = same_relations(data.relation_features(), n_left, threshold)
            self.encoder.representative.copy_(shared)
        return ReflectionObjective(self, structure, data)

    @torch.no_grad()
    def encode(self, structure: RelationalView, links: Tensor, out: Tensor | None = None) -> Rows:
        """Rows of all entities.

        The head of the distillation has learned to predict an entity's input embedding from its
        vector. So input embeddings that were never trained are induced: a first pass without them
        gives vectors, the head predicts their inputs, and a second pass reads those.
        """
        memory, length = self._states(structure)
        states = memory[STATES]
        vectors = states.clone() if out is None else out.copy_(states)
        return Rows(unit_rows(vectors), memory, length)

    @torch.no_grad()
    def memory_of(self, structure: RelationalView, links: Tensor) -> Rows:
        memory, length = self._states(structure)
        return Rows(memory[STATES][:, :0], memory, length)

    def _states(self, structure: RelationalView) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """The layers and inputs of all entities, and the mean length of trained inputs."""
        with eval_mode(self):
            inputs, seen = self.encoder.entities.detach(), structure.seen
            states: Tensor = self.encoder(structure, inputs=inputs)
            if not bool(seen.all()):
                inputs = torch.where(seen[:, None], inputs, 0)
                unseen = ~seen & (states.abs().amax(1) > 0)
                induced = self.induced(states[unseen], mean_length(inputs[seen]))
                if induced is not None and len(induced):
                    inputs[unseen] = induced
                    states = self.encoder(structure.reading(seen | unseen), inputs=inputs)
        return {STATES: states, INPUTS: inputs}, {LENGTH: mean_length(inputs[seen]).reshape(1)}

    @torch.no_grad()
    def newcomers(self, part: Part) -> Rows:
        """Rows of a part.

        A new entity's input embedding is predicted from its neighbours in training alone, so that
        it does not depend on which other entities are new.
        """
        trained = torch.from_numpy(part.trained).to(part.device)
        view, inputs = part.relational_view(), part.memory(INPUTS)
        frozen = part.frozen(part.memory(STATES), self.stages)
        with eval_mode(self):
            near = view.reading(trained)
            kept = trained[near.edges.nodes.columns], None
            encode = partial(self.encoder, frozen=frozen, directed=part.few_relations[1])
            states: Tensor = encode(near, inputs=inputs, kept=kept)
            new = (part.new & (states.abs().amax(1) > 0)).nonzero()[:, 0]
            induced = self.induced(states[new], part.shared[LENGTH].to(part.device))
            if induced is not None:
                inputs = inputs.index_put((new,), induced)
            there = inputs.abs().amax(1) > 0
            states = encode(view.reading(there), inputs=inputs)
        return Rows(unit_rows(states.clone()), {STATES: states, INPUTS: inputs})

    def induced(self, states: Tensor, length: Tensor) -> Tensor | None:
        """Predicted input embeddings of entities with these states; None if there is no head."""
        if not self.config.distillation.induce or self.distillation is None:
            return None
        return length * F.normalize(self.distillation.head(states), dim=1)


class ReflectionObjective(LinkObjective):
    """Linked entities nearest to each other among sampled entities, and self-distillation.

    A step compares a batch of links with ``loss.entities`` sampled entities, so its cost does not
    grow with the number of links or candidates. But each goes through the layers of the whole
    graph: so an epoch of a larger graph has larger steps, not more of them.
    """

    always_shuffles = True
    most_steps = 24

    def loss(self, batch: Ids, rng: np.random.Generator) -> Tensor:
        device = self.structure.seen.device
        count = self.config.loss.entities
        sampled = self.seen
        if 0 < count < len(sampled):
            sampled = rng.choice(sampled, count, replace=False, shuffle=False)
        ids = torch.from_numpy(np.concatenate((batch[:, 0], batch[:, 1], sampled))).to(device)
        vectors: Tensor = self.model.encoder(self.structure, ids)
        linked, others = ids[: 2 * len(batch)], ids[2 * len(batch) :]
        left, right = vectors[: len(batch)], vectors[len(batch) : 2 * len(batch)]
        own = _equal(linked.view(2, -1), others, len(self.structure.seen))
        loss = hard_sample_loss(left, right, vectors[2 * len(batch) :], own, self.config.loss.scale)
        settings = self.config.distillation
        if self.model.distillation is not None:
            wrong = torch.from_numpy(rng.choice(self.seen, settings.negatives)).to(device)
            taught: Tensor = self.model.distillation(
                vectors[: len(linked)], self.model.encoder.entities, linked, wrong
            )
            loss = loss + settings.weight * taught / len(linked)
        return loss


def _equal(pairs: Tensor, others: Tensor, n: int) -> Tensor:
    """Which of the distinct ``others``, int64[m], is an end of pair i, int64[2, b]: bool[b, m].

    Args:
        n: all ids are below it.
    """
    place = others.new_full((n,), -1)
    place[others] = torch.arange(len(others), device=others.device)
    found = torch.zeros(pairs.shape[1], len(others), dtype=torch.bool, device=others.device)
    for ends in place[pairs]:
        there = ends >= 0
        found[there.nonzero()[:, 0], ends[there]] = True
    return found


def mean_length(vectors: Tensor) -> Tensor:
    """Mean length of the rows of [n, d]; 0 if there are none."""
    total: Tensor = vectors.norm(dim=1).sum() / max(1, len(vectors))
    return total


def unit_rows(vectors: Tensor) -> Tensor:
    """Scale rows to length 1 in place; rows of 0 stay 0."""
    return vectors.div_(vectors.norm(dim=1, keepdim=True).clamp(min=1e-12))
