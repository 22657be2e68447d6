"""Completing triples of ids: the best answers of a trained model, and how sure they are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import isfinite, isnan
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from decentrl.graph.adjacency import Ids
from decentrl.graph.queries import Queries
from decentrl.graph.splits import Splits
from decentrl.matching.confidence import Confidence, calibration, fit_confidence
from decentrl.scorers.base import Scorer

CALIBRATED = 10
"""Best answers of a held-out question that calibration looks at."""
CELLS = 2**24
"""Scores in memory at a time."""


class Answer(NamedTuple):
    """One answer of a question, an entity or a relation by its id."""

    id: int
    score: float
    probability: float | None  # of an answer among what is not known yet
    known: bool


@dataclass(frozen=True, eq=False)
class Completion:
    """Answers of a trained model over the triples of a graph.

    Relations of questions are directed: from n_relations on they are reciprocals, so that
    (?, r, t) is the question (t, n_relations + r, ?).
    """

    model: Scorer
    ground: Any  # what it answers from, made of the triples ``splits.now``
    splits: Splits
    confidence: Confidence | None = None

    def entities(
        self, entities: Ids, relations: Ids, known: Queries, top: int, also_known: bool = False
    ) -> list[list[Answer]]:
        """The best answers of the questions (entity, relation, ?), int64[b] each; ``top`` at most.

        Args:
            known: what it holds is no answer, or with ``also_known`` one without a probability.
        """
        found = []
        for part in self._blocks(len(entities)):
            asked = entities[part], relations[part]
            scores = self.possible(*asked)
            old = answered(known, *asked, self.splits.n_entities).to(scores.device)
            unknown = scores.masked_fill(old, -torch.inf)
            shown = scores if also_known else unknown
            values, answers = shown.topk(min(top, shown.shape[1]), dim=1)
            is_known = old.gather(1, answers).cpu()
            chances = torch.full(values.shape, torch.nan, dtype=torch.float64)
            if self.confidence is not None:
                facts = features(values, unknown).flatten(0, 1).cpu()
                chances = self.confidence(facts).reshape(values.shape)
                chances = chances.masked_fill(is_known, torch.nan)
            found += _listed(answers, values, chances, is_known)
        return found

    @torch.no_grad()
    def relations(
        self, heads: Ids, tails: Ids, known: Queries, top: int, also_known: bool = False
    ) -> list[list[Answer]]:
        """The best relations from heads to tails, int64[b] each, as in :meth:`entities`."""
        h, t = torch.from_numpy(heads), torch.from_numpy(tails)
        device = self.model.device
        scores = self.model.relation_scores(self.ground, h.to(device), t.to(device)).cpu()
        # Untrained relations, and entities of which nothing is known, have no score.
        scores[:, ~self.splits.trained_relations] = -torch.inf
        scores[self.unasked.cpu()[h] | self.unanswerable.cpu()[t]] = -torch.inf
        n = self.splits.n_relations
        rows, ends = known.held(np.repeat(heads, n), np.tile(np.arange(n), len(heads)))
        old = torch.zeros(scores.shape, dtype=torch.bool)
        old.view(-1)[torch.from_numpy(rows[ends == tails[rows // n]])] = True
        if not also_known:
            scores[old] = -torch.inf
        values, order = (x[:, :top] for x in scores.sort(1, descending=True))
        return _listed(order, values, torch.full_like(values, torch.nan), old.gather(1, order))

    def possible(self, entities: Ids, relations: Ids) -> Tensor:
        """Scores of all answers to some questions, -inf for impossible ones: [b, n].

        An entity of which nothing is known is none, and where no training triple of a relation
        joins an entity to itself, none answers a question about itself. A question about an entity
        of which nothing is known, or with a relation never trained, has no answer at all.
        """
        undirected, device = relations % self.splits.n_relations, self.model.device
        asked = torch.from_numpy(entities).to(device)
        scores = self.model.scores(self.ground, asked, torch.from_numpy(relations).to(device))
        absent = torch.from_numpy(~self.splits.present).to(device)
        scores.masked_fill_(self.unanswerable | absent, -torch.inf)
        alone = torch.from_numpy(~self.splits.reflexive[undirected]).to(device)
        scores[alone.nonzero()[:, 0], asked[alone]] = -torch.inf
        untrained = torch.from_numpy(~self.splits.trained_relations[undirected]).to(device)
        return scores.masked_fill_((untrained | self.unasked[asked])[:, None], -torch.inf)

    @cached_property
    def unasked(self) -> Tensor:
        """Entities that nothing can be asked about: bool[n]."""
        return self.model.unknown(self.ground, self.splits)[0]

    @cached_property
    def unanswerable(self) -> Tensor:
        """Entities that cannot be an answer: bool[n]."""
        return self.model.unknown(self.ground, self.splits)[1]

    def scores(self, entities: Tensor, relations: Tensor) -> Tensor:
        """Scores to rank by, int64[b] each → [b, n].

        Entities of which nothing is known, or with a row of a table that was never trained, are
        the last of all: a distance would find them near everything.
        """
        scores = self.model.scores(self.ground, entities, relations)
        if self.unanswerable.any():
            scores[:, self.unanswerable] = scores.amin(1, keepdim=True)
        return scores

    def evidence(self, asked: Queries, known: Queries) -> tuple[Tensor, Tensor]:
        """Features of the best unknown answers of held-out questions, and which are right.

        Returns:
            float64[n, 2] and bool[n].
        """
        facts, right = [], []
        for part in self._blocks(len(asked)):
            questions = asked.entities[part], asked.relations[part]
            scores = self.possible(*questions)
            old = answered(known, *questions, self.splits.n_entities).to(scores.device)
            truth = answered(asked, *questions, self.splits.n_entities).to(scores.device)
            scores.masked_fill_(old, -torch.inf)
            values, answers = scores.topk(min(CALIBRATED, scores.shape[1]), dim=1)
            open_ = values.isfinite()
            facts.append(features(values, scores)[open_].cpu())
            right.append(truth.gather(1, answers)[open_].cpu())
        return torch.cat(facts), torch.cat(right)

    def calibrated(self, asked: Queries, known: Queries) -> Confidence:
        """Probabilities fitted to held-out questions."""
        facts, right = self.evidence(asked, known)
        found = fit_confidence(facts, right)
        if found.weights[0] < 0:  # too little was seen to know that a better score is better
            facts[:, 0] = 0
            found = fit_confidence(facts, right)
        return found

    def _blocks(self, n: int) -> Iterator[slice]:
        size = max(1, CELLS // max(1, self.splits.n_entities))
        return (slice(start, start + size) for start in range(0, n, size))


def reliability(asked: Queries, found: list[list[Answer]]) -> dict[str, float]:
    """Calibration of the probabilities of answers that were found; empty where there are none."""
    chances, right = list[float](), list[bool]()
    for i, answers in enumerate(found):
        truth = set(asked.answers[asked.indptr[i] : asked.indptr[i + 1]].tolist())
        for answer in answers:
            if answer.probability is not None:
                chances.append(answer.probability)
                right.append(answer.id in truth)
    if not chances:
        return {}
    return calibration(torch.tensor(chances, dtype=torch.float64), torch.tensor(right))


def answered(known: Queries, entities: Ids, relations: Ids, n: int) -> Tensor:
    """Which of n answers ``known`` holds for each question: bool[b, n]."""
    mask = torch.zeros(len(entities), n, dtype=torch.bool)
    rows, answers = known.held(entities, relations)
    mask[torch.from_numpy(rows), torch.from_numpy(answers)] = True
    return mask


def features(values: Tensor, unknown: Tensor) -> Tensor:
    """Features of answers among the unknown ones, for confidence: float64[b, k, 2].

    The logarithm of its share, and that of the best answer's. ``values`` are scores of answers,
    [b, k], and ``unknown`` all scores, -inf where the answer is known: [b, n].
    """
    total = unknown.logsumexp(1, keepdim=True)
    best = (unknown.amax(1, keepdim=True) - total).expand_as(values)
    return torch.stack((values - total, best), -1).double()


def _listed(*columns: Tensor) -> list[list[Answer]]:
    """The answers of each question, of [b, k] each of :class:`Answer`; impossible ones left out."""
    return [
        [
            Answer(answer, value, None if isnan(chance) else chance, old)
            for answer, value, chance, old in zip(*row, strict=True)
            if isfinite(value)
        ]
        for row in zip(*(column.tolist() for column in columns), strict=True)
    ]
