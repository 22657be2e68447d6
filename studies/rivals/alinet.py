"""AliNet: near and distant neighbours, joined by a gate (Sun et al., AAAI 2020)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from decentrl.config import Config, setting
from decentrl.nn.aggregate import edge_dots, segment_softmax, take, weighted_sum
from decentrl.views.registry import register_view
from studies.rivals.centralised import CentralisedModel, Parts, Wrong, linear
from studies.rivals.centralised_view import CentralisedView
from studies.rivals.settings import ALIGNMENT, LayeredAlignmentSettings, preset


class GatedLayer(nn.Module):
    r"""A convolution over one-hop neighbours, attention over two-hop ones, and a gate.

    .. math::
        h_{i,1} &= \tanh(\textstyle\sum_{j \in N_1(i) \cup \{i\}} \hat a_{ij} W_1 h_j), \\
        h_{i,2} &= \tanh(\textstyle\sum_{j \in N_2(i) \cup \{i\}} \alpha_{ij} W_2 h_j), \quad
        \alpha_{ij} = \mathrm{softmax}_j\, \mathrm{LeakyReLU}((M_1 h_i)^\top (M_2 h_j)), \\
        h'_i &= g_i \odot h_{i,1} + (1 - g_i) \odot h_{i,2}, \quad g_i = \sigma(M h_{i,2} + b)
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.near_value, self.far_value = linear(inputs, outputs), linear(inputs, outputs)
        self.query, self.key = linear(inputs, outputs), linear(inputs, outputs)
        self.gate = linear(outputs, outputs, bias=True)

    def forward(self, hidden: Tensor, view: CentralisedView) -> Tensor:
        """[n, inputs] → [n, outputs]."""
        near = torch.tanh(weighted_sum(view.weights, self.near_value(hidden), view.near))
        logits = edge_dots(self.query(hidden), self.key(hidden), view.far)
        weights = segment_softmax(F.leaky_relu(logits, 0.2), view.far)
        far = torch.tanh(weighted_sum(weights, self.far_value(hidden), view.far))
        gate = torch.sigmoid(self.gate(far))
        return gate * near + (1 - gate) * far


@dataclass(frozen=True)
class AliNetSettings(LayeredAlignmentSettings):
    encoder: ClassVar[str] = "alinet"

    dim: int = setting(500, "width of the input embeddings; layers are narrower", at_least=1)


# From the paper: layers of 500, 400 and 300, margin 1.5, weight 0.1 of wrong counterparts, ten for
# either end out of the nearest, weight 0.01 of the relation loss, triples between seeds added to
# both graphs, Adam, all links in one step. From the authors' code: small embeddings at first, wrong
# counterparts near the end they are compared with, the learning rate.
PRESET = preset(ALIGNMENT, training={"epochs": 20, "learning_rate": 0.001})


@register_view(AliNetSettings, PRESET)
class AliNet(CentralisedModel):
    """Gated layers, each narrower than the one before by a fifth of the input's width.

    An entity's vector is the input embedding and the outputs of all layers side by side, each of
    length 1: 500, 400 and 300 wide in the paper.
    """

    reads_links = True
    two_hop = True
    nearest_to_kept = True
    relation_weight = 0.01
    """Weight of the loss by which triples of a relation are alike."""

    def __init__(self, config: Config, n_entities: int, n_relations: int) -> None:
        super().__init__(config, n_entities, n_relations)
        # Glorot's, for the whole table, as in the authors' code: so small that what is learned soon
        # outweighs what an embedding was at random, which no counterpart has in common.
        nn.init.xavier_uniform_(self.entities)

    def widths(self, model: Any) -> list[int]:
        return [max(1, model.dim - k * model.dim // 5) for k in range(model.layers + 1)]

    def make_layers(self, model: Any) -> Iterable[nn.Module]:
        return map(GatedLayer, self.widths(model), self.widths(model)[1:])

    def loss(self, parts: Parts, view: CentralisedView, links: Tensor, wrong: Wrong) -> Tensor:
        together = super().loss(parts, view, links, wrong)
        return together + self.relation_weight * relation_loss(parts, view)


def relation_loss(parts: Sequence[Tensor], view: CentralisedView) -> Tensor:
    r"""Triples of a relation alike: head minus tail is near the relation's mean.

    .. math::
        \sum_r \frac{1}{|T_r|} \sum_{(h, t) \in T_r} \|x_h - x_t - r\|^2, \quad
        r = \frac{1}{|T_r|} \sum_{(h, t) \in T_r} (x_h - x_t)

    The mean of squared distances from a mean is the mean square less the square of the mean, so no
    triples × dimensions tensor is made. x is the whole vector: every part counts alike.
    """
    total = parts[0].new_zeros(())
    for part in parts:
        unit = F.normalize(part, dim=1)
        squares = unit.square().sum(1)
        graph = view.triples
        ends = take(squares, graph.rows) + take(squares, graph.columns)
        apart = ends - 2 * edge_dots(unit, unit, graph)
        means = weighted_sum(view.signed, unit, view.offsets)
        total = total + view.shares @ apart - means.square().sum()
    return total / len(parts)
