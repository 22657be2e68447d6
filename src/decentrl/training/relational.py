"""The training objective of the relational encoder: linked entities nearest to each other."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from decentrl.config import Config
from decentrl.graph.adjacency import Ids
from decentrl.graph.merged import MergedGraph
from decentrl.graph.relational import RelationalView
from decentrl.nn.distillation import SelfDistillation
from decentrl.nn.losses import hard_sample_loss
from decentrl.nn.reflection import RelationalEncoder


class RelationalModel(nn.Module):
    """The encoder and the head of its self-distillation."""

    def __init__(self, graph: MergedGraph, config: Config) -> None:
        super().__init__()
        model, distillation = config.model, config.distillation
        self.encoder = RelationalEncoder(
            graph.n_entities,
            graph.n_relations,
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


class RelationalObjective:
    """Joins a relational model with the graph and the links it is trained on.

    A step compares a batch of links with ``loss.entities`` sampled entities, so its cost does not
    grow with the number of links or candidates. Entities without a training triple have no vector
    worth pulling at: they stay out of the links and out of the samples.

    Args:
        links: int64[n, 2] in merged ids.
        view: what the encoder reads.
    """

    def __init__(
        self, model: RelationalModel, links: Ids, view: RelationalView, config: Config
    ) -> None:
        self.model, self.view, self.config = model, view, config
        seen = view.seen.cpu().numpy()
        self.links = links[seen[links].all(axis=1)]
        self.seen = np.flatnonzero(seen)

    def batches(self, rng: np.random.Generator) -> Iterator[Ids]:
        size = self.config.training.batch or len(self.links)
        links = self.links[rng.permutation(len(self.links))]
        for start in range(0, len(links), size):
            yield links[start : start + size]

    def loss(self, batch: Ids, rng: np.random.Generator) -> Tensor:
        device = self.view.seen.device
        count = self.config.loss.entities
        sampled = self.seen
        if 0 < count < len(sampled):
            sampled = rng.choice(sampled, count, replace=False, shuffle=False)
        ids = torch.from_numpy(np.concatenate((batch[:, 0], batch[:, 1], sampled))).to(device)
        vectors: Tensor = self.model.encoder(self.view, ids)
        linked, others = ids[: 2 * len(batch)], ids[2 * len(batch) :]
        left, right = vectors[: len(batch)], vectors[len(batch) : 2 * len(batch)]
        own = (linked.view(2, -1, 1) == others).any(0)
        loss = hard_sample_loss(left, right, vectors[2 * len(batch) :], own, self.config.loss.scale)
        settings = self.config.distillation
        if self.model.distillation is not None:
            wrong = torch.from_numpy(rng.choice(self.seen, settings.negatives)).to(device)
            taught: Tensor = self.model.distillation(
                vectors[: len(linked)], self.model.encoder.entities, linked, wrong
            )
            loss = loss + settings.weight * taught / len(linked)
        return loss

    def validate(self) -> dict[str, float] | None:
        """The number of epochs is the preset's; rounds are chosen outside the loop."""
        return None
