"""Question-conditioned propagation: what can be reached from h by paths that fit the question.

Of the family of NBFNet (Zhu et al., 2021) and RED-GNN (Zhang and Yao, 2022). No parameter belongs
to an entity.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from decentrl.graph.messages import Messages
from decentrl.nn.relation_sum import relation_sum

HIDDEN = 64
"""Width of the layer that reads a score off a state."""


class PathLayer(nn.Module):
    """One step along all edges, for b questions at once.

    .. math::
        a_v = x^0_v + \\sum_{(u, ρ, v)} x_u ⊙ w_ρ(q), \\quad
        x'_v = x_v + relu(LayerNorm(W [x_v ‖ a_v / 10 ‖ 3 a_v / (deg_v + 1)]))

    where w(q) is a linear function of the question's relation.
    """

    def __init__(self, width: int, n_relations: int) -> None:
        super().__init__()
        self.relations = nn.Linear(width, n_relations * width)
        nn.init.ones_(self.relations.bias)
        self.update = nn.Linear(3 * width, width)
        self.norm = nn.LayerNorm(width)

    def weights(self, q: Tensor) -> Tensor:
        """w of every relation for questions [b, width]: [n_relations, b · width]."""
        b, width = q.shape
        w: Tensor = self.relations(q).view(b, -1, width)
        return w.transpose(0, 1).reshape(-1, b * width)

    def forward(
        self, x: Tensor, w: Tensor, begin: tuple[Tensor, Tensor, Tensor], graph: Messages
    ) -> Tensor:
        """States [n, b, width] → [n, b, width]; ``begin`` is where x⁰ is not 0, and what it is."""
        n, b, width = x.shape
        a = relation_sum(x.reshape(n, b * width), w, graph).view(n, b, width)
        a = a.index_put(begin[:2], begin[2], accumulate=True)
        share = (3.0 / (graph.degrees() + 1)).to(x.dtype)[:, None, None]
        # The same as W on all three side by side, without putting them side by side.
        own, sums, means = torch.split(self.update.weight, width, dim=1)
        both = F.linear(a, torch.cat((sums / 10, means)))
        total = F.linear(x, own, self.update.bias) + both[..., :width]
        total = torch.addcmul(total, both[..., width:], share)
        grown: Tensor = x + F.relu(self.norm(total))
        return grown


class PathNetwork(nn.Module):
    """Scores of all entities as answers of questions (h, r, ?).

    Args:
        width: of a state.
        layers: the longest path.
        n_relations: directed relations, r and then their reciprocals.
    """

    def __init__(self, width: int, layers: int, n_relations: int) -> None:
        super().__init__()
        self.questions = nn.Embedding(n_relations, width)
        self.layers = nn.ModuleList(PathLayer(width, n_relations) for _ in range(layers))
        self.read = nn.Linear(2 * width, HIDDEN)
        self.score = nn.Linear(HIDDEN, 1)

    def forward(self, graph: Messages, heads: Tensor, relations: Tensor) -> Tensor:
        """Scores of questions, int64[b] each: [b, n]."""
        q = self.questions(relations)
        b, width = q.shape
        places = heads, torch.arange(b, device=heads.device)
        x = q.new_zeros(graph.groups.n_rows, b, width).index_put(places, q)
        for layer in self.layers:
            assert isinstance(layer, PathLayer)
            x = layer(x, layer.weights(q), (*places, q), graph)
        return self.scores(x, q)

    def scores(self, x: Tensor, q: Tensor) -> Tensor:
        """States [n, b, width] and questions [b, width] → [b, n]; always in single precision."""
        state, question = torch.split(self.read.weight, q.shape[1], dim=1)
        hidden = F.linear(x, state) + F.linear(q, question, self.read.bias)
        # In half precision scores of different answers would be the same.
        with torch.autocast(x.device.type, enabled=False):
            scores: Tensor = self.score(F.relu(hidden).to(self.score.weight.dtype))
        return scores[..., 0].t()
