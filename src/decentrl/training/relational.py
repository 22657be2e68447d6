"""The training objective of the relational encoder: linked entities nearest to each other."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from decentrl.config import Config
from decentrl.graph.adjacency import Ids
from decentrl.graph.relational import RelationalView
from decentrl.nn.losses import hard_sample_loss
from decentrl.nn.relational import RelationalModel


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
