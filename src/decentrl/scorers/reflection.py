"""The relational encoder of prediction: neighbours reflected along their relations."""

from __future__ import annotations

import torch
from torch import Tensor

from decentrl.config import PredictionConfig
from decentrl.graph.adjacency import Adjacency, Ids
from decentrl.graph.relational import RelationalView
from decentrl.graph.view import seen_in
from decentrl.nn.reflection import RelationalEncoder
from decentrl.scorers.encoder import Encoded, PredictionEncoder
from decentrl.views.base import INPUTS, STATES
from decentrl.views.part import Part


class ReflectionEncoder(PredictionEncoder):
    """A relational encoder whose attention reads contexts too; g is all its layers."""

    stored_as = ""
    entity_tables = ("reflection.entities",)

    def __init__(self, config: PredictionConfig, n_entities: int, n_relations: int) -> None:
        super().__init__()
        model = config.model
        self.reflection = RelationalEncoder(
            n_entities, n_relations, model.dim, model.layers, context=True, dropout=0.0
        )
        self.stages = 2 * (model.layers + 1)
        self.memories = {STATES: self.reflection.dim, INPUTS: model.dim}
        self.reach = model.layers + 1

    def read(
        self, triples: Ids, trained_on: Ids, n_entities: int, n_relations: int, device: torch.device
    ) -> RelationalView:
        seen = seen_in(trained_on, n_entities, n_relations)
        return RelationalView.build(triples, n_entities, n_relations, device=device, **seen)

    def edges(self, view: RelationalView) -> list[Adjacency]:
        return [view.edges.nodes, view.first]

    def forward(
        self, view: RelationalView, inputs: Tensor, kept: tuple[Tensor, ...] | None = None
    ) -> Encoded:
        g: Tensor = self.reflection(view, inputs=inputs, kept=kept)
        return g, [g]

    def newcomers(self, part: Part) -> Encoded:
        frozen = part.frozen(part.memory(STATES), self.stages)
        view, inputs, directed = part.relational_view(), part.memory(INPUTS), part.few_relations[1]
        g: Tensor = self.reflection(view, inputs=inputs, frozen=frozen, directed=directed)
        return g, [g]
