"""Entity prediction: complete (h, r, ?) and (?, r, t), also for entities that arrive later."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, Self, overload

import numpy as np
import numpy.typing as npt
import torch

from decentrl.data.graph_task import GraphTask
from decentrl.data.knowledge_graph import KnowledgeGraph
from decentrl.data.memory import Source
from decentrl.data.questions import Question, identified
from decentrl.data.registry import as_graph_task
from decentrl.data.results import Evaluation, ResultTable
from decentrl.data.vocabulary import Ids
from decentrl.errors import ConfigError, InputError
from decentrl.evaluation.filtered import draw_wrong, rank_answers
from decentrl.evaluation.groups import frequency_scores, metrics_by_group
from decentrl.evaluation.metrics import ANSWERS, summary
from decentrl.graph.queries import Queries
from decentrl.graph.splits import Splits
from decentrl.growth.answer_tables import answers_table, best_answers
from decentrl.growth.explanation import Reason
from decentrl.growth.growing_model import GrowingModel
from decentrl.growth.path_explanation import PathReason, explain_triple, in_words
from decentrl.growth.prediction_state import PredictionState, splits_of, view_of
from decentrl.nn.running import cuda_devices
from decentrl.scorers.base import Scorer
from decentrl.scorers.completion import CALIBRATED, Answer, Completion, reliability
from decentrl.scorers.model import make_scorer
from decentrl.training.loop import Row
from decentrl.training.prediction import estimate, train_stages
from decentrl.training.progress import progress_bar

TripleSource = Ids | Source
"""Triples in ids, int64[n, 3], or in labels, also a file of them."""
ELSEWHERE, WRONG = "another graph", 50
"""What results call tests on another graph, and among how many wrong answers they are ranked."""


class Predictor(GrowingModel[PredictionState]):
    """Learns from one graph; completes its triples.

    >>> predictor = Predictor.from_preset("quick").fit("world/geonames")
    >>> predictor.predict(head="Germany", relation="capital", top=3)   # a pyarrow Table
    >>> predictor.add([("Atlantis", "continent", "Europe")])
    >>> predictor.predict(head="Atlantis", relation="capital")
    >>> predictor.save("run")                                          # Predictor.load("run")

    Args:
        config: every setting of the run (``PredictionConfig.from_preset``).
        device: ``auto`` (CUDA if there is one), or what torch takes: ``cpu``, ``cuda:1``, …
    """

    kind = "predictor"
    learned_type = PredictionState
    unit_vectors = False
    _trained_on: frozenset[str] | None = None  # entities of training, if it was another graph

    @classmethod
    def from_preset(
        cls,
        name: str,
        *settings: str,
        decoder: str = "",
        seed: int = 0,
        device: str | torch.device = "auto",
    ) -> Self:
        """``Predictor.from_preset("paper", "model.dim=128", decoder="transe", seed=1)``."""
        if decoder:
            settings = (f"decoder.name={decoder}", *settings)
        return super().from_preset(name, *settings, seed=seed, device=device)

    # Learning

    def fit(
        self,
        source: GraphTask | KnowledgeGraph | Source,
        *,
        valid: float | Source | None = None,
        test: float | Source = 0.0,
        progress: bool | None = None,
        run: str | PathLike[str] | None = None,
        resume: bool = False,
        on_epoch: Callable[[Row], None] | None = None,
        start: Self | None = None,
        share: float = 1.0,
        on_estimate: Callable[[float], None] | None = None,
    ) -> Self:
        """Train on a graph, a file of triples, or a ready task.

        If training fails, the predictor stays as it was.

        Args:
            source: triples (a file, a list of tuples, a data frame, an array, a
                :class:`KnowledgeGraph`), the name of a dataset, or a :class:`GraphTask`; the last
                two bring their own validation and test triples.
            valid, test: of plain triples the share to hold out (default of ``valid``:
                ``training.valid``), or the triples themselves.
            progress: show a progress bar; default: in a terminal and in a notebook.
            run: folder for ``metrics.jsonl`` and checkpoints.
            resume: go on from the checkpoint in ``run``.
            on_epoch: called with each epoch's row of metrics.
            start: begin with what another predictor has learned; see :meth:`refit`.
            share: of the epochs of the settings.
            on_estimate: called before training with the seconds that it will about take, where
                these can be estimated.
        """
        started = time.perf_counter()
        held_out = self.config.training.valid if valid is None else valid
        task = as_graph_task(source, held_out, test, self.config.seed)
        self.seconds["read"] = time.perf_counter() - started
        started = time.perf_counter()
        with torch.random.fork_rng(devices=cuda_devices(self.device)):
            model, view, splits = self._model(task, start)
            stages = model.stages(splits.train, view, splits.known_valid, share)
            if on_estimate is not None and (seconds := estimate(stages)):
                on_estimate(seconds)
            epochs = sum(stage.training.epochs for stage in stages)
            with progress_bar(epochs, progress=progress, on_epoch=on_epoch) as shown:
                where = None if run is None else Path(run)
                history = train_stages(stages, splits, where, resume, shown)
            model.settle(splits.train, view, splits.known_valid)
        self._swap(PredictionState.from_model(self.config, self.device, task, model))
        self.history = history
        self.seconds["train"] = time.perf_counter() - started
        return self

    def _model(self, task: GraphTask, start: Self | None) -> tuple[Scorer, Any, Splits]:
        """What is to be trained, what it reads while it is, and the triples of the task."""
        splits = splits_of(task)
        torch.manual_seed(self.config.seed)
        sizes = splits.n_entities, splits.n_relations
        model = make_scorer(*sizes, self.config).to(self.device)
        if start is not None:
            model.load_state_dict(start.learned.weights_for(model, fresh=True))
        return model, view_of(model, splits.train, task, self.device), splits

    @property
    def _splits(self) -> Splits:
        """All triples there are now, each set by its part."""
        taught = self.learned.taught
        return self._once("splits", lambda: replace(splits_of(self.task), taught=taught))

    @property
    def _completion(self) -> Completion:
        """What answers questions over the state as it is now."""

        def make() -> Completion:
            splits, model = self._splits, self.learned.model
            if model.n_entities < splits.n_entities:
                model = self.learned.grown(self.growing).model
            ground = model.ground(splits, self.vectors(), self.device)
            return Completion(model, ground, splits, self.learned.confidence)

        return self._once("completion", make)

    def on(self, source: GraphTask | KnowledgeGraph | Source, test: Source | None = None) -> Self:
        """The same model, to be asked about another graph with the same relations.

        Args:
            source: its triples, a ready task, or a dataset (of two graphs the new one).
            test: triples of it to test on.
        Returns:
            a predictor of its own, which may be asked, evaluated and grown.
        """
        task = as_graph_task(source, 0.0, 0.0 if test is None else test)
        if task.elsewhere is not None:
            task = task.elsewhere
        other = type(self)(self.config, self.device)
        other._swap(self.learned.over(task))
        trained = self.task.graph.entities.take(np.flatnonzero(self._splits.seen))
        other._trained_on = self._trained_on or frozenset(trained)
        return other

    # Answering

    def predict(
        self,
        head: str | None = None,
        relation: str | None = None,
        tail: str | None = None,
        *,
        top: int = 10,
        known: bool = False,
        language: str = "",
    ) -> ResultTable:
        """What completes a triple of which one part is missing.

        Args:
            head, relation, tail: labels, or names of entities; exactly one is left out and asked
                for.
            top: how many answers.
            known: answers that the graph or its held-out triples hold may be among them.
            language: of the names that are shown.
        Returns:
            table with the columns head, relation, tail, rank, score, probability (null where it was
            not learned: it takes validation triples, and is there neither for relations nor for
            what is known) and known, and, of a graph with names, head_name and tail_name.
        """
        asked = [(head, relation, tail)]
        return self.predict_all(asked, top=top, known=known, language=language)

    def predict_all(
        self,
        queries: Sequence[Question],
        *,
        top: int = 10,
        known: bool = False,
        language: str = "",
    ) -> ResultTable:
        """:meth:`predict` for many questions at once: (head, relation, tail), one None in each."""
        if top < 1:
            raise ConfigError(f"top is {top}; it must be at least 1")
        for query in queries:
            if sum(part is None for part in query) != 1:
                raise ConfigError("leave out exactly one of head, relation and tail to ask for it")
        graph, found = self.task.graph, dict[int, list[Answer]]()
        queries = [identified(graph, query) for query in queries]
        for relations in (False, True):
            chosen = [i for i, (_, r, _) in enumerate(queries) if (r is None) == relations]
            if chosen:
                answers = self._answers([queries[i] for i in chosen], top, known)
                found.update(zip(chosen, answers, strict=True))
        answers = [found[i] for i in range(len(queries))]
        return ResultTable(answers_table(graph, queries, answers, language))

    def _answers(self, queries: list[Question], top: int, known: bool) -> list[list[Answer]]:
        """Answers to questions that all ask for relations, or all for entities."""
        graph, every = self.task.graph, self._splits.every
        heads, relations, tails = zip(*queries, strict=True)
        if relations[0] is None:
            ids = graph.entities.ids(heads), graph.entities.ids(tails)
            return self._completion.relations(*ids, every, top, known)
        given = graph.entities.ids(t if h is None else h for h, _, t in queries)
        inverse = len(graph.relations) * np.array([head is None for head in heads])
        kinds = graph.relations.ids(relations) + inverse
        return self._completion.entities(given, kinds, every, top, known)

    @overload
    def explain(
        self, entity: str, *, side: str | None = None, moved: int = 5, language: str = ""
    ) -> list[Reason]: ...

    @overload
    def explain(
        self, *, head: str, relation: str, tail: str, top: int = 5, language: str = ""
    ) -> list[PathReason]: ...

    def explain(
        self,
        entity: str | None = None,
        *,
        head: str = "",
        relation: str = "",
        tail: str = "",
        top: int = 5,
        side: str | None = None,
        moved: int = 5,
        language: str = "",
    ) -> list[Reason] | list[PathReason]:
        """Which neighbours an entity's vector is made of, or which paths lead to an answer.

        Args:
            entity: of a predictor whose answers are made of vectors; see
                :meth:`GrowingModel.explain` for ``side`` and ``moved``.
            head, relation, tail: a triple: why its tail answers (head, relation, ?). If the graph
                holds the triple, it is left out.
            top: how many paths, the one that gives most to the score first.
        """
        if entity is not None:
            return super().explain(entity, side=side, moved=moved, language=language)
        found = explain_triple(self.task.graph, self._completion, (head, relation, tail), top)
        return in_words(self.task.graph, found, language)

    # How good it is

    def evaluate(
        self, triples: TripleSource | None = None, *, among: str = "all", negatives: int = 0
    ) -> Evaluation:
        """Filtered, tie-aware metrics of the test triples, or of others.

        Args:
            among: rank answers among ``all`` entities, or only those that training has seen
                (``known``) or not (``new``); questions with other answers are left out.
            negatives: rank each answer among so many wrong ones, drawn once with a fixed seed;
                0 means all.
        Returns:
            a table with the rows of ``results.json`` (``group`` names what a row is about: all, a
            direction, a category of relations, a cell of the open world, a relation); ``ranks``
            holds the questions and the ranks of their answers.
        """
        splits, test = self._splits, self._test(triples)
        if not len(test):
            raise InputError("there are no test triples", remedy="hold some out, or give some")
        asked, known = splits.queries(test), splits.true(test)
        candidates = self._among(among)
        asked = asked.with_answers(candidates)
        if not len(asked):
            raise InputError(f"no test question has an answer that is {among}",
                             remedy="rank among all entities")  # fmt: skip
        which = dict[str, Any](among=torch.from_numpy(candidates))
        if negatives:
            which = {"drawn": draw_wrong(asked, known, np.flatnonzero(candidates), negatives)}
        score = self._completion.scores
        ranks = rank_answers(score, asked, known, splits.n_entities, device=self.device, **which)
        rows = metrics_by_group(asked, ranks, splits.known, self.task.new_entities)
        for row in rows:
            if row["group"] == "relation":
                row["name"] = self.task.graph.relations[row["name"]]
        return Evaluation(rows, (asked, ranks))

    def evaluate_elsewhere(self) -> list[dict[str, Any]]:
        """Metrics of the other graph that a dataset brings: among all of it, and 50 wrong ones."""
        if self.task.elsewhere is None or not self.config.model.any_graph:
            return []
        other, names = self.on(self.task.elsewhere), {"all": 0, f"{WRONG} wrong ones": WRONG}
        firsts = {name: other.evaluate(negatives=count).rows[0] for name, count in names.items()}
        return [
            {**row, "group": ELSEWHERE, "name": f"among {name}"} for name, row in firsts.items()
        ]

    def _among(self, among: str) -> npt.NDArray[np.bool_]:
        """The entities that answers are ranked among: bool[n]."""
        labels, known = self._trained_on, self._splits.seen
        if labels is not None:
            known = np.array([x in labels for x in self.task.graph.entities], bool)
        masks = {"all": known | True, "known": known, "new": ~known}
        if among not in masks:
            raise ConfigError(f"no among {among!r}; there are: {', '.join(masks)}")
        return masks[among]

    def frequency(self, triples: TripleSource | None = None) -> dict[str, float]:
        """The same metrics of answering by how often an entity answers a relation in training."""
        splits, test = self._splits, self._test(triples)
        asked, known = splits.queries(test), splits.true(test)
        scores = frequency_scores(splits.queries(splits.train), splits.n_entities)
        ranks = rank_answers(lambda _, r: scores[r], asked, known, splits.n_entities)
        return summary(ranks, ANSWERS)

    def confidence(self, triples: TripleSource | None = None) -> dict[str, float]:
        """How well probabilities are calibrated on triples, by default those to test on; empty if
        that was not learned.

        Of every test question the best answers that are not known yet; ``ece`` is the expected
        calibration error (15 bins of equal mass), ``mean`` the mean probability, ``right`` the
        share that the test triples confirm.
        """
        if triples is None:
            return reliability(*self._once("tested", lambda: self._best(self.task.test)))
        return reliability(*self._best(self._test(triples)))

    def _best(self, triples: Ids) -> tuple[Queries, list[list[Answer]]]:
        """The questions of triples, and the best answers of each that are not known yet."""
        splits = self._splits
        asked, known = splits.queries(triples), splits.queries(splits.now, splits.valid)
        asking = asked.entities, asked.relations
        return asked, self._completion.entities(*asking, known, CALIBRATED)

    def test_predictions(self) -> ResultTable:
        """The best answer of every test question, beside the truth.

        What training and validation triples hold is not an answer, nor is what :meth:`predict`
        would never give; so ``correct`` may differ a little from Hits@1 of :meth:`evaluate`.

        Returns:
            table with the columns head, relation, tail (with the answer in its place), asked
            (``head`` or ``tail``), score, probability, correct and truth, a list of labels; of a
            graph with names also head_name, tail_name and truth_name, a list.
        """
        tested = self._once("tested", lambda: self._best(self.task.test))
        unanswered = None if self.learned.confidence is None else 0.0
        return ResultTable(best_answers(self.task.graph, *tested, unanswered))

    def _test(self, triples: TripleSource | None) -> Ids:
        """The test triples, or those given."""
        test: Any = self.task.test if triples is None else triples
        is_ids = isinstance(test, np.ndarray) and test.dtype.kind == "i"
        found: Ids = test if is_ids else self.task.read_triples(test)
        return found
