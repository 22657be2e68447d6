"""LAN: neighbours weighed by rules and by attention (Wang et al., 2019)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from decentrl.config import PredictionConfig, setting
from decentrl.config.prediction import InductiveSettings
from decentrl.nn.aggregate import (
    edge_dots,
    gather,
    segment_softmax,
    segment_sum,
    weighted_sum,
)
from decentrl.scorers.encoder import Encoded
from decentrl.scorers.registry import register_prediction_encoder
from studies.rivals.baseline_view import BaselineView
from studies.rivals.layered import RivalEncoder
from studies.rivals.settings import PREDICTION, PredictionSettings, preset


@dataclass(frozen=True)
class LANSettings(PredictionSettings, InductiveSettings):
    encoder: ClassVar[str] = "lan"

    layers: int = setting(1, "number of layers: one", at_least=1, at_most=1)


# Neighbours projected by their relation, weighed by rules and by attention, and TransE are the
# paper's. An entity has one vector for all questions; in each step a fifth counts as new.
PRESET = preset(PREDICTION, model={"dropout": 0.2}, decoder={"name": "transe", "normalise": True})


@register_prediction_encoder(LANSettings, PRESET)
class LAN(RivalEncoder):
    r"""Neighbours projected on the hyperplane of their relation, and summed up.

    .. math::
        g_i = \sum_{(r, j) \in N(i)} (\alpha^{logic}_{ir} + \alpha^{attention}_{rj})\,
        T_r(e_j), \quad T_r(e) = e - (e^\top \hat r)\, \hat r,
        \quad \alpha^{attention} = \mathrm{softmax}(u^\top \tanh(W T_r(e_j)))

    The logic weights are how informative a relation is of an entity
    (:attr:`.BaselineView.informative`); an entity's sum to 1. Nothing of the entity itself enters,
    and neighbours that training never saw are left out.

    The paper weighs with the relation of the question too, which makes another vector of an
    entity for each one. Here an entity has one vector for all questions, or else nothing could be
    compared with all answers: the rules ask for the mean over the questions, and the attention
    does without.
    """

    input_dropout = 0.2
    """Share of the entities whose input embedding is left out in a step, as if they were new."""

    def __init__(self, config: PredictionConfig, n_entities: int, n_relations: int) -> None:
        super().__init__()
        dim = config.model.dim
        self.entities = nn.Parameter(torch.empty(n_entities, dim))
        self.relations = nn.Parameter(torch.empty(2 * n_relations, dim))
        self.key = nn.Linear(dim, dim, bias=False)
        self.score = nn.Linear(dim, 1, bias=False)
        for weight in (self.entities, self.relations, self.key.weight, self.score.weight):
            nn.init.xavier_uniform_(weight)

    def forward(
        self, view: BaselineView, inputs: Tensor, kept: tuple[Tensor, ...] | None = None
    ) -> Encoded:
        if self.training:
            drawn = torch.rand(len(inputs), 1, device=inputs.device)
            inputs = inputs * (drawn >= self.input_dropout)
        return super().forward(view, inputs, kept)

    def network(self, view: BaselineView, h: Tensor, kept: Tensor | None = None) -> Tensor:
        """Input embeddings [n_entities, dim] → vectors of that shape, 0 without neighbours."""
        edges, units = view.edges, F.normalize(self.relations, dim=-1)
        readable = view.seen[edges.nodes.columns]
        kept = readable if kept is None else kept & readable
        # An embedding that was never trained must not count, not even times 0.
        inputs = torch.where(view.seen[:, None], h, 0)
        along = edge_dots(inputs, units, edges.pairs)
        weights = self._rules(view, inputs, kept)
        weights = weights + self._attention(view, inputs, units, along, kept)
        total = weighted_sum(weights, inputs, edges.nodes)
        along = weights * along.index_select(0, edges.edge_pair)
        return total - weighted_sum(along, units, edges.relations)

    def _rules(self, view: BaselineView, like: Tensor, kept: Tensor) -> Tensor:
        """Logic weights of every edge, of each entity in sum 1: [n_edges]."""
        nodes = view.edges.nodes
        weights = view.informative.to(like.dtype) * kept
        return weights / segment_sum(weights, nodes).clamp(min=1e-12)[nodes.rows]

    def _attention(
        self, view: BaselineView, inputs: Tensor, units: Tensor, along: Tensor, kept: Tensor
    ) -> Tensor:
        """The same by attention. Edges that share neighbour and relation share the logit."""
        edges, pairs = view.edges, view.edges.pairs
        projected = gather(inputs, pairs.rows) - along[:, None] * gather(units, pairs.columns)
        logits = self.score(torch.tanh(self.key(projected))).squeeze(-1)
        return segment_softmax(logits.index_select(0, edges.edge_pair), edges.nodes, kept)
