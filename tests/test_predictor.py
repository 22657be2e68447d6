"""The Predictor as a program uses it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

from decentrl.data.graph_task import GraphTask
from decentrl.data.knowledge_graph import KnowledgeGraph
from decentrl.data.open_world import split_graph
from decentrl.errors import ConfigError, InputError, NotFittedError, UnknownLabelError
from decentrl.predictor import Predictor

Rows = list[tuple[str, str, str]]
QUICK = ("model.dim=16", "training.epochs=4", "training.batch=64", "training.validate_every=2")
COLUMNS = ["head", "relation", "tail", "rank", "score", "probability", "known"]


def make(*settings: str, seed: int = 0) -> Predictor:
    return Predictor.from_preset("paper", *QUICK, *settings, seed=seed, device="cpu")


@pytest.fixture(scope="module")
def graph(people: Rows) -> KnowledgeGraph:
    return KnowledgeGraph.from_labels(*zip(*people, strict=True))


@pytest.fixture(scope="module")
def task(graph: KnowledgeGraph) -> GraphTask:
    return GraphTask.from_graph("people", graph, 0.1, 0.1)


@pytest.fixture(scope="module")
def fitted(task: GraphTask) -> Predictor:
    """Nobody changes it."""
    return make().fit(task)


@pytest.fixture
def own(task: GraphTask) -> Predictor:
    """One to change."""
    return make().fit(task)


@pytest.fixture(scope="module")
def opened(graph: KnowledgeGraph) -> Predictor:
    """In an open world; nobody changes it."""
    task = GraphTask.from_graph("people", graph, 0.1, 0.2)
    return make().fit(split_graph(task, 0.2, 0))


def test_a_new_training_forgets_the_checkpoint_of_an_older_one(
    task: GraphTask, tmp_path: Path
) -> None:
    often = "training.checkpoint_every=0"
    make(often).fit(task, run=tmp_path)

    def stop(row: dict[str, Any]) -> None:
        if row["epoch"] == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make(often, seed=1).fit(task, run=tmp_path, on_epoch=stop)
    resumed = make(often, seed=1).fit(task, run=tmp_path, resume=True)
    assert torch.equal(resumed.vectors(), make(often, seed=1).fit(task).vectors())


def test_what_was_said_of_an_older_training_is_not_said_of_a_new_one(
    task: GraphTask, tmp_path: Path
) -> None:
    predictor = make().fit(task)
    predictor.growing.learned = replace(predictor.learned, quality="very good")
    assert predictor.fit(task).learned.quality == ""


def triples(predictor: Predictor, ids: Any) -> Rows:
    graph = predictor.task.graph
    return [(graph.entities[h], graph.relations[r], graph.entities[t]) for h, r, t in ids.tolist()]


def weights(predictor: Predictor) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in predictor.learned.model.state_dict().items()}


# Learning


def test_a_file_a_graph_and_a_task_teach_the_same(
    people_file: Path, graph: KnowledgeGraph, task: GraphTask, fitted: Predictor
) -> None:
    for source in (people_file, str(people_file), graph):
        other = make().fit(source, test=0.1)
        assert other.task.content_hash() == task.content_hash()
        assert torch.equal(other.vectors(), fitted.vectors())


def test_the_same_seed_gives_the_same_bits_and_another_seed_others(
    task: GraphTask, fitted: Predictor
) -> None:
    assert torch.equal(make().fit(task).vectors(), fitted.vectors())
    assert not torch.equal(make(seed=1).fit(task).vectors(), fitted.vectors())


def test_nobody_elses_random_numbers_are_used(task: GraphTask, tmp_path: Path) -> None:
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    predictor = make("training.epochs=1").fit(task)
    predictor.save(tmp_path)
    Predictor.load(tmp_path, "cpu").add([("somebody", "knows", "person 1")])
    assert torch.equal(torch.rand(3), expected)


def test_questions_between_epochs_are_answered_by_what_was_learned_before(
    task: GraphTask, fitted: Predictor
) -> None:
    curious = make("training.epochs=1").fit(task)
    before, asked = curious.vectors().clone(), []
    curious.config = fitted.config
    curious.fit(task, on_epoch=lambda _: asked.append(curious.vectors().clone()))
    assert asked
    assert all(torch.equal(vectors, before) for vectors in asked)
    assert torch.equal(curious.vectors(), fitted.vectors())


def test_a_training_that_fails_leaves_what_was_learned_before(task: GraphTask) -> None:
    predictor = make().fit(task)
    before, growing = predictor.vectors().clone(), predictor.growing

    def fail(_: object) -> None:
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError):
        predictor.fit(task, on_epoch=fail)
    assert predictor.growing is growing
    assert torch.equal(predictor.vectors(), before)


def test_it_learns_what_follows_from_what(task: GraphTask) -> None:
    settings = ("training.epochs=20", "training.learning_rate=0.02", "training.patience=0")
    predictor = make(*settings).fit(task)
    rows = {row["name"]: row for row in predictor.evaluate().rows}
    before = {row["name"]: row for row in make("training.epochs=0").fit(task).evaluate().rows}
    assert rows["all"]["mrr"] > 2 * before["all"]["mrr"]
    assert predictor.history[-1]["loss"] < predictor.history[0]["loss"]


def test_a_named_dataset_will_do_and_two_graphs_will_not() -> None:
    quick = ("training.epochs=1", "training.batch=4096")
    assert make(*quick).fit("world/cldr").task.name == "world/cldr"
    with pytest.raises(InputError, match="world is two graphs, prediction needs one"):
        make().fit("world")


def test_nothing_learned_is_one_clear_line() -> None:
    for ask in (
        lambda p: p.task,
        lambda p: p.predict(head="a", relation="b"),
        lambda p: p.evaluate(),
        lambda p: p.add([("a", "b", "c")]),
        lambda p: p.save("nowhere"),
    ):
        with pytest.raises(NotFittedError, match="this predictor has learned nothing yet"):
            ask(make())


# Answering


def test_answers_are_ranked_and_new(fitted: Predictor) -> None:
    table = fitted.predict(head="person 1", relation="knows", top=5)
    assert table.column_names == COLUMNS
    rows = table.to_pylist()
    assert [row["rank"] for row in rows] == [1, 2, 3, 4, 5]
    assert {(row["head"], row["relation"]) for row in rows} == {("person 1", "knows")}
    scores = [row["score"] for row in rows]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= row["probability"] <= 1 for row in rows)
    chances = [row["probability"] for row in rows]
    assert chances == sorted(chances, reverse=True)
    everything = fitted.predict(head="person 1", relation="knows", top=1000).to_pylist()
    known = {t for h, r, t in triples(fitted, fitted.task.graph.triples)
             if (h, r) == ("person 1", "knows")}  # fmt: skip
    assert known
    # Nobody knows himself in training, so he is no answer either.
    assert {row["tail"] for row in everything} == set(fitted.task.graph.entities) - known - {
        "person 1"
    }
    assert not any(row["known"] for row in everything)


def test_known_answers_are_marked_and_leave_the_others_as_they_are(fitted: Predictor) -> None:
    best_is_known = 0
    for i in range(32):
        asked = {"head": f"person {i}", "relation": "knows", "top": 1000}
        new = {row["tail"]: row for row in fitted.predict(**asked).to_pylist()}
        rows = fitted.predict(**asked, known=True).to_pylist()
        assert len(rows) == len(fitted.task.graph.entities) - 1  # all but the asked one
        best_is_known += rows[0]["known"]
        for row in rows:
            assert row["known"] == (row["tail"] not in new)
            if row["known"]:
                assert row["probability"] is None
            else:
                assert {**row, "rank": 0} == {**new[row["tail"]], "rank": 0}
    assert best_is_known, "choose a graph of which something was learned"


def test_who_has_no_triple_is_no_answer_until_one_arrives(graph: KnowledgeGraph) -> None:
    entities = graph.entities.copy()
    stranger = entities.append(["a stranger"])[0]
    test = np.array([[0, graph.relations.id("knows"), stranger]])
    wider = KnowledgeGraph(entities, graph.relations, graph.triples)
    predictor = make().fit(GraphTask("people", wider, test[:0], test))

    def answers() -> list[str]:
        asked = {"head": "person 1", "relation": "knows", "top": 1000, "known": True}
        return list(predictor.predict(**asked)["tail"].to_pylist())

    assert set(answers()) == set(graph.entities) - {"person 1"}
    predictor.add([("a stranger", "lives in", "city 1")])
    assert set(answers()) == set(entities) - {"person 1"}


def test_an_entity_answers_a_question_about_itself_where_training_has_seen_that() -> None:
    loops = [("a", "likes", "a"), ("b", "likes", "c"), ("a", "near", "b"), ("b", "near", "c")]
    predictor = make().fit(
        GraphTask.from_graph("g", KnowledgeGraph.from_labels(*zip(*loops, strict=True)), 0, 0)
    )
    liked = predictor.predict(head="b", relation="likes", top=9)["tail"].to_pylist()
    near = predictor.predict(head="b", relation="near", top=9)["tail"].to_pylist()
    assert set(liked) == {"a", "b"}
    assert set(near) == {"a"}


def test_what_was_held_out_is_no_news_either(fitted: Predictor) -> None:
    told = triples(fitted, np.concatenate((fitted.task.valid, fitted.task.test)))
    for h, r, t in told:
        assert t not in fitted.predict(head=h, relation=r, top=1000)["tail"].to_pylist()
        assert r not in fitted.predict(head=h, tail=t, top=1000)["relation"].to_pylist()


def test_with_a_table_nobody_new_is_an_answer(task: GraphTask) -> None:
    """Rows of a table that were never trained are 0 or random, which may beat trained ones."""
    predictor = make("model.output=table", "training.epochs=2").fit(task)
    asked = {"head": "person 1", "relation": "knows", "top": 1000}
    before = set(predictor.predict(**asked)["tail"].to_pylist())
    predictor.add([(f"new {i}", "knows", "person 2") for i in range(5)])
    assert set(predictor.predict(**asked)["tail"].to_pylist()) == before
    test = np.array([[0, 0, len(task.graph.entities) + i] for i in range(5)])
    asked_of, ranks = predictor.evaluate(test).ranks
    tails = torch.from_numpy(np.repeat(asked_of.relations, asked_of.sizes) == 0)
    known = {int(t) for h, r, t in task.graph.triples if (h, r) == (0, 0)}
    trained = set(task.graph.triples[:, [0, 2]].ravel().tolist())
    assert int(ranks.better[tails].min()) >= len(trained - known) - 2


def test_a_relation_nobody_trained_answers_nothing() -> None:
    known = [("a", "likes", "b"), ("b", "likes", "c"), ("c", "likes", "a"), ("a", "likes", "c")]
    graph = KnowledgeGraph.from_labels(*zip(*known, ("a", "hates", "b"), strict=True))
    keep = graph.triples[:, 1] == graph.relations.id("likes")
    rest = graph.triples[~keep]
    task = GraphTask("g", graph.with_triples(graph.triples[keep]), rest[:0], rest)
    predictor = make().fit(task)
    assert predictor.predict(head="a", relation="hates").num_rows == 0
    assert predictor.test_predictions()["tail"].to_pylist() == [None, "b"]
    assert predictor.test_predictions()["probability"].null_count == 2
    sure = make().fit(replace(task, valid=task.graph.triples[:1]))
    assert sure.test_predictions()["probability"].to_pylist() == [0.0, 0.0]
    assert predictor.predict(head="b", tail="a")["relation"].to_pylist() == ["likes"]


def test_heads_and_relations_can_be_asked_for(fitted: Predictor) -> None:
    heads = fitted.predict(relation="lies in", tail="country 2", top=3).to_pylist()
    assert {row["tail"] for row in heads} == {"country 2"}
    assert len({row["head"] for row in heads}) == 3
    rows = fitted.predict(head="person 1", tail="person 2", top=99, known=True).to_pylist()
    assert sorted(row["relation"] for row in rows) == list(fitted.task.graph.relations)
    assert [row["rank"] for row in rows] == list(range(1, len(rows) + 1))
    assert {row["probability"] for row in rows} == {None}
    h, r, t = triples(fitted, fitted.task.graph.triples[:1])[0]
    assert r not in fitted.predict(head=h, tail=t, top=99)["relation"].to_pylist()
    told = fitted.predict(head=h, tail=t, top=99, known=True).to_pylist()
    assert {row["relation"]: row["known"] for row in told}[r]


def test_many_questions_are_answered_as_one_by_one(fitted: Predictor) -> None:
    questions = [
        ("person 1", "knows", None),
        (None, "lives in", "city 3"),
        ("person 1", None, "city 3"),
        ("person 4", "knows", None),
    ]
    alone = [fitted.predict(*question, top=4) for question in questions]
    together = fitted.predict_all(questions, top=4)
    for name in ("head", "relation", "tail", "rank", "known"):
        assert (
            together[name].to_pylist()
            == pa.concat_tables(table.to_arrow() for table in alone)[name].to_pylist()
        )
    assert fitted.predict_all([]).num_rows == 0
    assert fitted.predict_all([]).column_names == COLUMNS


def test_mistakes_are_told(fitted: Predictor) -> None:
    with pytest.raises(ConfigError, match="top is 0; it must be at least 1"):
        fitted.predict(head="person 1", relation="knows", top=0)
    for parts in ({}, {"head": "person 1"}, {"head": "x", "relation": "y", "tail": "z"}):
        with pytest.raises(ConfigError, match="leave out exactly one of head, relation and tail"):
            fitted.predict(**parts)
    with pytest.raises(UnknownLabelError, match="'persn 1' is unknown; did you mean 'person 1'"):
        fitted.predict(head="persn 1", relation="knows")
    with pytest.raises(UnknownLabelError, match="'know' is unknown; did you mean 'knows'"):
        fitted.predict(head="person 1", relation="know")


def test_vectors_are_of_the_asked(fitted: Predictor) -> None:
    names = list(fitted.task.graph.entities)
    found = fitted.embed([names[3], names[1]])
    assert found.shape == (2, 16)
    assert np.array_equal(found, fitted.vectors()[[3, 1]].numpy())


# Measuring


def test_every_test_triple_asks_twice(fitted: Predictor) -> None:
    found = fitted.evaluate()
    rows, (asked, ranks) = found.rows, found.ranks
    found = {(row["group"], row["name"]): row for row in rows}
    n = len(fitted.task.test)
    assert found["all", "all"]["n"] == 2 * n == len(asked.answers) == len(ranks)
    assert found["direction", "tail"]["n"] == found["direction", "head"]["n"] == n
    for group in ("category", "relation"):
        assert sum(row["n"] for row in rows if row["group"] == group) == 2 * n
    assert not any(row["group"] == "open world" for row in rows)
    for row in rows:
        assert 0 <= row["hits@1"] <= row["hits@3"] <= row["hits@10"] <= 1 <= row["mr"]
    assert set(fitted.frequency()) == {"mrr", "hits@1", "hits@3", "hits@10", "mr"}


def test_the_open_world_has_cells(opened: Predictor) -> None:
    cells = [row for row in opened.evaluate().rows if row["group"] == "open world"]
    new = set(opened.task.new_entities.tolist())
    counts = {"known query, known answer": 0}
    for head, _, tail in opened.task.test.tolist():
        for asks, answers in ((head, tail), (tail, head)):
            words = ["new" if x in new else "known" for x in (asks, answers)]
            name = f"{words[0]} query, {words[1]} answer"
            counts[name] = counts.get(name, 0) + 1
    assert {row["name"]: row["n"] for row in cells} == {k: n for k, n in counts.items() if n}
    assert len(cells) > 2


def test_other_triples_can_be_given_in_ids_or_as_a_file(fitted: Predictor, tmp_path: Path) -> None:
    chosen = fitted.task.test[:5]
    file = tmp_path / "some.tsv"
    lines = ["\t".join(row) + "\n" for row in triples(fitted, chosen)]
    file.write_text("".join(lines + lines[:1]), "utf-8")
    assert fitted.evaluate(file).rows == fitted.evaluate(chosen).rows
    assert fitted.frequency(file) == fitted.frequency(chosen)
    assert fitted.evaluate(file).rows[0]["n"] == 10
    file.write_text("person 1\tknows\tperson 2\nperson 1\tknows\tperson 99\n", "utf-8")
    with pytest.raises(InputError, match=r"some\.tsv:2: 'person 99' is no known entity; did you"):
        fitted.evaluate(file)


def test_without_test_or_validation_triples_nothing_is_claimed(graph: KnowledgeGraph) -> None:
    predictor = make().fit(graph, valid=0.0, test=0.0)
    with pytest.raises(InputError, match="there are no test triples; hold some out, or give some"):
        predictor.evaluate()
    assert predictor.confidence() == {}
    assert predictor.test_predictions().num_rows == 0
    table = predictor.predict(head="person 1", relation="knows")
    assert table["probability"].null_count == table.num_rows == 10


def test_the_best_answers_of_test_questions_stand_beside_the_truth(fitted: Predictor) -> None:
    task, rows = fitted.task, fitted.test_predictions().to_pylist()
    right: dict[tuple[str, str, str], set[str]] = {}
    for h, r, t in triples(fitted, task.test):
        right.setdefault((h, r, "tail"), set()).add(t)
        right.setdefault((t, r, "head"), set()).add(h)
    assert len(rows) == len(right)
    known = set(triples(fitted, np.concatenate((task.graph.triples, task.valid))))
    for row in rows:
        given, answer = ("head", "tail") if row["asked"] == "tail" else ("tail", "head")
        truth = right.pop((row[given], row["relation"], row["asked"]))
        assert set(row["truth"]) == truth
        assert row["correct"] == (row[answer] in truth)
        assert (row["head"], row["relation"], row["tail"]) not in known
        assert 0 <= row["probability"] <= 1
    assert not right


def test_validation_triples_are_no_answers_to_test_questions(task: GraphTask) -> None:
    """All other answers were validated, so there is but one left."""
    graph = task.graph
    person, knows = graph.entities.id("person 1"), graph.relations.id("knows")
    known = graph.triples[(graph.triples[:, :2] == [person, knows]).all(axis=1), 2]
    others = np.setdiff1d(np.arange(len(graph.entities)), known)
    rows = np.array([[person, knows, tail] for tail in others])
    predictor = make("training.epochs=1").fit(GraphTask("people", graph, rows[1:], rows[:1]))
    (row,) = [r for r in predictor.test_predictions().to_pylist() if r["asked"] == "tail"]
    assert (row["tail"], row["correct"]) == (graph.entities[int(others[0])], True)


def test_confidence_says_what_was_expected_and_what_came(fitted: Predictor) -> None:
    found = fitted.confidence()
    assert list(found) == ["ece", "mean", "right"]
    assert all(0 <= value <= 1 for value in found.values())


# Growing


NEWS = [("newcomer", "lives in", "city 3"), ("person 5", "knows", "newcomer")]


def test_a_new_entity_asks_and_answers_at_once(own: Predictor) -> None:
    before, n = weights(own), len(own.task.graph.entities)
    own.add(NEWS)
    assert own.task.graph.entities[n] == "newcomer"
    assert own.task.new_entities.tolist() == [n]
    asked = own.predict(head="newcomer", relation="citizen of", top=3).to_pylist()
    assert len(asked) == 3
    assert all(np.isfinite(row["score"]) for row in asked)
    answers = own.predict(head="person 6", relation="knows", top=1000)["tail"].to_pylist()
    assert "newcomer" in answers
    assert "newcomer" not in own.predict(head="person 5", relation="knows", top=999)["tail"].to_pylist()  # fmt: skip  # noqa: E501
    # Nothing was trained: what was there is the same, bit for bit.
    for name, tensor in weights(own).items():
        assert torch.equal(tensor[: len(before[name])] if tensor.dim() else tensor, before[name])
    assert float(own.vectors()[n].norm()) == pytest.approx(1, abs=1e-5)


def test_a_neighbour_makes_the_vector_of_who_arrives(own: Predictor) -> None:
    own.add([("a", "lives in", "city 1"), ("b", "lives in", "city 1"), ("c", "lives in", "city 2")])
    a, b, c = own.embed(["a", "b", "c"])
    assert np.allclose(a, b, atol=1e-6)
    assert not np.allclose(a, c, atol=1e-3)


def test_what_is_known_already_changes_nothing(own: Predictor) -> None:
    before = own.vectors().clone()
    own.add(triples(own, own.task.graph.triples[:9]))
    assert torch.equal(own.vectors(), before)
    assert len(own.task.auxiliary) == 0


def test_growing_twice_is_growing_once(task: GraphTask) -> None:
    once, twice = make().fit(task), make().fit(task)
    once.add(NEWS)
    for row in NEWS:
        twice.add([row])
    assert torch.allclose(once.vectors(), twice.vectors(), atol=1e-6)


def test_what_cannot_arrive_leaves_all_as_it_was(own: Predictor) -> None:
    digest, before = own.task.content_hash(), own.vectors().clone()
    for news, says in (
        ([("newcomer", "livs in", "city 3")], "'livs in' is unknown: .*did you mean 'lives in'"),
        ([("newcomer", "lives in")], r"give \(head, relation, tail\)"),
        ([("", "lives in", "city 3")], "row 0 of the triples"),
    ):
        with pytest.raises(InputError, match=says):
            own.add(news, strict=True)
    assert own.task.content_hash() == digest
    assert torch.equal(own.vectors(), before)
    assert "newcomer" not in own.task.graph.entities


# Keeping


@pytest.mark.parametrize("name", ["fitted", "opened"])
def test_what_is_loaded_answers_alike(
    request: pytest.FixtureRequest, tmp_path: Path, name: str
) -> None:
    predictor: Predictor = request.getfixturevalue(name)
    predictor.save(tmp_path)
    loaded = Predictor.load(tmp_path, "cpu")
    assert loaded.config == predictor.config
    assert loaded.task.content_hash() == predictor.task.content_hash()
    assert loaded.evaluate().rows == predictor.evaluate().rows
    assert loaded.frequency() == predictor.frequency()
    assert loaded.confidence() == predictor.confidence()
    assert loaded.test_predictions().equals(predictor.test_predictions())
    for question in (("person 1", "knows", None), (None, "speaks", "language 1"),
                     ("person 2", None, "city 1")):  # fmt: skip
        assert loaded.predict(*question, known=True).equals(
            predictor.predict(*question, known=True)
        )
    # The vectors are kept, and they are those that the weights make.
    (again,) = loaded.learned.encoded()[0].values()
    assert torch.equal(again, predictor.vectors())


def test_what_is_loaded_grows_alike_and_is_kept_again(own: Predictor, tmp_path: Path) -> None:
    own.save(tmp_path / "first")
    loaded = Predictor.load(tmp_path / "first", "cpu")
    for one in (loaded, own):
        one.add(NEWS)
    asked = {"head": "newcomer", "relation": "knows"}
    assert loaded.predict(**asked).equals(own.predict(**asked))
    loaded.save(tmp_path / "second")
    again = Predictor.load(tmp_path / "second", "cpu")
    assert again.predict(**asked).equals(own.predict(**asked))
    assert again.task.open_world


@pytest.mark.parametrize(
    "settings",
    [
        ("model.encoder=reflection", "model.own=add", "decoder.name=distmult"),
        ("model.encoder=none", "decoder.name=rotate"),
        ("model.own=concatenate", "decoder.name=transe"),
        ("model.output=table", "decoder.normalise=false"),
    ],
)
def test_every_model_can_be_kept_and_grown(
    task: GraphTask, tmp_path: Path, settings: tuple[str, ...]
) -> None:
    predictor = make(*settings, "training.epochs=1").fit(task)
    predictor.save(tmp_path)
    loaded = Predictor.load(tmp_path, "cpu")
    asked = {"head": "person 1", "relation": "knows"}
    assert loaded.predict(**asked).equals(predictor.predict(**asked))
    loaded.add(NEWS)
    # Without an encoder nothing can be said of somebody new.
    count = 0 if "model.encoder=none" in settings else 3
    assert loaded.predict(head="newcomer", relation="knows", top=3).num_rows == count
