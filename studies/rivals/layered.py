"""What the rivals of prediction have in common: a network over a table of embeddings."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from decentrl.config import PredictionConfig
from decentrl.graph.adjacency import Adjacency, Ids
from decentrl.nn.aggregate import gather
from decentrl.scorers.encoder import Encoded, PredictionEncoder
from studies.rivals.baseline_view import BaselineView


class RivalEncoder(PredictionEncoder):
    """A rival's network as an encoder: it has no newcomers, and hands on no states."""

    stored_as = "baseline."
    entity_tables = ("entities",)

    def read(
        self, triples: Ids, trained_on: Ids, n_entities: int, n_relations: int, device: torch.device
    ) -> BaselineView:
        return BaselineView.of(triples, trained_on, n_entities, n_relations, device)

    def edges(self, view: BaselineView) -> list[Adjacency]:
        return [view.edges.nodes]

    def forward(
        self, view: BaselineView, inputs: Tensor, kept: tuple[Tensor, ...] | None = None
    ) -> Encoded:
        return self.network(view, inputs, None if kept is None else kept[0]), []

    @abstractmethod
    def network(self, view: BaselineView, h: Tensor, kept: Tensor | None = None) -> Tensor:
        """Input embeddings [n_entities, dim] → vectors of that shape.

        Args:
            kept: bool[n_edges], the edges that count; all by default.
        """


class LayeredEncoder(RivalEncoder):
    """Layers h' = layer(h, view, kept) over a table of input embeddings.

    It is centralised: an entity's own embedding takes part, and where that was never trained it is
    read as it was initialised, as the rivals' papers would.
    """

    def __init__(self, config: PredictionConfig, n_entities: int, n_relations: int) -> None:
        super().__init__()
        dim, depth = config.model.dim, config.model.layers
        self.entities = nn.Parameter(torch.empty(n_entities, dim))
        self.initialise(self.entities)
        self.layers = nn.ModuleList(self.make_layer(n_relations, dim) for _ in range(depth))

    @abstractmethod
    def make_layer(self, n_relations: int, dim: int) -> nn.Module:
        """A new layer."""

    def initialise(self, entities: Tensor) -> None:
        """Draw the first values of the input embeddings."""
        nn.init.normal_(entities, std=entities.shape[1] ** -0.5)

    def network(self, view: BaselineView, h: Tensor, kept: Tensor | None = None) -> Tensor:
        for layer in self.layers:
            h = layer(h, view, kept)
        return h


class SeenBatchNorm(nn.BatchNorm1d):
    """Batch normalisation whose statistics are those of the entities seen in training.

    While training, rows of other entities pass through unchanged and get no gradient from it.
    """

    def forward(self, rows: Tensor, seen: Tensor) -> Tensor:  # type: ignore[override]
        """rows [n_entities, dim], seen bool[n_entities] → [n_entities, dim]."""
        if not self.training:
            return super().forward(rows)
        known = seen.nonzero().squeeze(1)
        if len(known) < 2:  # a single row has no variance
            return rows
        return rows.index_copy(0, known, super().forward(gather(rows, known)))


def glorot(layers: Iterable[Any]) -> None:
    """Draw Glorot's initial weights for linear maps."""
    for layer in layers:
        nn.init.xavier_uniform_(layer.weight)
