"""What the rivals of prediction have in common: one network over a table of embeddings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from decentrl.graph.adjacency import Adjacency, Ids
from decentrl.graph.baselines import BaselineView
from decentrl.scorers.encoder import Encoded, PredictionEncoder


class RivalEncoder(PredictionEncoder):
    """A rival's network as an encoder: it has no newcomers, and hands on no states.

    Args:
        network: has ``entities``, the input embeddings, and makes vectors of
            ``(view, inputs, kept)``.
    """

    stored_as = ""
    entity_tables = ("baseline.entities",)

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.baseline: Any = network

    @property
    def embeddings(self) -> Tensor:
        table: Tensor = self.baseline.entities
        return table

    def read(
        self, triples: Ids, trained_on: Ids, n_entities: int, n_relations: int, device: torch.device
    ) -> BaselineView:
        return BaselineView.of(triples, trained_on, n_entities, n_relations, device)

    def edges(self, view: BaselineView) -> list[Adjacency]:
        return [view.edges.nodes]

    def forward(
        self, view: BaselineView, inputs: Tensor, kept: tuple[Tensor, ...] | None = None
    ) -> Encoded:
        return self.baseline(view, inputs, None if kept is None else kept[0]), []


class LayeredNetwork(nn.Module):
    """Layers h' = layer(h, view, kept) over a table of input embeddings.

    It is centralised: an entity's own embedding takes part, and where that was never trained it is
    read as it was initialised.
    """

    def __init__(self, n_entities: int, dim: int, layers: Iterable[nn.Module]) -> None:
        super().__init__()
        self.entities = nn.Parameter(torch.empty(n_entities, dim))
        nn.init.normal_(self.entities, std=dim**-0.5)
        self.layers = nn.ModuleList(layers)

    def forward(self, view: BaselineView, inputs: Tensor, kept: Tensor | None = None) -> Tensor:
        """Input embeddings [n_entities, dim] → vectors of that shape.

        Args:
            kept: bool[n_edges], the edges that count; all by default.
        """
        h = inputs
        for layer in self.layers:
            h = layer(h, view, kept)
        return h
