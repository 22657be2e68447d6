"""No encoder: an entity's vector is its row in a table."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from decentrl.config import PredictionConfig
from decentrl.graph.adjacency import Ids
from decentrl.graph.view import entities_of
from decentrl.scorers.encoder import Encoded, PredictionEncoder
from decentrl.views.part import Part


class Table(PredictionEncoder):
    """Vectors of width 0: what the model adds to them, the entity's own embedding, is all."""

    def __init__(self, config: PredictionConfig, n_entities: int, n_relations: int) -> None:
        super().__init__()
        self.register_buffer("_embeddings", torch.empty(n_entities, 0), persistent=False)

    @property
    def embeddings(self) -> Tensor:
        return self.get_buffer("_embeddings")

    def read(
        self, triples: Ids, trained_on: Ids, n_entities: int, n_relations: int, device: torch.device
    ) -> SimpleNamespace:
        seen = torch.from_numpy(entities_of(trained_on, n_entities))
        return SimpleNamespace(seen=seen.to(device))

    def forward(self, view: Any, inputs: Tensor, kept: tuple[Tensor, ...] | None = None) -> Encoded:
        return inputs, []

    def newcomers(self, part: Part) -> Encoded:
        return torch.zeros(len(part.new), 0, device=part.device), []
