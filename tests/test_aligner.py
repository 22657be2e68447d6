"""The Aligner as a program uses it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

from decentrl.aligner import Aligner, pick_device
from decentrl.data.alignment_task import AlignmentTask
from decentrl.data.knowledge_graph import KnowledgeGraph
from decentrl.errors import ConfigError, DecentRLError, InputError, UnknownLabelError

QUICK = ("model.dim=8", "training.epochs=3", "training.validate_every=1", "training.batch=7")


def make(*settings: str, seed: int = 0) -> Aligner:
    return Aligner.from_preset("tiny", *QUICK, *settings, seed=seed, device="cpu")


@pytest.fixture(scope="module")
def task(twin_files: dict[str, Path]) -> AlignmentTask:
    return AlignmentTask.read(*(twin_files[name] for name in ("left", "right", "links", "test")))


@pytest.fixture(scope="module")
def fitted(task: AlignmentTask) -> Aligner:
    """Nobody changes it."""
    return make().fit(task)


def vectors(aligner: Aligner) -> torch.Tensor:
    return torch.cat([aligner._vectors["left"], aligner._vectors["right"]])


# Learning


def test_files_graphs_and_a_task_teach_the_same(
    twins: dict[str, list[tuple[str, ...]]],
    twin_files: dict[str, Path],
    task: AlignmentTask,
    fitted: Aligner,
) -> None:
    graphs = [KnowledgeGraph.from_labels(*zip(*twins[x], strict=True)) for x in ("left", "right")]
    links, test = twin_files["links"], twin_files["test"]
    from_files = make().fit(
        twin_files["left"], str(twin_files["right"]), str(links), test_links=test
    )
    from_graphs = make().fit(graphs[0], graphs[1], links, test_links=test)
    for other in (from_files, from_graphs):
        assert torch.equal(vectors(other), vectors(fitted))
        assert other.task.content_hash() == fitted.task.content_hash()
    assert from_files.task.name == task.name == "left-right"


def test_the_same_seed_gives_the_same_bits_and_another_seed_others(
    task: AlignmentTask, fitted: Aligner
) -> None:
    again = make().fit(task)
    assert torch.equal(vectors(again), vectors(fitted))
    assert all(torch.equal(again._weights[name], t) for name, t in fitted._weights.items())
    losses = [[row["loss"] for row in aligner.history] for aligner in (fitted, again)]
    assert losses[0] == losses[1]
    other = make(seed=1).fit(task)
    assert not torch.equal(vectors(other), vectors(fitted))
    assert other.task.valid.tolist() != fitted.task.valid.tolist()


def test_fitting_disturbs_no_random_state(task: AlignmentTask) -> None:
    torch.manual_seed(11)
    np.random.seed(11)
    expected = torch.rand(3), np.random.rand(3)
    torch.manual_seed(11)
    np.random.seed(11)
    first = make().fit(task)
    assert torch.equal(torch.rand(3), expected[0])
    assert np.array_equal(np.random.rand(3), expected[1])
    # … and is disturbed by none.
    assert torch.equal(vectors(make().fit(task)), vectors(first))


def test_a_share_of_the_links_is_held_out_unless_there_are_links_to_validate(
    task: AlignmentTask, twin_files: dict[str, Path], fitted: Aligner
) -> None:
    assert (len(fitted.task.train), len(fitted.task.valid)) == (23, 2)
    assert {tuple(x) for x in (*fitted.task.train, *fitted.task.valid)} == set(
        map(tuple, task.train)
    )
    assert all("valid_hits@1" in row for row in fitted.history)
    none = make("training.valid=0").fit(task)
    assert len(none.task.valid) == 0
    assert not any("valid_hits@1" in row for row in none.history)
    given = make().fit(
        twin_files["left"], twin_files["right"], twin_files["links"],
        valid_links=twin_files["test"],
    )  # fmt: skip
    assert (len(given.task.train), len(given.task.valid)) == (25, 15)


def test_test_links_have_no_influence(task: AlignmentTask, fitted: Aligner) -> None:
    without = make().fit(replace(task, test=task.test[:0]))
    assert torch.equal(vectors(without), vectors(fitted))


def test_the_best_epoch_counts(task: AlignmentTask) -> None:
    long = make("training.epochs=12", "training.patience=2", "training.valid=0.4").fit(task)
    values = [row["valid_hits@1"] for row in long.history]
    best = values.index(max(values)) + 1
    assert best < len(values), "choose settings in which the last epoch is not the best"
    short = make(f"training.epochs={best}", "training.valid=0.4").fit(task)
    assert torch.equal(vectors(long), vectors(short))


def test_too_little_to_learn_from_is_told(task: AlignmentTask, twin_files: dict[str, Path]) -> None:
    with pytest.raises(InputError, match="fit needs two graphs and links; give left, right and"):
        make().fit(twin_files["left"])
    apart = task.left.with_triples(task.left.triples[:1])
    with pytest.raises(InputError, match="no training link joins two entities that have triples"):
        make("training.valid=0").fit(replace(task, left=apart, train=task.train[:1]))


def test_weights_that_are_no_numbers_are_told(task: AlignmentTask) -> None:
    aligner = make("training.learning_rate=1e30")
    with pytest.raises(DecentRLError, match=r"loss is (nan|inf) in epoch \d; lower training.learn"):
        aligner.fit(task)
    with pytest.raises(DecentRLError, match="vectors are not finite; lower training"):
        make("training.learning_rate=1e30", "training.epochs=1", "training.batch=0").fit(task)
    with pytest.raises(ConfigError, match="learned nothing yet"):
        aligner.match()


# Asking


def test_before_fit_everything_says_so(tmp_path: Path) -> None:
    questions: list[Callable[[Aligner], Any]] = [
        lambda a: a.match(),
        lambda a: a.match(["x"]),
        lambda a: a.evaluate(),
        lambda a: a.embed(["x"]),
        lambda a: a.scores(),
        lambda a: a.test_matches(),
        lambda a: a.save(tmp_path / "run"),
        lambda a: a.task,
    ]
    for ask in questions:
        with pytest.raises(ConfigError, match="learned nothing yet; call fit or load first"):
            ask(make())
    assert not list(tmp_path.iterdir())


def test_matches_are_a_table_of_what_no_known_link_names(fitted: Aligner) -> None:
    table, task = fitted.match(), fitted.task
    assert table.schema.names == ["left", "right", "rank", "score"]
    assert [str(kind) for kind in table.schema.types] == ["string", "string", "int32", "float"]
    linked = np.concatenate((task.train, task.valid))
    names = [task.left.entities.take(linked[:, 0]), task.right.entities.take(linked[:, 1])]
    assert len(table) == 40 - len(linked)
    assert sorted(table["left"].to_pylist()) == sorted(set(task.left.entities) - set(names[0]))
    assert not set(table["right"].to_pylist()) & set(names[1])
    assert set(table["rank"].to_pylist()) == {1}


def test_entities_asked_by_name_are_compared_with_the_whole_other_graph(fitted: Aligner) -> None:
    task = fitted.task
    linked = task.left.entities.take(task.train[:3, 0])
    table = fitted.match(linked, top=40)
    assert table["left"].to_pylist() == [name for name in linked for _ in range(40)]
    for i in range(3):
        part = table.slice(40 * i, 40)
        assert set(part["right"].to_pylist()) == set(task.right.entities)
        assert part["rank"].to_pylist() == list(range(1, 41))
        scores = part["score"].to_pylist()
        assert scores == sorted(scores, reverse=True)
    assert fitted.match([linked[1]], top=2)["right"].to_pylist() == (
        table.slice(40, 2)["right"].to_pylist()
    )


@pytest.mark.parametrize("matcher", ["cosine", "csls", "sinkhorn"])
def test_the_score_of_a_pair_is_the_same_from_both_sides(fitted: Aligner, matcher: str) -> None:
    def pairs(side: Any) -> dict[tuple[str, str], float]:
        entities = list(getattr(fitted.task, side).entities)
        table = fitted.match(entities, top=40, side=side, matcher=matcher)
        own = table[side].to_pylist()
        assert own == [name for name in entities for _ in range(40)]
        rows = table.to_pylist()
        return {(row["left"], row["right"]): row["score"] for row in rows}

    left, right = pairs("left"), pairs("right")
    assert len(left) == 1600
    assert left.keys() == right.keys()
    # Row and column are added in the other order.
    assert all(left[pair] == pytest.approx(right[pair], abs=1e-6) for pair in left)


def test_the_matcher_is_the_one_asked_for(fitted: Aligner) -> None:
    entity = fitted.task.left.entities[0]
    tables = {m: fitted.match([entity], top=40, matcher=m) for m in ("cosine", "csls", "sinkhorn")}
    cosine = fitted.embed([entity]) @ fitted.embed(list(fitted.task.right.entities), "right").T
    found = dict(zip(*(tables["cosine"][c].to_pylist() for c in ("right", "score")), strict=True))
    for name, value in zip(fitted.task.right.entities, cosine[0], strict=True):
        assert found[name] == pytest.approx(float(value), abs=1e-6)
    assert fitted.match([entity], top=40).equals(tables["csls"])  # the configured one
    assert not tables["csls"]["score"].equals(tables["cosine"]["score"])
    assert not tables["sinkhorn"]["score"].equals(tables["cosine"]["score"])


def test_asking_for_more_than_there_is_gives_all(fitted: Aligner) -> None:
    assert len(fitted.match(fitted.task.left.entities.take([3]), top=10**6)) == 40


def test_no_question_gets_an_empty_table_of_the_same_kind(fitted: Aligner) -> None:
    assert fitted.match([]).schema.equals(fitted.match().schema)
    assert len(fitted.match([])) == 0


def test_where_every_entity_is_linked_nothing_is_left_to_match(task: AlignmentTask) -> None:
    linked = replace(task, train=np.concatenate((task.train, task.test)), test=task.test[:0])
    table = make("training.epochs=1").fit(linked).match(top=3)
    assert len(table) == 0
    assert table.schema.field("left").type == pa.string()


def test_wrong_questions_are_told(fitted: Aligner, tmp_path: Path) -> None:
    with pytest.raises(UnknownLabelError, match=r"did you mean 'http://left.org/"):
        fitted.match(["http://left.org/I2"])
    with pytest.raises(UnknownLabelError, match="unknown"):
        fitted.embed(["http://left.org/1"], side="right")
    with pytest.raises(ConfigError, match="top is 0; it must be at least 1"):
        fitted.match(top=0)
    with pytest.raises(ConfigError, match="no matcher 'euclid'; there are: cosine, csls, sinkhorn"):
        fitted.match(matcher="euclid")
    for ask in (fitted.match, fitted.embed):
        with pytest.raises(ConfigError, match="no side 'middle'; there are: left, right"):
            ask([], side="middle")  # type: ignore[operator]
    with pytest.raises(InputError, match="no such file"):
        fitted.evaluate(links=tmp_path / "absent.tsv")


def test_vectors_have_length_one(fitted: Aligner) -> None:
    for side in ("left", "right"):
        names = list(getattr(fitted.task, side).entities)
        found = fitted.embed(names, side=side)  # type: ignore[arg-type]
        assert found.shape == (40, 2 * 8)
        assert found.dtype == np.float32
        assert np.allclose(np.linalg.norm(found, axis=1), 1, atol=1e-6)
    assert fitted.embed([]).shape == (0, 16)
    twice = fitted.embed([names[0], names[5], names[0]], side="right")
    assert np.array_equal(twice[0], twice[2])
    assert np.array_equal(twice[1], found[5])


def test_evaluation_gives_every_direction_matcher_and_choice_of_candidates(
    fitted: Aligner,
) -> None:
    rows, ranks = fitted.evaluate()
    places = [(row["direction"], row["matcher"], row["candidates"]) for row in rows]
    assert len(set(places)) == len(places) == 2 * 3 * 2
    assert {row["n"] for row in rows} == {15}
    assert {row["subset"] for row in rows} == {"all"}
    assert sorted(ranks) == ["cosine", "csls", "sinkhorn"]
    only, _ = fitted.evaluate(candidates=("test",))
    assert only == [row for row in rows if row["candidates"] == "test"]


def test_evaluation_equals_counting(fitted: Aligner) -> None:
    task = fitted.task
    left = fitted.embed(task.left.entities.take(task.test[:, 0])).astype(np.float64)
    right = fitted.embed(list(task.right.entities), "right").astype(np.float64)
    scores = left @ right.T
    truth = scores[np.arange(15), task.test[:, 1]][:, None]
    slack = 1e-6 * np.abs(scores).max()
    assert ((np.abs(scores - truth) <= slack).sum(1) == 1).all(), "choose a graph without ties"
    better = (scores > truth + slack).sum(1)
    rows, _ = fitted.evaluate()
    (row,) = [
        row
        for row in rows
        if (row["direction"], row["matcher"], row["candidates"]) == ("left-right", "cosine", "all")
    ]
    assert row["hits@1"] == pytest.approx((better < 1).mean())
    assert row["hits@10"] == pytest.approx((better < 10).mean())
    assert row["mr"] == pytest.approx((better + 1).mean())
    assert row["mrr"] == pytest.approx((1 / (better + 1)).mean())


def test_evaluation_takes_other_links_from_a_file(
    fitted: Aligner, twin_files: dict[str, Path], tmp_path: Path
) -> None:
    assert fitted.evaluate(links=twin_files["test"])[0] == fitted.evaluate()[0]
    some = tmp_path / "some.tsv"
    some.write_text("".join(twin_files["test"].read_text().splitlines(True)[:4]))
    assert {row["n"] for row in fitted.evaluate(links=some)[0]} == {4}
    without = make().fit(*(twin_files[name] for name in ("left", "right", "links")))
    with pytest.raises(InputError, match="there are no test links; give some"):
        without.evaluate()
    assert without.evaluate(links=twin_files["test"])[0] == fitted.evaluate()[0]


def test_test_matches_stand_beside_the_truth(
    fitted: Aligner, twins: dict[str, list[tuple[str, ...]]]
) -> None:
    rows = fitted.test_matches("cosine")
    assert [(row["left"], row["truth"]) for row in rows] == twins["test"]
    targets = {right for _, right in twins["test"]}
    assert all(row["right"] in targets for row in rows)
    assert all(row["correct"] == (row["right"] == row["truth"]) for row in rows)
    for row in rows:
        triples = [t for t in twins["left"] for end in (t[0], t[2]) if end == row["left"]]
        assert row["degree"] == len(triples)
    found, _ = fitted.evaluate()
    hits = next(r["hits@1"] for r in found if r["matcher"] == "cosine")
    assert np.mean([row["correct"] for row in rows]) == pytest.approx(hits)


def test_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert (pick_device("auto").type, pick_device("cpu").type) == ("cpu", "cpu")
    with pytest.raises(ConfigError, match="no CUDA device here; use --device cpu"):
        pick_device("cuda")
    with pytest.raises(ConfigError, match="no device 'tpu'; there are: auto, cpu, cuda"):
        Aligner.from_preset("tiny", device="tpu")
