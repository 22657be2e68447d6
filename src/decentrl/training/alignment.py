"""The paper's training objective for alignment: links together, samples apart, distillation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from decentrl.config import Config
from decentrl.graph.adjacency import Adjacency, Ids
from decentrl.graph.view import GraphView
from decentrl.nn.aggregate import gather
from decentrl.nn.alignment import AlignmentModel, join
from decentrl.nn.losses import contrastive_alignment_loss, joined_dots
from decentrl.training.unlinked import Unlinked, held_out_ranks, in_short


class LinkObjective:
    """What is trained on links: joins a model with the graph it is trained on.

    Entities without a training triple have no vector worth pulling at: they stay out of the
    training links and out of the samples.

    Args:
        model: has ``encode(view)``, the vectors of all entities.
        links: training links in merged ids, int64[n, 2].
        n_left: how many entities the left graph has.
        view: what the encoder reads of the training graph.
        valid: held-out links in merged ids, int64[n, 2]; may be empty.
        unlinked: the entities that held-out links are ranked among.
    """

    def __init__(
        self,
        model: Any,
        links: Ids,
        n_left: int,
        view: Any,
        valid: Ids,
        unlinked: Unlinked,
        config: Config,
    ) -> None:
        self.model, self.view, self.config = model, view, config
        self.valid, self.unlinked = valid, unlinked
        seen = view.seen.cpu().numpy()
        self.links = links[seen[links].all(axis=1)]
        self.seen = np.flatnonzero(seen)
        self.seen_left = self.seen[self.seen < n_left]
        self.seen_right = self.seen[self.seen >= n_left]

    def batches(self, rng: np.random.Generator) -> Iterator[Ids]:
        size = self.config.training.batch or len(self.links)
        order = rng.permutation(len(self.links)) if size < len(self.links) else slice(None)
        links = self.links[order]
        for start in range(0, len(links), size):
            yield links[start : start + size]

    @torch.no_grad()
    def validate(self) -> dict[str, float] | None:
        """Hits@1, Hits@10 and MRR of the held-out links, left to right."""
        if not len(self.valid):
            return None
        vectors = self.model.encode(self.view)
        matching = self.config.matching
        return in_short(held_out_ranks(vectors, self.unlinked, self.valid, matching))


class AlignmentObjective(LinkObjective):
    """The paper's: links together, samples apart, and self-distillation."""

    model: AlignmentModel
    view: GraphView

    def loss(self, batch: Ids, rng: np.random.Generator) -> Tensor:
        settings, device = self.config.loss, self.model.entities.device
        parts = self.model(self.view)

        count = len(batch) * settings.negatives
        negatives = Adjacency.from_pairs(
            rng.choice(self.seen_left, count),
            rng.choice(self.seen_right, count),
            len(self.view.seen),
            len(self.view.seen),
        ).to(device)
        ids = torch.from_numpy(batch.T.reshape(-1)).to(device)
        constant = self.model.constant_length
        vectors = join([gather(part, ids) for part in parts], constant)
        left, right = vectors.chunk(2)
        loss = contrastive_alignment_loss(
            (left * right).sum(-1),
            joined_dots(parts, negatives, constant),
            margin=settings.margin,
            weight=settings.weight,
            squared=settings.squared,
        )
        distillation = self.config.distillation
        sampled = torch.from_numpy(rng.choice(self.seen, distillation.negatives)).to(device)
        taught: Tensor = self.model.distillation(vectors, self.model.entities, ids, sampled)
        return loss + distillation.weight * taught
