"""Embeddings of triples: TransE (MTransE, JAPE's structure) and RotatE as aligners.

MTransE: Chen et al., IJCAI 2017; JAPE: Sun et al., ISWC 2017; RotatE: Sun et al., ICLR 2019.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from decentrl.config import Config, Settings, setting
from decentrl.config.alignment import HardSamples
from decentrl.errors import ConfigError
from decentrl.graph.adjacency import Ids
from decentrl.graph.merged import MergedGraph
from decentrl.graph.queries import Queries
from decentrl.graph.view import entities_of
from decentrl.nn.aggregate import gather
from decentrl.nn.all_answers import answer_loss
from decentrl.nn.decoders import DECODERS
from decentrl.views.base import Rows, TrainingData, View
from decentrl.views.registry import register_view
from studies.rivals.settings import ALIGNMENT, AlignmentSettings, preset

Batch = tuple[int, Ids]
"""Which graph, and some of its questions."""

AT_FIRST = 0.1
"""Relations begin so much smaller than in a decoder alone. Those of two graphs that mean the same
then begin alike, near "no move at all"; at full size each begins somewhere else, and entities that
are each other's counterparts are drawn to different places."""


@dataclass(frozen=True)
class SampledAnswers(HardSamples):
    """The right answer of a triple among sampled entities."""

    entities: int = 512
    scale: float = 3.0


@dataclass(frozen=True)
class TransESettings(AlignmentSettings):
    encoder: ClassVar[str] = "transe"
    sections: ClassVar[dict[str, type | None]] = {
        **AlignmentSettings.sections,
        "loss": SampledAnswers,
    }


@dataclass(frozen=True)
class RotatESettings(TransESettings):
    encoder: ClassVar[str] = "rotate"

    dim: int = setting(400, "width of the input embeddings, even", at_least=2)

    def check(self, config: Settings) -> None:
        if self.dim % 2:
            raise ConfigError(f"rotate needs an even model.dim, not {self.dim}")


# TransE as in the structure part of JAPE and in MTransE; RotatE with 200 complex coordinates. In
# both, linked entities share an embedding. Ours: vectors of length 1, a softmax over sampled
# entities of the same graph instead of a margin or self-adversarial samples, Adam.
PRESET = preset(ALIGNMENT, training={"epochs": 10, "batch": 4096, "learning_rate": 0.01})


@register_view(TransESettings, PRESET)
@register_view(RotatESettings, PRESET)
class TranslationalModel(View):
    """A table of embeddings; entities that a training link joins share a row of it.

    Nothing but an entity's own triples in training decides its row. One that comes later keeps the
    row that it was given at random.

    Attributes:
        representative: int64[n_entities], whose row an entity has.
    """

    representative: Tensor

    def __init__(self, config: Config, n_entities: int, n_relations: int) -> None:
        super().__init__()
        self.config, model = config, config.model
        self.dim = model.dim
        self.entities = nn.Parameter(F.normalize(torch.randn(n_entities, model.dim), dim=1))
        self.register_buffer("representative", torch.arange(n_entities))
        self.decoder = DECODERS[model.encoder](n_relations, model.dim)
        # The way back along a relation is the relation the other way round, so half is needed.
        self.decoder.relations = nn.Parameter(
            AT_FIRST * self.decoder.relations.detach()[:n_relations]
        )

    def unite(self, links: Tensor) -> None:
        """Let linked entities, int64[n, 2], share a row: that of the least one they lead to."""
        place = torch.arange(len(self.representative), device=links.device)
        while True:
            least = place[links].amin(1)
            joined = place.scatter_reduce(0, links.t().reshape(-1), least.repeat(2), "amin")
            if torch.equal(joined, place):
                break
            place = joined
        self.representative.copy_(place)

    def vectors(self, rows: Tensor) -> Tensor:
        """Rows of the table by their places, int64[k] → [k, dim], of length 1."""
        return F.normalize(gather(self.entities, rows), dim=1)

    def questions(self, heads: Tensor, relations: Tensor) -> Tensor:
        """h [b, dim], int64[b] → [b, dim]; ids from n_relations on are ways back."""
        both = torch.cat((self.decoder.relations, -self.decoder.relations))
        return self.decoder.combine(heads, gather(both, relations))

    def read(
        self, graph: MergedGraph, trained_on: MergedGraph, device: torch.device
    ) -> MergedGraph:
        return graph

    @torch.no_grad()
    def encode(self, structure: object, links: Tensor, out: Tensor | None = None) -> Rows:
        """Every entity's row, [n_entities, dim], of length 1; no graph is read."""
        vectors = self.vectors(self.representative)
        return Rows(vectors if out is None else out.copy_(vectors))

    def objective(self, structure: MergedGraph, data: TrainingData) -> TranslationalObjective:
        return TranslationalObjective(self, structure, data)


class TranslationalObjective:
    """Asks for the tail and for the head of every triple, among ``loss.entities`` sampled ones.

    Links teach only by making two entities one: what is learned of one holds for both. A step
    asks about one graph and samples its entities alone: those of the other one would include the
    unknown counterparts of right answers, which are not wrong.
    """

    def __init__(self, model: TranslationalModel, graph: MergedGraph, data: TrainingData) -> None:
        self.model, self.config = model, model.config
        seen = entities_of(graph.triples(), graph.n_entities)
        self.links: Ids = data.links[seen[data.links].all(axis=1)]
        model.unite(torch.from_numpy(data.links).to(model.entities.device))
        rows = model.representative.cpu().numpy()
        self.queries = []
        for triples in (graph.left, graph.right):
            united = np.stack((rows[triples[:, 0]], triples[:, 1], rows[triples[:, 2]]), 1)
            self.queries.append(Queries.of(united, graph.n_relations))
        self.seen = [np.unique(queries.entities) for queries in self.queries]

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
            put(np.searchsorted(candidates, answers)),
        )

    def _candidates(self, seen: Ids, answers: Ids, rng: np.random.Generator) -> Ids:
        """Right answers and sampled entities, sorted, among which right ones are to be found."""
        count = self.config.loss.entities
        if not count or count >= len(seen):
            return seen
        sampled = rng.choice(seen, count, replace=False, shuffle=False)
        found: Ids = np.union1d(sampled, answers)
        return found
