"""The paper's view: input embeddings, DAN over neighbours, self-distillation."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from decentrl.config import Config
from decentrl.config.alignment import DANSettings
from decentrl.graph.adjacency import Adjacency, Ids
from decentrl.graph.merged import MergedGraph
from decentrl.graph.view import GraphView
from decentrl.nn.aggregate import gather
from decentrl.nn.dan import DAN
from decentrl.nn.distillation import SelfDistillation
from decentrl.nn.losses import contrastive_alignment_loss, join, joined_dots
from decentrl.nn.running import FrozenStates, eval_mode
from decentrl.views.base import INPUTS, STATES, LinkObjective, Rows, TrainingData, View
from decentrl.views.part import Part


class DANView(View):
    """Input embeddings e and a DAN over them.

    An entity is represented by its parts, each L2-normalised, concatenated and normalised again.
    The parts are the outputs of layers 1 … K (``output="layers"``), of layers 0 … K
    (``"all-layers"``), or those and the input embedding, which is 0 for an entity unseen in
    training (``"all-layers+input"``).
    """

    reads_links = True

    def __init__(self, config: Config, n_entities: int, n_relations: int) -> None:
        super().__init__()
        model: DANSettings = config.model
        self.config = config
        self.entities = nn.Parameter(torch.empty(n_entities, model.dim))
        nn.init.xavier_uniform_(self.entities)
        self.dan = DAN(
            model.dim,
            model.layers,
            relations="add",
            n_relations=n_relations,
            relation_weight=model.relation_weight,
            dropout=model.dropout,
        )
        self.first_part = 1 if model.output == "layers" else 0
        self.with_input = model.output == "all-layers+input"
        self.dim = model.dim * (model.layers + 1 - self.first_part + self.with_input)
        self.distillation = SelfDistillation(self.dim, model.dim, config.distillation.variant)
        self.reads_two_hops = model.hops == "alternating"
        self.reading = {
            "layers": model.layers,
            "two_hop": self.reads_two_hops,
            "self_entity": model.self_entity,
        }
        self.memories = {STATES: (model.layers + 1) * model.dim, INPUTS: model.dim}
        self.reach = (model.layers + 1) * (2 if self.reads_two_hops else 1)

    def read(self, graph: MergedGraph, trained_on: MergedGraph, device: torch.device) -> GraphView:
        return graph.view(trained_on=trained_on, **self.reading).to(device)

    def forward(self, structure: GraphView) -> list[Tensor]:
        """The parts of every entity's vector before normalisation, [n_entities, dim] each."""
        return self._parts(self.dan(self.entities, structure), self.entities, structure)

    def _parts(self, layers: list[Tensor], inputs: Tensor, structure: GraphView) -> list[Tensor]:
        parts = layers[self.first_part :]
        if self.with_input:
            parts.append(inputs * structure.seen[:, None])
        return parts

    def objective(self, structure: GraphView, data: TrainingData) -> DANObjective:
        return DANObjective(self, structure, data)

    @torch.no_grad()
    def encode(self, structure: GraphView, links: Tensor, out: Tensor | None = None) -> Rows:
        inputs = torch.where(structure.seen[:, None], self.entities, 0)
        return self._rows(structure, inputs, out=out)

    def _rows(
        self,
        structure: GraphView,
        inputs: Tensor,
        frozen: FrozenStates | None = None,
        out: Tensor | None = None,
    ) -> Rows:
        with eval_mode(self):
            layers = self.dan(inputs, structure, frozen=frozen)
        parts = self._parts(layers, inputs, structure)
        vectors = parts[0].new_empty(len(parts[0]), self.dim) if out is None else out
        for start in range(0, len(vectors), 4096):  # one large tensor, not three
            rows = slice(start, start + 4096)
            vectors[rows] = join([part[rows] for part in parts])
        return Rows(vectors, {STATES: torch.cat(layers, 1), INPUTS: inputs})

    @torch.no_grad()
    def newcomers(self, part: Part) -> Rows:
        states = part.memory(STATES)
        structure = part.graph_view(states, **self.reading)
        frozen = part.frozen(states, self.config.model.layers + 1)
        return self._rows(structure, part.memory(INPUTS), frozen)

    def students(self, states: Tensor) -> Tensor:
        parts = list(states.chunk(self.config.model.layers + 1, 1)[self.first_part :])
        if self.with_input:  # a newcomer has no input embedding of its own
            parts.append(torch.zeros_like(parts[0]))
        return join(parts)


class DANObjective(LinkObjective):
    """The paper's objective: links together, samples apart, and self-distillation."""

    def loss(self, batch: Ids, rng: np.random.Generator) -> Tensor:
        device, n = self.model.entities.device, len(self.structure.seen)
        parts = self.model(self.structure)
        count = len(batch) * self.config.loss.negatives
        lefts, rights = rng.choice(self.seen_left, count), rng.choice(self.seen_right, count)
        negatives = Adjacency.from_pairs(lefts, rights, n, n).to(device)
        ids = torch.from_numpy(batch.T.reshape(-1)).to(device)
        constant = not self.model.with_input  # layers have one length, so no gradient goes through
        vectors = join([gather(part, ids) for part in parts], constant)
        left, right = vectors.chunk(2)
        near, far = (left * right).sum(-1), joined_dots(parts, negatives, constant)
        loss = contrastive_alignment_loss(near, far)
        distillation = self.config.distillation
        sampled = torch.from_numpy(rng.choice(self.seen, distillation.negatives)).to(device)
        taught: Tensor = self.model.distillation(vectors, self.model.entities, ids, sampled)
        total: Tensor = loss + distillation.weight * taught
        return total
