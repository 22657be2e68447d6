"""The paper's encoder of prediction: a Decentralized Attention Network over neighbours."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from decentrl.config import PredictionConfig
from decentrl.graph.adjacency import Adjacency, Ids
from decentrl.graph.view import GraphView, seen_in
from decentrl.nn.dan import DAN
from decentrl.scorers.encoder import Encoded, PredictionEncoder
from decentrl.views.base import INPUTS, STATES
from decentrl.views.part import Part

ATTENTION_DROPOUT = 0.3


class DANEncoder(PredictionEncoder):
    """Input embeddings and a DAN with multiplied relations; g is its last layer."""

    stored_as = ""
    entity_tables = ("inputs",)

    def __init__(self, config: PredictionConfig, n_entities: int, n_relations: int) -> None:
        super().__init__()
        model = config.model
        self.inputs = nn.Parameter(torch.empty(n_entities, model.dim))
        nn.init.xavier_uniform_(self.inputs)
        self.dan = DAN(
            model.dim,
            model.layers,
            relations="multiply",
            n_relations=n_relations,
            dropout=ATTENTION_DROPOUT,
        )
        self.layers = model.layers
        self.memories = {STATES: (model.layers + 1) * model.dim, INPUTS: model.dim}
        self.reach = model.layers + 1

    def read(
        self, triples: Ids, trained_on: Ids, n_entities: int, n_relations: int, device: torch.device
    ) -> GraphView:
        seen = seen_in(trained_on, n_entities, n_relations)
        view = GraphView.build([triples], n_entities, n_relations, layers=self.layers, **seen)
        return view.to(device)

    def edges(self, view: GraphView) -> list[Adjacency]:
        return [view.first]

    def forward(
        self, view: GraphView, inputs: Tensor, kept: tuple[Tensor, ...] | None = None
    ) -> Encoded:
        layers: list[Tensor] = self.dan(inputs, view, None if kept is None else kept[0])
        return layers[-1], layers

    def newcomers(self, part: Part) -> Encoded:
        states = part.memory(STATES)
        view = part.graph_view(states, layers=self.layers)
        frozen = part.frozen(states, self.layers + 1)
        layers: list[Tensor] = self.dan(part.memory(INPUTS), view, frozen=frozen)
        return layers[-1], layers

    def students(self, states: Tensor) -> Tensor:
        return states.chunk(self.layers + 1, 1)[-1]
