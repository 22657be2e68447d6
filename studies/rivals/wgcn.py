"""W-GCN: a graph convolution with a learned weight for each relation (SACN; Shang et al., 2019)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from decentrl.nn.aggregate import weighted_sum
from decentrl.scorers.registry import register_prediction_encoder
from studies.rivals.baseline_view import BaselineView
from studies.rivals.layered import LayeredEncoder, SeenBatchNorm
from studies.rivals.settings import PREDICTION, PredictionSettings, preset


class WGCNLayer(nn.Module):
    r"""Neighbours weighed by their relation, whichever its direction, and the entity itself.

    .. math::
        h'_i = \tanh \mathrm{norm} \Bigl( \sum_{(r, j) \in N(i)} \alpha_r W h_j + W h_i \Bigr)

    The normalisation is over the entities that training sees.
    """

    def __init__(self, n_relations: int, dim: int) -> None:
        super().__init__()
        self.value = nn.Linear(dim, dim, bias=False)
        self.alpha = nn.Parameter(torch.ones(n_relations))
        self.norm = SeenBatchNorm(dim)
        nn.init.xavier_uniform_(self.value.weight)

    def forward(self, h: Tensor, view: BaselineView, kept: Tensor | None = None) -> Tensor:
        """h [n_entities, dim] → [n_entities, dim]; ``kept`` as in :class:`LayeredEncoder`."""
        weights = self.alpha.repeat(2).index_select(0, view.edges.relations.columns)
        weights = weights if kept is None else weights * kept
        values = self.value(h)
        total = values + weighted_sum(weights, values, view.edges.nodes)
        return torch.tanh(self.norm(total, view.seen))


@dataclass(frozen=True)
class WGCNSettings(PredictionSettings):
    encoder: ClassVar[str] = "wgcn"


# A learned weight for each relation, 200 dimensions, batch normalisation, tanh and dropout 0.2 are
# the paper's. DistMult stands for its Conv-TransE.
PRESET = preset(
    PREDICTION,
    model={"layers": 1, "dropout": 0.2},
    decoder={"normalise": True},
    loss={"smoothing": 0.1},
    training={"epochs": 20},
)


@register_prediction_encoder(WGCNSettings, PRESET)
class WGCN(LayeredEncoder):
    """W-GCN as an encoder of prediction."""

    def make_layer(self, n_relations: int, dim: int) -> WGCNLayer:
        return WGCNLayer(n_relations, dim)
