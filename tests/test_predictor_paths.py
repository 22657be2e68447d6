"""The Predictor with answers by paths, as a program uses it: learning, growing, keeping."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from decentrl.data.graph_task import GraphTask
from decentrl.data.knowledge_graph import KnowledgeGraph
from decentrl.data.open_world import split_graph
from decentrl.errors import ConfigError, DivergedError, UnknownLabelError
from decentrl.predictor import Predictor
from decentrl.scorers.model import make_scorer

Rows = list[tuple[str, str, str]]
QUICK = (
    "model.dim=8", "model.layers=3", "training.epochs=4", "training.steps=10",
    "training.validate_every=2",
)  # fmt: skip
NEWS = [
    ("newcomer", "lives in", "city 3"), ("person 5", "knows", "newcomer"),
    ("newcomer", "knows", "second"), ("second", "lives in", "city 3"),
]  # fmt: skip


def make(*changes: str, seed: int = 0) -> Predictor:
    return Predictor.from_preset("paths", *QUICK, *changes, seed=seed, device="cpu")


@pytest.fixture(scope="module")
def task(people: Rows) -> GraphTask:
    graph = KnowledgeGraph.from_labels(*zip(*people, strict=True))
    return GraphTask.from_graph("people", graph, 0.1, 0.1)


@pytest.fixture(scope="module")
def fitted(task: GraphTask) -> Predictor:
    return make().fit(task)


@pytest.fixture(scope="module")
def longer(task: GraphTask) -> Predictor:
    """One that has learned something."""
    return make("training.epochs=20", "model.dim=16").fit(task)


@pytest.fixture
def own(fitted: Predictor, tmp_path: Path) -> Predictor:
    """One to change."""
    fitted.save(tmp_path / "own")
    return Predictor.load(tmp_path / "own", "cpu")


def weights(predictor: Predictor) -> dict[str, torch.Tensor]:
    return {name: x.clone() for name, x in predictor.learned.model.state_dict().items()}


def scores(predictor: Predictor, entity: str, relation: str) -> dict[str, float]:
    """Scores of all answers of (entity, relation, ?) by label."""
    graph = predictor.task.graph
    asked = torch.from_numpy(graph.entities.ids([entity]))
    kind = torch.from_numpy(graph.relations.ids([relation]))
    found = predictor._completion.scores(asked, kind)[0].tolist()
    return dict(zip(graph.entities, found, strict=True))


def labels(graph: KnowledgeGraph) -> Rows:
    table = graph.to_arrow().to_pydict()
    return list(zip(*table.values(), strict=True))


def same(mine: Predictor, other: Predictor) -> None:
    for name, tensor in weights(mine).items():
        assert torch.equal(weights(other)[name], tensor), name


# Learning


def test_it_learns_more_than_counting_knows(longer: Predictor) -> None:
    rows = {(row["group"], row["name"]): row for row in longer.evaluate().rows}
    assert rows["all", "all"]["mrr"] > longer.frequency()["mrr"] + 0.1
    assert longer.history[0]["loss"] > longer.history[-1]["loss"]


def test_the_same_seed_gives_the_same_bits(task: GraphTask, fitted: Predictor) -> None:
    same(make().fit(task), fitted)
    other = weights(make(seed=1).fit(task))
    assert not all(torch.equal(other[name], x) for name, x in weights(fitted).items())


def test_a_killed_training_goes_on_to_the_same_end(
    task: GraphTask, fitted: Predictor, tmp_path: Path
) -> None:
    def stop(row: dict[str, Any]) -> None:
        if row["epoch"] == 2:
            raise KeyboardInterrupt

    often = "training.checkpoint_every=0"
    with pytest.raises(KeyboardInterrupt):
        make(often).fit(task, run=tmp_path, on_epoch=stop)
    same(make(often).fit(task, run=tmp_path, resume=True), fitted)


@pytest.mark.parametrize("what", ["none", "other"])
def test_test_triples_are_read_nowhere(task: GraphTask, fitted: Predictor, what: str) -> None:
    """Neither training, nor validation, nor an answer depends on them."""
    test = task.test[:0] if what == "none" else np.flip(task.test, 0) * [1, 0, 1]
    other = make().fit(replace(task, test=np.unique(test, axis=0)))
    same(other, fitted)
    strip = [{k: v for k, v in row.items() if k != "seconds"} for row in fitted.history]
    assert strip == [{k: v for k, v in row.items() if k != "seconds"} for row in other.history]
    assert scores(other, "person 1", "knows") == scores(fitted, "person 1", "knows")


# Growing


def test_an_addition_counts_at_once_and_can_be_taken_back(own: Predictor) -> None:
    before, learned = scores(own, "person 5", "knows"), weights(own)
    own.add(NEWS)
    now = scores(own, "person 5", "knows")
    assert set(now) - set(before) == {"newcomer", "second"}
    assert any(now[name] != score for name, score in before.items())
    answers = own.predict(head="person 6", relation="knows", top=1000)["tail"].to_pylist()
    assert {"newcomer", "second"} <= set(answers)
    assert own.predict(head="newcomer", relation="citizen of", top=3).num_rows == 3
    assert own.predict(tail="second", relation="knows", top=3).num_rows == 3
    own.undo()
    assert scores(own, "person 5", "knows") == before
    for name, tensor in weights(own).items():
        assert torch.equal(tensor, learned[name])


QUESTIONS = [("newcomer", "knows"), ("second", "lives in"), ("person 5", "knows")]


@pytest.fixture(scope="module")
def expected(fitted: Predictor) -> dict[tuple[str, str], dict[str, float]]:
    """Scores by the same weights over the graph as if all had been there from the start."""
    graph = fitted.task.graph
    every = KnowledgeGraph.from_labels(*zip(*labels(graph), *NEWS, strict=True))
    assert list(every.relations) == list(graph.relations)
    task = GraphTask("whole", every, fitted.task.valid[:0], fitted.task.test[:0])
    model = make_scorer(len(every.entities), len(every.relations), fitted.config)
    model.load_state_dict(fitted.learned.model.state_dict())
    vectors = {"": torch.zeros(len(every.entities), 0)}
    made = make()
    made._swap(replace(fitted.learned, task=task, model=model, vectors=vectors))
    return {question: scores(made, *question) for question in QUESTIONS}


@settings(max_examples=15, deadline=None)
@given(order=st.permutations(NEWS), cuts=st.sets(st.integers(1, 3)))
def test_pieces_and_order_do_not_matter(
    fitted: Predictor, expected: dict[Any, dict[str, float]], order: Rows, cuts: set[int]
) -> None:
    """After additions a question has the scores of the same weights over the whole graph."""
    grown = make()
    grown._swap(fitted.learned)
    bounds = [0, *sorted(cuts), len(order)]
    for start, stop in pairwise(bounds):
        grown.add(order[start:stop])
    for question, wanted in expected.items():
        assert scores(grown, *question) == pytest.approx(wanted, abs=1e-5)


def test_new_entities_are_full_members_from_the_start(task: GraphTask) -> None:
    opened = make("training.epochs=20").fit(split_graph(task, 0.2, 0))
    cells = {row["name"]: row["mrr"] for row in opened.evaluate().rows
             if row["group"] == "open world"}  # fmt: skip
    assert len(cells) > 2
    assert min(cells.values()) > 0.15


def test_a_frontier_of_one_learns_and_answers(task: GraphTask) -> None:
    narrow = make("model.frontier=1").fit(task)
    same(make("model.frontier=1").fit(task), narrow)
    assert 0 < narrow.evaluate().rows[0]["mrr"] < 1
    assert narrow.predict(head="person 1", relation="knows", top=3).num_rows == 3
    narrow.add(NEWS)
    answers = narrow.predict(head="newcomer", relation="knows", top=1000)["tail"].to_pylist()
    assert "person 5" in answers
    # What no message reached has one score.
    found = list(scores(narrow, "newcomer", "knows").values())
    assert len(set(found)) < len(found) / 2


def test_a_frontier_of_some_learns_more_than_counting_knows(task: GraphTask) -> None:
    made = make("training.epochs=20", "model.dim=16", "model.frontier=30").fit(task)
    assert made.evaluate().rows[0]["mrr"] > made.frequency()["mrr"] + 0.1


def test_members_are_trained_each_alone(task: GraphTask, fitted: Predictor, tmp_path: Path) -> None:
    """The first is what it would be without the others; a killed training goes on."""

    def stop(row: dict[str, Any]) -> None:
        if (row["stage"], row["epoch"]) == ("2", 2):
            raise KeyboardInterrupt

    often = ("model.members=2", "training.checkpoint_every=0")
    both = make(*often).fit(task)
    assert [row["stage"] for row in both.history] == ["1"] * 4 + ["2"] * 4
    found = weights(both)
    for name, tensor in weights(fitted).items():
        assert torch.equal(found[name], tensor), name
        assert not torch.equal(found[name.replace("network", "more.0")], tensor), name
    with pytest.raises(KeyboardInterrupt):
        make(*often).fit(task, run=tmp_path, on_epoch=stop)
    same(make(*often).fit(task, run=tmp_path, resume=True), both)
    both.save(tmp_path / "run")
    loaded = Predictor.load(tmp_path / "run", "cpu")
    assert loaded.evaluate().rows == both.evaluate().rows


# Keeping


def test_what_is_loaded_answers_and_grows_alike(fitted: Predictor, tmp_path: Path) -> None:
    fitted.save(tmp_path / "run")
    loaded = Predictor.load(tmp_path / "run", "cpu")
    assert loaded.evaluate().rows == fitted.evaluate().rows
    assert loaded.confidence() == fitted.confidence()
    for question in (("person 1", "knows", None), (None, "speaks", "language 1"),
                     ("person 2", None, "city 1")):  # fmt: skip
        assert loaded.predict(*question, known=True).equals(fitted.predict(*question, known=True))
    with Predictor.load(tmp_path / "run", "cpu", durable=True) as writer:
        for row in NEWS:
            writer.add([row])
        found = scores(writer, "newcomer", "knows")
        loaded.sync()
        assert scores(loaded, "newcomer", "knows") == found
        writer.compact()
        assert scores(writer, "newcomer", "knows") == pytest.approx(found, abs=1e-5)
    again = Predictor.load(tmp_path / "run", "cpu")
    assert scores(again, "newcomer", "knows") == pytest.approx(found, abs=1e-5)
    assert again.task.open_world


def test_it_can_be_trained_again_on_all_there_is(own: Predictor) -> None:
    own.add(NEWS)
    again = own.refit()
    assert "newcomer" in again.task.graph.entities
    assert not again.task.open_world
    assert again.predict(head="newcomer", relation="knows", top=2).num_rows == 2


def test_there_are_no_vectors_to_ask_for(own: Predictor) -> None:
    for ask in (
        lambda: own.embed(["person 1"]),
        lambda: own.neighbours("person 1"),
        lambda: own.explain("person 1"),
        lambda: own.drift(),
    ):
        with pytest.raises(ConfigError, match="paths makes no vectors of entities"):
            ask()


# Other graphs


OTHERS = [
    ("Ann", "knows", "Bob"), ("Bob", "knows", "Cleo"), ("Ann", "lives in", "Rome"),
    ("Cleo", "lives in", "Rome"), ("Bob", "lives in", "Oslo"), ("person 1", "knows", "Ann"),
]  # fmt: skip


def test_it_can_be_asked_about_a_graph_of_other_entities(fitted: Predictor) -> None:
    other = fitted.on(OTHERS)
    table = other.predict(head="Ann", relation="knows", top=9).to_pylist()
    assert {row["tail"] for row in table} <= {name for h, _, t in OTHERS for name in (h, t)}
    assert len(table) > 2
    # A relation that this graph lacks, though training has seen it, can be asked for too.
    assert other.predict(head="Ann", relation="speaks", top=2).num_rows == 2
    other.add([("Dora", "knows", "Ann")])
    assert other.predict(head="Dora", relation="lives in", top=1).num_rows == 1
    assert "Ann" not in fitted.task.graph.entities


def test_asked_about_its_own_graph_it_says_the_same(fitted: Predictor) -> None:
    other = fitted.on(labels(fitted.task.graph))
    mine, theirs = (scores(x, "person 1", "knows") for x in (fitted, other))
    assert {name: mine[name] for name in theirs} == pytest.approx(theirs, abs=1e-5)


def test_another_graph_is_evaluated_by_its_own_test_triples(fitted: Predictor) -> None:
    other = fitted.on(OTHERS, test=[("Cleo", "knows", "Ann"), ("Ann", "knows", "person 1")])
    counts = {among: other.evaluate(among=among).rows[0]["n"] for among in ("all", "new", "known")}
    # Of four questions one has the answer that training has seen.
    assert counts == {"all": 4, "new": 3, "known": 1}
    assert other.evaluate(among="known").rows[0]["mrr"] == 1
    few = other.evaluate(negatives=2)
    assert few.rows == other.evaluate(negatives=2).rows
    assert few.rows[0]["mr"] <= 3


def test_unknown_relations_of_another_graph_are_named(fitted: Predictor) -> None:
    with pytest.raises(UnknownLabelError, match=r"'livs in', 'owns'.*did you mean 'lives in'"):
        fitted.on([*OTHERS, ("Ann", "owns", "Bob"), ("Ann", "livs in", "Rome")])


def test_answers_by_vectors_know_their_own_graph_alone(task: GraphTask) -> None:
    vectors = Predictor.from_preset("paper", "model.dim=8", "training.epochs=1").fit(task)
    with pytest.raises(ConfigError, match=r"knows the entities of its own graph alone.*paths"):
        vectors.on(OTHERS)
    with pytest.raises(ConfigError, match="by vectors, not by paths; explain an entity"):
        vectors.explain(head="person 1", relation="knows", tail="person 2")


# Reasons


def test_an_answer_is_explained_by_paths_in_words(longer: Predictor) -> None:
    rows = longer.task.graph.triples[:20].tolist()
    graph, known = longer.task.graph, set(labels(longer.task.graph))
    some = 0
    for h, r, t in rows:
        head, relation, tail = graph.entities[h], graph.relations[r], graph.entities[t]
        found = longer.explain(head=head, relation=relation, tail=tail)
        assert len(found) <= 5
        some += len(found)
        for reason in found:
            steps = [(x.head, x.relation, x.tail) for x in reason.steps]
            assert set(steps) <= known - {(head, relation, tail)}
            assert 0 < reason.share <= 1
            here = head
            for step in reason.steps:
                start, end = (step.head, step.tail) if step.forwards else (step.tail, step.head)
                assert start == here
                here = end
            assert here == tail
            assert reason.text.startswith(head)
            assert reason.text.endswith(tail)
    assert some > 20
    with pytest.raises(UnknownLabelError):
        longer.explain(head="nobody", relation="knows", tail="person 1")


# Bad input


def test_a_model_that_is_not_finite_is_said(own: Predictor) -> None:
    with torch.no_grad():
        own.learned.model.network.score.weight[0, 0] = torch.nan  # type: ignore[union-attr,index]
    with pytest.raises(DivergedError, match="not finite"):
        own.evaluate(own.task.test)


def test_nothing_is_said_of_an_entity_without_an_edge(people: Rows) -> None:
    """Entities that are in held-out triples alone."""
    graph = KnowledgeGraph.from_labels(*zip(*people, ("hermit", "knows", "person 1"), strict=True))
    lonely = graph.entities.id("hermit")
    kept = graph.triples[(graph.triples[:, 0] != lonely)]
    held_out = graph.triples[graph.triples[:, 0] == lonely]
    task = GraphTask("people", graph.with_triples(kept), held_out[:0], held_out)
    predictor = make("training.epochs=1").fit(task)
    assert predictor.predict(head="hermit", relation="knows").num_rows == 0
    answers = predictor.predict(head="person 1", relation="knows", top=999)["tail"].to_pylist()
    assert "hermit" not in answers
    assert 0 < predictor.evaluate().rows[0]["mrr"] < 1
