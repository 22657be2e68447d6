"""Entity alignment: which entity of the left graph is which of the right one."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, Literal, Self, overload

import numpy as np
import pyarrow as pa
import torch

from decentrl.config import Config
from decentrl.data.alignment_task import AlignmentTask
from decentrl.data.knowledge_graph import KnowledgeGraph
from decentrl.data.memory import Source
from decentrl.data.naming import add_names, entity_ids
from decentrl.data.registry import as_alignment_task
from decentrl.data.results import Evaluation, ResultTable
from decentrl.errors import ConfigError, InputError
from decentrl.evaluation.links import evaluate_links, rank_apart
from decentrl.growth.alignment_state import SIDES, AlignmentState, Side, merged_graphs, new_ends
from decentrl.growth.claims import Claims, find_claims
from decentrl.growth.explain_pair import NAMES, PairExplainer
from decentrl.growth.explanation import Reason
from decentrl.growth.growing_model import GrowingModel
from decentrl.growth.learned import all_triples, graphs_of
from decentrl.growth.pair_explanation import STRUCTURE, PairExplanation
from decentrl.growth.potentials import Matching
from decentrl.matching.matchers import MATCHERS, field_matcher
from decentrl.matching.matches import (
    KEPT,
    answer,
    best_pairs,
    check_question,
    matches_table,
    threshold_of,
)
from decentrl.matching.potentials import OTHER
from decentrl.matching.similarity import Scores
from decentrl.matching.sparse import SparseScores, top_pairs
from decentrl.nn.running import cuda_devices
from decentrl.training.fitting import NO_LINKS, TrainingContext, fit_alignment, planned_epochs
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
    learned_type = AlignmentState
    unit_vectors = True

    def __init__(self, config: Config, device: str | torch.device = "auto") -> None:
        super().__init__(config, device)
        self.rounds: list[dict[str, float]] = []
        self.started = NO_LINKS
        self.chosen_rounds = 0

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
        start: Self | None = None,
        share: float = 1.0,
    ) -> Self:
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
            start, share: another aligner to go on from, with this share of the epochs.
        """
        started = time.perf_counter()
        task = as_alignment_task(left, right, links, test_links, valid_links)
        if self.config.training.valid and len(task.train) and not len(task.valid):
            task = task.hold_out(self.config.training.valid, self.config.seed, into="valid")
        self.seconds["read"] = time.perf_counter() - started
        started = time.perf_counter()
        known, now = merged_graphs(task, self.config.names.weight != 0)
        context = TrainingContext(
            known,
            now,
            self.config.with_epochs(share),
            self.device,
            run=None if run is None else Path(run),
            resume=resume,
            warm=None if start is None else start.learned.warm_weights(task, start.growing),
        )
        epochs = planned_epochs(context.config, bool(len(task.valid)))
        with (
            progress_bar(epochs, progress=progress, on_epoch=on_epoch) as context.on_epoch,
            torch.random.fork_rng(devices=cuda_devices(self.device)),
        ):
            fitted = fit_alignment(context, task.valid + np.array([0, known.n_left]))
        self._swap(AlignmentState.from_fitted(self.device, task, fitted))
        self.history = fitted.history
        self.rounds, self.chosen_rounds = fitted.rounds, fitted.chosen
        self.started = fitted.started - np.array([0, known.n_left])
        self.seconds["train"] = time.perf_counter() - started
        return self

    def _settled(self) -> AlignmentState:
        learned = super()._settled()
        # What newcomers read is made once, for this state and the one that is written.
        stored = learned.memories if self.config.model.inductive else learned.stored
        return replace(learned, stored=stored, potentials=self._matching.to_tensors())

    # Matching

    @property
    def _matching(self) -> Matching:
        """What matches entities, with what it has found out since the state is there."""

        def make() -> Matching:
            learned, settings = self.learned, self.config.matching
            links = np.concatenate((learned.task.train, learned.task.valid))
            return Matching(self.growing, self.indexes, settings, links, learned.potentials)

        return self._once("matching", make, grows=True)

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
        language: str = "",
    ) -> ResultTable:
        """The best counterparts of some entities, or of all that no known link names.

        Candidates are the entities of the other graph that no known link has taken. If an asked
        entity is in a known link itself, its counterpart is a candidate too.

        All entities are matched together. The potentials are kept, also by :meth:`save`: later
        questions about some entities take one pass over the candidates.

        Args:
            entities: identifiers or names of entities of ``side``.
            top: how many for each.
            matcher: ``cosine``, ``csls``, ``sinkhorn`` or ``blend``; default: the configured one.
            assign: ``nearest`` gives each its best; ``mutual`` only pairs that are each other's
                best; ``one-to-one`` every entity at most once, best pairs of 50 for each first.
            min_confidence: entities whose best match is less sure have none. ``fitted`` is the
                value that was best on the validation links.
            ann: search in an approximate index (FAISS), built at the first such question. It may
                miss candidates, so scores of new or linked entities may differ.
            language: of the names that are shown, where there are some in it.
        Returns:
            table with the columns left, right, rank (1 is best), score and confidence: how likely
            the match is right, null where it was not learned (that takes validation links, the
            configured matcher and rank 1), and left_name and right_name, of graphs with names. An
            entity without a match has a null counterpart.
        """
        check_question(top, assign)
        self._side(side)
        matcher = self._matcher(matcher)
        own, other = (self.growing.sides[name] for name in (side, OTHER[side]))
        if entities is None:
            listed = self._matching.unlinked(side).nonzero()[:, 0].numpy()
        else:
            listed = entity_ids(own, entities)
        there = own.has_vector().numpy()[listed]
        confidence = self.learned.confidence if matcher == self.config.matching.matcher else None
        asked = None if entities is None else listed[there]
        least = threshold_of(min_confidence, confidence)
        mine, theirs, *pairs = self._matching.pairs(
            side, asked, matcher, assign, top=top, rivals=confidence is not None, ann=ann
        )
        kept = min(top, max(1, len(theirs)))
        answers = answer(*pairs, top=kept, assign=assign, confidence=confidence, threshold=least)
        answers = answers.spread(np.searchsorted(mine, listed[there]), there)
        names = np.array([*other.entities.take(theirs), None], object)
        counterparts = names[answers.columns.numpy()]
        labels = np.array(own.entities.take(listed), object)
        table = matches_table(labels, counterparts, answers, swapped=side == "right")
        return ResultTable(add_names(table, self.growing.sides, language))

    def _matcher(self, name: str | None) -> str:
        name = name or self.config.matching.matcher
        if name not in MATCHERS:
            raise ConfigError(f"no matcher {name!r}; there are: {', '.join(MATCHERS)}")
        return name

    def start_links(self, most: int = 10) -> tuple[int, list[tuple[str, str]]]:
        """How many pairs of names a training without known links began with, and some of them."""
        every = max(1, len(self.started) // most)
        some = self.started[::every][:most]
        left, right = (
            graph.names.shown(ids)
            for graph, ids in zip((self.task.left, self.task.right), some.T, strict=True)
        )
        return len(self.started), list(zip(left, right, strict=True))

    # Why

    @overload
    def explain(
        self,
        entity: str,
        counterpart: None = None,
        *,
        side: str | None = None,
        moved: int = 5,
        language: str = "",
    ) -> list[Reason]: ...

    @overload
    def explain(
        self, entity: str, counterpart: str, *, shown: int = 5, language: str = ""
    ) -> PairExplanation: ...

    def explain(
        self,
        entity: str,
        counterpart: str | None = None,
        *,
        side: str | None = None,
        moved: int = 5,
        shown: int = 5,
        language: str = "",
    ) -> list[Reason] | PairExplanation:
        """Which neighbours a vector is made of, or why two entities are a match or are none.

        >>> print(aligner.explain("Berlin", "Berlin (DE)"))

        Args:
            entity: of ``side``; of the left graph if there is a counterpart.
            counterpart: an entity of the right graph.
            moved: without a counterpart: for so many neighbours, and the last one, how far the
                vector would move without them.
            shown: how many shared neighbours are listed.
            language: of the names that are shown.
        """
        if counterpart is None:
            return super().explain(entity, side=side, moved=moved, language=language)
        if side is not None:
            raise ConfigError("of two entities the first is of the left graph; leave out the side")
        called = {"left": entity, "right": counterpart}
        left, right = (int(entity_ids(self.growing.sides[x], [called[x]])[0]) for x in SIDES)
        explainer = PairExplainer(self.growing, self._matching, language)
        return explainer.explain(left, right, shown)

    # How good it is

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

        def remember(scores: Scores) -> None:
            name = f"tested by {field_matcher(self.config.matching.matcher)}"
            self._once(name, lambda: top_pairs(scores, 1))

        rows, ranks = evaluate_links(
            self.vectors("left"),
            self.vectors("right"),
            torch.from_numpy(test).to(self.device),
            self.config.matching,
            unknown=None if unknown is None else torch.from_numpy(unknown),
            candidates=candidates,
            on_test=remember if links is None and not self.config.matching.keep else None,
        )
        return Evaluation(rows, ranks)

    def evaluate_apart(self) -> list[dict[str, Any]]:
        """Metrics of the test links by structure alone and by names alone, left to right.

        Among ``test``; empty where vectors have one of these only.
        """
        names, test = self.learned.spans.get(NAMES), self.task.test
        width = self.learned.vectors["left"].shape[1]
        if names is None or names == slice(0, width) or not len(test):
            return []
        ends = [self.vectors(side)[torch.from_numpy(test[:, i])] for i, side in enumerate(SIDES)]
        columns = torch.arange(width)
        named = (columns >= names.start) & (columns < names.stop)
        return rank_apart(ends, {STRUCTURE: ~named, NAMES: named}, self.config.matching)

    def evaluate_matches(self, links: Source | None = None) -> list[dict[str, Any]]:
        """What :meth:`match` finds among everything without a known link.

        Matches less sure than the fitted threshold are left out. Rows have ``hits@1``,
        ``precision``, ``recall`` and ``f1``; where entities came after training, these apart. A
        match of an entity in no test link counts as wrong: where there are others, precision is
        a lower bound.
        """
        claims = self._claims(links)
        if claims is None:
            return []
        matcher = self.config.matching.matcher
        return [{"matcher": matcher, **row} for row in claims.rows(self.growing)]

    def confidence(self, links: Source | None = None) -> dict[str, float]:
        """How sure matches are, checked on links, by default those to test on; empty if that was
        not learned.

        Of all that :meth:`match` gives, matches with an end in such a link count. ``ece`` is the
        expected calibration error (15 bins of equal mass), ``mean`` the mean confidence, ``right``
        the share that is right, ``threshold`` what ``min_confidence="fitted"`` means.
        """
        confidence, claims = self.learned.confidence, self._claims(links)
        found = {} if claims is None else claims.calibration()
        return found | {"threshold": confidence.threshold} if confidence and found else {}

    def _claims(self, links: Source | None) -> Claims | None:
        """The matches of all left entities beside some links; None if there is no link."""
        test = self.task.test if links is None else self.task.read_links(links)
        matcher, sure = self.config.matching.matcher, self.learned.confidence

        find = partial(find_claims, self.growing, self._matching, matcher, sure, test)
        return self._once("claims", find) if links is None else find()

    def test_matches(self, matcher: str | None = None) -> ResultTable:
        """The best match of every left test entity among the test targets, beside the truth.

        Each row has left, right, truth, score, correct and degree (triples the entity is in), and
        names of graphs that have some.
        """
        task, config = self.task, self.config.matching
        matcher = self._matcher(matcher or field_matcher(config.matcher))

        def make() -> SparseScores:
            left, right = self.vectors("left"), self.vectors("right")
            links = torch.from_numpy(task.test).to(left.device)
            cosine = Scores.cosine(left[links[:, 0]], right[links[:, 1]])
            return best_pairs(cosine, matcher, config, KEPT if config.keep else 1)[0]

        pairs = self._once(f"tested by {matcher}", make)
        scores, best = (part[:, 0].cpu() for part in pairs.best(1))
        found = task.test[best.numpy(), 1]
        ends = all_triples(*graphs_of(task)["left"])[:, [0, 2]].reshape(-1)
        degrees = np.bincount(ends, minlength=len(task.left.entities))
        names = task.right.entities
        columns = {
            "left": task.left.entities.take(task.test[:, 0]),
            "right": names.take(found),
            "truth": names.take(task.test[:, 1]),
            "score": scores.float().tolist(),
            "correct": (found == task.test[:, 1]).tolist(),
            "degree": degrees[task.test[:, 0]].tolist(),
        }
        graphs = {"left": task.left, "right": task.right, "truth": task.right}
        return ResultTable(add_names(pa.table(columns), graphs))
