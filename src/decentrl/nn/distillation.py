"""Self-distillation: the input embedding teaches the decentralised one."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from decentrl.nn.aggregate import gather


class SelfDistillation(nn.Module):
    r"""Make the decentralised vector g predict its own entity's input embedding e.

    .. math::
        f(g, \hat e) = \exp(\mathrm{head}(g)^\top \hat e), \quad
        L = -\sum_i \log \frac{f(g_i, \hat e_i)}{f(g_i, \hat e_i) + \sum_{k \in X} f(g_i, \hat e_k)}

    X are sampled entities, shared by the batch. The head is Linear → ReLU → LayerNorm → dropout,
    close to the authors' code; the bilinear form of the paper's text trains badly.

    Args:
        student_dim: width of g.
        teacher_dim: width of e.
        variant: ``detached`` (the paper: ê is a copy without gradient), ``infonce`` (gradients
            flow into e too), ``l2`` (squared distance of a projection of g to ê, both of length 1,
            no negatives) or ``none``.
    """

    def __init__(self, student_dim: int, teacher_dim: int, variant: str = "detached") -> None:
        super().__init__()
        self.variant = variant
        projection = nn.Linear(student_dim, teacher_dim)
        nn.init.xavier_uniform_(projection.weight)
        nn.init.zeros_(projection.bias)
        self.head = nn.Sequential(projection, nn.ReLU(), nn.LayerNorm(teacher_dim), nn.Dropout(0.5))

    def forward(self, students: Tensor, teachers: Tensor, ids: Tensor, negatives: Tensor) -> Tensor:
        """Sum of the batch's losses.

        Args:
            students: g of the batch, [b, student_dim].
            teachers: e of all entities, [n_entities, teacher_dim].
            ids: the batch's entities, int64[b].
            negatives: sampled entities, int64[m]; those equal to the student's own do not count.
        """
        if self.variant == "none":
            return students.new_zeros(())
        predicted = self.head(students)
        own, others = gather(teachers, ids), gather(teachers, negatives)
        if self.variant != "infonce":
            own, others = own.detach(), others.detach()
        if self.variant == "l2":
            distances = F.normalize(predicted, dim=-1) - F.normalize(own, dim=-1)
            return distances.square().sum()
        right = (predicted * own).sum(-1, keepdim=True)
        wrong = predicted @ others.t()
        wrong = wrong.masked_fill(ids[:, None] == negatives[None, :], -torch.inf)
        logits = torch.cat((right, wrong), dim=1)
        return F.cross_entropy(logits, torch.zeros_like(ids), reduction="sum")
