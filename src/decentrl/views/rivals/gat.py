"""Graph attention (Veličković et al., ICLR 2018) as an aligner."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from decentrl.graph.adjacency import Adjacency
from decentrl.graph.centralised import CentralisedView
from decentrl.nn.aggregate import segment_softmax, weighted_sum
from decentrl.views.rivals.centralised import CentralisedModel, Parts, linear


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
