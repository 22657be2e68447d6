"""What graph networks have in common that read an entity's own embedding too."""

from __future__ import annotations

from collections.abc import Iterable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from decentrl.config import DistillationConfig, ModelConfig
from decentrl.graph.centralised import CentralisedView
from decentrl.nn.alignment import join
from decentrl.nn.dropout import eval_mode


class CentralisedModel(nn.Module):
    """An input embedding for every entity, of length 1 at first, and layers over them.

    An entity that is unseen in training keeps the embedding it began with, and it is read like
    any other: this is how such a network meets an open world.
    """

    def __init__(
        self,
        n_entities: int,
        n_relations: int,
        model: ModelConfig,
        distillation: DistillationConfig | None = None,
    ) -> None:
        super().__init__()
        self.entities = nn.Parameter(F.normalize(torch.randn(n_entities, model.dim), dim=1))
        self.depth = model.layers
        self.layers = nn.ModuleList(self.make_layers(model))

    def make_layers(self, model: ModelConfig) -> Iterable[nn.Module]:
        """One a layer; none if the layers have nothing to learn."""
        return ()

    def forward(self, view: CentralisedView) -> list[Tensor]:
        """The parts of every entity's vector before normalisation, [n_entities, …] each."""
        raise NotImplementedError

    @torch.no_grad()
    def encode(self, view: CentralisedView) -> Tensor:
        """Every entity's vector with dropout off, [n_entities, d], of length 1."""
        with eval_mode(self):
            return join(self(view))


def linear(inputs: int, outputs: int, bias: bool = False) -> nn.Linear:
    """A map with Glorot's initial weights."""
    layer = nn.Linear(inputs, outputs, bias=bias)
    nn.init.xavier_uniform_(layer.weight)
    if bias:
        nn.init.zeros_(layer.bias)
    return layer
