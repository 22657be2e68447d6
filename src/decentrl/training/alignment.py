"""The paper's training objective for alignment: links together, samples apart, distillation."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from decentrl.config import Config
from decentrl.graph.adjacency import Adjacency, Ids
from decentrl.graph.merged import MergedGraph
from decentrl.graph.view import GraphView
from decentrl.matching.evaluate import apply_matcher
from decentrl.matching.metrics import summary
from decentrl.matching.ranks import rank
from decentrl.matching.similarity import Scores
from decentrl.nn.aggregate import gather
from decentrl.nn.alignment import AlignmentModel, join
from decentrl.nn.losses import contrastive_alignment_loss, joined_dots


class AlignmentObjective:
    """Joins a model with the graph it is trained on.

    Entities without a training triple have no vector worth pulling at: they stay out of the
    training links and out of the samples.

    Args:
        graph: the training graph with the training links.
        view: what the encoder reads of it.
        valid: held-out links in merged ids, int64[n, 2]; may be empty.
    """

    def __init__(
        self, model: AlignmentModel, graph: MergedGraph, view: GraphView, valid: Ids, config: Config
    ) -> None:
        self.model, self.graph, self.view = model, graph, view
        self.valid, self.config = valid, config
        seen = view.seen.cpu().numpy()
        self.links = graph.links[seen[graph.links].all(axis=1)]
        self.seen = np.flatnonzero(seen)
        self.seen_left = self.seen[self.seen < graph.n_left]
        self.seen_right = self.seen[self.seen >= graph.n_left]

    def batches(self, rng: np.random.Generator) -> Iterator[Ids]:
        size = self.config.training.batch or len(self.links)
        order = rng.permutation(len(self.links)) if size < len(self.links) else slice(None)
        links = self.links[order]
        for start in range(0, len(links), size):
            yield links[start : start + size]

    def loss(self, batch: Ids, rng: np.random.Generator) -> Tensor:
        settings, device = self.config.loss, self.model.entities.device
        parts = self.model(self.view)

        count = len(batch) * settings.negatives
        negatives = Adjacency.from_pairs(
            rng.choice(self.seen_left, count),
            rng.choice(self.seen_right, count),
            self.graph.n_entities,
            self.graph.n_entities,
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

    @torch.no_grad()
    def validate(self) -> dict[str, float] | None:
        """Hits@1, Hits@10 and MRR of the held-out links, left to right.

        The candidates are all right entities that no training link has taken, as they would be
        for a user, so that the number does not depend on how many links were held out.
        """
        if not len(self.valid):
            return None
        vectors = self.model.encode(self.view)
        left = _open(0, self.graph.n_left, self.links[:, 0], self.valid[:, 0])
        right = _open(self.graph.n_left, self.graph.n_entities, self.links[:, 1], self.valid[:, 1])
        matching = self.config.matching
        cosine = Scores.cosine(vectors[left], vectors[right])
        scores = apply_matcher(cosine, matching.matcher, matching)
        rows = torch.from_numpy(np.searchsorted(left, self.valid[:, 0])).to(vectors.device)
        targets = torch.from_numpy(np.searchsorted(right, self.valid[:, 1])).to(vectors.device)
        found = summary(rank(scores.rows(rows), targets))
        return {name: found[name] for name in ("hits@1", "hits@10", "mrr")}


def _open(start: int, stop: int, linked: Ids, asked: Ids) -> Ids:
    """The ids that no training link has taken, and those that are asked for anyway; sorted."""
    return np.union1d(np.setdiff1d(np.arange(start, stop), linked), asked)
