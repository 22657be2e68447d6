"""What training minimises where questions are answered by vectors and a decoder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from decentrl.graph.adjacency import Adjacency, Ids
from decentrl.graph.queries import Queries
from decentrl.nn.aggregate import gather, take
from decentrl.nn.all_answers import answer_loss, products

STEPS = 10
"""An epoch has at least so many steps (if there are so many questions), or smaller batches."""


@dataclass(frozen=True, eq=False)
class _Step:
    """The ids of a step: int64, on the model's device."""

    entities: Tensor  # [b], of the questions
    relations: Tensor  # [b]
    rows: Tensor  # [m], of each right answer its question
    answers: Tensor  # [m]
    columns: Tensor  # [m], of each right answer its place among the candidates
    candidates: Tensor  # [n]
    used: Tensor  # [k], the entities of the triples
    uses: Tensor  # [k], and how often they occur
    taught: Tensor  # the questions' entities, each once
    wrong: Tensor  # sampled entities, the negatives of self-distillation


class DecoderObjective:
    """Joins a model with the triples it is trained on.

    A step takes some questions with all their right answers: triples that share a question share
    its scores, which is a fraction of the work and the same gradient. While a batch is learned, the
    edges between its questions and answers are hidden (``model.hidden``): otherwise the
    answer stands among the neighbours that the question's vector is made of, as it never does
    when a question is asked in earnest.

    Args:
        model: a :class:`~decentrl.scorers.model.PredictionModel`.
        triples: int64[n, 3].
        view: what the encoder reads of them.
    """

    def __init__(
        self,
        model: Any,
        triples: Ids,
        view: Any,
        n_relations: int,
    ) -> None:
        config = model.config
        self.model, self.view, self.config = model, view, config
        self.queries = Queries.of(triples, n_relations)
        seen = view.seen.cpu().numpy()
        self.n_entities = len(seen)
        self.seen = np.flatnonzero(seen)
        self._ahead: list[Ids] = []
        self._encodings: list[Tensor] = []  # of the steps to come
        self._hide = None
        if config.model.hidden and (graphs := model.encoder.edges(view)):
            self._hide = _hiding(self.queries, graphs, self.n_entities)

    def batches(self, rng: np.random.Generator) -> Iterator[Ids]:
        size = self.config.training.batch or len(self.queries)
        if self.config.training.batch:  # a small graph needs its steps too
            size = max(1, min(size, -(-len(self.queries) // STEPS)))
        order = rng.permutation(len(self.queries))
        steps = [np.sort(order[start : start + size]) for start in range(0, len(order), size)]
        together = self.config.model.reuse
        with products(self.view.seen):  # while the steps of an epoch are taken
            for start in range(0, len(steps), together):
                self._ahead = steps[start : start + together]
                yield from self._ahead

    def loss(self, batch: Ids, rng: np.random.Generator) -> Tensor:
        model, settings = self.model, self.config.loss
        g = self._encoded(batch, rng)
        step = self._step(batch, rng)
        x = model.vectors(self.view, g)
        asked = model.questions(x, step.entities, step.relations)
        compared = model.answers(x)
        if len(step.candidates) < self.n_entities:
            compared = gather(compared, step.candidates)
        loss = answer_loss(
            asked,
            compared,
            model.bias(compared),
            step.rows,
            step.columns,
            offset=model.offset(asked) if settings.root else None,
            smoothing=settings.smoothing,
            root=settings.root,
        )
        if settings.relations:
            loss = loss + settings.relations * self._relation_loss(x, step)
        if settings.n3:
            loss = loss + settings.n3 * self._n3(x, step)
        if model.distillation is not None:
            loss = loss + self.config.distillation.weight * self._distilled(g, step)
        return loss

    def _step(self, batch: Ids, rng: np.random.Generator) -> _Step:
        """All ids of a step, in one transfer to where the model is."""
        queries = self.queries
        rows, index = queries.places(batch)
        answers = queries.answers[index]
        candidates = self._candidates(answers, rng)
        entities, relations = queries.entities[batch], queries.relations[batch]
        uses = np.bincount(entities[rows], minlength=self.n_entities)
        uses += np.bincount(answers, minlength=self.n_entities)
        used = np.flatnonzero(uses)
        taught, wrong = np.unique(entities), entities[:0]
        if self.model.distillation is not None:
            wrong = rng.choice(self.seen, self.config.distillation.negatives)
        parts = (
            entities, relations, rows, answers, np.searchsorted(candidates, answers),
            candidates, used, uses[used], taught, wrong,
        )  # fmt: skip
        packed = torch.from_numpy(np.concatenate(parts)).to(self.view.seen.device)
        return _Step(*torch.split(packed, [len(part) for part in parts]))

    def _encoded(self, batch: Ids, rng: np.random.Generator) -> Tensor:
        """What the encoder makes of the neighbours, for this step or for some steps ahead."""
        if self.config.model.reuse == 1:
            g: Tensor = self.model.encode(self.view, self._kept(batch, rng))
            return g
        if not self._encodings:
            steps = self._ahead or [batch]
            made = self.model.encode(self.view, self._kept(np.concatenate(steps), rng))
            self._encodings, self._ahead = [_shared(made, len(steps))] * len(steps), []
        return self._encodings.pop()

    def _kept(self, batch: Ids, rng: np.random.Generator) -> tuple[Tensor, ...] | None:
        """The edges that are not hidden while ``batch`` is learned; None if all are there."""
        if self._hide is None:
            return None
        share, (_, index) = self.config.model.hidden, self.queries.places(batch)
        return self._hide(index if share == 1 else index[rng.random(len(index)) < share])

    def _candidates(self, answers: Ids, rng: np.random.Generator) -> Ids:
        """The entities that right answers compete with: those with a training triple."""
        count = self.config.loss.candidates
        if not count or count >= len(self.seen):
            return self.seen
        sampled = rng.choice(self.seen, count, replace=False, shuffle=False)
        found: Ids = np.union1d(sampled, answers)
        return found

    def _relation_loss(self, x: Tensor, step: _Step) -> Tensor:
        """Which relation joins the two entities of a triple?"""
        heads = gather(x, step.entities[step.rows])
        tails = gather(self.model.answers(x), step.answers)
        scores = self.model.decoder.score_relations(heads, tails)
        scores = scores * self.model.log_scale.exp()
        return F.cross_entropy(scores, step.relations[step.rows])

    def _n3(self, x: Tensor, step: _Step) -> Tensor:
        """The mean over triples of Σ |h|³ + |r|³ + |t|³."""
        decoder = self.model.decoder
        if self.model.table is None:
            cubed = decoder.moduli(gather(x, step.used)).pow(3).sum(1)
            of_entities = cubed @ step.uses.to(x.dtype)
        else:  # an entity has one vector to ask by and another to answer by
            asked = gather(x, step.entities[step.rows])
            tails = gather(self.model.table, step.answers)
            of_entities = decoder.moduli(torch.cat((asked, tails))).pow(3).sum()
        cubes = decoder.relation_moduli().pow(3).sum(1)
        of_relations = take(cubes, step.relations[step.rows]).sum()
        total: Tensor = of_entities + of_relations
        return total / len(step.answers)

    def _distilled(self, g: Tensor, step: _Step) -> Tensor:
        model = self.model
        assert model.distillation is not None
        taught: Tensor = model.distillation(
            gather(g, step.taught), model.encoder.embeddings, step.taught, step.wrong
        )
        return taught / len(step.taught)


def _shared(made: Tensor, steps: int) -> Tensor:
    """One encoding for some steps, [n, d].

    Gradients gather at it; with the last step's they go on into the encoder, as the mean over the
    steps.
    """
    vectors, learned = made.detach().requires_grad_(), 0

    def pass_on(vectors: Tensor) -> None:
        nonlocal learned
        learned += 1
        if learned == steps:
            assert vectors.grad is not None
            made.backward(vectors.grad / steps)  # type: ignore[no-untyped-call]

    vectors.register_post_accumulate_grad_hook(pass_on)  # type: ignore[no-untyped-call]
    return vectors


def _hiding(
    queries: Queries, graphs: list[Adjacency], n_entities: int
) -> Callable[[Ids], tuple[Tensor, ...]]:
    """A function: some answers of a batch → the edges that do not join them with their questions.

    It takes int64[k], indices into ``queries.answers``, and returns bool[edges] for each graph.
    """

    def codes(a: Ids, b: Ids) -> Ids:
        return np.asarray(np.minimum(a, b) * n_entities + np.maximum(a, b))

    device = graphs[0].rows.device
    pairs = [codes(np.repeat(queries.entities, queries.sizes), queries.answers)]
    pairs += [codes(graph.rows.cpu().numpy(), graph.columns.cpu().numpy()) for graph in graphs]
    _, where = np.unique(np.concatenate(pairs), return_inverse=True)
    n_pairs = int(where.max(initial=-1)) + 1
    parts = np.split(where, np.cumsum([len(part) for part in pairs])[:-1])
    of_answers, *of_edges = (torch.from_numpy(part).to(device) for part in parts)

    def kept(index: Ids) -> tuple[Tensor, ...]:
        hidden = torch.zeros(n_pairs, dtype=torch.bool, device=device)
        hidden[of_answers[torch.from_numpy(index).to(device)]] = True
        return tuple(~hidden[edges] for edges in of_edges)

    return kept
