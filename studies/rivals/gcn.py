"""GCN-Align by structure alone (Wang et al., EMNLP 2018)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from decentrl.config import setting
from decentrl.nn.aggregate import gather, weighted_sum
from decentrl.views.registry import register_view
from studies.rivals.centralised import CentralisedModel, Parts, Wrong
from studies.rivals.centralised_view import CentralisedView
from studies.rivals.settings import ALIGNMENT, LayeredAlignmentSettings, preset


@dataclass(frozen=True)
class GCNSettings(LayeredAlignmentSettings):
    encoder: ClassVar[str] = "gcn"

    dim: int = setting(200, "width of the input embeddings and of every layer", at_least=1)


# From the paper: two layers, neighbours weighted by functionality, ranking in L1 with margin 3, and
# five wrong counterparts for either end. From the authors' code: 200 dimensions and no weight
# matrices. Ours: Adam instead of gradient descent with rate 20, and so the number of steps.
PRESET = preset(ALIGNMENT, training={"epochs": 150, "learning_rate": 0.01})


@register_view(GCNSettings, PRESET)
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


def ranking_loss(
    vectors: Tensor, links: Tensor, left: Tensor, right: Tensor, margin: float
) -> Tensor:
    r"""Linked entities nearer to each other than to wrong counterparts, by a margin; L1 distances.

    .. math::
        \frac{1}{|S^-|} \sum_{(i,j) \in S^+} \sum_{(i',j') \in S^-_{ij}}
            [\|x_i - x_j\|_1 + \gamma - \|x_{i'} - x_{j'}\|_1]_+

    Args:
        vectors: [n, d].
        links: int64[b, 2].
        left, right: what takes the place of a link's left end, and of its right one, int64[b, k].
        margin: γ.
    """
    ends = gather(vectors, links.t().reshape(-1)).view(2, len(links), -1)
    near = (ends[0] - ends[1]).abs().sum(-1)
    total = vectors.new_zeros(())
    for wrong, stays in ((left, ends[1]), (right, ends[0])):
        for column in wrong.t():  # not all at once: k · b · d numbers would be a lot
            far = (gather(vectors, column) - stays).abs().sum(-1)
            total = total + F.relu(near + margin - far).sum()
    return total / max(1, left.numel() + right.numel())
