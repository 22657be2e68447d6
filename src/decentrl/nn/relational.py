"""The relational alignment model: encoder, self-distillation, one vector an entity."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from decentrl.config import DistillationConfig, ModelConfig
from decentrl.graph.relational import RelationalView
from decentrl.nn.distillation import SelfDistillation
from decentrl.nn.reflection import RelationalEncoder


class RelationalModel(nn.Module):
    """The encoder and the head of its self-distillation."""

    def __init__(
        self,
        n_entities: int,
        n_relations: int,
        model: ModelConfig,
        distillation: DistillationConfig,
    ) -> None:
        super().__init__()
        self.encoder = RelationalEncoder(
            n_entities,
            n_relations,
            model.dim,
            model.layers,
            context=model.context,
            dropout=model.dropout,
            edge_dropout=model.edge_dropout,
        )
        self.induce = distillation.induce
        self.distillation: SelfDistillation | None = None
        if distillation.variant != "none":
            self.distillation = SelfDistillation(
                self.encoder.dim,
                model.dim,
                distillation.variant,
                distillation.head,
                distillation.dropout,
            )

    @torch.no_grad()
    def encode(self, view: RelationalView) -> Tensor:
        """Every entity's vector with dropout off, [n_entities, d], of length 1 or 0.

        The head of the distillation has learned to tell an entity's input embedding from its
        vector. So where some were never trained they are induced: a first pass without them gives
        vectors, the head what their input embeddings would be, and a second pass reads those.
        """
        was_training = self.training
        self.eval()
        try:
            vectors: Tensor = self.encoder(view)
            unseen = ~view.seen & (vectors.abs().amax(1) > 0)
            if self.induce and self.distillation is not None and bool(unseen.any()):
                inputs = torch.where(view.seen[:, None], self.encoder.entities, 0)
                length = inputs.norm(dim=1).sum() / view.seen.sum().clamp(min=1)
                induced = F.normalize(self.distillation.head(vectors[unseen]), dim=1)
                inputs[unseen] = length * induced
                made = view.seen | unseen
                vectors = self.encoder(view.reading(made), inputs=inputs)
            return vectors.div_(vectors.norm(dim=1, keepdim=True).clamp(min=1e-12))
        finally:
            self.train(was_training)
