"""GCN-Align by structure alone (Wang et al., EMNLP 2018)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from decentrl.graph.centralised import CentralisedView
from decentrl.nn.aggregate import weighted_sum
from decentrl.nn.losses import ranking_loss
from decentrl.views.rivals.centralised import CentralisedModel, Parts, Wrong


class GCNAlign(CentralisedModel):
    r"""Convolutions over neighbours weighted by the functionality of their relations.

    .. math::
        H^{k+1} = \sigma(\hat D^{-1/2} \hat A \hat D^{-1/2} H^k), \quad \hat A = A + I

    with σ = ReLU in all layers but the last. An entity's vector is the last layer. The maps
    :math:`W^k` of the paper's formula are the identity for structure, as in the authors' code: the
    input embeddings are free, so all that a map could do to them they can do themselves.
    """

    functional = True
    negatives = 5
    margin = 3.0
    hardness = 1

    def widths(self, model: Any) -> list[int]:
        return [model.dim]

    def loss(self, parts: Parts, view: CentralisedView, links: Tensor, wrong: Wrong) -> Tensor:
        """Linked pairs nearer than wrong ones in L1, by the last layer as it is."""
        return ranking_loss(parts[-1], links, *wrong, self.margin)

    def forward(self, structure: CentralisedView) -> Parts:
        hidden: Tensor = self.entities
        for k in range(self.config.model.layers):
            hidden = torch.relu(hidden) if k else hidden
            hidden = weighted_sum(structure.weights, hidden, structure.near)
        return [hidden]
