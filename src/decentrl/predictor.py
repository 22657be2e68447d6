"""Entity prediction: complete (h, r, ?) and (?, r, t), also for entities that arrive later."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch
from torch import Tensor

from decentrl.bundle import Bundle, bundle_folder, read_bundle, write_bundle
from decentrl.card import prediction_card
from decentrl.config import PredictionConfig
from decentrl.data.graph_task import GraphTask
from decentrl.data.knowledge_graph import KnowledgeGraph, row_keys
from decentrl.data.vocabulary import Ids, Vocabulary
from decentrl.device import cuda_devices, pick_device
from decentrl.errors import BundleError, ConfigError, InputError
from decentrl.graph.queries import Queries
from decentrl.graph.view import entities_of, relations_of
from decentrl.matching.confidence import Confidence, expected_calibration_error, fit_confidence
from decentrl.matching.filtered import rank_answers
from decentrl.matching.frequency import frequency_scores, relation_categories
from decentrl.matching.metrics import summary
from decentrl.matching.ranks import Ranks
from decentrl.nn.prediction import PredictionModel
from decentrl.training.loop import Row, train
from decentrl.training.prediction import PredictionObjective, make_view

Triples = Iterable[tuple[str, str, str]]
TripleSource = Ids | str | PathLike[str]
"""Triples in ids, int64[n, 3], or a file of them in labels."""
Question = tuple[str | None, str | None, str | None]
CALIBRATED = 10
"""Best answers of a validation question that calibration looks at."""


class Predictor:
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

    def __init__(self, config: PredictionConfig, device: str = "auto") -> None:
        self.config = config
        self.device = pick_device(device)
        self.history: list[Row] = []
        self.seconds: dict[str, float] = {}
        self._task: GraphTask | None = None
        self._model: PredictionModel | None = None
        self._confidence: Confidence | None = None
        self._vectors: Tensor | None = None

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
    ) -> Predictor:
        """Train on a graph, a file of triples, or a ready task.

        Args:
            source: a :class:`GraphTask` brings its own validation and test triples; of a graph or a
                file the shares ``valid`` (default: ``training.valid``) and ``test`` are held out.
            run: folder for ``metrics.jsonl`` and checkpoints.
            resume: go on from the checkpoint in ``run``.
            on_epoch: called with each epoch's row of metrics.
        """
        started = time.perf_counter()
        share = self.config.training.valid if valid is None else valid
        task = _as_task(source, share, test, self.config.seed)
        self.seconds["read"] = time.perf_counter() - started
        started = time.perf_counter()
        self._forget()
        self._task = task
        with torch.random.fork_rng(devices=cuda_devices(self.device)):
            torch.manual_seed(self.config.seed)
            self._model = self._new_model()
            trained_on = self._trained_on
            known_valid = task.valid[self._seen[task.valid[:, [0, 2]]].all(axis=1)]
            objective = PredictionObjective(
                self._model,
                trained_on,
                self._view(trained_on),
                self.config,
                known_valid,
                Queries.of(np.concatenate((trained_on, known_valid)), self._n_relations),
                self._n_relations,
                self.config.seed,
            )
            self.history = train(
                objective,
                self.config.training,
                self.config.seed,
                run=None if run is None else Path(run),
                resume=resume,
                on_epoch=on_epoch,
            )
        self._confidence = self._calibrate(known_valid)
        self.seconds["train"] = time.perf_counter() - started
        return self

    def add(self, triples: Triples | Ids) -> Predictor:
        """Take in new triples, with new entities, without any training.

        Entities unknown so far get vectors from their neighbours at once; vectors of the others
        are made again, because they may have new neighbours. A relation must be a known one.

        Args:
            triples: (head, relation, tail) in labels, or int64[n, 3] in ids.
        """
        task = self.task
        entities, ids = self._arriving(triples)
        old = np.empty((0, 3), np.int64) if task.auxiliary is None else task.auxiliary
        new = np.empty(0, np.int64) if task.new_entities is None else task.new_entities
        before = len(task.graph.entities)
        graph = replace(task.graph, entities=entities)
        sizes = (len(entities), self._n_relations, len(entities))
        fresh = ~np.isin(row_keys(ids, sizes), row_keys(self._trained_on, sizes))
        self._model = self._grown(before, len(entities))
        self._task = replace(
            task,
            graph=graph,
            auxiliary=graph.distinct(np.concatenate((old, ids[fresh]))),
            new_entities=np.union1d(new, np.setdiff1d(ids[:, [0, 2]], np.flatnonzero(self._seen))),
        )
        self._forget()
        return self

    def _arriving(self, triples: Triples | Ids) -> tuple[Vocabulary, Ids]:
        """The entities once these triples are there, and the triples in ids."""
        graph = self.task.graph
        if isinstance(triples, np.ndarray):
            sizes = (len(graph.entities), len(graph.relations), len(graph.entities))
            if triples.ndim != 2 or triples.shape[1] != 3:
                raise InputError("these ids are no triples", remedy="give int64[n, 3]")
            if ((triples < 0) | (triples >= np.array(sizes))).any():
                raise InputError("an id is out of range", remedy="give labels for new entities")
            return graph.entities, triples
        rows = list(triples)
        for row in rows:
            if len(row) != 3 or not all(isinstance(part, str) and part for part in row):
                raise InputError(f"{row!r} is no triple", remedy="give (head, relation, tail)")
        relations = graph.relations.ids(r for _, r, _ in rows)
        entities = graph.entities.copy()
        ends = entities.append([x for h, _, t in rows for x in (h, t)]).reshape(-1, 2)
        return entities, np.stack((ends[:, 0], relations, ends[:, 1]), axis=1)

    # Asking

    @property
    def task(self) -> GraphTask:
        if self._task is None:
            raise ConfigError("this predictor has learned nothing yet; call fit or load first")
        return self._task

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
        self,
        queries: Sequence[Question],
        *,
        top: int = 10,
        known: bool = False,
    ) -> pa.Table:
        """:meth:`predict` for many questions at once: (head, relation, tail), one None in each."""
        if top < 1:
            raise ConfigError(f"top is {top}; it must be at least 1")
        for query in queries:
            if sum(part is None for part in query) != 1:
                raise ConfigError("leave out exactly one of head, relation and tail to ask for it")
        parts: list[list[dict[str, Any]]] = [[] for _ in queries]
        for_entities = [i for i, (_, r, _) in enumerate(queries) if r is not None]
        for_relations = [i for i, (_, r, _) in enumerate(queries) if r is None]
        if for_entities:
            self._predict_entities(queries, for_entities, top, known, parts)
        if for_relations:
            self._predict_relations(queries, for_relations, top, known, parts)
        rows = [row for part in parts for row in part]
        schema = pa.schema(
            [("head", pa.string()), ("relation", pa.string()), ("tail", pa.string()),
             ("rank", pa.int32()), ("score", pa.float32()), ("probability", pa.float32()),
             ("known", pa.bool_())]
        )  # fmt: skip
        return pa.Table.from_pylist(rows, schema)

    def _predict_entities(
        self,
        queries: Sequence[Question],
        chosen: list[int],
        top: int,
        known: bool,
        parts: list[list[dict[str, Any]]],
    ) -> None:
        graph = self.task.graph
        labels = [queries[i] for i in chosen]
        given = graph.entities.ids(h if h is not None else t for h, _, t in labels)  # type: ignore[misc]
        kinds = graph.relations.ids(r for _, r, _ in labels)  # type: ignore[misc]
        kinds = kinds + np.array([0 if h is not None else self._n_relations for h, _, _ in labels])
        step = self._block
        for start in range(0, len(chosen), step):
            part = slice(start, start + step)
            answers, values, chances, told = self._best(
                given[part], kinds[part], self._given, top, known
            )
            for row, index in enumerate(chosen[part]):
                head, relation, tail = queries[index]
                for place, answer in enumerate(answers[row]):
                    if not np.isfinite(values[row, place]):
                        break
                    found = graph.entities[int(answer)]
                    parts[index].append(
                        {
                            "head": found if head is None else head,
                            "relation": relation,
                            "tail": found if tail is None else tail,
                            "rank": place + 1,
                            "score": values[row, place],
                            "probability": _or_none(chances[row, place]),
                            "known": bool(told[row, place]),
                        }
                    )

    def _best(
        self, entities: Ids, kinds: Ids, known: Queries, top: int, also_known: bool = False
    ) -> tuple[Ids, Any, Any, Any]:
        """The best answers of some questions: ids, scores, probabilities, whether known: [b, top].

        Probabilities are those of an answer among what is not known yet, NaN for what is. A score
        is -inf where nothing is left to answer.
        """
        n = len(self.task.graph.entities)
        scores = self._possible(self.vectors, self._now, entities, kinds)
        told = _answered(known, entities, kinds, n).to(self.device)
        unknown = scores.masked_fill(told, -torch.inf)
        values, answers = (scores if also_known else unknown).topk(min(top, n), dim=1)
        is_known = told.gather(1, answers)
        chances = torch.full(values.shape, torch.nan, dtype=torch.float64)
        if self._confidence is not None:
            features = _features(values, unknown).flatten(0, 1).cpu()
            chances = self._confidence(features).reshape(values.shape)
            chances = chances.masked_fill(is_known.cpu(), torch.nan)
        found = answers.cpu().numpy(), values.cpu().numpy(), chances.numpy()
        return *found, is_known.cpu().numpy()

    def _possible(self, x: Tensor, now: Ids, entities: Ids, kinds: Ids) -> Tensor:
        """Scores of all answers to some questions over triples ``now``, -inf for impossible ones.

        An entity of which nothing is known has no vector, and where no training triple of a
        relation joins an entity to itself, none answers a question about itself. A question
        about an entity without a vector, or with a relation never trained, has no answer at all.
        """
        device = x.device
        asked = torch.from_numpy(entities).to(device)
        scores = self._trained.score_all(x, asked, torch.from_numpy(kinds).to(device))
        there = entities_of(now, len(x)) if self._trained.table is None else self._seen
        scores.masked_fill_(~torch.from_numpy(there).to(device), -torch.inf)
        h, r, t = self._trained_on.T
        alone = torch.from_numpy(~np.isin(kinds % self._n_relations, r[h == t])).to(device)
        scores[alone.nonzero()[:, 0], asked[alone]] = -torch.inf
        untrained = ~relations_of(self._trained_on, self._n_relations)[kinds % self._n_relations]
        mute = torch.from_numpy(untrained).to(device) | (x[asked].abs().amax(1) == 0)
        return scores.masked_fill_(mute[:, None], -torch.inf)

    def _score(self, entities: Tensor, kinds: Tensor) -> Tensor:
        """Scores to rank by. Rows of a table that were never trained are the last of all."""
        scores = self._trained.score_all(self.vectors, entities, kinds)
        if self._trained.table is not None and not self._seen.all():
            unseen = torch.from_numpy(~self._seen).to(scores.device)
            scores[:, unseen] = scores.amin(1, keepdim=True)
        return scores

    def _predict_relations(
        self,
        queries: Sequence[Question],
        chosen: list[int],
        top: int,
        known: bool,
        parts: list[list[dict[str, Any]]],
    ) -> None:
        graph, model, x = self.task.graph, self._trained, self.vectors
        heads = graph.entities.ids(queries[i][0] for i in chosen)  # type: ignore[misc]
        tails = graph.entities.ids(queries[i][2] for i in chosen)  # type: ignore[misc]
        model.eval()
        with torch.no_grad():
            scores = model.decoder.score_relations(
                x[torch.from_numpy(heads).to(x.device)], x[torch.from_numpy(tails).to(x.device)]
            )[:, : self._n_relations]
            scores = (scores * model.log_scale.exp()).cpu()
        # What was never trained says nothing: relations that came later, entities without a vector.
        scores[:, ~relations_of(self._trained_on, self._n_relations)] = -torch.inf
        empty = x.abs().amax(1).cpu() == 0
        scores[empty[torch.from_numpy(heads)] | empty[torch.from_numpy(tails)]] = -torch.inf
        every = np.arange(self._n_relations)
        for row, index in enumerate(chosen):
            place = 0
            questions = self._given.find(np.full(len(every), heads[row]), every)
            rows, answers = self._given.places(questions[questions >= 0])
            found = rows[self._given.answers[answers] == tails[row]]
            told = set(every[questions >= 0][found].tolist())
            for relation in scores[row].argsort(descending=True).tolist():
                if not scores[row, relation].isfinite():
                    break
                is_known = relation in told
                if is_known and not known:
                    continue
                place += 1
                if place > top:
                    break
                parts[index].append(
                    {
                        "head": queries[index][0],
                        "relation": graph.relations[relation],
                        "tail": queries[index][2],
                        "rank": place,
                        "score": scores[row, relation].item(),
                        "probability": None,
                        "known": is_known,
                    }
                )

    def embed(self, labels: Sequence[str]) -> npt.NDArray[np.float32]:
        """Vectors of the named entities, [n, d]."""
        ids = torch.from_numpy(self.task.graph.entities.ids(labels)).to(self.device)
        vectors: npt.NDArray[np.float32] = self.vectors[ids].cpu().numpy()
        return vectors

    def evaluate(
        self, triples: TripleSource | None = None
    ) -> tuple[list[dict[str, Any]], tuple[Queries, Ranks]]:
        """Filtered, tie-aware metrics of the test triples, or of others.

        Returns:
            rows as in ``results.json`` (``group`` names what a row is about: all, a direction, a
            category of relations, a cell of the open world, a relation), and the ranks.
        """
        task, test = self.task, self._test(triples)
        if not len(test):
            raise InputError("there are no test triples", remedy="hold some out, or give some")
        asked = Queries.of(test, self._n_relations)
        ranks = rank_answers(
            self._score,
            asked,
            self._true(test),
            len(task.graph.entities),
            device=self.device,
        )
        return _rows(asked, ranks, task, self._known_now), (asked, ranks)

    def frequency(self, triples: TripleSource | None = None) -> dict[str, float]:
        """The same metrics of answering by how often an entity answers a relation in training."""
        test = self._test(triples)
        n = len(self.task.graph.entities)
        scores = frequency_scores(Queries.of(self._trained_on, self._n_relations), n)
        return _summary(
            rank_answers(
                lambda _, r: scores[r],
                Queries.of(test, self._n_relations),
                self._true(test),
                n,
            )
        )

    def confidence(self) -> dict[str, float]:
        """How well probabilities are calibrated on the test triples; empty if not learned.

        Of every test question the best answers that are not known yet; ``ece`` is the expected
        calibration error (15 bins of equal mass), ``mean`` the mean probability, ``right`` the
        share that the test triples confirm.
        """
        if self._confidence is None or not len(self.task.test):
            return {}
        features, right = self._evidence(self.task.test, self.task.valid)
        sure = self._confidence(features)
        return {
            "ece": expected_calibration_error(sure, right),
            "mean": sure.mean().item(),
            "right": right.double().mean().item(),
        }

    def test_predictions(self) -> pa.Table:
        """The best answer of every test question, beside the truth.

        What training and validation triples hold is not an answer, nor is what :meth:`predict`
        would never give; so ``correct`` may differ a little from Hits@1 of :meth:`evaluate`.

        Returns:
            table with the columns head, relation, tail (with the answer in its place), asked
            (``head`` or ``tail``), score, probability, correct and truth, a list of labels.
        """
        task, graph = self.task, self.task.graph
        asked = Queries.of(task.test, self._n_relations)
        known = Queries.of(np.concatenate((self._now, task.valid)), self._n_relations)
        rows = []
        step = self._block
        for start in range(0, len(asked), step):
            chosen = np.arange(start, min(start + step, len(asked)))
            entities, kinds = asked.entities[chosen], asked.relations[chosen]
            answers, values, chances, _ = self._best(entities, kinds, known, 1)
            for i, answer, value, chance in zip(
                chosen.tolist(), answers[:, 0], values[:, 0], chances[:, 0], strict=True
            ):
                right = asked.answers[asked.indptr[i] : asked.indptr[i + 1]]
                backwards, relation = divmod(int(asked.relations[i]), self._n_relations)
                ends = [
                    graph.entities[int(asked.entities[i])],
                    graph.entities[int(answer)] if np.isfinite(value) else None,
                ]
                head, tail = ends[::-1] if backwards else ends
                rows.append(
                    {
                        "head": head,
                        "relation": graph.relations[relation],
                        "tail": tail,
                        "asked": "head" if backwards else "tail",
                        "score": value if np.isfinite(value) else None,
                        "probability": _or_none(chance),
                        "correct": bool(np.isfinite(value) and (right == answer).any()),
                        "truth": graph.entities.take(right),
                    }
                )
        schema = pa.schema(
            [("head", pa.string()), ("relation", pa.string()), ("tail", pa.string()),
             ("asked", pa.string()), ("score", pa.float32()), ("probability", pa.float32()),
             ("correct", pa.bool_()), ("truth", pa.list_(pa.string()))]
        )  # fmt: skip
        return pa.Table.from_pylist(rows, schema)

    def _test(self, triples: TripleSource | None) -> Ids:
        """The test triples, or those given."""
        if triples is None:
            return self.task.test
        return triples if isinstance(triples, np.ndarray) else self.task.read_triples(triples)

    # Keeping

    def save(self, run: str | PathLike[str], results: Sequence[dict[str, Any]] = ()) -> None:
        """Write ``run/bundle``: weights, vectors, labels, the graph and its splits, no pickle."""
        card = prediction_card(self.task, self.config, results)
        weights = dict(self._trained.state_dict())
        matching = {} if self._confidence is None else self._confidence.to_tensors()
        vectors = {"entities": self.vectors}
        bundle = Bundle(self.config, self.task, weights, vectors, card, matching)
        write_bundle(bundle, Path(run) / "bundle")

    @classmethod
    def load(cls, run: str | PathLike[str], device: str = "auto") -> Predictor:
        """Read what :meth:`save` wrote; ``run`` may also be the bundle folder itself."""
        folder = bundle_folder(run)
        bundle = read_bundle(folder, "predictor")
        predictor = cls(bundle.config, device)
        predictor._task = bundle.task
        with torch.random.fork_rng(devices=cuda_devices(predictor.device)):
            predictor._model = predictor._new_model()
        try:
            predictor._model.load_state_dict(bundle.weights)
        except RuntimeError as error:
            raise BundleError(
                f"{folder}: its weights are not those of its settings; train it again"
            ) from error
        predictor._vectors = bundle.vectors["entities"].to(predictor.device)
        if bundle.matching:
            predictor._confidence = Confidence.from_tensors(bundle.matching)
        return predictor

    # What is derived from the state

    @property
    def _trained(self) -> PredictionModel:
        assert self._model is not None, "fit or load first"
        return self._model

    @property
    def vectors(self) -> Tensor:
        """Every entity's vector over the graph as it is now, [n, d]."""
        if self._vectors is None:
            self._vectors = self._trained.embed(self._view(self._now))
        return self._vectors

    @property
    def _n_relations(self) -> int:
        return len(self.task.graph.relations)

    @property
    def _trained_on(self) -> Ids:
        return self.task.graph.triples

    @cached_property
    def _seen(self) -> npt.NDArray[np.bool_]:
        return entities_of(self._trained_on, len(self.task.graph.entities))

    @cached_property
    def _now(self) -> Ids:
        """All triples that queries may see."""
        later = self.task.auxiliary
        return self._trained_on if later is None else np.concatenate((self._trained_on, later))

    @cached_property
    def _known_now(self) -> Queries:
        return Queries.of(self._now, self._n_relations)

    @cached_property
    def _given(self) -> Queries:
        """Everything that was told, to learn from or to be tested on: no news for anybody."""
        every = np.concatenate((self._now, self.task.valid, self.task.test))
        return Queries.of(every, self._n_relations)

    @property
    def _block(self) -> int:
        """Questions to answer at a time."""
        return max(1, 2**24 // max(1, len(self.task.graph.entities)))

    def _true(self, asked: Ids) -> Queries:
        """Everything that is not a wrong answer: known, held out, or asked."""
        task = self.task
        every = np.concatenate((self._now, task.valid, task.test, asked))
        return Queries.of(every, self._n_relations)

    def _forget(self) -> None:
        self._vectors = None
        for name in ("_seen", "_now", "_known_now", "_given"):
            self.__dict__.pop(name, None)

    def _view(self, triples: Ids) -> Any:
        n = len(self.task.graph.entities)
        return make_view(triples, self._trained_on, n, self._n_relations, self.config, self.device)

    def _new_model(self, n_entities: int | None = None) -> PredictionModel:
        n = len(self.task.graph.entities) if n_entities is None else n_entities
        return PredictionModel(n, self._n_relations, self.config).to(self.device)

    def _grown(self, before: int, n_entities: int) -> PredictionModel:
        """The model with room for more entities; what it has learned stays as it is."""
        if n_entities == before:
            return self._trained
        state = dict(self._trained.state_dict())
        with torch.random.fork_rng(devices=cuda_devices(self.device)):
            model = self._new_model(n_entities)
        for name, tensor in model.state_dict().items():
            if tensor.shape != state[name].shape:  # a row an entity: those of new ones are not read
                grown = torch.zeros_like(tensor)
                grown[:before] = state[name]
                state[name] = grown
        model.load_state_dict(state)
        return model

    # Probabilities

    def _calibrate(self, valid: Ids) -> Confidence | None:
        if not len(valid):
            return None
        features, right = self._evidence(valid, valid[:0], self._trained_on)
        found = fit_confidence(features, right)
        if found.weights[0] < 0:  # too little was seen to know that a better score is better
            features[:, 0] = 0
            found = fit_confidence(features, right)
        return found

    def _evidence(
        self, held_out: Ids, also_known: Ids, graph: Ids | None = None
    ) -> tuple[Tensor, Tensor]:
        """Of the best unknown answers of held-out questions: what speaks for them, who is right.

        Returns:
            float64[n, F] and bool[n].
        """
        now = self._now if graph is None else graph
        x = self.vectors if graph is None else self._trained.embed(self._view(graph))
        known = Queries.of(np.concatenate((now, also_known)), self._n_relations)
        asked = Queries.of(held_out, self._n_relations)
        n = len(x)
        facts, right = [], []
        step = self._block
        for start in range(0, len(asked), step):
            chosen = np.arange(start, min(start + step, len(asked)))
            entities, kinds = asked.entities[chosen], asked.relations[chosen]
            scores = self._possible(x, now, entities, kinds)
            scores.masked_fill_(_answered(known, entities, kinds, n).to(x.device), -torch.inf)
            values, answers = scores.topk(min(CALIBRATED, n), dim=1)
            features = _features(values, scores)
            truth = torch.zeros_like(scores, dtype=torch.bool)
            rows, index = asked.places(chosen)
            truth[torch.from_numpy(rows), torch.from_numpy(asked.answers[index])] = True
            open_ = values.isfinite()
            facts.append(features[open_].cpu())
            right.append(truth.gather(1, answers)[open_].cpu())
        return torch.cat(facts), torch.cat(right)


def _answered(known: Queries, entities: Ids, kinds: Ids, n: int) -> Tensor:
    """Which of n answers ``known`` holds for each question: bool[b, n]."""
    mask = torch.zeros(len(entities), n, dtype=torch.bool)
    places = known.find(entities, kinds)
    has = np.flatnonzero(places >= 0)
    rows, index = known.places(places[has])
    mask[torch.from_numpy(has[rows]), torch.from_numpy(known.answers[index])] = True
    return mask


def _features(values: Tensor, unknown: Tensor) -> Tensor:
    """What speaks for an answer among the unknown ones: [b, k, 2].

    The logarithm of its share, and that of the best answer's. ``values`` are scores of answers,
    [b, k], and ``unknown`` all scores, -inf where the answer is known: [b, n].
    """
    total = unknown.logsumexp(1, keepdim=True)
    best = (unknown.amax(1, keepdim=True) - total).expand_as(values)
    return torch.stack((values - total, best), -1).double()


def _or_none(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _as_task(
    source: GraphTask | KnowledgeGraph | str | PathLike[str], valid: float, test: float, seed: int
) -> GraphTask:
    if isinstance(source, GraphTask):
        return source
    if isinstance(source, KnowledgeGraph):
        return GraphTask.from_graph("graph", source, valid, test, seed)
    from decentrl.data.registry import load_dataset

    if Path(source).is_file():
        return GraphTask.from_graph(
            Path(source).stem, KnowledgeGraph.read(source), valid, test, seed
        )
    task = load_dataset(str(source))
    if not isinstance(task, GraphTask):
        raise InputError(
            f"{source} is two graphs, prediction needs one",
            remedy="`decentrl data list` shows the datasets for prediction",
        )
    return task


def _summary(ranks: Ranks) -> dict[str, float]:
    found = summary(ranks, (1, 3, 10))
    return {name: found[name] for name in ("mrr", "hits@1", "hits@3", "hits@10", "mr")}


def _rows(asked: Queries, ranks: Ranks, task: GraphTask, known: Queries) -> list[dict[str, Any]]:
    """Metrics of all answers and of every group of them."""
    n_relations = asked.n_relations
    kinds = np.repeat(asked.relations, asked.sizes)
    entities, answers = np.repeat(asked.entities, asked.sizes), asked.answers
    relations, backwards = kinds % n_relations, kinds >= n_relations
    groups: list[tuple[str, str, npt.NDArray[np.bool_]]] = [
        ("all", "all", np.ones(len(kinds), bool)),
        ("direction", "tail", ~backwards),
        ("direction", "head", backwards),
    ]
    categories = np.array(relation_categories(known))[relations]
    for name in ("1-1", "1-N", "N-1", "N-N"):
        groups.append(("category", name, categories == name))
    if task.new_entities is not None and len(task.new_entities):
        new = np.zeros(len(task.graph.entities), bool)
        new[task.new_entities] = True
        query, answer = new[entities], new[answers]
        groups += [
            ("open world", "known query, known answer", ~query & ~answer),
            ("open world", "new query, known answer", query & ~answer),
            ("open world", "known query, new answer", ~query & answer),
            ("open world", "new query, new answer", query & answer),
        ]
    for relation in np.unique(relations):
        groups.append(("relation", task.graph.relations[int(relation)], relations == relation))
    return [
        {"group": group, "name": name, "n": int(mask.sum())}
        | _summary(ranks[torch.from_numpy(mask)])
        for group, name, mask in groups
        if mask.any()
    ]
