"""Answers by paths and by vectors together: a weighted sum of their log-probabilities."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from decentrl.config import DEFAULT_PRESET, PredictionConfig
from decentrl.graph.adjacency import Ids
from decentrl.graph.messages import Messages
from decentrl.graph.queries import Queries
from decentrl.graph.splits import Splits
from decentrl.scorers.base import Scorer, Stage
from decentrl.scorers.model import PredictionModel
from decentrl.scorers.paths import PathScorer
from decentrl.scorers.reasons import Path
from decentrl.views.base import Attention, Rows
from decentrl.views.part import Part

VECTORS = "vectors."
"""What the names of the weights of the vectors' part begin with."""
CELLS = 2**24
"""Log-probabilities of a part that weights are fitted to."""


class Both(NamedTuple):
    """What each part reads, or answers from; and the entities of training, bool[n]."""

    paths: Messages
    vectors: Any
    known: Tensor


class FusedScorer(Scorer):
    """A path scorer, and vectors by the preset ``strong``, trained one after the other.

    The score of an answer is a · log p(by paths) + b · log p(by vectors), with a and b fitted to
    validation triples. Vectors know entities of training alone: they divide among these what paths
    give them, and of all others, asked about or answers, paths alone say how likely they are. So
    nothing has to be known of entities that arrive later.
    """

    weights: Tensor

    def __init__(self, n_entities: int, n_relations: int, config: PredictionConfig) -> None:
        super().__init__(n_entities, n_relations, config)
        own = PredictionConfig.from_preset(DEFAULT_PRESET, (), config.seed)
        self.paths = PathScorer(n_entities, n_relations, config)
        self.vectors = PredictionModel(n_entities, n_relations, own)
        self.register_buffer("weights", torch.tensor([0.5, 0.5]))
        self.width, self.memories = self.vectors.width, self.vectors.memories
        self.reach = self.vectors.reach
        self.without_rows = tuple(VECTORS + name for name in self.vectors.without_rows)

    def read(self, triples: Ids, trained_on: Ids, device: torch.device) -> Both:
        vectors = self.vectors.read(triples, trained_on, device)
        return Both(self.paths.read(triples, trained_on, device), vectors, vectors.seen)

    def stages(self, triples: Ids, view: Both, valid: Ids, share: float) -> list[Stage]:
        training = self.config.training
        by_vectors = self.vectors.config.with_epochs(max(1e-6, training.vectors) * share)
        return [
            stage._replace(name=f"{name}-{stage.name}".removesuffix("-"), training=steps)
            for name, part, seen, steps in (
                ("paths", self.paths, view.paths, self.config.with_epochs(share).training),
                ("vectors", self.vectors, view.vectors, by_vectors.training),
            )
            for stage in part.stages(triples, seen, valid, share)
        ]

    def objective(self, triples: Ids, view: Both, valid: Ids) -> Any:
        return self.paths.objective(triples, view.paths, valid)

    @torch.no_grad()
    def settle(self, triples: Ids, view: Both, valid: Ids) -> None:
        """Fit the two weights to validation triples: their answers get most of the probability."""
        if not len(valid):
            return
        asked = Queries.of(valid, self.n_relations)
        most = max(1, CELLS // self.n_entities)
        chosen = np.random.default_rng(self.config.seed).permutation(len(asked.answers))[:most]
        owners = np.repeat(np.arange(len(asked)), asked.sizes)[chosen]
        questions = asked.entities[owners], asked.relations[owners]
        device = self.device
        heads, kinds = (torch.from_numpy(x).to(device) for x in questions)
        both = torch.stack(self._parts(self.ground_of(view), heads, kinds))
        right = torch.from_numpy(asked.answers[chosen]).to(device)
        known = Queries.of(np.concatenate((triples, valid)), self.n_relations)
        rows, others = (torch.from_numpy(x).to(device) for x in known.held(*questions))
        at = torch.arange(len(right), device=device)
        kept = both[:, at, right]
        both[:, rows, others] = -torch.inf
        both[:, at, right] = kept
        self.weights.copy_(fitted_weights(both, right))

    def ground_of(self, view: Both) -> Both:
        return view._replace(vectors=self.vectors.ground_of(view.vectors))

    def ground(self, splits: Splits, vectors: Tensor, device: torch.device) -> Both:
        graph = self.paths.ground(splits, vectors, device)
        own = self.vectors.ground(splits, vectors, device)
        return Both(graph, own, torch.from_numpy(splits.seen).to(device))

    def unknown(self, ground: Both, splits: Splits) -> tuple[Tensor, Tensor]:
        return self.paths.unknown(ground.paths, splits)

    @torch.no_grad()
    def scores(self, ground: Both, entities: Tensor, relations: Tensor) -> Tensor:
        by_paths, by_vectors = self._parts(ground, entities, relations)
        return by_paths.mul_(self.weights[0]).add_(by_vectors.mul_(self.weights[1]))

    def _parts(self, ground: Both, entities: Tensor, relations: Tensor) -> tuple[Tensor, Tensor]:
        """Log-probabilities of answers by paths and by vectors: [b, n] each."""
        by_paths = self.paths.scores(ground.paths, entities, relations).log_softmax(1)
        scores = self.vectors.scores(ground.vectors, entities, relations)
        scores.masked_fill_(~ground.known, -torch.inf)
        share = by_paths.masked_fill(~ground.known, -torch.inf).logsumexp(1, keepdim=True)
        asked = ground.known[entities][:, None] & ground.known
        return by_paths, torch.where(asked, scores.log_softmax(1) + share, by_paths)

    def relation_scores(self, ground: Both, heads: Tensor, tails: Tensor) -> Tensor:
        return self.paths.relation_scores(ground.paths, heads, tails)

    def reasons(
        self, ground: Both, entity: int, relation: int, answer: int, top: int
    ) -> list[Path]:
        return self.paths.reasons(ground.paths, entity, relation, answer, top)

    # Vectors of entities are those of their part

    def rows(self, view: Both) -> Rows:
        return self.vectors.rows(view.vectors)

    def newcomers(self, part: Part) -> Rows:
        return self.vectors.newcomers(part)

    def attentions(self, part: Part) -> list[Attention]:
        return self.vectors.attentions(part)

    def grown_row(self, name: str, rows: Tensor, fresh: bool) -> Tensor:
        return self.vectors.grown_row(name.removeprefix(VECTORS), rows, fresh)


def fitted_weights(both: Tensor, right: Tensor) -> Tensor:
    """The weights, none below 0, under which right answers are likeliest: [2].

    Args:
        both: log-probabilities by two ways, [2, b, n], -inf for what is no candidate.
        right: int64[b].
    """
    both = both.double().clamp(min=-1e4)
    found = both.new_tensor([0.5, 0.5])

    def loss(weights: Tensor) -> Tensor:
        return F.cross_entropy((weights[:, None, None] * both).sum(0), right)

    for _ in range(50):  # Newton's method; the loss is convex
        chance = (found[:, None, None] * both).sum(0).softmax(1)
        mean = (chance * both).sum(2)  # [2, b]
        slope = (mean - both[:, torch.arange(len(right)), right]).mean(1)
        free = (found > 0) | (slope < 0)
        apart = (both - mean[:, :, None])[free]
        curve = torch.einsum("ibn,bn,jbn->ij", apart, chance, apart) / len(right)
        step = torch.zeros_like(found)
        step[free] = torch.linalg.solve(curve + 1e-9 * torch.eye(len(curve)).to(curve), slope[free])
        size, before = 1.0, loss(found)
        while size > 1e-6 and loss((found - size * step).clamp(min=0)) > before:
            size /= 2
        new = (found - size * step).clamp(min=0)
        moved, found = float((new - found).abs().max()), new
        if moved < 1e-6:
            break
    return found.float()
