"""Entity prediction: complete (h, r, ?) and (?, r, t), also for entities that arrive later."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch
from torch import Tensor

from decentrl.bundle import (
    Bundle,
    bundle_folder,
    read_bundle,
    recover_bundle,
    write_bundle,
)
from decentrl.card import prediction_card
from decentrl.config import PredictionConfig
from decentrl.data.graph_task import GraphTask
from decentrl.data.knowledge_graph import KnowledgeGraph, row_keys
from decentrl.data.vocabulary import Ids
from decentrl.device import cuda_devices, pick_device
from decentrl.drift import Drift
from decentrl.errors import BundleError, ConfigError, InputError
from decentrl.explanation import Reason
from decentrl.graph.queries import Queries
from decentrl.graph.view import relations_of
from decentrl.growing import Growing, NewTriples, Trained
from decentrl.induction import INPUTS, STATES, Induction, PredictionInduction
from decentrl.mapped import MappedRows, mapped_rows
from decentrl.matching.completion import Answer, Completion
from decentrl.matching.confidence import Confidence
from decentrl.matching.filtered import rank_answers
from decentrl.matching.frequency import frequency_scores
from decentrl.matching.groups import answer_metrics, metrics_by_group
from decentrl.matching.ranks import Ranks
from decentrl.matching.told import Told
from decentrl.model import REFIT, GrowingModel
from decentrl.nn.prediction import PredictionModel
from decentrl.store import Addition
from decentrl.training.loop import Row, train
from decentrl.training.prediction import PredictionObjective, make_view

TripleSource = Ids | str | PathLike[str]
"""Triples in ids, int64[n, 3], or a file of them in labels."""
Question = tuple[str | None, str | None, str | None]
TRIPLE = [("head", pa.string()), ("relation", pa.string()), ("tail", pa.string())]
SCORES = [("score", pa.float32()), ("probability", pa.float32())]


class Predictor(GrowingModel):
    """Learns from one graph; completes its triples.

    >>> predictor = Predictor.from_preset("quick").fit("world/geonames")
    >>> predictor.predict(head="Germany", relation="capital", top=3)   # a pyarrow Table
    >>> predictor.add([("Atlantis", "continent", "Europe")])
    >>> predictor.predict(head="Atlantis", relation="capital")
    >>> predictor.save("run")                                          # Predictor.load("run")

    Args:
        config: every setting of the run (``PredictionConfig.from_preset``).
        device: ``auto`` (CUDA if there is one), ``cpu`` or ``cuda``.
    """

    _unit = False

    def __init__(self, config: PredictionConfig, device: str = "auto") -> None:
        self.config = config
        self.device = pick_device(device)
        self.history: list[Row] = []
        self.seconds: dict[str, float] = {}
        self._task: GraphTask | None = None
        self._model: PredictionModel | None = None
        self._confidence: Confidence | None = None
        self._vectors: Tensor | MappedRows | None = None
        self._memory: dict[str, MappedRows] = {}
        self._derived: tuple[tuple[Growing, int], Told, Completion] | None = None

    @classmethod
    def from_preset(
        cls, name: str, *settings: str, seed: int = 0, device: str = "auto"
    ) -> Predictor:
        """``Predictor.from_preset("paper", "decoder.name=transe", seed=1)``."""
        return cls(PredictionConfig.from_preset(name, settings, seed), device)

    # Learning

    def fit(
        self,
        source: GraphTask | KnowledgeGraph | str | PathLike[str],
        *,
        valid: float | None = None,
        test: float = 0.0,
        run: str | PathLike[str] | None = None,
        resume: bool = False,
        on_epoch: Callable[[Row], None] | None = None,
        start: Predictor | None = None,
        share: float = 1.0,
    ) -> Predictor:
        """Train on a graph, a file of triples, or a ready task.

        Args:
            source: a :class:`GraphTask` brings its own validation and test triples; of a graph or a
                file the shares ``valid`` (default: ``training.valid``) and ``test`` are held out.
            run: folder for ``metrics.jsonl`` and checkpoints.
            resume: go on from the checkpoint in ``run``.
            on_epoch: called with each epoch's row of metrics.
            start: begin with what another predictor has learned; see :meth:`refit`.
            share: of the epochs of the settings.
        """
        started = time.perf_counter()
        held_out = self.config.training.valid if valid is None else valid
        task = _as_task(source, held_out, test, self.config.seed)
        self.seconds["read"] = time.perf_counter() - started
        started = time.perf_counter()
        self._forget()
        self._task, self._vectors, self._memory = task, None, {}
        told = _everything(task)
        with torch.random.fork_rng(devices=cuda_devices(self.device)):
            torch.manual_seed(self.config.seed)
            self._model = self._new_model(told.n_entities)
            if start is not None:
                self._model.load_state_dict(start._warm(self._model))
            known_valid = told.valid[told.seen[told.valid[:, [0, 2]]].all(axis=1)]
            objective = PredictionObjective(
                self._model,
                told.train,
                self._view(told.train, task),
                self.config,
                known_valid,
                told.queries(told.train, known_valid),
                told.n_relations,
                self.config.seed,
            )
            self.history = train(
                objective,
                self.config.with_epochs(share).training,
                self.config.seed,
                run=None if run is None else Path(run),
                resume=resume,
                on_epoch=on_epoch,
            )
        self._confidence = self._calibrate(told, known_valid)
        self._vectors, self._memory = None, {}  # who asked between epochs got older ones
        self._forget()
        self.seconds["train"] = time.perf_counter() - started
        return self

    def add(
        self,
        triples: NewTriples,
        *,
        strict: bool = False,
        refresh: bool = False,
        source: str = "",
    ) -> Addition:
        """Take in new triples, with new entities, without any training.

        New entities have vectors at once, to be asked about and to be answers; those of trained
        entities stay as they are. Triples with a relation that training has not seen are left out
        and counted.

        Args:
            triples: (head, relation, tail) in labels, or a file of them.
            strict: an unknown relation is an error.
            refresh: encode everything anew; see :meth:`refresh`.
            source: where they come from, for the log.
        """
        _ = self.task
        return self._add("", triples, strict, refresh, source)

    # Asking

    @property
    def task(self) -> GraphTask:
        """The graph and its splits, with all that was added."""
        if self._task is None:
            raise ConfigError("this predictor has learned nothing yet; call fit or load first")
        if self._growing is None or not self._growing.changed:
            return self._task
        side = self._growing.sides[""]
        new = side.arrivals.new_entities()
        if self._task.new_entities is not None:
            new = np.union1d(self._task.new_entities, new)
        return replace(
            self._task, graph=side.graph, auxiliary=side.arrivals.triples, new_entities=new
        )

    def predict(
        self,
        head: str | None = None,
        relation: str | None = None,
        tail: str | None = None,
        *,
        top: int = 10,
        known: bool = False,
    ) -> pa.Table:
        """What completes a triple of which one part is missing.

        Args:
            head, relation, tail: labels; exactly one is left out and asked for.
            top: how many answers.
            known: answers that were told, to learn from or to be tested on, may be among them.
        Returns:
            table with the columns head, relation, tail, rank, score, probability (null where it was
            not learned: it takes validation triples, and is there neither for relations nor for
            what is known) and known.
        """
        return self.predict_all([(head, relation, tail)], top=top, known=known)

    def predict_all(
        self, queries: Sequence[Question], *, top: int = 10, known: bool = False
    ) -> pa.Table:
        """:meth:`predict` for many questions at once: (head, relation, tail), one None in each."""
        if top < 1:
            raise ConfigError(f"top is {top}; it must be at least 1")
        for query in queries:
            if sum(part is None for part in query) != 1:
                raise ConfigError("leave out exactly one of head, relation and tail to ask for it")
        for_entities = [i for i, (_, r, _) in enumerate(queries) if r is not None]
        for_relations = [i for i, (_, r, _) in enumerate(queries) if r is None]
        found: dict[int, list[Answer]] = {}
        for chosen, ask in ((for_entities, self._entities), (for_relations, self._relations)):
            if chosen:
                answers = ask([queries[i] for i in chosen], top, known)
                found.update(zip(chosen, answers, strict=True))
        rows = [
            self._completed(query, answer) | {"rank": place}
            for i, query in enumerate(queries)
            for place, answer in enumerate(found[i], 1)
        ]
        said = [("rank", pa.int32()), *SCORES, ("known", pa.bool_())]
        return pa.Table.from_pylist(rows, pa.schema([*TRIPLE, *said]))

    def _entities(self, queries: list[Question], top: int, known: bool) -> list[list[Answer]]:
        graph = self.task.graph
        given = graph.entities.ids(h if h is not None else t for h, _, t in queries)  # type: ignore[misc]
        kinds = graph.relations.ids(r for _, r, _ in queries)  # type: ignore[misc]
        kinds = kinds + len(graph.relations) * np.array([h is None for h, _, _ in queries])
        return self._completion.entities(given, kinds, self._told.every, top, known)

    def _relations(self, queries: list[Question], top: int, known: bool) -> list[list[Answer]]:
        entities = self.task.graph.entities
        heads = entities.ids(h for h, _, _ in queries)  # type: ignore[misc]
        tails = entities.ids(t for _, _, t in queries)  # type: ignore[misc]
        return self._completion.relations(heads, tails, self._told.every, top, known)

    def _completed(self, query: Question, answer: Answer | None) -> dict[str, Any]:
        """The triple with the answer in its place, and what is said of the answer."""
        graph = self.task.graph
        labels = graph.relations if query[1] is None else graph.entities
        found = None if answer is None else labels[answer.id]
        parts = (found if part is None else part for part in query)
        triple = dict(zip(("head", "relation", "tail"), parts, strict=True))
        return triple if answer is None else triple | answer._asdict()

    def neighbours(self, entity: str, *, top: int = 10, ann: bool = False) -> pa.Table:
        """The entities nearest to one by cosine, itself left out.

        Args:
            ann: look in an approximate index (FAISS), built at the first such question.
        Returns:
            table with the columns entity, rank (1 is nearest) and cosine.
        """
        _ = self.task
        return self._neighbours(entity, "", "", top, ann)

    def embed(self, labels: Sequence[str]) -> npt.NDArray[np.float32]:
        """Vectors of the named entities, [n, d]."""
        _ = self.task
        side = self.growing.sides[""]
        vectors: npt.NDArray[np.float32] = (
            side.take_vectors(side.entities.ids(labels)).cpu().numpy()
        )
        return vectors

    def evaluate(
        self, triples: TripleSource | None = None
    ) -> tuple[list[dict[str, Any]], tuple[Queries, Ranks]]:
        """Filtered, tie-aware metrics of the test triples, or of others.

        Returns:
            rows as in ``results.json`` (``group`` names what a row is about: all, a direction, a
            category of relations, a cell of the open world, a relation), and the ranks.
        """
        told, test = self._told, self._test(triples)
        if not len(test):
            raise InputError("there are no test triples", remedy="hold some out, or give some")
        asked, known = told.queries(test), told.true(test)
        score = self._completion.scores
        ranks = rank_answers(score, asked, known, told.n_entities, device=self.device)
        rows = metrics_by_group(asked, ranks, told.known, self.task.new_entities)
        for row in rows:
            if row["group"] == "relation":
                row["name"] = self.task.graph.relations[row["name"]]
        return rows, (asked, ranks)

    def frequency(self, triples: TripleSource | None = None) -> dict[str, float]:
        """The same metrics of answering by how often an entity answers a relation in training."""
        told, test = self._told, self._test(triples)
        asked, known = told.queries(test), told.true(test)
        scores = frequency_scores(told.queries(told.train), told.n_entities)
        return answer_metrics(rank_answers(lambda _, r: scores[r], asked, known, told.n_entities))

    def confidence(self, triples: TripleSource | None = None) -> dict[str, float]:
        """How well probabilities are calibrated on triples, by default those to test on; empty if
        that was not learned.

        Of every test question the best answers that are not known yet; ``ece`` is the expected
        calibration error (15 bins of equal mass), ``mean`` the mean probability, ``right`` the
        share that the test triples confirm.
        """
        told = self._told
        known = told.queries(told.now, told.valid)
        return self._completion.reliability(told.queries(self._test(triples)), known)

    def test_predictions(self) -> pa.Table:
        """The best answer of every test question, beside the truth.

        What training and validation triples hold is not an answer, nor is what :meth:`predict`
        would never give; so ``correct`` may differ a little from Hits@1 of :meth:`evaluate`.

        Returns:
            table with the columns head, relation, tail (with the answer in its place), asked
            (``head`` or ``tail``), score, probability, correct and truth, a list of labels.
        """
        told, graph = self._told, self.task.graph
        asked, known = told.queries(told.test), told.queries(told.now, told.valid)
        found = self._completion.entities(asked.entities, asked.relations, known, 1)
        unanswered = None if self._confidence is None else 0.0
        rows = []
        for i, answers in enumerate(found):
            right = asked.answers[asked.indptr[i] : asked.indptr[i + 1]]
            backwards, relation = divmod(int(asked.relations[i]), told.n_relations)
            given, kind = graph.entities[int(asked.entities[i])], graph.relations[relation]
            query = (None, kind, given) if backwards else (given, kind, None)
            best = answers[0] if answers else None
            rows.append(
                {"probability": unanswered}
                | self._completed(query, best)
                | {
                    "asked": "head" if backwards else "tail",
                    "correct": best is not None and best.id in right,
                    "truth": graph.entities.take(right),
                }
            )
        truth = [("correct", pa.bool_()), ("truth", pa.list_(pa.string()))]
        return pa.Table.from_pylist(
            rows, pa.schema([*TRIPLE, ("asked", pa.string()), *SCORES, *truth])
        )

    def _test(self, triples: TripleSource | None) -> Ids:
        """The test triples, or those given."""
        if triples is None:
            return self.task.test
        return triples if isinstance(triples, np.ndarray) else self.task.read_triples(triples)

    # Keeping

    def save(self, run: str | PathLike[str], results: Sequence[dict[str, Any]] = ()) -> None:
        """Write ``run/bundle``: weights, vectors, labels, the graph and its splits, no pickle."""
        card = prediction_card(self.task, self.config, results)
        if self.growing.changed:
            self._settle(refresh=False)
            self._forget()
        write_bundle(replace(self._bundle(), card=card), Path(run) / "bundle")

    def _bundle(self) -> Bundle[PredictionConfig, GraphTask]:
        matching = {} if self._confidence is None else self._confidence.to_tensors()
        return Bundle(
            self.config,
            self.task,
            dict(self._learned.state_dict()),
            {"entities": self.vectors},
            prediction_card(self.task, self.config, ()),
            matching,
            {name: rows.all() for name, rows in self._memory.items()},
        )

    @classmethod
    def load(
        cls, run: str | PathLike[str], device: str = "auto", *, durable: bool = False
    ) -> Predictor:
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
    def _load(cls, run: str | PathLike[str], device: str, durable: bool) -> Predictor:
        folder = bundle_folder(run)
        bundle = read_bundle(folder, "predictor")
        predictor = cls(bundle.config, device)
        predictor._task = bundle.task
        with torch.random.fork_rng(devices=cuda_devices(predictor.device)):
            predictor._model = predictor._new_model(len(bundle.task.graph.entities))
        try:
            predictor._model.load_state_dict(bundle.weights)
        except RuntimeError as error:
            raise BundleError(
                f"{folder}: its weights are not those of its settings; train it again"
            ) from error
        predictor._vectors = bundle.mapped_vectors["entities"]
        if predictor.device.type != "cpu":
            predictor._vectors = bundle.vectors["entities"].to(predictor.device)
        predictor._memory = bundle.mapped_memory
        if bundle.matching:
            predictor._confidence = Confidence.from_tensors(bundle.matching)
        predictor._open(run, bundle, durable)
        return predictor

    # Growing

    def explain(self, entity: str, *, moved: int = 5) -> list[Reason]:
        """Which neighbours and relations an entity's vector is made of, the weightiest first.

        Args:
            moved: for so many neighbours, and the last one, tell how far the vector would move
                without them.
        """
        _ = self.task
        return self._explain("", entity, moved)

    def drift(self, triples: TripleSource | None = None) -> Drift:
        """How far the graph has grown away from what was trained.

        Args:
            triples: to tell by how calibrated probabilities still are; default: those to test on.
        """
        return self._drift(self.confidence(triples))

    def refit(
        self,
        *,
        share: float = REFIT,
        run: str | PathLike[str] | None = None,
        resume: bool = False,
        on_epoch: Callable[[Row], None] | None = None,
    ) -> Predictor:
        """Train again on all that is there now, starting from what was learned.

        Args:
            share: of the epochs that a training from scratch has.
            run, resume, on_epoch: as in :meth:`fit`.
        """
        again, task = Predictor(self.config, str(self.device)), self.settled_task()
        return again.fit(task, run=run, resume=resume, on_epoch=on_epoch, start=self, share=share)

    def settled_task(self) -> GraphTask:
        """What :meth:`refit` learns from: all triples but those held out."""
        task = self.task
        every = np.concatenate((task.graph.triples, _no_triples(task.auxiliary)))
        sizes = len(task.graph.entities), len(task.graph.relations), len(task.graph.entities)
        held_out = row_keys(np.concatenate((task.valid, task.test)), sizes)
        graph = task.graph.with_triples(every[~np.isin(row_keys(every, sizes), held_out)])
        return replace(task, graph=graph, auxiliary=None, new_entities=None)

    def _warm(self, fresh: PredictionModel) -> dict[str, Tensor]:
        """The weights to start from; rows of new entities are those of a fresh model."""
        warm = dict(self._learned.state_dict())
        for name, tensor in fresh.state_dict().items():
            if tensor.shape != warm[name].shape:
                grown = tensor.clone()
                grown[: len(warm[name])] = warm[name]
                if name == "own" and self.config.model.encoder != "none":
                    grown[len(warm[name]) :] = 0  # as it was until now
                warm[name] = grown
        return warm

    def _trained(self) -> Mapping[str, Trained]:
        task = self._task
        assert task is not None
        if self._vectors is None:
            self._vectors, self._memory = self._encode(task, self._learned)
        return {"": Trained(task.graph, _no_triples(task.auxiliary), self._vectors, self._memory)}

    def _induction(self) -> Induction:
        task = self._task
        assert task is not None
        if not self._memory:
            self._memory |= self._encode(task, self._learned)[1]
        seen = relations_of(task.graph.triples, len(task.graph.relations))
        return PredictionInduction(self.config, dict(self._learned.state_dict()), seen, self.device)

    def _encode(
        self, task: GraphTask, model: PredictionModel
    ) -> tuple[Tensor, dict[str, MappedRows]]:
        """Vectors of all entities over a grown graph, and what new ones will read."""
        now = np.concatenate((task.graph.triples, _no_triples(task.auxiliary)))
        view = self._view(now, task)
        vectors, states = model.embed_with_states(view)
        if not states:
            return vectors, {}
        inputs = torch.where(view.seen[:, None], model.teacher.detach(), 0)
        return vectors, mapped_rows({STATES: torch.cat(states, 1).cpu(), INPUTS: inputs.cpu()})

    def _refreshed(self) -> Mapping[str, Tensor]:
        task = self.task
        return {"": self._encode(task, self._grown(len(task.graph.entities)))[0]}

    def _settle(self, refresh: bool) -> None:
        task, side = self.task, self.growing.sides[""]
        model = self._grown(len(task.graph.entities))
        if refresh:
            self._vectors, self._memory = self._encode(task, model)
        else:
            self._memory = mapped_rows(side.memory(self.growing.model))
            self._vectors = side.vectors
        self._model, self._task = model, task

    # What is derived from the state

    @property
    def _learned(self) -> PredictionModel:
        assert self._model is not None, "fit or load first"
        return self._model

    @property
    def vectors(self) -> Tensor:
        """Every entity's vector, [n, d]; 0 where nothing tells of one."""
        return self.growing.sides[""].vectors

    def _state(self) -> tuple[Told, Completion]:
        """What was told so far, and what answers over it; made again when there is more."""
        now = (self.growing, self.growing.version)
        if self._derived is None or self._derived[0] != now:
            told, model = _everything(self.task), self._learned
            if model.table is not None and len(model.table) < told.n_entities:
                model = self._grown(told.n_entities)
            completion = Completion(model, self.vectors, told, self._confidence)
            self._derived = (now, told, completion)
        return self._derived[1:]

    @property
    def _told(self) -> Told:
        return self._state()[0]

    @property
    def _completion(self) -> Completion:
        return self._state()[1]

    def _forget(self) -> None:
        self._growing = self._derived = None

    def _view(self, triples: Ids, task: GraphTask) -> Any:
        sizes = len(task.graph.entities), len(task.graph.relations)
        return make_view(triples, task.graph.triples, *sizes, self.config, self.device)

    def _new_model(self, n_entities: int) -> PredictionModel:
        assert self._task is not None
        n_relations = len(self._task.graph.relations)
        return PredictionModel(n_entities, n_relations, self.config).to(self.device)

    def _grown(self, n_entities: int) -> PredictionModel:
        """The model with room for more entities; what it has learned stays as it is."""
        state = dict(self._learned.state_dict())
        with torch.random.fork_rng(devices=cuda_devices(self.device)):
            model = self._new_model(n_entities)
        for name, tensor in model.state_dict().items():
            if tensor.shape != state[name].shape:  # a row an entity: those of new ones are not read
                grown = torch.zeros_like(tensor)
                grown[: len(state[name])] = state[name]
                state[name] = grown
        model.load_state_dict(state)
        return model

    def _calibrate(self, told: Told, valid: Ids) -> Confidence | None:
        """Probabilities from the validation triples, over the graph as it was while training."""
        if not len(valid):
            return None
        then = replace(told, later=told.later[:0])
        vectors = self._learned.embed(self._view(then.now, self.task))
        completion = Completion(self._learned, vectors, then)
        return completion.calibrated(then.queries(valid), then.known)


def _everything(task: GraphTask) -> Told:
    sizes = len(task.graph.entities), len(task.graph.relations)
    return Told(task.graph.triples, _no_triples(task.auxiliary), task.valid, task.test, *sizes)


def _no_triples(triples: Ids | None) -> Ids:
    return np.empty((0, 3), np.int64) if triples is None else triples


def _as_task(
    source: GraphTask | KnowledgeGraph | str | PathLike[str], valid: float, test: float, seed: int
) -> GraphTask:
    if isinstance(source, GraphTask):
        return source
    if isinstance(source, KnowledgeGraph):
        return GraphTask.from_graph("graph", source, valid, test, seed)
    from decentrl.data.registry import load_dataset

    if Path(source).is_file():
        graph = KnowledgeGraph.read(source)
        return GraphTask.from_graph(Path(source).stem, graph, valid, test, seed)
    task = load_dataset(str(source))
    if not isinstance(task, GraphTask):
        raise InputError(
            f"{source} is two graphs, prediction needs one",
            remedy="`decentrl data list` shows the datasets for prediction",
        )
    return task
