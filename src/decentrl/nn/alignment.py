"""The paper's alignment model: input embeddings, DAN, self-distillation, one vector an entity."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from decentrl.config import DistillationConfig, ModelConfig
from decentrl.graph.view import GraphView
from decentrl.nn.dan import DAN
from decentrl.nn.distillation import SelfDistillation
from decentrl.nn.dropout import eval_mode
from decentrl.nn.frozen_states import FrozenStates


class AlignmentModel(nn.Module):
    """Input embeddings e and a DAN over them.

    An entity is represented by its parts, each L2-normalised, concatenated and normalised again.
    The parts are the outputs of layers 1 … K (``output="layers"``), of layers 0 … K
    (``"all-layers"``), or those and the input embedding, which is 0 for an entity unseen in
    training (``"all-layers+input"``).
    """

    def __init__(
        self,
        n_entities: int,
        n_relations: int,
        model: ModelConfig,
        distillation: DistillationConfig,
    ) -> None:
        super().__init__()
        self.entities = nn.Parameter(torch.empty(n_entities, model.dim))
        nn.init.xavier_uniform_(self.entities)
        self.dan = DAN(
            model.dim,
            model.layers,
            first=model.first,
            variant=model.variant,
            relations=model.relations,
            n_relations=n_relations,
            relation_weight=model.relation_weight,
            dropout=model.dropout,
            norm=model.norm,
            residual=model.residual,
        )
        self.first_part = 1 if model.output == "layers" else 0
        self.with_input = model.output == "all-layers+input"
        self.constant_length = model.norm and not self.with_input
        self.dim = model.dim * (model.layers + 1 - self.first_part + self.with_input)
        self.distillation = SelfDistillation(
            self.dim, model.dim, distillation.variant, distillation.head, distillation.dropout
        )

    def forward(self, view: GraphView) -> list[Tensor]:
        """The parts of every entity's vector before normalisation, [n_entities, dim] each."""
        return self._parts(self.dan(self.entities, view), self.entities, view)

    def _parts(self, layers: list[Tensor], inputs: Tensor, view: GraphView) -> list[Tensor]:
        parts = layers[self.first_part :]
        if self.with_input:
            parts.append(inputs * view.seen[:, None])
        return parts

    def encode(self, view: GraphView) -> Tensor:
        """Every entity's vector with dropout off, [n_entities, self.dim], of length 1."""
        return self.encode_with_states(view)[0]

    @torch.no_grad()
    def encode_with_states(
        self, view: GraphView, inputs: Tensor | None = None, given: FrozenStates | None = None
    ) -> tuple[Tensor, list[Tensor]]:
        """:meth:`encode`, and layers 0 … K, [n_entities, dim] each.

        Args:
            inputs: to be read instead of the trained input embeddings.
            given: states that stay as they are.
        """
        with eval_mode(self):
            inputs = self.entities if inputs is None else inputs
            layers: list[Tensor] = self.dan(inputs, view, frozen=given)
            parts = self._parts(layers, inputs, view)
            vectors = parts[0].new_empty(len(parts[0]), self.dim)
            for start in range(0, len(vectors), 4096):  # one large tensor, not three
                rows = slice(start, start + 4096)
                vectors[rows] = join([part[rows] for part in parts])
            return vectors, layers


def join(parts: list[Tensor], constant_length: bool = False) -> Tensor:
    """Normalise each part, concatenate, normalise again: [n, d] each → [n, parts · d].

    With ``constant_length`` every row of every part has the length √d already (or is 0), and one
    multiplication does all of it.
    """
    if constant_length:
        scale: float = (len(parts) * parts[0].shape[-1]) ** -0.5
        return torch.cat(parts, -1) * scale
    return F.normalize(torch.cat([F.normalize(part, dim=-1) for part in parts], -1), dim=-1)
