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

    def sums(
        self, x: Tensor, w: Tensor, begin: tuple[Tensor, Tensor, Tensor], graph: Messages
    ) -> Tensor:
        """a of states [n, b, width]; ``begin`` is where x⁰ is not 0, and what it is there."""
        n, b, width = x.shape
        found = relation_sum(x.to(w.dtype).reshape(n, b * width), w, graph).view(n, b, width)
        return found.index_put(begin[:2], begin[2].to(found.dtype), accumulate=True)

    def forward(self, x: Tensor, a: Tensor, share: Tensor) -> Tensor:
        """States, sums [n, b, width] each and 3 / (deg + 1) → the states of the next layer."""
        width = x.shape[2]
        # The same as W on all three side by side, without putting them side by side.
        own, sums, means = torch.split(self.update.weight, width, dim=1)
        both = F.linear(a, torch.cat((sums / 10, means)))
        total = F.linear(x, own, self.update.bias) + both[..., :width]
        total = torch.addcmul(total, both[..., width:], share[:, None, None])
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
        self.read = nn.Linear(2 * width, 2 * width)
        self.score = nn.Linear(2 * width, 1)

    def forward(self, graph: Messages, heads: Tensor, relations: Tensor) -> Tensor:
        """Scores of questions, int64[b] each: [b, n]."""
        return self._run(graph, heads, relations)

    def _run(
        self,
        graph: Messages,
        heads: Tensor,
        relations: Tensor,
        read: list[tuple[Tensor, Tensor, Tensor]] | None = None,
    ) -> Tensor:
        """:meth:`forward`; what each layer reads and sums up is added to a list: x, w and a."""
        q = self.questions(relations)
        b, width = q.shape
        places = heads, torch.arange(b, device=heads.device)
        share = (3.0 / (graph.degrees() + 1)).to(q.dtype)
        x = q.new_zeros(graph.groups.n_rows, b, width).index_put(places, q)
        for layer in self.layers:
            assert isinstance(layer, PathLayer)
            w = layer.weights(q)
            a = layer.sums(x, w, (*places, q), graph)
            if read is not None:
                read.append((x, w, a))
            x = layer(x, a, share)
        return self.scores(x, q)

    @torch.enable_grad()
    def slopes(
        self, graph: Messages, head: Tensor, relation: Tensor, answer: int
    ) -> list[tuple[Tensor, Tensor, Tensor]]:
        """What one question reads in each layer, and how the answer's score depends on it.

        Returns:
            of each layer the states x [n, width], the weights w [n_relations, width] and the
            slope of the score by the sums [n, width]: an edge v ←(ρ)– u counts for
            x[u] ⊙ w[ρ] · slope[v].
        """
        read: list[tuple[Tensor, Tensor, Tensor]] = []
        score = self._run(graph, head, relation, read)[0, answer]
        slopes = torch.autograd.grad(score, [a for _, _, a in read])
        return [
            (x[:, 0].detach(), w.detach(), slope[:, 0])
            for (x, w, _), slope in zip(read, slopes, strict=True)
        ]

    def scores(self, x: Tensor, q: Tensor) -> Tensor:
        """States [n, b, width] and questions [b, width] → [b, n]; always in single precision."""
        state, question = torch.split(self.read.weight, q.shape[1], dim=1)
        hidden = F.linear(x, state) + F.linear(q, question, self.read.bias)
        # In half precision scores of different answers would be the same.
        with torch.autocast(x.device.type, enabled=False):
            scores: Tensor = self.score(F.relu(hidden).to(self.score.weight.dtype))
        return scores[..., 0].t()
