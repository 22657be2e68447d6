"""Entity alignment: which entity of the left graph is which of the right one."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, Self, overload

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
from decentrl.growth.explain_pair import NAMES, PairExplainer
from decentrl.growth.explanation import Reason
from decentrl.growth.learned import all_triples, graphs_of
from decentrl.growth.matching_model import Assign
from decentrl.growth.pair_explanation import STRUCTURE, PairExplanation
from decentrl.growth.rehearsal import learn_newcomers
from decentrl.growth.reviewing_model import ReviewingModel
from decentrl.matching.clustered import nearest_pairs
from decentrl.matching.confidence import Confidence
from decentrl.matching.matchers import field_matcher
from decentrl.matching.matches import KEPT, best_pairs
from decentrl.matching.similarity import Scores
from decentrl.matching.sparse import LARGE_KEEP, SparseScores, top_pairs
from decentrl.nn.running import cuda_devices
from decentrl.training.fitting import (
    NO_LINKS,
    Fitted,
    TrainingContext,
    fit_alignment,
    planned_epochs,
)
from decentrl.training.loop import Row
from decentrl.training.progress import progress_bar

__all__ = ["SIDES", "Aligner", "Assign", "Side"]


def _rehearsed(learned: AlignmentState, fitted: Fitted) -> Confidence | None:
    """Confidence in matches of newcomers, by what had not learned from the held-out links."""
    task, config = learned.task, learned.config
    # Strangers would have no names, which alone would set them apart from newcomers.
    if fitted.first is None or not config.model.inductive or config.names.weight:
        return None
    if task.open_world:
        return None
    found, weights = fitted.first
    config = replace(config, training=replace(config.training, refit=False))
    offset = np.array([0, len(task.left.entities)])
    state = replace(learned, config=config, weights=weights, found=found - offset)
    return learn_newcomers(state, task.valid, config.seed)


class Aligner(ReviewingModel):
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
        holdout: float = 0.0,
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
            holdout: the share of the known links that is held out to evaluate on.
            progress: show a progress bar; default: in a terminal and in a notebook.
            run: folder for ``metrics.jsonl`` and checkpoints.
            resume: go on from the checkpoint in ``run``.
            on_epoch: called with each epoch's row of metrics.
            start, share: another aligner to go on from, with this share of the epochs.
        """
        started = time.perf_counter()
        task = as_alignment_task(left, right, links, test_links, valid_links)
        if holdout:
            task = task.hold_out(holdout, self.config.seed, into="test")
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
            rejected=task.rejected + np.array([0, known.n_left]),
        )
        epochs = planned_epochs(context.config, bool(len(task.valid)))
        with (
            progress_bar(epochs, progress=progress, on_epoch=on_epoch) as context.on_epoch,
            torch.random.fork_rng(devices=cuda_devices(self.device)),
        ):
            fitted = fit_alignment(context, task.valid + np.array([0, known.n_left]))
            learned = AlignmentState.from_fitted(self.device, task, fitted)
            decided = None if start is None else start.growing.decided.learned()
            self._swap(replace(learned, newcomer=_rehearsed(learned, fitted)), decided=decided)
        self.history = fitted.history
        self.rounds, self.chosen_rounds = fitted.rounds, fitted.chosen
        self.started = fitted.started - np.array([0, known.n_left])
        self.seconds["train"] = time.perf_counter() - started
        return self

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

        def remember(scores: Scores | SparseScores) -> None:
            name = f"tested by {field_matcher(self.config.matching.matcher)}"
            if isinstance(scores, SparseScores):
                self._once(name, lambda: scores.nearest(1))
            else:
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
        spans, test = self.learned.spans, self.task.test
        if NAMES not in spans or len(spans) == 1 or not len(test):
            return []
        ends = [self.vectors(side)[torch.from_numpy(test[:, i])] for i, side in enumerate(SIDES)]
        others = slice(0, spans[NAMES].start)
        return rank_apart(ends, {STRUCTURE: others, NAMES: spans[NAMES]}, self.config.matching)

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
            if cosine.kept is None and not config.keep:
                return best_pairs(nearest_pairs(cosine, LARGE_KEEP), matcher, config)[0]
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
