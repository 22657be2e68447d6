"""R-GCN: a graph convolution with a matrix for each relation (Schlichtkrull et al., 2018)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from decentrl.nn.aggregate import weighted_sum
from decentrl.scorers.registry import register_prediction_encoder
from studies.rivals.baseline_view import BaselineView
from studies.rivals.layered import LayeredEncoder, glorot
from studies.rivals.settings import PREDICTION, PredictionSettings, preset


class RGCNLayer(nn.Module):
    r"""Every neighbour through the matrix of its relation, and the entity through one of its own.

    .. math::
        h'_i = W_0 h_i + \sum_r \sum_{j \in N_r(i)} \frac{1}{|N_r(i)|} W_r h_j,
        \quad W_r = \sum_b a_{rb} V_b

    The matrices of all relations are mixed from a few, so the sum over edges is a sparse product
    for each of these few, :math:`\sum_b A_b (H V_b)`, and no edges × dimensions tensor is made.

    Args:
        bases: how many matrices :math:`V_b` there are.
    """

    def __init__(self, n_relations: int, dim: int, bases: int) -> None:
        super().__init__()
        self.own = nn.Linear(dim, dim)
        self.bases = nn.ModuleList(nn.Linear(dim, dim, bias=False) for _ in range(bases))
        self.mixture = nn.Parameter(torch.empty(bases, 2 * n_relations))
        glorot((self.own, *self.bases))
        nn.init.zeros_(self.own.bias)
        nn.init.normal_(self.mixture, std=bases**-0.5)

    def forward(self, h: Tensor, view: BaselineView, shares: Tensor) -> Tensor:
        """h [n_entities, dim], 1 / |N_r(i)| of every edge [n_edges] → [n_entities, dim]."""
        total: Tensor = self.own(h)
        relations = view.edges.relations.columns
        for basis, mixture in zip(self.bases, self.mixture, strict=True):
            weights = shares * mixture.index_select(0, relations)
            total = total + weighted_sum(weights, basis(h), view.edges.nodes)
        return total


@dataclass(frozen=True)
class RGCNSettings(PredictionSettings):
    encoder: ClassVar[str] = "rgcn"


# Relation matrices from bases, 1/|N_r(i)|, a matrix for the entity itself, edge dropout 0.4 and
# DistMult are the paper's.
PRESET = preset(PREDICTION, model={"dropout": 0.2, "hidden": 0.0}, training={"epochs": 20})


@register_prediction_encoder(RGCNSettings, PRESET)
class RGCN(LayeredEncoder):
    """R-GCN as an encoder of prediction, with a rectifier between the layers.

    Attributes:
        bases: how many matrices the relations' are mixed from.
        dropout: share of the edges left out in a step; the rest is normalised anew.
    """

    bases = 4
    dropout = 0.4

    def make_layer(self, n_relations: int, dim: int) -> RGCNLayer:
        return RGCNLayer(n_relations, dim, self.bases)

    def network(self, view: BaselineView, h: Tensor, kept: Tensor | None = None) -> Tensor:
        shares = self._shares(view, h, kept)
        for k, layer in enumerate(self.layers):
            h = layer(F.relu(h) if k else h, view, shares)
        return h

    def _shares(self, view: BaselineView, like: Tensor, kept: Tensor | None) -> Tensor:
        """1 / |N_r(i)| over the edges that are there, 0 for the others: [n_edges]."""
        there = like.new_ones(view.edges.nodes.n_edges)
        if self.training and self.dropout:
            there = there * (torch.rand_like(there) >= self.dropout)
        if kept is not None:
            there = there * kept
        # Counts are whole numbers, so their order makes no difference.
        counts = like.new_zeros(len(there)).index_add_(0, view.groups, there)
        return there / counts.clamp(min=1)[view.groups]
