"""Entity alignment: which entity of the left graph is which of the right one."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch
from torch import Tensor

from decentrl.bundle import Bundle, bundle_folder, read_bundle, write_bundle
from decentrl.card import alignment_card
from decentrl.config import Config
from decentrl.data.alignment_task import AlignmentTask, Source
from decentrl.data.knowledge_graph import KnowledgeGraph
from decentrl.data.vocabulary import Ids
from decentrl.device import cuda_devices, pick_device
from decentrl.errors import ConfigError, InputError
from decentrl.graph.merged import MergedGraph
from decentrl.matching.answers import ASSIGNMENTS, KEPT, answer, best_pairs
from decentrl.matching.confidence import Confidence, expected_calibration_error
from decentrl.matching.evaluate import MATCHERS, evaluate_links
from decentrl.matching.ranks import Ranks
from decentrl.matching.similarity import Scores
from decentrl.training.fitting import World, fit_alignment
from decentrl.training.loop import Row
from decentrl.training.unlinked import Unlinked

Side = Literal["left", "right"]
Assign = Literal["nearest", "mutual", "one-to-one"]


class Aligner:
    """Learns from two graphs and some links; finds the other links.

    >>> aligner = Aligner.from_preset("tiny").fit("left.tsv", "right.tsv", "links.tsv")
    >>> aligner.match(top=3)             # a pyarrow Table: left, right, rank, score
    >>> aligner.save("run")
    >>> Aligner.load("run").embed(["Berlin"], side="right")

    Args:
        config: every setting of the run (``Config.from_preset``).
        device: ``auto`` (CUDA if there is one), ``cpu`` or ``cuda``.
    """

    def __init__(self, config: Config, device: str = "auto") -> None:
        self.config = config
        self.device = pick_device(device)
        self.history: list[Row] = []
        self.seconds: dict[str, float] = {}
        self.rounds: list[dict[str, float]] = []
        self.chosen_rounds = 0
        self._task: AlignmentTask | None = None
        self._weights: dict[str, Tensor] = {}
        self._vectors: dict[str, Tensor] = {}
        self._confidence: Confidence | None = None
        self._found: Ids = np.empty((0, 2), np.int64)

    @classmethod
    def from_preset(cls, name: str, *settings: str, seed: int = 0, device: str = "auto") -> Aligner:
        """``Aligner.from_preset("paper", "model.dim=128", seed=1)``."""
        return cls(Config.from_preset(name, settings, seed), device)

    # Learning

    def fit(
        self,
        left: Source | AlignmentTask,
        right: Source | None = None,
        links: str | PathLike[str] | None = None,
        *,
        valid_links: str | PathLike[str] | None = None,
        test_links: str | PathLike[str] | None = None,
        run: str | PathLike[str] | None = None,
        resume: bool = False,
        on_epoch: Callable[[Row], None] | None = None,
    ) -> Aligner:
        """Train on two graphs and the links between them, or on a ready task.

        Without validation links, the share ``training.valid`` of the training links is held out.

        Args:
            left, right: files of triples, or :class:`KnowledgeGraph` objects; ``left`` may be an
                :class:`AlignmentTask` instead, which brings everything.
            links: file of known links, left then right.
            test_links: links to evaluate on; never used in training.
            run: folder for ``metrics.jsonl`` and checkpoints.
            resume: go on from the checkpoint in ``run``.
            on_epoch: called with each epoch's row of metrics.
        """
        started = time.perf_counter()
        if isinstance(left, AlignmentTask):
            task = left
        elif right is None or links is None:
            raise InputError("fit needs two graphs and links", remedy="give left, right and links")
        else:
            task = AlignmentTask.read(left, right, links, test_links, valid_links)
        share = self.config.training.valid
        if share and not len(task.valid):
            task = task.hold_out(share, self.config.seed, into="valid")
        self.seconds["read"] = time.perf_counter() - started

        started = time.perf_counter()
        known, now = _graphs(task)
        world = World(
            known,
            now,
            self.config,
            self.device,
            run=None if run is None else Path(run),
            resume=resume,
            on_epoch=on_epoch,
        )
        offset = np.array([0, known.n_left])
        with torch.random.fork_rng(devices=cuda_devices(self.device)):
            fitted = fit_alignment(world, task.valid + offset)
        self._task, self._weights, vectors = task, fitted.weights, fitted.vectors
        self._confidence, self._found = fitted.confidence, fitted.found - offset
        self.history, self.rounds = fitted.history, fitted.rounds
        self.chosen_rounds = fitted.chosen
        self._vectors = {"left": vectors[: now.n_left], "right": vectors[now.n_left :]}
        self.seconds["train"] = time.perf_counter() - started
        return self

    # Asking

    @property
    def task(self) -> AlignmentTask:
        if self._task is None:
            raise ConfigError("this aligner has learned nothing yet; call fit or load first")
        return self._task

    def evaluate(
        self,
        candidates: tuple[str, ...] = ("test", "all"),
        links: str | PathLike[str] | None = None,
    ) -> tuple[list[dict[str, Any]], dict[str, Ranks]]:
        """Metrics of the test links, or of those in a file, and their ranks.

        Returns:
            rows as in ``results.json``, and the ranks left to right among ``test`` by matcher.
        """
        task = self.task
        test, unknown = task.test, task.unknown
        if links is not None:
            test, unknown = task.read_links(links), None
        if not len(test):
            raise InputError("there are no test links", remedy="give some")
        return evaluate_links(
            self._vectors["left"],
            self._vectors["right"],
            torch.from_numpy(test).to(self.device),
            self.config.matching,
            unknown=None if unknown is None else torch.from_numpy(unknown),
            candidates=candidates,
        )

    def match(
        self,
        entities: Sequence[str] | None = None,
        *,
        top: int = 1,
        side: Side = "left",
        matcher: str | None = None,
        assign: Assign = "nearest",
        min_confidence: float | Literal["fitted"] | None = None,
    ) -> pa.Table:
        """The best counterparts of some entities, or of all that no known link names.

        Candidates are the entities of the other graph that no known link has taken. If an asked
        entity is in a known link itself, its counterpart is a candidate too.

        Args:
            entities: labels of ``side``.
            top: how many for each.
            matcher: ``cosine``, ``csls`` or ``sinkhorn``; default: the configured one.
            assign: ``nearest`` gives each entity its best; ``mutual`` only pairs that are each
                other's best; ``one-to-one`` uses every entity at most once, best pairs first
                (among each one's 50 best; who finds these taken has none).
            min_confidence: entities whose best match is less sure have none. ``fitted`` is the
                value that was best on the validation links.
        Returns:
            table with the columns left, right, rank (1 is best), score and confidence: how likely
            the match is right, null where it was not learned (that takes validation links, the
            configured matcher and rank 1). An entity without a match has a null counterpart.
        """
        if top < 1:
            raise ConfigError(f"top is {top}; it must be at least 1")
        if assign not in ASSIGNMENTS:
            raise ConfigError(f"no assignment {assign!r}; there are: {', '.join(ASSIGNMENTS)}")
        if assign != "nearest" and top > 1:
            raise ConfigError(f"{assign} assignment has one match for each; use top=1")
        _check_side(side)
        task, matcher = self.task, self._matcher(matcher)
        own, other = (task.left, task.right) if side == "left" else (task.right, task.left)
        asked = None if entities is None else own.entities.ids(entities)
        mine, theirs, cosine = self._unlinked(side, asked)
        kept = max(top, 50 if assign == "one-to-one" else KEPT)
        pairs, cosines = best_pairs(cosine, matcher, self.config.matching, kept)
        confidence = self._confidence if matcher == self.config.matching.matcher else None
        answers = answer(
            pairs,
            cosines,
            top=min(top, max(1, len(theirs))),
            assign=assign,
            confidence=confidence,
            threshold=_threshold(min_confidence, confidence),
        )
        rows = np.arange(len(mine)) if asked is None else np.searchsorted(mine, asked)
        columns, scores = answers.columns.numpy()[rows], answers.scores.numpy()[rows]
        first = np.arange(columns.shape[1]) == 0
        sure = np.where(first, answers.confidence.numpy()[rows, None], np.nan).astype(np.float32)
        told = (columns >= 0) | first  # an entity without a match has one row
        labels = np.array([*other.entities.take(theirs), None], object)
        asked_labels = own.entities.take(np.repeat(mine[rows], columns.shape[1]))
        mine_then_theirs = [
            pa.array(np.array(asked_labels, object)[told.reshape(-1)], pa.string()),
            pa.array(labels[columns[told]], pa.string()),
        ]
        left, right = mine_then_theirs if side == "left" else mine_then_theirs[::-1]
        ranks = np.broadcast_to(np.arange(1, columns.shape[1] + 1, dtype=np.int32), columns.shape)
        return pa.table(
            {
                "left": left,
                "right": right,
                "rank": ranks[told],
                "score": pa.array(scores[told], from_pandas=True),
                "confidence": pa.array(sure[told], from_pandas=True),
            }
        )

    def _unlinked(self, side: Side, asked: Ids | None) -> tuple[Ids, Ids, Scores]:
        """Ids of ``side`` and of the other one that matches range over, and their cosines."""
        task, n_left = self.task, len(self.task.left.entities)
        links = np.concatenate((task.train, task.valid)) + np.array([0, n_left])
        named = links[:0]
        if asked is not None:
            ids = asked if side == "left" else asked + n_left
            named = links[np.isin(links, ids).any(axis=1)]
        pool = Unlinked.of(n_left, n_left + len(task.right.entities), links, named)
        left, right = self._vectors["left"], self._vectors["right"]
        own, other = torch.from_numpy(pool.left), torch.from_numpy(pool.right - n_left)
        cosine = Scores.cosine(left[own.to(left.device)], right[other.to(right.device)])
        if side == "left":
            return pool.left, pool.right - n_left, cosine
        return pool.right - n_left, pool.left, cosine.T

    def _matcher(self, name: str | None) -> str:
        name = name or self.config.matching.matcher
        if name not in MATCHERS:
            raise ConfigError(f"no matcher {name!r}; there are: {', '.join(MATCHERS)}")
        return name

    def confidence(self) -> dict[str, float]:
        """How sure matches are, checked on the test links; empty if that was not learned.

        Every left test entity is matched among all entities without a known link, as
        :meth:`match` does. ``ece`` is the expected calibration error (15 bins of equal mass),
        ``mean`` the mean confidence, ``right`` the share that is right, ``threshold`` the
        confidence below which ``min_confidence="fitted"`` gives no match.
        """
        task = self.task
        if self._confidence is None or not len(task.test):
            return {}
        mine, theirs, cosine = self._unlinked("left", task.test[:, 0])
        pairs = best_pairs(cosine, self.config.matching.matcher, self.config.matching)
        answers = answer(*pairs, confidence=self._confidence)
        rows = np.searchsorted(mine, task.test[:, 0])
        found = answers.columns[rows, 0].numpy()
        right = torch.from_numpy((found >= 0) & (theirs[found] == task.test[:, 1]))
        sure = answers.confidence[rows].double()
        return {
            "ece": expected_calibration_error(sure, right),
            "mean": sure.mean().item(),
            "right": right.double().mean().item(),
            "threshold": self._confidence.threshold,
        }

    def test_matches(self, matcher: str | None = None) -> list[dict[str, Any]]:
        """The best match of every left test entity among the test targets, beside the truth.

        Each row has left, right, truth, score, correct and degree (triples the entity is in).
        """
        task, matcher = self.task, self._matcher(matcher)
        left, right = self._vectors["left"], self._vectors["right"]
        links = torch.from_numpy(task.test).to(left.device)
        cosine = Scores.cosine(left[links[:, 0]], right[links[:, 1]])
        answers = answer(*best_pairs(cosine, matcher, self.config.matching))
        found, best = answers.columns[:, 0].tolist(), answers.scores[:, 0].tolist()
        triples = [task.left.triples, *(task.auxiliary or ())[:1]]
        ends = np.concatenate(triples)[:, [0, 2]].reshape(-1)
        degree = np.bincount(ends, minlength=len(task.left.entities))[task.test[:, 0]]
        names = task.right.entities
        return [
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

    def embed(self, labels: Sequence[str], side: Side = "left") -> npt.NDArray[np.float32]:
        """Vectors of the named entities, [n, d], of length 1."""
        _check_side(side)
        graph: KnowledgeGraph = self.task.left if side == "left" else self.task.right
        ids = torch.from_numpy(graph.entities.ids(labels)).to(self._vectors[side].device)
        vectors: npt.NDArray[np.float32] = self._vectors[side][ids].cpu().numpy()
        return vectors

    # Keeping

    def save(self, run: str | PathLike[str], results: Sequence[dict[str, Any]] = ()) -> None:
        """Write ``run/bundle``: weights, vectors, labels, graphs and links, without pickle."""
        card = alignment_card(self.task, self.config, results)
        matching = {"found": torch.from_numpy(self._found)}
        if self._confidence is not None:
            matching |= self._confidence.to_tensors()
        bundle = Bundle(self.config, self.task, self._weights, self._vectors, card, matching)
        write_bundle(bundle, Path(run) / "bundle")

    @classmethod
    def load(cls, run: str | PathLike[str], device: str = "auto") -> Aligner:
        """Read what :meth:`save` wrote; ``run`` may also be the bundle folder itself."""
        bundle = read_bundle(bundle_folder(run), "aligner")
        aligner = cls(bundle.config, device)
        aligner._task, aligner._weights = bundle.task, bundle.weights
        aligner._vectors = {k: v.to(aligner.device) for k, v in bundle.vectors.items()}
        matching = dict(bundle.matching)
        if "found" in matching:
            aligner._found = matching.pop("found").numpy()
        if matching:
            aligner._confidence = Confidence.from_tensors(matching)
        return aligner


def _check_side(side: str) -> None:
    if side not in ("left", "right"):
        raise ConfigError(f"no side {side!r}; there are: left, right")


def _threshold(
    asked: float | Literal["fitted"] | None, confidence: Confidence | None
) -> float | None:
    if asked is None:
        return None
    if confidence is None:
        raise ConfigError(
            "no confidence was learned for these matches, so none can be left out; train with "
            "validation links (training.valid) and match with the run's own matcher"
        )
    if asked == "fitted":
        return confidence.threshold
    if isinstance(asked, str) or not 0 <= asked <= 1:
        raise ConfigError(f"the least confidence is {asked}; it must be between 0 and 1")
    return asked


def _graphs(task: AlignmentTask) -> tuple[MergedGraph, MergedGraph]:
    """The graph known in training, and the one that queries see."""
    entities = (len(task.left.entities), len(task.right.entities))
    relations = (len(task.left.relations), len(task.right.relations))
    known = MergedGraph.merge(
        task.left.triples, task.right.triples, task.train, entities, relations
    )
    if task.auxiliary is None:
        return known, known
    later = MergedGraph.merge(*task.auxiliary, task.train, entities, relations)
    return known, known.grown(later.left, later.right)
