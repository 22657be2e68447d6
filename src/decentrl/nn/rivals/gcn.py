"""GCN-Align by structure alone (Wang et al., EMNLP 2018)."""

from __future__ import annotations

import torch
from torch import Tensor

from decentrl.graph.centralised import CentralisedView
from decentrl.nn.aggregate import weighted_sum
from decentrl.nn.rivals.centralised import CentralisedModel


class GCNAlign(CentralisedModel):
    r"""Convolutions over neighbours weighted by the functionality of their relations.

    .. math::
        H^{k+1} = \sigma(\hat D^{-1/2} \hat A \hat D^{-1/2} H^k), \quad \hat A = A + I

    with σ = ReLU in all layers but the last. An entity's vector is the last layer. The maps
    :math:`W^k` of the paper's formula are the identity for structure, as in the authors' code: the
    input embeddings are free, so all that a map could do to them they can do themselves.
    """

    def forward(self, view: CentralisedView) -> list[Tensor]:
        hidden: Tensor = self.entities
        for layer in range(self.depth):
            hidden = weighted_sum(view.weights, hidden, view.near)
            if layer + 1 < self.depth:
                hidden = torch.relu(hidden)
        return [hidden]
