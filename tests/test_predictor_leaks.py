"""Nothing of the test triples reaches a trained predictor, and all that is true is filtered.

Each change of the left column was made by hand, one at a time; the tests beside it failed.

=======================================  =======================================================
change                                   test that fails
=======================================  =======================================================
fit on train + test (triples or view)    test_other_test_triples_train_the_same
stop early on test                       test_other_test_triples_train_the_same
                                         test_early_stopping_looks_at_validation_alone
calibrate confidence on test             test_other_test_triples_calibrate_the_same
filter validation with test              test_other_test_triples_train_the_same
                                         test_validation_is_the_reference
filter calibration with test             test_other_test_triples_calibrate_the_same
                                         test_calibration_is_the_reference
evaluate without valid or test filtered  test_evaluation_is_the_reference
swap "new query" and "new answer"        test_cells_are_the_reference
switch quoting on in TSV                 test_quotes_in_tsv_are_characters
                                         test_quotes_in_a_tsv_that_is_read_slowly_are_characters
=======================================  =======================================================
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from decentrl.data.graph_task import GraphTask
from decentrl.data.knowledge_graph import KnowledgeGraph
from decentrl.data.open_world import split_graph
from decentrl.data.readers import read_table
from decentrl.growth.prediction_state import view_of
from decentrl.matching.confidence import Confidence, fit_confidence
from decentrl.predictor import Predictor

Rows = list[tuple[str, str, str]]
Triple = tuple[int, int, int]
QUICK = (
    "model.dim=16", "training.epochs=12", "training.batch=64", "training.validate_every=1",
    "training.learning_rate=0.02", "training.patience=0",
)  # fmt: skip
CANDIDATES = 10
"""Answers of a question that calibration looks at."""


def make(*settings: str) -> Predictor:
    return Predictor.from_preset("paper", *QUICK, *settings, device="cpu")


@pytest.fixture(scope="module")
def task(people: Rows) -> GraphTask:
    graph = KnowledgeGraph.from_labels(*zip(*people, strict=True))
    return GraphTask.from_graph("people", graph, 0.1, 0.2)


@pytest.fixture(scope="module")
def open_task(task: GraphTask) -> GraphTask:
    return split_graph(task, 0.3, 0)


@pytest.fixture(scope="module", params=["closed", "open"])
def fitted(request: pytest.FixtureRequest, task: GraphTask, open_task: GraphTask) -> Predictor:
    """Nobody changes it."""
    return make().fit(task if request.param == "closed" else open_task)


def rows_of(*triples: np.ndarray | None) -> set[Triple]:
    return {tuple(row) for part in triples if part is not None for row in part.tolist()}


def other_tests(task: GraphTask) -> dict[str, np.ndarray]:
    """None at all, half of them, and all wrong answers to the validation questions."""
    true = rows_of(task.graph.triples, task.valid, task.test, task.auxiliary)
    n = len(task.graph.entities)
    rivals = {(h, r, x) for h, r, _ in task.valid.tolist() for x in range(n)}
    rivals |= {(x, r, t) for _, r, t in task.valid.tolist() for x in range(n)}
    return {
        "none": task.test[:0],
        "half": task.test[::2],
        "rivals": np.array(sorted(rivals - true), np.int64),
    }


@pytest.fixture(scope="module")
def refitted(fitted: Predictor) -> dict[str, Predictor]:
    """The same trainings with other test triples; nobody changes them."""
    task = fitted.task
    return {name: make().fit(replace(task, test=x)) for name, x in other_tests(task).items()}


def said(history: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: x for name, x in row.items() if name != "seconds"} for row in history]


def calibration(predictor: Predictor) -> dict[str, torch.Tensor]:
    assert predictor.learned.confidence is not None
    return predictor.learned.confidence.to_tensors()


# Leaks


@pytest.mark.parametrize("changed", ["none", "half", "rivals"])
def test_other_test_triples_train_the_same(
    fitted: Predictor, refitted: dict[str, Predictor], changed: str
) -> None:
    again = refitted[changed]
    assert said(again.history) == said(fitted.history)
    assert "valid_mrr" in fitted.history[0]
    ours, others = fitted.learned.model.state_dict(), again.learned.model.state_dict()
    assert ours.keys() == others.keys()
    assert all(torch.equal(ours[name], others[name]) for name in ours)
    assert torch.equal(fitted.vectors(), again.vectors())


@pytest.mark.parametrize("changed", ["none", "half", "rivals"])
def test_other_test_triples_calibrate_the_same(
    fitted: Predictor, refitted: dict[str, Predictor], changed: str
) -> None:
    again = refitted[changed]
    ours, others = calibration(fitted), calibration(again)
    assert all(torch.equal(ours[name], others[name]) for name in ours)


def test_other_test_triples_are_evaluated(
    fitted: Predictor, refitted: dict[str, Predictor]
) -> None:
    """The test of the tests above: what they change does change what is measured."""
    for changed in ("half", "rivals"):
        assert refitted[changed].evaluate()[0] != fitted.evaluate().rows


def test_early_stopping_looks_at_validation_alone(task: GraphTask) -> None:
    """The epoch that is kept is the best by validation, and other test triples keep the same."""
    settings = ("training.epochs=12", "training.patience=2", "training.learning_rate=0.05")
    runs = []
    for test in (task.test, *other_tests(task).values()):
        runs.append(make(*settings).fit(replace(task, test=test)))
    assert len(runs[0].history) < 12, "choose settings that stop early"
    assert all(said(run.history) == said(runs[0].history) for run in runs)
    assert all(torch.equal(run.vectors(), runs[0].vectors()) for run in runs)


def test_files_are_kept_apart(people: Rows, tmp_path: Path) -> None:
    files = {}
    for name, part in (("train", people[20:]), ("valid", people[:10]), ("test", people[10:20])):
        files[name] = tmp_path / f"{name}.tsv"
        files[name].write_text("".join("\t".join(row) + "\n" for row in part), "utf-8")
    task = GraphTask.read(files["train"], files["valid"], files["test"])
    graph = task.graph
    for triples, part in (
        (graph.triples, people[20:]), (task.valid, people[:10]), (task.test, people[10:20])
    ):  # fmt: skip
        labels = {
            (graph.entities[h], graph.relations[r], graph.entities[t])
            for h, r, t in triples.tolist()
        }
        assert labels == set(part)


# Filters: everything again, one triple at a time and in float64.


class Reference:
    """What a predictor would say of questions, by the simplest way and in float64."""

    def __init__(self, predictor: Predictor, later: bool = True) -> None:
        task = predictor.task
        self.task, self.n = task, len(task.graph.entities)
        self.n_relations = len(task.graph.relations)
        self.train = rows_of(task.graph.triples)
        self.now = rows_of(task.graph.triples, task.auxiliary if later else None)
        triples = np.array(sorted(self.now), np.int64)
        self.model = copy.deepcopy(predictor.learned.model).double().eval()
        with torch.no_grad():
            self.vectors = self.model.rows(
                view_of(self.model, triples, task, predictor.device)
            ).vectors
        assert self.vectors.dtype == torch.float64
        self.seen = {x for h, _, t in self.train for x in (h, t)}
        self.present = {x for h, _, t in self.now for x in (h, t)}

    def scores(self, entity: int, kind: int, there: set[int]) -> list[float]:
        """Of all entities; who is not ``there`` is the last."""
        with torch.no_grad():
            asked = torch.tensor([entity]), torch.tensor([kind])
            found = self.model.scores(self.vectors, *asked)[0].tolist()
        lowest = min(found)
        return [x if i in there else lowest for i, x in enumerate(found)]

    def questions(self, triples: Iterable[Triple]) -> set[Triple]:
        """Both questions of each triple: (entity, kind, answer)."""
        both = set()
        for h, r, t in triples:
            both |= {(h, r, t), (t, r + self.n_relations, h)}
        return both

    def ranks(
        self, asked: Iterable[Triple], true: set[Triple], there: set[int]
    ) -> dict[Triple, tuple[int, int]]:
        """For each question and answer, how many are better and how many are tied with it."""
        true = self.questions(true)
        found = {}
        for entity, kind, answer in self.questions(asked):
            scores = self.scores(entity, kind, there)
            slack = 1e-6 * max(abs(x) for x in scores)
            rivals = [
                scores[x] for x in range(self.n) if x == answer or (entity, kind, x) not in true
            ]
            better = sum(x > scores[answer] + slack for x in rivals)
            tied = sum(abs(x - scores[answer]) <= slack for x in rivals)
            found[entity, kind, answer] = better, tied
        return found


def metrics(ranks: Iterable[tuple[int, int]]) -> dict[str, float]:
    """Expected values where tied answers come in any order."""
    each: list[list[float]] = []
    for better, tied in ranks:
        places = np.arange(better + 1, better + tied + 1)
        hits = [(places <= k).mean() for k in (1, 3, 10)]
        each.append([(1 / places).mean(), *hits, places.mean()])
    means = np.mean(each, axis=0).tolist()
    return dict(zip(("mrr", "hits@1", "hits@3", "hits@10", "mr"), means, strict=True))


def agree(found: dict[str, Any], expected: dict[str, float]) -> bool:
    return all(found[name] == pytest.approx(x, abs=1e-9) for name, x in expected.items())


def test_validation_is_the_reference(fitted: Predictor) -> None:
    """Filtered with train and valid alone; who arrives later is nobody yet."""
    task = fitted.task
    once = make("training.epochs=1").fit(task)
    reference = Reference(once, later=False)
    valid = {x for x in rows_of(task.valid) if {x[0], x[2]} <= reference.seen}
    assert valid

    def measured(true: set[Triple]) -> dict[str, float]:
        found = metrics(reference.ranks(valid, true, reference.seen).values())
        return {f"valid_{name}": found[name] for name in ("mrr", "hits@1", "hits@10")}

    true = reference.train | valid
    assert agree(once.history[0], measured(true))
    for wrong in (reference.train, true | rows_of(task.test)):
        assert not agree(once.history[0], measured(wrong)), "choose a graph that tells"


def test_evaluation_is_the_reference(fitted: Predictor) -> None:
    """Filtered with all that is true: train, what came later, valid and test."""
    task, reference = fitted.task, Reference(fitted)
    test, parts = rows_of(task.test), [reference.now, rows_of(task.valid), rows_of(task.test)]
    everything = set[Triple]().union(*parts)
    row = fitted.evaluate().rows[0]
    assert (row["name"], row["n"]) == ("all", 2 * len(test))
    expected = reference.ranks(test, everything, reference.present)
    assert agree(row, metrics(expected.values()))
    for part in parts:
        fewer = reference.ranks(test, everything - part, reference.present)
        assert not agree(row, metrics(fewer.values())), "choose a graph that tells"
    asked, ranks = fitted.evaluate().ranks
    found = zip(
        zip(np.repeat(asked.entities, asked.sizes).tolist(),
            np.repeat(asked.relations, asked.sizes).tolist(), asked.answers.tolist(), strict=True),
        zip(ranks.better.tolist(), ranks.tied.tolist(), strict=True), strict=True,
    )  # fmt: skip
    assert dict(found) == expected


def test_evaluation_of_given_triples_is_the_reference(fitted: Predictor) -> None:
    task, reference = fitted.task, Reference(fitted)
    valid = task.valid[::2]
    everything = reference.now | rows_of(task.valid, task.test)
    expected = reference.ranks(rows_of(valid), everything, reference.present)
    assert agree(fitted.evaluate(valid).rows[0], metrics(expected.values()))


def test_cells_are_the_reference(open_task: GraphTask) -> None:
    """A question about a new entity is a new query; one that a new entity answers, a new answer.

    Every triple of a new and a known entity asks one of each, so their numbers are equal and only
    their metrics tell them apart.
    """
    predictor = make().fit(open_task)
    assert open_task.new_entities is not None
    new, reference = set(open_task.new_entities.tolist()), Reference(predictor)
    everything = reference.now | rows_of(open_task.valid, open_task.test)
    ranks = reference.ranks(rows_of(open_task.test), everything, reference.present)
    cells: dict[str, list[tuple[int, int]]] = {}
    for (entity, _, answer), found in ranks.items():
        kinds = ["new" if x in new else "known" for x in (entity, answer)]
        cells.setdefault(f"{kinds[0]} query, {kinds[1]} answer", []).append(found)
    rows = {x["name"]: x for x in predictor.evaluate().rows if x["group"] == "open world"}
    assert rows.keys() == cells.keys()
    assert len(cells) == 4, "choose a split that has all"
    for name, found in cells.items():
        assert rows[name]["n"] == len(found)
        assert agree(rows[name], metrics(found)), name
    one, two = rows["new query, known answer"], rows["known query, new answer"]
    assert one["n"] == two["n"]
    assert one["mrr"] != pytest.approx(two["mrr"], rel=0.05), "choose a split that tells"


def test_calibration_is_the_reference(fitted: Predictor) -> None:
    """Of every validation question the best answers that training does not know."""
    task, reference = fitted.task, Reference(fitted, later=False)
    valid = {x for x in rows_of(task.valid) if {x[0], x[2]} <= reference.seen}
    told, right = reference.questions(reference.train), reference.questions(valid)
    reflexive = {r for h, r, t in reference.train if h == t}

    def learned(known: set[Triple]) -> Confidence:
        facts, labels = [], []
        for entity, kind in sorted({x[:2] for x in right}):
            scores = torch.tensor(
                reference.scores(entity, kind, reference.seen), dtype=torch.float64
            )
            for x in range(reference.n):
                itself = x == entity and kind % reference.n_relations not in reflexive
                if x not in reference.seen or itself or (entity, kind, x) in known:
                    scores[x] = -torch.inf
            total = scores.logsumexp(0)
            best = scores.argsort(descending=True)[:CANDIDATES].tolist()
            for x in (x for x in best if scores[x].isfinite()):
                facts.append([(scores[x] - total).item(), (scores.max() - total).item()])
                labels.append((entity, kind, x) in right)
        evidence, correct = torch.tensor(facts, dtype=torch.float64), torch.tensor(labels)
        found = fit_confidence(evidence, correct)
        if found.weights[0] < 0:  # a better score must not be worse
            evidence[:, 0] = 0
            found = fit_confidence(evidence, correct)
        return found

    assert fitted.learned.confidence is not None
    expected = learned(told)
    close = {"rtol": 1e-3, "atol": 1e-3}
    found = fitted.learned.confidence
    for name, value in expected.to_tensors().items():
        torch.testing.assert_close(found.to_tensors()[name].double(), value.double(), **close)
    wrong = learned(told | reference.questions(rows_of(task.test)))
    assert not torch.allclose(found.mean, wrong.mean, **close), "choose a graph that tells"


# Quotes in TSV


LABELS = ['"', '""', '"a"', '"a', 'a"', 'a"b', '"a""b"', "a"]


def write(file: Path, rows: Rows) -> Path:
    file.write_text("".join("\t".join(row) + "\n" for row in rows), "utf-8")
    return file


def read(file: Path) -> Rows:
    return list(zip(*(c.to_pylist() for c in read_table(file).columns), strict=True))


def test_quotes_in_tsv_are_characters(tmp_path: Path) -> None:
    """Neither taken away nor closed on another line, whatever label they stand in."""
    every = [(h, r, t) for h, r, t in product(LABELS, repeat=3)]
    assert read(write(tmp_path / "all.tsv", every)) == every
    for a, b in product(LABELS, repeat=2):
        rows = [("x", "r", a), ("y", "r", "z"), (b, "r", "x")]
        assert read(write(tmp_path / "some.tsv", rows)) == rows, (a, b)


def test_quotes_in_a_tsv_that_is_read_slowly_are_characters(tmp_path: Path) -> None:
    long = "x" * 3_000_000  # more than the quick reader takes at once
    for a, b in (('"', '"'), ('"a"', "a"), ('"a', 'b"')):
        rows = [(long, "r", a), ("y", "r", "z"), (b, "r", "x")]
        assert read(write(tmp_path / "long.tsv", rows)) == rows


def test_quotes_reach_the_graph_that_is_learned(tmp_path: Path) -> None:
    rows = [('"a', "r", "b"), ("b", "r", 'c"'), ('"d"', "r", "b"), ("b", "r", "d")]
    graph = KnowledgeGraph.read(write(tmp_path / "graph.tsv", rows))
    assert set(graph.entities) == {'"a', "b", 'c"', '"d"', "d"}
    assert len(graph.triples) == 4
