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
import pyarrow as pa
import torch
from torch import Tensor

from decentrl.asking import OTHER, Asking
from decentrl.bundle import (
    Bundle,
    bundle_folder,
    read_bundle,
    recover_bundle,
    write_bundle,
)
from decentrl.card import alignment_card
from decentrl.config import Config
from decentrl.data.alignment_task import AlignmentTask, Source
from decentrl.data.knowledge_graph import row_keys
from decentrl.data.vocabulary import Ids
from decentrl.device import cuda_devices, pick_device
from decentrl.drift import Drift
from decentrl.errors import ConfigError, InputError
from decentrl.explanation import Reason
from decentrl.graph.merged import MergedGraph
from decentrl.graph.view import relations_of
from decentrl.growing import GrowingGraph, NewTriples, Trained
from decentrl.induction import INPUTS, SHARED, AlignmentInduction, Induction
from decentrl.mapped import MappedRows, mapped_rows
from decentrl.matching.answers import ASSIGNMENTS, KEPT, answer, best_pairs
from decentrl.matching.confidence import Confidence, expected_calibration_error
from decentrl.matching.evaluate import MATCHERS, apply_matcher, evaluate_links
from decentrl.matching.point import rescored
from decentrl.matching.ranks import Ranks
from decentrl.matching.similarity import Scores
from decentrl.matching.sparse import SparseScores, top_pairs
from decentrl.model import REFIT, GrowingModel
from decentrl.store import Addition
from decentrl.training.fitting import Pass, World, fit_alignment
from decentrl.training.loop import Row
from decentrl.training.unlinked import Unlinked

Side = Literal["left", "right"]
SIDES: tuple[Side, Side] = ("left", "right")
ENTITY_TABLES = ("entities", "encoder.entities")
_NONE = np.empty((0, 3), np.int64)
Assign = Literal["nearest", "mutual", "one-to-one"]


class Aligner(GrowingModel):
    """Learns from two graphs and some links; finds the other links.

    >>> aligner = Aligner.from_preset("tiny").fit("left.tsv", "right.tsv", "links.tsv")
    >>> aligner.match(top=3)             # a pyarrow Table: left, right, rank, score
    >>> aligner.add([("Atlantis", "borders", "Spain")], side="right")
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
        self._weights: Mapping[str, Tensor] = {}
        self._vectors: Mapping[str, Tensor | MappedRows] = {}
        self._memory: dict[str, dict[str, MappedRows]] = {}
        self._shared: Mapping[str, Tensor] = {}
        self._confidence: Confidence | None = None
        self._found: Ids = np.empty((0, 2), np.int64)
        self._questions: Asking | None = None

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
        start: Aligner | None = None,
        share: float = 1.0,
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
            start: begin with what another aligner has learned; see :meth:`refit`.
            share: of the epochs of the settings.
        """
        started = time.perf_counter()
        if isinstance(left, AlignmentTask):
            task = left
        elif right is None or links is None:
            raise InputError("fit needs two graphs and links", remedy="give left, right and links")
        else:
            task = AlignmentTask.read(left, right, links, test_links, valid_links)
        held_out = self.config.training.valid
        if held_out and not len(task.valid):
            task = task.hold_out(held_out, self.config.seed, into="valid")
        self.seconds["read"] = time.perf_counter() - started

        started = time.perf_counter()
        known, now = _graphs(task)
        world = World(
            known,
            now,
            self.config.with_epochs(share),
            self.device,
            run=None if run is None else Path(run),
            resume=resume,
            on_epoch=on_epoch,
            warm=None if start is None else start._warm(task),
        )
        offset = np.array([0, known.n_left])
        with torch.random.fork_rng(devices=cuda_devices(self.device)):
            fitted = fit_alignment(world, task.valid + offset)
        self._task, self._weights, vectors = task, fitted.weights, fitted.vectors
        self._confidence, self._found = fitted.confidence, fitted.found - offset
        self.history, self.rounds = fitted.history, fitted.rounds
        self.chosen_rounds = fitted.chosen
        self._vectors = {"left": vectors[: now.n_left], "right": vectors[now.n_left :]}
        self._forget()
        self.seconds["train"] = time.perf_counter() - started
        return self

    # Asking

    @property
    def task(self) -> AlignmentTask:
        """The graphs and links, with all that was added."""
        if self._task is None:
            raise ConfigError("this aligner has learned nothing yet; call fit or load first")
        if self._growing is None or not self._growing.changed:
            return self._task
        sides = [self._growing.sides[side] for side in SIDES]
        unknown = self._task.unknown
        if unknown is None:
            unknown = self._new_ends(self._task.test)
        return replace(
            self._task,
            left=sides[0].graph,
            right=sides[1].graph,
            auxiliary=(sides[0].arrivals.triples, sides[1].arrivals.triples),
            unknown=unknown,
        )

    def _new_ends(self, links: Ids) -> npt.NDArray[np.bool_]:
        """bool[n]: links of entities that training has not seen."""
        sides = [self.growing.sides[side].arrivals for side in SIDES]
        seen = [side.is_trained(links[:, i]) for i, side in enumerate(sides)]
        new: npt.NDArray[np.bool_] = ~(seen[0] & seen[1])
        return new

    def vectors(self, side: Side) -> Tensor:
        """Of all entities of a side, [n, d], of length 1 (or 0 where nothing tells of one)."""
        return self.growing.sides[side].vectors

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
            test = task.read_links(links)
            unknown = self._new_ends(test) if task.open_world else None
        if not len(test):
            raise InputError("there are no test links", remedy="give some")
        return evaluate_links(
            self.vectors("left"),
            self.vectors("right"),
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
        ann: bool = False,
    ) -> pa.Table:
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
            configured matcher and rank 1). An entity without a match has a null counterpart.
        """
        if top < 1:
            raise ConfigError(f"top is {top}; it must be at least 1")
        if assign not in ASSIGNMENTS:
            raise ConfigError(f"no assignment {assign!r}; there are: {', '.join(ASSIGNMENTS)}")
        if assign != "nearest" and top > 1:
            raise ConfigError(f"{assign} assignment has one match for each; use top=1")
        _check_side(side)
        matcher, asking = self._matcher(matcher), self._asking
        own, other = (self.growing.sides[name].entities for name in (side, OTHER[side]))
        asked = None if entities is None else own.ids(entities)
        confidence = self._confidence if matcher == self.config.matching.matcher else None
        alone = assign == "nearest" and (matcher == "cosine" or not self.config.matching.keep)
        if ann and (asked is None or not alone):
            raise ConfigError(
                "an approximate index is for questions about given entities, each by its nearest; "
                "name them, use assign=nearest, and the matcher cosine if matching.keep is set"
            )
        if asked is not None and alone:
            found = asking.ask(
                self.growing,
                self.indexes,
                np.unique(asked),
                side,
                matcher,
                top=top,
                rivals=confidence is not None,
                ann=ann,
            )
            mine, theirs = found.rows.numpy(), found.columns.numpy()
            pairs, cosines = found.pairs, found.cosines
        else:
            kept = max(top, 50 if assign == "one-to-one" else KEPT)
            mine, theirs, pairs, cosines = self._pairs(side, asked, matcher, kept)
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
        labels = np.array([*other.take(theirs), None], object)
        asked_labels = own.take(np.repeat(mine[rows], columns.shape[1]))
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

    @property
    def _asking(self) -> Asking:
        if self._questions is None:
            links = np.concatenate((self.task.train, self.task.valid))
            self._questions = Asking(self.config.matching, links)
        return self._questions

    def _pairs(
        self, side: Side, asked: Ids | None, matcher: str, kept: int
    ) -> tuple[Ids, Ids, SparseScores, SparseScores]:
        """Ids of ``side`` and of the other one that matches range over, and their best pairs."""
        config, links = self.config.matching, np.concatenate((self.task.train, self.task.valid))
        own = links[:, SIDES.index(side)]
        if not config.keep and (asked is None or not np.isin(own, asked).any()):
            mine, theirs, scores = self._asking.whole(self.growing, side, matcher)
            return mine, theirs, *rescored(top_pairs(scores, kept), scores)
        mine, theirs, cosine = self._unlinked(side, asked)
        if config.keep:
            return mine, theirs, *best_pairs(cosine, matcher, config, kept)
        scores = apply_matcher(cosine, matcher, config)
        return mine, theirs, *rescored(top_pairs(scores, kept), scores)

    def _unlinked(self, side: Side, asked: Ids | None) -> tuple[Ids, Ids, Scores]:
        """Ids of ``side`` and of the other one that matches range over, and their cosines."""
        task, n_left = self.task, len(self.task.left.entities)
        links = np.concatenate((task.train, task.valid)) + np.array([0, n_left])
        named = links[:0]
        if asked is not None:
            ids = asked if side == "left" else asked + n_left
            named = links[np.isin(links, ids).any(axis=1)]
        pool = Unlinked.of(n_left, n_left + len(task.right.entities), links, named)
        left, right = self.vectors("left"), self.vectors("right")
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

    def confidence(self, links: str | PathLike[str] | None = None) -> dict[str, float]:
        """How sure matches are, checked on links, by default those to test on; empty if that was
        not learned.

        Every left test entity is matched among all entities without a known link, as
        :meth:`match` does. ``ece`` is the expected calibration error (15 bins of equal mass),
        ``mean`` the mean confidence, ``right`` the share that is right, ``threshold`` the
        confidence below which ``min_confidence="fitted"`` gives no match.
        """
        test = self.task.test if links is None else self.task.read_links(links)
        if self._confidence is None or not len(test):
            return {}
        matcher = self.config.matching.matcher
        mine, theirs, *pairs = self._pairs("left", test[:, 0], matcher, KEPT)
        answers = answer(*pairs, confidence=self._confidence)
        rows = np.searchsorted(mine, test[:, 0])
        found = answers.columns[rows, 0].numpy()
        right = torch.from_numpy((found >= 0) & (theirs[found] == test[:, 1]))
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
        left, right = self.vectors("left"), self.vectors("right")
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

    def neighbours(
        self,
        entity: str,
        *,
        side: Side = "left",
        among: Side | None = None,
        top: int = 10,
        ann: bool = False,
    ) -> pa.Table:
        """The entities nearest to one by cosine, of its own graph or of the other one.

        Args:
            entity: a label of ``side``.
            among: where to look; default: ``side``, and then the entity itself is left out.
            ann: look in an approximate index (FAISS), built at the first such question.
        Returns:
            table with the columns entity, rank (1 is nearest) and cosine.
        """
        _check_side(side)
        _check_side(among or side)
        _ = self.task
        return self._neighbours(entity, side, among or side, top, ann)

    def embed(self, labels: Sequence[str], side: Side = "left") -> npt.NDArray[np.float32]:
        """Vectors of the named entities, [n, d], of length 1."""
        _check_side(side)
        graph = self._side(side)
        vectors: npt.NDArray[np.float32] = (
            graph.take_vectors(graph.entities.ids(labels)).cpu().numpy()
        )
        return vectors

    def _side(self, side: Side) -> GrowingGraph:
        _check_side(side)
        _ = self.task  # there must be one
        return self.growing.sides[side]

    # Keeping

    def save(self, run: str | PathLike[str], results: Sequence[dict[str, Any]] = ()) -> None:
        """Write ``run/bundle``: weights, vectors, labels, graphs and links, without pickle."""
        card = alignment_card(self.task, self.config, results)
        if self.growing.changed:
            self._settle(refresh=False)
            self._growing = None
        write_bundle(replace(self._bundle(), card=card), Path(run) / "bundle")

    def _bundle(self) -> Bundle[Config, AlignmentTask]:
        matching = {"found": torch.from_numpy(self._found)}
        if self._confidence is not None:
            matching |= self._confidence.to_tensors()
        if self._questions is not None:
            matching |= self._questions.to_tensors()
        vectors = {side: _whole(rows) for side, rows in self._vectors.items()}
        memory = {
            f"{side}.{name}": rows.all()
            for side, parts in self._memory.items()
            for name, rows in parts.items()
        }
        card = alignment_card(self.task, self.config, ())
        return Bundle(
            self.config,
            self.task,
            self._weights,
            vectors,
            card,
            matching,
            memory | dict(self._shared),
        )

    @classmethod
    def load(
        cls, run: str | PathLike[str], device: str = "auto", *, durable: bool = False
    ) -> Aligner:
        """Read what :meth:`save` wrote, and what was added since.

        Args:
            run: the folder of a run, or the bundle itself.
            durable: what :meth:`add` takes in is kept in the run before it returns. One process at
                a time can do so, others may load and ask meanwhile. Without it additions are in
                this process alone.
        """
        if durable:
            recover_bundle(Path(run))
        return cls._steady(run, lambda: cls._load(run, device, durable))

    @classmethod
    def _load(cls, run: str | PathLike[str], device: str, durable: bool) -> Aligner:
        bundle = read_bundle(bundle_folder(run), "aligner")
        aligner = cls(bundle.config, device)
        aligner._task, aligner._weights = bundle.task, bundle.weights
        aligner._vectors = bundle.mapped_vectors
        if aligner.device.type != "cpu":
            aligner._vectors = {k: v.to(aligner.device) for k, v in bundle.vectors.items()}
        aligner._keep(bundle.memory)
        matching = dict(bundle.matching)
        if "found" in matching:
            aligner._found = matching.pop("found").numpy()
        links = np.concatenate((bundle.task.train, bundle.task.valid))
        aligner._questions = Asking(bundle.config.matching, links, matching)
        if "weights" in matching:
            aligner._confidence = Confidence.from_tensors(matching)
        aligner._open(run, bundle, durable)
        return aligner

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
        _check_side(side)
        _ = self.task
        return self._add(side, triples, strict, refresh, source)

    def explain(self, entity: str, *, side: Side = "left", moved: int = 5) -> list[Reason]:
        """Which neighbours and relations an entity's vector is made of, the weightiest first.

        Args:
            moved: for so many neighbours, and the last one, tell how far the vector would move
                without them.
        """
        _ = self._side(side)
        return self._explain(side, entity, moved)

    def drift(self, links: str | PathLike[str] | None = None) -> Drift:
        """How far the graphs have grown away from what was trained.

        Args:
            links: file of links to tell by how calibrated matches still are; default: those to
                test on.
        """
        _ = self.task
        return self._drift(self.confidence(links))

    def refit(
        self,
        *,
        share: float = REFIT,
        links: str | PathLike[str] | None = None,
        run: str | PathLike[str] | None = None,
        resume: bool = False,
        on_epoch: Callable[[Row], None] | None = None,
    ) -> Aligner:
        """Train again on all that is there now, starting from what was learned.

        Args:
            share: of the epochs that a training from scratch has.
            links: file of links that have become known since.
            run, resume, on_epoch: as in :meth:`fit`.
        """
        again, task = Aligner(self.config, str(self.device)), self.settled_task(links)
        return again.fit(task, run=run, resume=resume, on_epoch=on_epoch, start=self, share=share)

    def settled_task(self, links: str | PathLike[str] | None = None) -> AlignmentTask:
        """What :meth:`refit` learns from: all triples, known links, and those of a file."""
        task = self.task
        known = np.concatenate((task.train, task.valid, task.test))
        more = task.train[:0]
        if links is not None:
            more = task.read_links(links)
            sizes = len(task.left.entities), len(task.right.entities)
            more = more[~np.isin(row_keys(more, sizes), row_keys(known, sizes))]
        later = task.auxiliary or (_NONE, _NONE)
        left, right = (
            graph.with_triples(np.concatenate((graph.triples, arrived)))
            for graph, arrived in zip((task.left, task.right), later, strict=True)
        )
        train = np.concatenate((task.train, more))
        return replace(task, left=left, right=right, train=train, auxiliary=None, unknown=None)

    def _warm(self, task: AlignmentTask) -> Mapping[str, Tensor]:
        """The weights to start from; new entities start from what is told of their inputs."""
        warm = self._grown_weights(task)
        for name in ENTITY_TABLES:
            if name in warm:
                for side, offset in zip(SIDES, (0, len(task.left.entities)), strict=True):
                    new, inputs = self._inputs_of_new(side)
                    table = warm[name]
                    table[torch.from_numpy(new + offset)] = inputs.to(table.device)
        return warm

    def _inputs_of_new(self, side: str) -> tuple[Ids, Tensor]:
        graph, model = self.growing.sides[side], self.growing.model
        new = graph.arrivals.new_entities()
        return new, graph.take(model, INPUTS, new)

    def _trained(self) -> Mapping[str, Trained]:
        task = self._task
        assert task is not None
        later = task.auxiliary or (_NONE, _NONE)
        graphs = zip(SIDES, (task.left, task.right), later, strict=True)
        shift = {"left": 0, "right": len(task.left.relations)}
        return {
            side: Trained(
                graph, arrived, self._vectors[side], self._memory.setdefault(side, {}), shift[side]
            )
            for side, graph, arrived in graphs
        }

    def _induction(self) -> Induction:
        task = self._task
        assert task is not None
        if not self._memory.get("left"):
            self._keep(self._encode(task, self._weights)[1])
        relations = [relations_of(g.triples, len(g.relations)) for g in (task.left, task.right)]
        n_links = len(self._links()) + len(self._found)
        seen, device = np.concatenate(relations), self.device
        return AlignmentInduction(self.config, self._weights, self._shared, n_links, seen, device)

    def _links(self) -> Ids:
        """The links that the last pass of training has learned from."""
        assert self._task is not None
        known, valid = self._task.train, self._task.valid
        return np.concatenate((known, valid)) if self.config.training.refit else known

    def _encode(
        self, task: AlignmentTask, weights: Mapping[str, Tensor]
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Vectors of all entities over a grown graph, by side, and what new ones will read."""
        known, now = _graphs(task)
        offset = np.array([0, known.n_left])
        world = World(known, now, self.config, self.device)
        final = Pass(world, self._links() + offset, np.empty((0, 2), np.int64))
        with torch.random.fork_rng(devices=cuda_devices(self.device)):
            final.restore(self._found + offset, dict(weights))
            memory: dict[str, Tensor] = {}
            vectors = final.vectors("now", memory)
        found = {name: memory.pop(name) for name in SHARED if name in memory}
        for side, rows in (("left", slice(known.n_left)), ("right", slice(known.n_left, None))):
            found |= {f"{side}.{name}": tensor[rows].cpu() for name, tensor in memory.items()}
        return {"left": vectors[: known.n_left], "right": vectors[known.n_left :]}, found

    def _keep(self, memory: Mapping[str, Tensor]) -> None:
        """Memories by side, and those of all; the dictionaries of sides stay the same ones."""
        self._shared = {name: memory[name] for name in SHARED if name in memory}
        for name, rows in mapped_rows(memory).items():
            side, dot, part = name.partition(".")
            if dot:
                self._memory.setdefault(side, {})[part] = rows

    def _grown_weights(self, task: AlignmentTask) -> dict[str, Tensor]:
        """The weights with rows for entities that came since."""
        assert self._task is not None
        sizes = [len(g.entities) for g in (self._task.left, self._task.right)]
        grown = [len(g.entities) for g in (task.left, task.right)]
        return {
            name: _relaid(tensor, sizes, grown) if name in ENTITY_TABLES else tensor
            for name, tensor in self._weights.items()
        }

    def _refreshed(self) -> Mapping[str, Tensor]:
        return self._encode(self.task, self._grown_weights(self.task))[0]

    def _settle(self, refresh: bool) -> None:
        task, growing = self.task, self.growing
        weights = self._grown_weights(task)
        vectors: Mapping[str, Tensor]
        if refresh:
            self._questions = None
            vectors, memory = self._encode(task, weights)
        else:
            self._asking.settle(growing)
            vectors = {side: growing.sides[side].vectors for side in SIDES}
            memory = {
                f"{side}.{name}": rows
                for side in SIDES
                for name, rows in growing.sides[side].memory(growing.model).items()
            } | dict(self._shared)
        self._task, self._weights, self._vectors, self._memory = task, weights, vectors, {}
        self._keep(memory)

    def _forget(self) -> None:
        self._growing, self._questions = None, None
        self._memory, self._shared = {}, {}


def _whole(rows: Tensor | MappedRows) -> Tensor:
    return rows.all() if isinstance(rows, MappedRows) else rows


def _relaid(table: Tensor, sizes: Sequence[int], grown: Sequence[int]) -> Tensor:
    """A table of a row an entity, left entities first, with rows of 0 for those that came since."""
    left, right = table[: sizes[0]], table[sizes[0] :]
    parts = [left, left.new_zeros(grown[0] - sizes[0], table.shape[1])]
    parts += [right, right.new_zeros(grown[1] - sizes[1], table.shape[1])]
    return torch.cat(parts)


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
