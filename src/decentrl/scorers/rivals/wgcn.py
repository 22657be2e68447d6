"""W-GCN: a graph convolution with a learned weight for each relation (SACN; Shang et al., 2019)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from decentrl.config import PredictionConfig
from decentrl.config.prediction import WGCNSettings
from decentrl.graph.baselines import BaselineView
from decentrl.nn.aggregate import weighted_sum
from decentrl.scorers.registry import register_prediction_encoder
from decentrl.scorers.rivals.base import RivalEncoder
from decentrl.scorers.rivals.batch_norm import SeenBatchNorm


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
        """h [n_entities, dim] → [n_entities, dim]; ``kept`` as in :meth:`WGCN.forward`."""
        weights = self.alpha.repeat(2).index_select(0, view.edges.relations.columns)
        weights = weights if kept is None else weights * kept
        values = self.value(h)
        total = values + weighted_sum(weights, values, view.edges.nodes)
        return torch.tanh(self.norm(total, view.seen))


class WGCN(nn.Module):
    """Layers of :class:`WGCNLayer` over a table of input embeddings.

    It is centralised: an entity's own embedding takes part, and where that was never trained it is
    read as it was initialised.
    """

    def __init__(self, n_entities: int, n_relations: int, dim: int, layers: int) -> None:
        super().__init__()
        self.entities = nn.Parameter(torch.empty(n_entities, dim))
        nn.init.xavier_uniform_(self.entities)
        self.layers = nn.ModuleList(WGCNLayer(n_relations, dim) for _ in range(layers))

    def forward(self, view: BaselineView, inputs: Tensor, kept: Tensor | None = None) -> Tensor:
        """Input embeddings [n_entities, dim] → vectors of that shape.

        Args:
            kept: bool[n_edges], the edges that count; all by default.
        """
        h = inputs
        for layer in self.layers:
            h = layer(h, view, kept)
        return h


@register_prediction_encoder(WGCNSettings)
class WGCNEncoder(RivalEncoder):
    """W-GCN as an encoder of prediction."""

    def __init__(self, config: PredictionConfig, n_entities: int, n_relations: int) -> None:
        super().__init__(WGCN(n_entities, n_relations, config.model.dim, config.model.layers))
