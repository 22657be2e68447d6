"""Graph attention (Veličković et al., ICLR 2018) as an aligner."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch.nn.functional as F
from torch import Tensor, nn

from decentrl.config import setting
from decentrl.config.shared import SHARE
from decentrl.graph.adjacency import Adjacency
from decentrl.nn.aggregate import segment_softmax, weighted_sum
from decentrl.views.registry import register_view
from studies.rivals.centralised import CentralisedModel, Parts, linear
from studies.rivals.centralised_view import CentralisedView
from studies.rivals.settings import ALIGNMENT, LayeredAlignmentSettings, preset


class SelfAttention(nn.Module):
    r"""Attention in which the entity itself is the query and one of its own neighbours.

    .. math::
        \alpha_{ij} = \mathrm{softmax}_{j \in N(i) \cup \{i\}}
            \mathrm{LeakyReLU}(a^\top [W h_i \| W h_j]), \quad
        h'_i = \sum_j \alpha_{ij} W h_j
    """

    def __init__(self, dim: int, dropout: float) -> None:
        super().__init__()
        self.value = linear(dim, dim)
        self.query_score = linear(dim, 1)
        self.key_score = linear(dim, 1)
        self.dropout = nn.Dropout(dropout)

    def forward(self, hidden: Tensor, graph: Adjacency) -> Tensor:
        """[n, dim] → [n, dim]."""
        values = self.value(hidden)
        by_row, by_column = self.query_score(values)[:, 0], self.key_score(values)[:, 0]
        logits = by_row.index_select(0, graph.rows) + by_column.index_select(0, graph.columns)
        weights = segment_softmax(F.leaky_relu(logits, 0.2), graph)
        return weighted_sum(self.dropout(weights), values, graph)


@dataclass(frozen=True)
class GATSettings(LayeredAlignmentSettings):
    encoder: ClassVar[str] = "gat"

    dropout: float = setting(0.0, "dropout on attention scalars", **SHARE)


# One head, two layers, trained as AliNet's paper trains (contrastive, near wrong counterparts).
PRESET = preset(ALIGNMENT, training={"epochs": 60, "learning_rate": 0.003})


@register_view(GATSettings, PRESET)
class GAT(CentralisedModel):
    """Self-attention layers of one head, ELU between them.

    An entity's vector is the input embedding and the outputs of all layers side by side, each of
    length 1, which is how AliNet, to whose paper the reference number belongs, represents one.
    """

    def make_layers(self, model: Any) -> Iterable[nn.Module]:
        return (SelfAttention(model.dim, model.dropout) for _ in range(model.layers))

    def forward(self, structure: CentralisedView) -> Parts:
        parts: Parts = [self.entities]
        for k, layer in enumerate(self.layers):
            parts.append(layer(F.elu(parts[-1]) if k else parts[-1], structure.near))
        return parts
