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

from decentrl.bundle import Bundle, read_bundle, write_bundle
from decentrl.card import alignment_card
from decentrl.config import Config
from decentrl.data.alignment_task import AlignmentTask, Source
from decentrl.data.knowledge_graph import KnowledgeGraph
from decentrl.errors import BundleError, ConfigError, DecentRLError, InputError
from decentrl.graph.merged import MergedGraph
from decentrl.graph.view import GraphView
from decentrl.matching.evaluate import MATCHERS, apply_matcher, evaluate_links
from decentrl.matching.ranks import Ranks
from decentrl.matching.similarity import Scores
from decentrl.nn.alignment import AlignmentModel
from decentrl.training.alignment import AlignmentObjective
from decentrl.training.loop import Row, train

Side = Literal["left", "right"]


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
        self._task: AlignmentTask | None = None
        self._weights: dict[str, Tensor] = {}
        self._vectors: dict[str, Tensor] = {}
        self._scores: dict[str, Scores] = {}

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
        view = self._view(known)
        with torch.random.fork_rng(devices=_cuda_devices(self.device)):
            torch.manual_seed(self.config.seed)
            model = self._model(known).to(self.device)
            offset = np.array([0, known.n_left])
            objective = AlignmentObjective(model, known, view, task.valid + offset, self.config)
            if not len(objective.links):
                raise InputError(
                    "no training link joins two entities that have triples",
                    remedy="check that the links are about these graphs",
                )
            self.history = train(
                objective,
                self.config.training,
                self.config.seed,
                run=None if run is None else Path(run),
                resume=resume,
                on_epoch=on_epoch,
            )
        vectors = model.encode(view if now is known else self._view(now, known))
        if not vectors.isfinite().all():
            raise DecentRLError("the trained vectors are not finite; lower training.learning_rate")
        self._task, self._scores = task, {}
        self._weights = model.state_dict()
        self._vectors = {"left": vectors[: now.n_left], "right": vectors[now.n_left :]}
        self.seconds["train"] = time.perf_counter() - started
        return self

    def _model(self, graph: MergedGraph) -> AlignmentModel:
        config = self.config
        return AlignmentModel(
            graph.n_entities, graph.n_relations, config.model, config.distillation
        )

    def _view(self, graph: MergedGraph, trained_on: MergedGraph | None = None) -> GraphView:
        model = self.config.model
        return graph.view(
            layers=model.layers,
            order=2 if model.variant == "second-order" else 1,
            two_hop=model.hops == "alternating",
            residual=model.residual,
            self_entity=model.self_entity,
            counterparts=model.counterparts,
            trained_on=trained_on,
        ).to(self.device)

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

    def scores(self, matcher: str | None = None) -> Scores:
        """Scores of all left entities against all right ones, by the configured matcher."""
        matcher = matcher or self.config.matching.matcher
        if matcher not in MATCHERS:
            raise ConfigError(f"no matcher {matcher!r}; there are: {', '.join(MATCHERS)}")
        _ = self.task
        if matcher not in self._scores:
            cosine = Scores.cosine(self._vectors["left"], self._vectors["right"])
            self._scores[matcher] = apply_matcher(cosine, matcher, self.config.matching)
        return self._scores[matcher]

    def match(
        self,
        entities: Sequence[str] | None = None,
        *,
        top: int = 1,
        side: Side = "left",
        matcher: str | None = None,
    ) -> pa.Table:
        """The best counterparts of some entities, or of all that no known link names.

        Args:
            entities: labels of ``side``; asked by name, an entity is compared with the whole
                other graph, otherwise only with what no known link has taken.
            top: how many for each.
            matcher: ``cosine``, ``csls`` or ``sinkhorn``; default: the configured one.
        Returns:
            table with the columns left, right, rank (1 is best) and score.
        """
        if top < 1:
            raise ConfigError(f"top is {top}; it must be at least 1")
        task = self.task
        _check_side(side)
        own, other = (task.left, task.right) if side == "left" else (task.right, task.left)
        scores = self.scores(matcher) if side == "left" else self.scores(matcher).T
        linked = np.concatenate((task.train, task.valid))
        if side == "right":
            linked = linked[:, ::-1]
        if entities is None:
            queries = np.setdiff1d(np.arange(len(own.entities)), linked[:, 0])
            columns = np.setdiff1d(np.arange(len(other.entities)), linked[:, 1])
        else:
            queries = own.entities.ids(entities)
            columns = np.arange(len(other.entities))
        best, found = _best(scores, queries, columns, top)
        asked = np.repeat(queries, found.shape[1])
        mine, theirs = own.entities.take(asked), other.entities.take(found.reshape(-1))
        return pa.table(
            {
                "left": pa.array(mine if side == "left" else theirs, pa.string()),
                "right": pa.array(theirs if side == "left" else mine, pa.string()),
                "rank": np.tile(np.arange(1, found.shape[1] + 1, dtype=np.int32), len(queries)),
                "score": best.reshape(-1).astype(np.float32),
            }
        )

    def test_matches(self, matcher: str | None = None) -> list[dict[str, Any]]:
        """The best match of every left test entity among the test targets, beside the truth.

        Each row has left, right, truth, score, correct and degree (triples the entity is in).
        """
        task, matcher = self.task, matcher or self.config.matching.matcher
        left, right = self._vectors["left"], self._vectors["right"]
        links = torch.from_numpy(task.test).to(left.device)
        cosine = Scores.cosine(left[links[:, 0]], right[links[:, 1]])
        rows = np.arange(len(task.test))
        best, found = _best(apply_matcher(cosine, matcher, self.config.matching), rows, rows, 1)
        triples = [task.left.triples, *(task.auxiliary or ())[:1]]
        ends = np.concatenate(triples)[:, [0, 2]].reshape(-1)
        degree = np.bincount(ends, minlength=len(task.left.entities))[task.test[:, 0]]
        names = task.right.entities
        return [
            {
                "left": label,
                "right": names[int(task.test[other, 1])],
                "truth": names[int(task.test[row, 1])],
                "score": float(score),
                "correct": bool(task.test[other, 1] == task.test[row, 1]),
                "degree": int(degree[row]),
            }
            for row, (label, other, score) in enumerate(
                zip(task.left.entities.take(task.test[:, 0]), found[:, 0], best[:, 0], strict=True)
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
        bundle = Bundle(self.config, self.task, self._weights, self._vectors, card)
        write_bundle(bundle, Path(run) / "bundle")

    @classmethod
    def load(cls, run: str | PathLike[str], device: str = "auto") -> Aligner:
        """Read what :meth:`save` wrote; ``run`` may also be the bundle folder itself."""
        folder = Path(run)
        if not folder.is_dir():
            raise BundleError(f"{folder}: no such run; give the folder that a run has written")
        bundle = read_bundle(folder if (folder / "bundle.json").exists() else folder / "bundle")
        aligner = cls(bundle.config, device)
        aligner._task, aligner._weights = bundle.task, bundle.weights
        aligner._vectors = {k: v.to(aligner.device) for k, v in bundle.vectors.items()}
        return aligner


def pick_device(name: str) -> torch.device:
    """``auto`` is CUDA where there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name not in ("cpu", "cuda"):
        raise ConfigError(f"no device {name!r}; there are: auto, cpu, cuda")
    if name == "cuda" and not torch.cuda.is_available():
        raise ConfigError("there is no CUDA device here; use --device cpu")
    return torch.device(name)


def _check_side(side: str) -> None:
    if side not in ("left", "right"):
        raise ConfigError(f"no side {side!r}; there are: left, right")


def _cuda_devices(device: torch.device) -> list[int]:
    return [torch.cuda.current_device()] if device.type == "cuda" else []


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


def _best(
    scores: Scores, queries: npt.NDArray[np.int64], columns: npt.NDArray[np.int64], top: int
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """Scores and ids of the ``top`` best of ``columns`` for every query, [n, top] each."""
    device = scores.left.device
    open_columns = torch.from_numpy(columns).to(device)
    top = min(top, len(columns))
    found = [(torch.empty(0, top), torch.empty(0, top, dtype=torch.int64))]
    for _, block in scores.rows(torch.from_numpy(queries).to(device)).blocks():
        best, place = block[:, open_columns].topk(top, dim=1)
        found.append((best.cpu(), open_columns[place].cpu()))
    return torch.cat([b for b, _ in found]).numpy(), torch.cat([i for _, i in found]).numpy()
