"""D-GCN: a directed, gated graph convolution (Marcheggiani and Titov, 2017)."""

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

HEAD, TAIL, SELF = 0, 1, 2
"""Directions of an edge i ← j: i is the triple's head, its tail, or j itself."""


class DGCNLayer(nn.Module):
    r"""A matrix for each direction, a bias and a gate for each directed relation.

    .. math::
        h'_i = \mathrm{ReLU} \sum_{(r, j) \in N(i) \cup \{(\circ, i)\}}
        g_{irj} \,(V_{d(r)} h_j + b_r), \quad
        g_{irj} = \sigma(\hat v_{d(r)}^\top h_j + \hat b_r)

    The loop ∘ is one more relation, with a direction of its own. The sum is one sparse product of
    the gates for each direction and one for the biases: no edges × dimensions tensor is made.
    """

    def __init__(self, n_relations: int, dim: int) -> None:
        super().__init__()
        self.values = nn.ModuleList(nn.Linear(dim, dim, bias=False) for _ in range(3))
        self.biases = nn.Parameter(torch.zeros(2 * n_relations + 1, dim))
        self.gate = nn.Linear(dim, 3, bias=False)
        self.gate_biases = nn.Parameter(torch.zeros(2 * n_relations + 1))
        glorot((*self.values, self.gate))

    def forward(self, h: Tensor, view: BaselineView, kept: Tensor | None = None) -> Tensor:
        """h [n_entities, dim] → [n_entities, dim]; ``kept`` as in :class:`LayeredEncoder`."""
        nodes, relations = view.edges.nodes, view.edges.relations
        as_tail = relations.columns >= relations.n_columns // 2
        scores = self.gate(h)
        logits = scores.flatten().index_select(0, 3 * nodes.columns + as_tail)
        gates = torch.sigmoid(logits + self.gate_biases.index_select(0, relations.columns))
        gates = gates if kept is None else gates * kept
        own = torch.sigmoid(scores[:, SELF] + self.gate_biases[-1])[:, None]
        total = own * (self.values[SELF](h) + self.biases[-1])
        total = total + weighted_sum(gates, self.biases[:-1], relations)
        for direction, there in ((HEAD, ~as_tail), (TAIL, as_tail)):
            total = total + weighted_sum(gates * there, self.values[direction](h), nodes)
        return F.relu(total)


@dataclass(frozen=True)
class DGCNSettings(PredictionSettings):
    encoder: ClassVar[str] = "dgcn"


# A matrix for each direction, biases and gates by relation, and a rectifier are the paper's. Made
# for sentences; on a graph one layer with DistMult and vectors of length 1.
PRESET = preset(
    PREDICTION,
    model={"layers": 1, "dropout": 0.2},
    decoder={"normalise": True},
    training={"epochs": 20},
)


@register_prediction_encoder(DGCNSettings, PRESET)
class DGCN(LayeredEncoder):
    """D-GCN as an encoder of prediction."""

    def make_layer(self, n_relations: int, dim: int) -> DGCNLayer:
        return DGCNLayer(n_relations, dim)
