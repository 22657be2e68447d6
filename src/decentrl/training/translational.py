"""The training objective of translational rivals: triples of both graphs in one space."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from decentrl.config import Config
from decentrl.graph.adjacency import Ids
from decentrl.graph.merged import MergedGraph
from decentrl.graph.queries import Queries
from decentrl.graph.view import entities_of
from decentrl.nn.all_answers import answer_loss
from decentrl.nn.rivals.translational import TranslationalModel
from decentrl.training.unlinked import Unlinked, held_out_ranks, in_short

Batch = tuple[int, Ids]
"""Which graph, and some of its questions."""


class TranslationalObjective:
    """Asks for the tail and for the head of every triple, among ``loss.entities`` sampled ones.

    Links teach only by making two entities one: what is learned of either is said of both. A step
    asks about one graph and samples its entities alone: those of the other one would include the
    unknown counterparts of right answers, which are not wrong.

    Args:
        links: training links in merged ids, int64[n, 2].
        graph: the training graph.
        valid: held-out links in merged ids, int64[n, 2]; may be empty.
        unlinked: the entities that held-out links are ranked among.
    """

    def __init__(
        self,
        model: TranslationalModel,
        links: Ids,
        graph: MergedGraph,
        valid: Ids,
        unlinked: Unlinked,
        config: Config,
    ) -> None:
        self.model, self.config = model, config
        self.valid, self.unlinked = valid, unlinked
        self.links = links[entities_of(graph.triples(), graph.n_entities)[links].all(axis=1)]
        model.unite(torch.from_numpy(links).to(model.entities.device))
        rows = model.representative.cpu().numpy()
        self.queries = []
        for triples in (graph.left, graph.right):
            told = np.stack((rows[triples[:, 0]], triples[:, 1], rows[triples[:, 2]]), 1)
            self.queries.append(Queries.of(told, graph.n_relations))
        self.seen = [np.unique(queries.entities) for queries in self.queries]
        self._column = np.full(graph.n_entities, -1)

    def batches(self, rng: np.random.Generator) -> Iterator[Batch]:
        steps: list[Batch] = []
        for side, queries in enumerate(self.queries):
            size = self.config.training.batch or max(1, len(queries))
            order = rng.permutation(len(queries))
            steps += [
                (side, np.sort(order[start : start + size])) for start in range(0, len(order), size)
            ]
        for step in rng.permutation(len(steps)):
            yield steps[step]

    def loss(self, batch: Batch, rng: np.random.Generator) -> Tensor:
        model, settings, device = self.model, self.config.loss, self.model.entities.device
        side, chosen = batch
        queries = self.queries[side]
        places, index = queries.places(chosen)
        heads, answers = queries.entities[chosen], queries.answers[index]
        candidates = self._candidates(self.seen[side], answers, rng)
        self._column[candidates] = np.arange(len(candidates))

        def put(ids: Ids) -> Tensor:
            return torch.from_numpy(ids).to(device)

        compared = model.vectors(put(candidates))
        asked = model.questions(model.vectors(put(heads)), put(queries.relations[chosen]))
        bias = model.decoder.bias(compared)
        assert bias is not None  # every one of them measures a distance
        return answer_loss(
            asked * settings.scale,
            compared,
            bias * settings.scale,
            put(places),
            put(self._column[answers]),
        )

    def _candidates(self, seen: Ids, answers: Ids, rng: np.random.Generator) -> Ids:
        """Right answers and sampled entities, among which the right ones are to be found."""
        count = self.config.loss.entities
        if not count or count >= len(seen):
            return seen
        sampled = rng.choice(seen, count, replace=False, shuffle=False)
        found: Ids = np.union1d(sampled, answers)
        return found

    @torch.no_grad()
    def validate(self) -> dict[str, float] | None:
        """Hits@1, Hits@10 and MRR of the held-out links, left to right."""
        if not len(self.valid):
            return None
        vectors = self.model.encode()
        return in_short(held_out_ranks(vectors, self.unlinked, self.valid, self.config.matching))
