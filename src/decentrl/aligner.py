"""Entity alignment: which entity of the left graph is which of the right one."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from decentrl.config import Config
from decentrl.data.alignment_task import AlignmentTask
from decentrl.data.knowledge_graph import KnowledgeGraph
from decentrl.data.memory import Source
from decentrl.data.results import Evaluation, ResultTable
from decentrl.data.tasks import as_alignment_task
from decentrl.data.vocabulary import Ids
from decentrl.errors import ConfigError, InputError
from decentrl.evaluation.links import evaluate_links
from decentrl.growth.alignment_state import (
    SIDES,
    AlignmentState,
    Side,
    check_side,
    merged_graphs,
    new_ends,
)
from decentrl.growth.candidates import Candidates
from decentrl.growth.drift import Drift
from decentrl.growth.explanation import Reason
from decentrl.growth.growing_graph import NewTriples
from decentrl.growth.growing_model import REFIT, GrowingModel
from decentrl.growth.potentials import OTHER, PotentialCache
from decentrl.matching.confidence import expected_calibration_error
from decentrl.matching.matchers import MATCHERS, apply_matcher
from decentrl.matching.matches import (
    KEPT,
    Answers,
    answer,
    best_pairs,
    check_question,
    matches_table,
    nearest_answers,
    threshold_of,
)
from decentrl.matching.similarity import Scores
from decentrl.nn.device import cuda_devices
from decentrl.storage.additions import Addition
from decentrl.storage.bundle import Bundle
from decentrl.training.fitting import TrainingContext, fit_alignment, planned_epochs
from decentrl.training.loop import Row
from decentrl.training.progress import progress_bar

__all__ = ["SIDES", "Aligner", "Assign", "Side"]

Assign = Literal["nearest", "mutual", "one-to-one"]


class Aligner(GrowingModel[AlignmentState]):
    """Learns from two graphs and some links; finds the other links.

    >>> aligner = Aligner.from_preset("tiny").fit("left.tsv", "right.tsv", "links.tsv")
    >>> aligner.match(top=3)             # a table: left, right, rank, score, confidence
    >>> aligner.add([("Atlantis", "borders", "Spain")], side="right")
    >>> aligner.save("run")
    >>> Aligner.load("run").embed(["Berlin"], side="right")

    Args:
        config: every setting of the run (``Config.from_preset``).
        device: ``auto`` (CUDA if there is one), or what torch takes: ``cpu``, ``cuda:1``, …
    """

    kind = "aligner"

    def __init__(self, config: Config, device: str | torch.device = "auto") -> None:
        super().__init__(config, device)
        self.history: list[Row] = []
        self.seconds: dict[str, float] = {}
        self.rounds: list[dict[str, float]] = []
        self.chosen_rounds = 0
        self._cache: tuple[AlignmentState, PotentialCache] | None = None

    @classmethod
    def from_preset(
        cls, name: str, *settings: str, seed: int = 0, device: str | torch.device = "auto"
    ) -> Aligner:
        """``Aligner.from_preset("paper", "model.dim=128", seed=1)``."""
        return cls(Config.from_preset(name, settings, seed), device)

    # Learning

    def fit(
        self,
        left: AlignmentTask | KnowledgeGraph | Source,
        right: KnowledgeGraph | Source | None = None,
        links: Source | None = None,
        *,
        valid_links: Source | None = None,
        test_links: Source | None = None,
        progress: bool | None = None,
        run: str | PathLike[str] | None = None,
        resume: bool = False,
        on_epoch: Callable[[Row], None] | None = None,
        start: Aligner | None = None,
        share: float = 1.0,
    ) -> Aligner:
        """Train on two graphs and the links between them, or on a ready task.

        Without validation links, the share ``training.valid`` of the training links is held out.
        If training fails, the aligner stays as it was.

        Args:
            left, right: triples: files, lists of tuples, data frames, arrays, or
                :class:`KnowledgeGraph` objects; ``left`` alone may be an :class:`AlignmentTask` or
                the name of a dataset.
            links: known links, left then right.
            test_links: links to evaluate on; never used in training.
            progress: show a progress bar; default: in a terminal and in a notebook.
            run: folder for ``metrics.jsonl`` and checkpoints.
            resume: go on from the checkpoint in ``run``.
            on_epoch: called with each epoch's row of metrics.
            start: begin with what another aligner has learned; see :meth:`refit`.
            share: of the epochs of the settings.
        """
        started = time.perf_counter()
        task = as_alignment_task(left, right, links, test_links, valid_links)
        held_out = self.config.training.valid
        if held_out and not len(task.valid):
            task = task.hold_out(held_out, self.config.seed, into="valid")
        self.seconds["read"] = time.perf_counter() - started

        started = time.perf_counter()
        known, now = merged_graphs(task)
        context = TrainingContext(
            known,
            now,
            self.config.with_epochs(share),
            self.device,
            run=None if run is None else Path(run),
            resume=resume,
            warm=None if start is None else start.learned.warm_weights(task, start.growing),
            sureness=None if start is None else start.learned.sureness_now(task, later=-1.0),
        )
        epochs = planned_epochs(context.config, bool(len(task.valid)))
        with (
            progress_bar(epochs, progress=progress, on_epoch=on_epoch) as context.on_epoch,
            torch.random.fork_rng(devices=cuda_devices(self.device)),
        ):
            fitted = fit_alignment(context, task.valid + np.array([0, known.n_left]))
        self._swap(AlignmentState.from_fitted(self.config, self.device, task, fitted))
        self.history, self.rounds = fitted.history, fitted.rounds
        self.chosen_rounds = fitted.chosen
        self.seconds["train"] = time.perf_counter() - started
        return self

    def refit(
        self,
        *,
        share: float = REFIT,
        links: Source | None = None,
        run: str | PathLike[str] | None = None,
        resume: bool = False,
        on_epoch: Callable[[Row], None] | None = None,
    ) -> Aligner:
        """Train again on all that is there now, starting from what was learned.

        Args:
            share: of the epochs that a training from scratch has.
            links: links that have become known since.
            run, resume, on_epoch: as in :meth:`fit`.
        """
        again, task = Aligner(self.config, self.device), self.settled_task(links)
        return again.fit(task, run=run, resume=resume, on_epoch=on_epoch, start=self, share=share)

    def settled_task(self, links: Source | None = None) -> AlignmentTask:
        """What :meth:`refit` learns from: all triples, known links, and those of a file."""
        more = None if links is None else self.task.read_links(links)
        return self.learned.settled_task(self.task, more)

    # Growing

    def add(
        self,
        triples: NewTriples,
        *,
        side: Side,
        strict: bool = False,
        refresh: bool = False,
        source: str = "",
    ) -> Addition:
        """Take in new triples of one graph, with new entities, without any training.

        New entities have vectors, and can be matched, at once; those of trained entities stay as
        they are. Triples with a relation that training has not seen are left out and counted.

        Args:
            triples: (head, relation, tail) in labels, or a file of them.
            strict: an unknown relation is an error.
            refresh: encode everything anew; see :meth:`refresh`.
            source: where they come from, for the log.
        """
        check_side(side)
        return self._add(side, triples, strict, refresh, source)

    # Saving

    @classmethod
    def _learned_from(cls, bundle: Bundle[Any, Any], device: torch.device) -> AlignmentState:
        return AlignmentState.from_bundle(bundle, device)

    def save(self, run: str | PathLike[str], results: Sequence[dict[str, Any]] = ()) -> None:
        """Write ``run/bundle``: weights, vectors, labels, graphs and links, without pickle."""
        self._save(run, results)

    def _to_save(self) -> AlignmentState:
        return replace(self.learned, potentials=self._potentials.to_tensors())

    def _compacted(self) -> AlignmentState:
        potentials = self._potentials.updated_tensors(self.growing)
        return replace(super()._compacted(), potentials=potentials)

    # Looking

    def vectors(self, side: Side) -> Tensor:
        """Of all entities of a side, [n, d], of length 1 (or 0 where nothing is known of one)."""
        return self.growing.sides[side].vectors

    def embed(self, labels: Sequence[str], side: Side = "left") -> npt.NDArray[np.float32]:
        """Vectors of the named entities, [n, d], of length 1."""
        check_side(side)
        return self._vectors_of(labels, side)

    def explain(self, entity: str, *, side: Side = "left", moved: int = 5) -> list[Reason]:
        """Which neighbours and relations an entity's vector is made of, the weightiest first.

        Args:
            moved: for so many neighbours, and the last one, how far the vector would move
                without them.
        """
        check_side(side)
        return self._explain(side, entity, moved)

    def neighbours(
        self,
        entity: str,
        *,
        side: Side = "left",
        among: Side | None = None,
        top: int = 10,
        ann: bool = False,
    ) -> ResultTable:
        """The entities nearest to one by cosine, of its own graph or of the other one.

        Args:
            entity: a label of ``side``.
            among: where to look; default: ``side``, and then the entity itself is left out.
            ann: look in an approximate index (FAISS), built at the first such question.
        Returns:
            table with the columns entity, rank (1 is nearest) and cosine.
        """
        check_side(side)
        check_side(among or side)
        return self._neighbours(entity, side, among or side, top, ann)

    @property
    def _known_links(self) -> Ids:
        """Those that training and validation have used: their entities have their counterparts."""
        return np.concatenate((self.learned.task.train, self.learned.task.valid))

    @property
    def _potentials(self) -> PotentialCache:
        """Solutions of matching problems, for the state as it is."""
        learned = self.learned
        if self._cache is None or self._cache[0] is not learned:
            stored: Mapping[str, Tensor] = learned.potentials
            cache = PotentialCache(self.config.matching, self._known_links, stored)
            self._cache = learned, cache
        return self._cache[1]

    # Matching

    def match(
        self,
        entities: Sequence[str] | None = None,
        *,
        top: int = 1,
        side: Side = "left",
        matcher: str | None = None,
        assign: Assign = "nearest",
        min_confidence: float | Literal["fitted"] | None = None,
        ann: bool = False,
    ) -> ResultTable:
        """The best counterparts of some entities, or of all that no known link names.

        Candidates are the entities of the other graph that no known link has taken. If an asked
        entity is in a known link itself, its counterpart is a candidate too.

        All entities are matched together. What that has found out is kept, also by :meth:`save`,
        so that later questions about some of them, or about new ones, take one pass over the
        candidates.

        Args:
            entities: labels of ``side``.
            top: how many for each.
            matcher: ``cosine``, ``csls`` or ``sinkhorn``; default: the configured one.
            assign: ``nearest`` gives each entity its best; ``mutual`` only pairs that are each
                other's best; ``one-to-one`` uses every entity at most once, best pairs first
                (among each one's 50 best; who finds these taken has none).
            min_confidence: entities whose best match is less sure have none. ``fitted`` is the
                value that was best on the validation links.
            ann: look for candidates in an approximate index (FAISS) of each graph, which is built
                at the first such question. It may miss some; the score of an entity that is new,
                or in a known link, is by the candidates that were found, and so approximate.
        Returns:
            table with the columns left, right, rank (1 is best), score and confidence: how likely
            the match is right, null where it was not learned (that takes validation links, the
            configured matcher and rank 1). An entity without a match has a null counterpart; so
            has one without a vector, which is no match of others either.
        """
        check_question(top, assign)
        check_side(side)
        matcher = self._matcher(matcher)
        own, other = (self.growing.sides[name].entities for name in (side, OTHER[side]))
        if entities is None:
            listed = self._potentials.unlinked(self.growing, side).nonzero()[:, 0].numpy()
        else:
            listed = own.ids(entities)
        there = self.growing.sides[side].has_vector().numpy()[listed]
        confidence = self.learned.confidence if matcher == self.config.matching.matcher else None
        mine, theirs, pairs, cosines = self._candidates.of(
            side,
            None if entities is None else listed[there],
            matcher,
            assign,
            top=top,
            rivals=confidence is not None,
            ann=ann,
        )
        answers = answer(
            pairs,
            cosines,
            top=min(top, max(1, len(theirs))),
            assign=assign,
            confidence=confidence,
            threshold=threshold_of(min_confidence, confidence),
        ).spread(np.searchsorted(mine, listed[there]), there)
        columns = answers.columns.numpy()
        counterparts = np.array([*other.take(theirs), None], object)[columns]
        labels = np.array(own.take(listed), object)
        table = matches_table(labels, counterparts, answers, swapped=side == "right")
        return ResultTable(table)

    @property
    def _candidates(self) -> Candidates:
        return Candidates(
            self.growing, self._potentials, self.indexes, self.config.matching, self._known_links
        )

    def _matcher(self, name: str | None) -> str:
        name = name or self.config.matching.matcher
        if name not in MATCHERS:
            raise ConfigError(f"no matcher {name!r}; there are: {', '.join(MATCHERS)}")
        return name

    # How good it is

    _tested: tuple[Tensor, Tensor, str, Answers] | None = None

    def evaluate(
        self,
        candidates: tuple[str, ...] = ("test", "all"),
        links: Source | None = None,
    ) -> Evaluation:
        """Metrics of the test links, or of others.

        Returns:
            a table with the rows of ``results.json``; ``ranks`` holds the ranks left to right
            among ``test`` by matcher.
        """
        task = self.task
        test, unknown = task.test, task.unknown
        if links is not None:
            test = task.read_links(links)
            unknown = new_ends(self.growing, test) if task.open_world else None
        if not len(test):
            raise InputError("there are no test links", remedy="give some")
        left, right = self.vectors("left"), self.vectors("right")

        def remember(matcher: str, scores: Scores) -> None:
            if links is None and matcher == self.config.matching.matcher:
                self._tested = left, right, matcher, nearest_answers(scores)

        rows, ranks = evaluate_links(
            left,
            right,
            torch.from_numpy(test).to(self.device),
            self.config.matching,
            unknown=None if unknown is None else torch.from_numpy(unknown),
            candidates=candidates,
            on_test=remember if not self.config.matching.keep else None,
        )
        return Evaluation(rows, ranks)

    def confidence(self, links: Source | None = None) -> dict[str, float]:
        """How sure matches are, checked on links, by default those to test on; empty if that was
        not learned.

        Every left test entity is matched among all entities without a known link, as
        :meth:`match` does. ``ece`` is the expected calibration error (15 bins of equal mass),
        ``mean`` the mean confidence, ``right`` the share that is right, ``threshold`` the
        confidence below which ``min_confidence="fitted"`` gives no match.
        """
        test = self.task.test if links is None else self.task.read_links(links)
        test = test[self.growing.sides["left"].has_vector().numpy()[test[:, 0]]]
        if self.learned.confidence is None or not len(test):
            return {}
        matcher = self.config.matching.matcher
        mine, theirs, *pairs = self._candidates.together("left", test[:, 0], matcher, KEPT)
        answers = answer(*pairs, confidence=self.learned.confidence)
        rows = np.searchsorted(mine, test[:, 0])
        found = answers.columns[rows, 0].numpy()
        right = torch.from_numpy((found >= 0) & (theirs[found] == test[:, 1]))
        sure = answers.confidence[rows].double()
        return {
            "ece": expected_calibration_error(sure, right),
            "mean": sure.mean().item(),
            "right": right.double().mean().item(),
            "threshold": self.learned.confidence.threshold,
        }

    def drift(self, links: Source | None = None) -> Drift:
        """How far the graphs have grown away from what was trained.

        Args:
            links: links to tell by how calibrated matches still are; default: those to
                test on.
        """
        return self._drift(self.confidence(links))

    def _test_answers(self, matcher: str) -> Answers:
        """The best of the test targets for each left test entity, kept until vectors change."""
        left, right = self.vectors("left"), self.vectors("right")
        kept = self._tested
        if kept is None or kept[0] is not left or kept[1] is not right or kept[2] != matcher:
            links = torch.from_numpy(self.task.test).to(left.device)
            cosine = Scores.cosine(left[links[:, 0]], right[links[:, 1]])
            config = self.config.matching
            if config.keep:
                answers = answer(*best_pairs(cosine, matcher, config))
            else:
                answers = nearest_answers(apply_matcher(cosine, matcher, config))
            kept = self._tested = left, right, matcher, answers
        return kept[3]

    def test_matches(self, matcher: str | None = None) -> ResultTable:
        """The best match of every left test entity among the test targets, beside the truth.

        Each row has left, right, truth, score, correct and degree (triples the entity is in).
        """
        task, answers = self.task, self._test_answers(self._matcher(matcher))
        found, best = answers.columns[:, 0].tolist(), answers.scores[:, 0].tolist()
        triples = [task.left.triples, *(task.auxiliary or ())[:1]]
        ends = np.concatenate(triples)[:, [0, 2]].reshape(-1)
        degree = np.bincount(ends, minlength=len(task.left.entities))[task.test[:, 0]]
        names = task.right.entities
        rows = [
            {
                "left": label,
                "right": names[int(task.test[other, 1])],
                "truth": names[int(task.test[row, 1])],
                "score": score,
                "correct": bool(task.test[other, 1] == task.test[row, 1]),
                "degree": int(degree[row]),
            }
            for row, (label, other, score) in enumerate(
                zip(task.left.entities.take(task.test[:, 0]), found, best, strict=True)
            )
        ]
        return ResultTable.from_rows(rows)
