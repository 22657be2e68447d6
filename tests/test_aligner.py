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

from decentrl.aligner import Aligner
from decentrl.data.alignment_task import AlignmentTask
from decentrl.data.knowledge_graph import KnowledgeGraph
from decentrl.errors import (
    ConfigError,
    DecentRLError,
    InputError,
    NotFittedError,
    UnknownLabelError,
)
from decentrl.matching.matchers import field_matcher
from decentrl.matching.matches import answer, best_pairs
from decentrl.nn.running import pick_device

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


@pytest.fixture(scope="module")
def unsure(task: AlignmentTask) -> Aligner:
    """Right about some entities and wrong about others, and knows it; nobody changes it."""
    settings = ("model.dim=16", "training.valid=0.4")
    return Aligner.from_preset("tiny", *settings, device="cpu").fit(task)


def vectors(aligner: Aligner) -> torch.Tensor:
    return torch.cat([aligner.learned.vectors["left"], aligner.learned.vectors["right"]])


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
    assert all(
        torch.equal(again.learned.weights[name], t) for name, t in fitted.learned.weights.items()
    )
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


def test_a_share_of_the_links_is_held_out_to_evaluate_on(task: AlignmentTask) -> None:
    aligner = make("training.epochs=1").fit(replace(task, test=task.test[:0]), holdout=0.2)
    assert [len(x) for x in (aligner.task.train, aligner.task.test)] == [18, 5]
    known = {tuple(x) for part in (aligner.task.train, aligner.task.valid) for x in part}
    assert not known & {tuple(x) for x in aligner.task.test}
    assert {row["n"] for row in aligner.evaluate().rows} == {5}


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
    with pytest.raises(InputError, match="alignment needs two graphs and links; give left"):
        make().fit(twin_files["left"])
    apart = task.left.with_triples(task.left.triples[:1])
    with pytest.raises(InputError, match="no training link joins two entities that have triples"):
        make("training.valid=0").fit(replace(task, left=apart, train=task.train[:1]))


def test_weights_that_are_no_numbers_are_told(task: AlignmentTask) -> None:
    aligner = make("training.learning_rate=1e30")
    with pytest.raises(DecentRLError, match=r"loss is (nan|inf) in epoch \d; lower training.learn"):
        aligner.fit(task)
    with pytest.raises(NotFittedError, match="learned nothing yet"):
        aligner.match()


@pytest.mark.parametrize("valid", ["0", "0.1"])
def test_a_last_step_to_weights_that_are_no_numbers_is_told(
    task: AlignmentTask, valid: str
) -> None:
    far = ("training.learning_rate=1e30", "training.epochs=1", "training.batch=0")
    with pytest.raises(DecentRLError, match="vectors are not finite; lower training"):
        make(*far, f"training.valid={valid}").fit(task)


# PotentialCache


def test_before_fit_everything_says_so(tmp_path: Path) -> None:
    questions: list[Callable[[Aligner], Any]] = [
        lambda a: a.match(),
        lambda a: a.match(["x"]),
        lambda a: a.evaluate(),
        lambda a: a.embed(["x"]),
        lambda a: a.confidence(),
        lambda a: a.test_matches(),
        lambda a: a.save(tmp_path / "run"),
        lambda a: a.task,
    ]
    for ask in questions:
        with pytest.raises(NotFittedError, match="learned nothing yet; call fit or load first"):
            ask(make())
    assert not list(tmp_path.iterdir())


def test_matches_are_a_table_of_what_no_known_link_names(fitted: Aligner) -> None:
    table, task = fitted.match(), fitted.task
    kinds = {"left": "string", "right": "string", "rank": "int32", "score": "float"}
    assert {field.name: str(field.type) for field in table.schema} == {
        **kinds,
        "confidence": "float",
    }
    linked = np.concatenate((task.train, task.valid))
    names = [task.left.entities.take(linked[:, 0]), task.right.entities.take(linked[:, 1])]
    assert len(table) == 40 - len(linked)
    assert sorted(table["left"].to_pylist()) == sorted(set(task.left.entities) - set(names[0]))
    assert not set(table["right"].to_pylist()) & set(names[1])
    assert set(table["rank"].to_pylist()) == {1}


def open_to(aligner: Aligner, side: str) -> set[str]:
    """The entities of a side that no known link has taken."""
    task = aligner.task
    linked = np.concatenate((task.train, task.valid))[:, int(side == "right")]
    names = getattr(task, side).entities
    return set(names) - set(names.take(linked))


def test_entities_without_a_known_link_are_compared_with_their_like(fitted: Aligner) -> None:
    others = open_to(fitted, "right")
    assert len(others) == 15
    asked = sorted(open_to(fitted, "left"))[:3]
    table = fitted.match(asked, top=40)
    assert table["left"].to_pylist() == [name for name in asked for _ in range(15)]
    for i in range(3):
        part = table.slice(15 * i, 15)
        assert set(part["right"].to_pylist()) == others
        assert part["rank"].to_pylist() == list(range(1, 16))
        scores = part["score"].to_pylist()
        assert scores == sorted(scores, reverse=True)
    assert fitted.match([asked[1]], top=2).equals(table.slice(15, 2))
    # All are matched together, so that one answer does not depend on who else is asked.
    everybody = {row["left"]: row for row in fitted.match().to_pylist()}
    for name in asked:
        assert fitted.match([name]).to_pylist() == [everybody[name]]


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_linked_entity_may_be_asked_too_and_its_counterpart_is_then_to_be_had(
    fitted: Aligner, side: Any
) -> None:
    task, other = fitted.task, "right" if side == "left" else "left"
    own, theirs = (0, 1) if side == "left" else (1, 0)
    links = np.concatenate((task.train[:2], task.valid[:1]))
    asked = getattr(task, side).entities.take(links[:, own])
    counterparts = set(getattr(task, other).entities.take(links[:, theirs]))
    table = fitted.match(asked, top=40, side=side)
    assert table[side].to_pylist() == [name for name in asked for _ in range(18)]
    for i in range(3):
        found = set(table.slice(18 * i, 18)[other].to_pylist())
        assert found == open_to(fitted, other) | counterparts
    # The others' counterparts are taken.
    alone = fitted.match(asked[:1], top=40, side=side)[other].to_pylist()
    truth = getattr(task, other).entities[int(links[0, theirs])]
    assert set(alone) == open_to(fitted, other) | {truth}


def test_a_known_link_is_found_again(task: AlignmentTask) -> None:
    aligner = Aligner.from_preset("propagate", device="cpu").fit(task)
    linked = np.concatenate((aligner.task.train, aligner.task.valid))
    names = [
        graph.entities.take(ids)
        for graph, ids in zip((task.left, task.right), linked.T, strict=True)
    ]
    assert aligner.match(names[0])["right"].to_pylist() == names[1]
    assert aligner.match(names[1], side="right")["left"].to_pylist() == names[0]


def all_pairs(aligner: Aligner, side: Any, matcher: str) -> dict[tuple[str, str], float]:
    entities = list(getattr(aligner.task, side).entities)
    table = aligner.match(entities, top=40, side=side, matcher=matcher)
    assert table[side].to_pylist() == [name for name in entities for _ in range(40)]
    return {(row["left"], row["right"]): row["score"] for row in table.to_pylist()}


@pytest.mark.parametrize("matcher", ["cosine", "csls"])
def test_the_score_of_a_pair_is_the_same_from_both_sides(fitted: Aligner, matcher: str) -> None:
    left, right = (all_pairs(fitted, side, matcher) for side in ("left", "right"))
    assert len(left) == 1600
    assert left.keys() == right.keys()
    # Row and column are added in the other order.
    assert all(left[pair] == pytest.approx(right[pair], abs=1e-6) for pair in left)


@pytest.mark.parametrize("side", ["left", "right"])
def test_an_entity_shares_its_sinkhorn_mass_among_all_candidates(
    fitted: Aligner, side: str
) -> None:
    scores = all_pairs(fitted, side, "sinkhorn")
    mass: dict[str, float] = {}
    for pair, score in scores.items():
        own = pair[side == "right"]
        mass[own] = mass.get(own, 0) + np.exp(score / fitted.config.matching.temperature)
    assert len(mass) == 40
    assert list(mass.values()) == pytest.approx([1.0] * 40, abs=1e-4)


def test_the_matcher_is_the_one_asked_for(fitted: Aligner) -> None:
    entity = min(open_to(fitted, "left"))
    others = sorted(open_to(fitted, "right"))
    tables = {m: fitted.match([entity], top=40, matcher=m) for m in ("cosine", "csls", "sinkhorn")}
    cosine = fitted.embed([entity]) @ fitted.embed(others, "right").T
    found = dict(zip(*(tables["cosine"][c].to_pylist() for c in ("right", "score")), strict=True))
    assert sorted(found) == others
    for name, value in zip(others, cosine[0], strict=True):
        assert found[name] == pytest.approx(float(value), abs=1e-6)
    assert fitted.match([entity], top=40).equals(tables["csls"])  # the configured one
    assert not tables["csls"]["score"].equals(tables["cosine"]["score"])
    assert not tables["sinkhorn"]["score"].equals(tables["cosine"]["score"])


@pytest.mark.parametrize("keep", [0, 3])
def test_asking_for_more_than_there_is_gives_all(task: AlignmentTask, keep: int) -> None:
    aligner = make(f"matching.keep={keep}").fit(task)
    (entity, *_) = sorted(open_to(aligner, "left"))
    table = aligner.match([entity], top=10**6)
    assert set(table["right"].to_pylist()) == open_to(aligner, "right")
    assert len(table) == 15


def test_no_question_gets_an_empty_table_of_the_same_kind(fitted: Aligner) -> None:
    assert fitted.match([]).schema.equals(fitted.match().schema)
    assert len(fitted.match([])) == 0


def test_where_every_entity_is_linked_nothing_is_left_to_match(task: AlignmentTask) -> None:
    linked = replace(task, train=np.concatenate((task.train, task.test)), test=task.test[:0])
    table = make("training.epochs=1").fit(linked).match(top=3)
    assert len(table) == 0
    assert table.schema.field("left").type == pa.string()


def with_one_more(task: AlignmentTask) -> AlignmentTask:
    """All are linked but one entity of the left graph."""
    left = list(task.left.entities)
    triples = [(left[h], task.left.relations[r], left[t]) for h, r, t in task.left.triples.tolist()]
    more = [*triples, ("new", triples[0][1], left[0])]
    graph = KnowledgeGraph.from_labels(*zip(*more, strict=True))
    links = np.concatenate((task.train, task.test))
    names = task.left.entities.take(links[:, 0])
    train = np.stack((graph.entities.ids(names), links[:, 1]), axis=1)
    return AlignmentTask("more", graph, task.right, train, task.test[:0], task.test[:0])


@pytest.mark.parametrize(
    ("settings", "matcher"),
    [
        (["self_training.rounds=0"], "cosine"),
        (["self_training.rounds=0"], "csls"),
        (["self_training.rounds=0", "matching.keep=2"], "sinkhorn"),
        (["self_training.rounds=0"], "sinkhorn"),
        (["self_training.rounds=1"], "csls"),
    ],
)
def test_who_finds_everybody_taken_has_no_match(
    task: AlignmentTask, settings: list[str], matcher: str
) -> None:
    aligner = make(*settings, "training.valid=0", "training.epochs=1").fit(with_one_more(task))
    (row,) = aligner.match(matcher=matcher, top=3).to_pylist()
    assert row == {"left": "new", "right": None, "rank": 1, "score": None, "confidence": None}
    assert len(aligner.match(matcher=matcher, side="right")) == 0


# One match for each, or none


def test_one_label_needs_no_list(unsure: Aligner) -> None:
    label = unsure.match()[0]["left"]
    assert unsure.match(label).equals(unsure.match([label]))


def test_nearest_gives_everybody_somebody(unsure: Aligner) -> None:
    table = unsure.match()
    assert table.equals(unsure.match(assign="nearest"))
    assert table["right"].null_count == 0
    assert len(set(table["right"].to_pylist())) < len(table), "choose settings that make rivals"


@pytest.mark.parametrize("matcher", ["cosine", "csls", "sinkhorn"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_mutual_matches_are_the_best_of_both(unsure: Aligner, side: Any, matcher: str) -> None:
    other = "right" if side == "left" else "left"
    nearest = unsure.match(side=side, matcher=matcher, top=40).to_pylist()
    best_of: dict[str, tuple[float, str]] = {}
    for row in nearest:
        best_of[row[other]] = max(best_of.get(row[other], (-np.inf, "")), (row["score"], row[side]))
    mutual = unsure.match(side=side, matcher=matcher, assign="mutual").to_pylist()
    firsts = [row for row in nearest if row["rank"] == 1]
    assert [row[side] for row in mutual] == [row[side] for row in firsts]
    for row, first in zip(mutual, firsts, strict=True):
        if best_of[first[other]][1] == first[side]:
            assert row == first
        else:
            expected = {side: first[side], other: None}
            assert row == {**expected, "rank": 1, "score": None, "confidence": None}
    assert {row[other] is None for row in mutual} == {True, False}


@pytest.mark.parametrize("matcher", ["cosine", "csls", "sinkhorn"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_one_to_one_uses_nobody_twice_and_the_best_pairs_first(
    unsure: Aligner, side: Any, matcher: str
) -> None:
    other = "right" if side == "left" else "left"
    rows = unsure.match(side=side, matcher=matcher, assign="one-to-one").to_pylist()
    taken = [row[other] for row in rows if row[other] is not None]
    assert len(taken) == len(set(taken))
    mutual = unsure.match(side=side, matcher=matcher, assign="mutual").to_pylist()
    assert all(row in rows for row in mutual if row[other] is not None)
    best = max(unsure.match(side=side, matcher=matcher).to_pylist(), key=lambda row: row["score"])
    assert best in rows


def test_what_speaks_for_the_best_match_says_nothing_of_another(unsure: Aligner) -> None:
    nearest = unsure.match().to_pylist()
    kept, other = 0, 0
    for best, row in zip(nearest, unsure.match(assign="one-to-one").to_pylist(), strict=True):
        if row["right"] == best["right"]:
            assert row["confidence"] == best["confidence"]
            kept += 1
        else:
            assert row["confidence"] is None
            other += row["right"] is not None
    assert kept, "choose settings in which somebody gets the best"
    assert other, "choose settings in which somebody gets another"


@pytest.mark.parametrize("least", [0.0, 0.5, 0.8, 1.0, "fitted"])
@pytest.mark.parametrize("top", [1, 3])
def test_matches_less_sure_than_asked_are_not_given(unsure: Aligner, least: Any, top: int) -> None:
    bound = unsure.confidence()["threshold"] if least == "fitted" else least
    given = unsure.match(top=top).to_pylist()
    sure = {row["left"]: row["confidence"] for row in given if row["rank"] == 1}
    expected: list[dict[str, Any]] = []
    for row in given:
        if sure[row["left"]] >= np.float32(bound):
            expected.append(row)
        elif row["rank"] == 1:  # one row says that there is none
            expected.append({**row, "right": None, "score": None})
    assert unsure.match(top=top, min_confidence=least).to_pylist() == expected
    if least in (0.5, "fitted"):
        assert {row["right"] is None for row in expected} == {True, False}


def test_assignment_and_doubt_go_together(unsure: Aligner) -> None:
    sure = {
        row["left"]: row["right"]
        for row in unsure.match(min_confidence=0.6).to_pylist()
    }  # fmt: skip
    both = unsure.match(assign="mutual", min_confidence=0.6).to_pylist()
    mutual = unsure.match(assign="mutual").to_pylist()
    assert [row["right"] for row in both] == [
        row["right"] if sure[row["left"]] is not None else None for row in mutual
    ]


def test_confidence_is_of_the_first_match_by_the_runs_own_matcher(unsure: Aligner) -> None:
    for row in unsure.match(top=3).to_pylist():
        assert (row["confidence"] is None) == (row["rank"] > 1)
        assert row["confidence"] is None or 0 <= row["confidence"] <= 1
    assert unsure.config.matching.matcher == "csls"
    assert unsure.match(matcher="csls")["confidence"].null_count == 0
    assert unsure.match(matcher="cosine")["confidence"].null_count == 15


def test_without_validation_links_there_is_no_confidence(task: AlignmentTask) -> None:
    aligner = make("training.valid=0").fit(task)
    assert aligner.confidence() == {}
    assert (aligner.rounds, aligner.chosen_rounds) == ([], 0)
    assert aligner.match()["confidence"].null_count == 15
    for least in (0.0, "fitted"):
        with pytest.raises(ConfigError, match=r"no confidence was learned .* \(training\.valid\)"):
            aligner.match(min_confidence=least)  # type: ignore[arg-type]


def test_confidence_is_checked_on_the_test_links(unsure: Aligner, task: AlignmentTask) -> None:
    found = unsure.confidence()
    assert list(found) == ["ece", "mean", "right", "threshold"]
    assert all(0 <= value <= 1 for value in found.values())
    rows = {row["left"]: row for row in unsure.match().to_pylist()}
    test = [
        (rows[task.left.entities[left]], task.right.entities[right])
        for left, right in task.test.tolist()
    ]
    assert found["mean"] == pytest.approx(np.mean([row["confidence"] for row, _ in test]))
    assert found["right"] == pytest.approx(np.mean([row["right"] == truth for row, truth in test]))
    # 15 entities in 15 bins: everybody is a bin.
    gaps = [abs(row["confidence"] - (row["right"] == truth)) for row, truth in test]
    assert found["ece"] == pytest.approx(np.mean(gaps))
    without = make().fit(replace(task, test=task.test[:0]))
    assert without.confidence() == {}


def test_a_test_entity_may_have_a_known_link_too(task: AlignmentTask) -> None:
    """One entity may be in several links, of which some are for training and some to test."""
    last = task.train[task.train[:, 0].argmax()]
    twice = np.concatenate((task.test, [[last[0], task.test[0, 1]]]))
    found = make("training.valid=0.4").fit(replace(task, test=twice)).confidence()
    assert 0 <= found["ece"] <= 1


def test_one_held_out_link_is_enough_where_all_others_are_known(
    twin_files: dict[str, Path], tmp_path: Path
) -> None:
    links = tmp_path / "links.tsv"
    links.write_text(twin_files["links"].read_text() + twin_files["test"].read_text())
    settings = ("model.dim=4", "training.epochs=1", "training.valid=0.025")
    aligner = Aligner.from_preset("tiny", *settings, device="cpu")
    aligner.fit(twin_files["left"], twin_files["right"], links)
    assert len(aligner.task.valid) == 1


# Learning from what was found


def test_self_training_tells_its_rounds_and_keeps_the_best(task: AlignmentTask) -> None:
    few = ("model.dim=4", "propagation.weight=0", "training.epochs=2", "training.valid=0.4")
    settings = (*few, "self_training.rounds=2", "self_training.epochs=1", "self_training.mass=0.1")
    aligner = Aligner.from_preset("strong", *settings, device="cpu").fit(task)
    assert len(aligner.rounds) == 3
    assert all(list(row) == ["hits@1", "hits@10", "mrr"] for row in aligner.rounds)
    values = [row["mrr"] for row in aligner.rounds]
    assert aligner.chosen_rounds == values.index(max(values)) > 0, "choose settings where it helps"
    assert len(aligner.learned.found) > 0
    first = ["", "train-1", "train-2"]
    again = ["refit-0", "refit-1", "refit-2"][: 1 + aligner.chosen_rounds]
    stages = list(dict.fromkeys(row.get("stage", "") for row in aligner.history))
    assert stages == [*first, *again]
    # Nobody's link is found who has a known one.
    known = np.concatenate((aligner.task.train, aligner.task.valid))
    for side in (0, 1):
        assert not set(aligner.learned.found[:, side]) & set(known[:, side])


def test_without_validation_links_all_rounds_are_done(task: AlignmentTask) -> None:
    settings = ("model.dim=8", "training.epochs=1", "training.valid=0", "self_training.epochs=1")
    aligner = Aligner.from_preset("strong", *settings, "self_training.rounds=2", device="cpu")
    aligner.fit(task)
    assert (aligner.rounds, aligner.chosen_rounds) == ([], 2)
    assert [row.get("stage", "") for row in aligner.history] == ["", "train-1", "train-2"]


# Some entities, without matching all


TWO_SIDES = pytest.mark.parametrize("side", ["left", "right"])
EVERY = pytest.mark.parametrize("matcher", ["cosine", "csls", "sinkhorn"])


@EVERY
@TWO_SIDES
def test_one_is_answered_as_among_all(
    task: AlignmentTask, side: Any, matcher: str, tmp_path: Path
) -> None:
    settings = ("model.dim=16", "training.valid=0.4", f"matching.matcher={matcher}")
    aligner = Aligner.from_preset("tiny", *settings, device="cpu").fit(task)
    cosine = aligner._matching._score_unlinked(side, "cosine")[2]
    pairs = best_pairs(cosine, matcher, aligner.config.matching)
    every = answer(*pairs, confidence=aligner.learned.confidence)
    table = aligner.match(side=side)
    assert table["score"].to_pylist() == pytest.approx(every.scores[:, 0].tolist(), abs=1e-4)
    assert table["confidence"].to_pylist() == pytest.approx(every.confidence.tolist(), abs=1e-3)
    aligner.save(tmp_path)
    for one in (aligner, Aligner.load(tmp_path, "cpu")):
        assert [one.match([x], side=side).to_pylist()[0] for x in table[side].to_pylist()] == (
            table.to_pylist()
        )


def refuse(*_: object) -> None:
    raise AssertionError("everything is matched")


@pytest.mark.parametrize("matcher", ["csls", "sinkhorn"])
def test_what_a_full_match_found_out_is_kept_until_vectors_change(
    task: AlignmentTask, matcher: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    aligner = make(f"matching.matcher={matcher}").fit(task)
    expected = aligner.match()
    aligner.save(tmp_path)
    loaded = Aligner.load(tmp_path, "cpu")
    with monkeypatch.context() as patch:
        patch.setattr("decentrl.growth.potentials.apply_matcher", refuse)
        for one in (aligner, loaded):
            assert one.match().equals(expected)
            assert one.match(expected["left"].to_pylist()).equals(expected)
        loaded.add([("new", *NEW_TRIPLE)], side="left")
        loaded.compact()
        assert len(loaded.match(["new"], top=3)) == 3
        loaded.save(tmp_path)
        loaded = Aligner.load(tmp_path / "bundle", "cpu")
        assert len(loaded.match(["new"], top=3)) == 3
        loaded.refresh()
        with pytest.raises(AssertionError, match="everything is matched"):
            loaded.match(["new"])
    assert len(loaded.match(["new"])) == 1


NEW_TRIPLE = ("http://left.org/r0", "http://left.org/3")


@EVERY
@pytest.mark.parametrize("ann", [False, True])
def test_new_entities_ask_and_answer_at_once_and_leave_no_trace(
    unsure: Aligner, matcher: str, ann: bool, tmp_path: Path
) -> None:
    unsure.save(tmp_path)
    aligner = Aligner.load(tmp_path, "cpu")
    asked = sorted(open_to(aligner, "right"))
    options: dict[str, Any] = {"matcher": matcher, "top": 100, "ann": ann}
    before = aligner.match(asked, side="right", **options)
    aligner.add([("new", *NEW_TRIPLE), (NEW_TRIPLE[1], NEW_TRIPLE[0], "new")], side="left")
    after = aligner.match(asked, side="right", **options)
    assert len(after) == len(before) + len(asked)
    assert all(
        "new" in {row["left"] for row in after.to_pylist() if row["right"] == x} for x in asked
    )
    table = aligner.match(["new"], **options)
    settled = aligner.learned.settled
    taken = aligner.task.right.entities.take(settled.pairs[:, 1]) if settled else []
    assert set(table["right"].to_pylist()) == set(asked) - set(taken)
    # All together, the new one as well: almost the same. One alone is asked by the potentials of
    # before, when matches that have settled since were candidates; that is a part of these graphs.
    near = 0.1 if len(taken) else 0.05
    full = aligner.match(matcher=matcher, top=100).to_pylist()
    scores = {row["right"]: row["score"] for row in full if row["left"] == "new"}
    for row in table.to_pylist():
        assert row["score"] == pytest.approx(scores[row["right"]], abs=near)
    aligner.undo()
    again = aligner.match(asked, side="right", **options)
    assert again["score"].to_pylist() == pytest.approx(before["score"].to_pylist(), abs=1e-5)


@EVERY
@TWO_SIDES
def test_an_approximate_index_of_few_entities_misses_none(
    unsure: Aligner, side: Any, matcher: str
) -> None:
    asked = list(getattr(unsure.task, side).entities)
    exact, near = (
        unsure.match(asked, side=side, matcher=matcher, top=5, ann=ann) for ann in (False, True)
    )
    assert near["left"].equals(exact["left"])
    assert near["right"].equals(exact["right"])
    for name in ("score", "confidence"):
        pairs = zip(near[name].to_pylist(), exact[name].to_pylist(), strict=True)
        assert all(a == b if b is None else a == pytest.approx(b, abs=1e-4) for a, b in pairs)


def test_too_many_to_match_all_for_one_is_told(
    task: AlignmentTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("decentrl.growth.potentials.MOST_PAIRS", 100)
    aligner = make().fit(task)
    (entity, *_) = sorted(open_to(aligner, "left"))
    with pytest.raises(ConfigError, match=r"csls has to match all 15 × 15 .* use the matcher cos"):
        aligner.match([entity])
    assert len(aligner.match([entity], matcher="cosine")) == 1
    aligner.match()  # who has the time
    assert len(aligner.match([entity])) == 1


def test_an_approximate_index_answers_about_given_entities_only(task: AlignmentTask) -> None:
    aligner = make("matching.keep=3", "training.epochs=1").fit(task)
    (entity, *_) = sorted(open_to(aligner, "left"))
    for asked, options in ((None, {}), ([entity], {"assign": "mutual"}), ([entity], {})):
        with pytest.raises(ConfigError, match="an approximate index is for questions about given"):
            aligner.match(asked, ann=True, **options)
    assert len(aligner.match([entity], ann=True, matcher="cosine")) == 1


# Presets


def hits(aligner: Aligner) -> float:
    rows = aligner.evaluate(candidates=("all",)).rows
    matcher = field_matcher(aligner.config.matching.matcher)
    return min(row["hits@1"] for row in rows if row["matcher"] == matcher)


def test_the_default_preset_finds_most_of_a_twin(task: AlignmentTask) -> None:
    aligner = Aligner.from_preset("strong", "model.dim=32", device="cpu").fit(task)
    assert hits(aligner) > 0.8  # by chance it would be 0.025
    assert len(aligner.history) == 2 * 15  # once to choose, once with every link


def test_propagation_finds_most_of_a_twin_and_trains_nothing(
    task: AlignmentTask, tmp_path: Path
) -> None:
    aligner = Aligner.from_preset("propagate", device="cpu")
    aligner.fit(task, run=tmp_path)
    assert (aligner.history, aligner.learned.weights) == ([], {})
    assert not list(tmp_path.rglob("checkpoint*"))
    assert hits(aligner) > 0.8
    assert 0 <= aligner.confidence()["ece"] <= 1
    aligner.save(tmp_path)
    assert Aligner.load(tmp_path, "cpu").match(top=3).equals(aligner.match(top=3))


def test_a_refit_learns_from_the_links_that_were_held_out(task: AlignmentTask) -> None:
    few = ("model.dim=8", "training.epochs=2", "training.valid=0.4")
    once, twice = (
        Aligner.from_preset("strong", *few, f"training.refit={refit}", device="cpu").fit(task)
        for refit in ("false", "true")
    )
    assert (len(once.history), len(twice.history)) == (2, 4)
    assert once.rounds == twice.rounds
    assert once.task.valid.tolist() == twice.task.valid.tolist()
    all_links = (*few[:2], "training.valid=0")
    alone = Aligner.from_preset("strong", *all_links, device="cpu").fit(
        replace(task, train=np.concatenate((once.task.train, once.task.valid)))
    )
    assert torch.equal(vectors(alone), vectors(twice))
    assert not torch.equal(vectors(once), vectors(twice))


def test_confidence_and_matches_are_saved_to_the_last_bit(unsure: Aligner, tmp_path: Path) -> None:
    unsure.save(tmp_path)
    loaded = Aligner.load(tmp_path, "cpu")
    assert loaded.confidence() == unsure.confidence()
    for asked in (
        {},
        {"top": 4},
        {"side": "right"},
        {"assign": "mutual"},
        {"assign": "one-to-one", "min_confidence": 0.5},
        {"min_confidence": "fitted"},
    ):
        assert loaded.match(**asked).equals(unsure.match(**asked))  # type: ignore[arg-type]


# Mistakes


def test_wrong_questions_are_told(fitted: Aligner, tmp_path: Path) -> None:
    with pytest.raises(UnknownLabelError, match=r"did you mean 'http://left.org/"):
        fitted.match(["http://left.org/I2"])
    with pytest.raises(UnknownLabelError, match="unknown"):
        fitted.embed(["http://left.org/1"], side="right")
    with pytest.raises(ConfigError, match="top is 0; it must be at least 1"):
        fitted.match(top=0)
    with pytest.raises(ConfigError, match="no matcher 'euclid'; there are: cosine, csls, sinkhorn"):
        fitted.match(matcher="euclid")
    with pytest.raises(ConfigError, match="no assignment 'best'; there are: nearest, mutual, one-"):
        fitted.match(assign="best")  # type: ignore[arg-type]
    for assign in ("mutual", "one-to-one"):
        with pytest.raises(ConfigError, match=f"{assign} assignment has one match for each; use"):
            fitted.match(assign=assign, top=2)  # type: ignore[arg-type]
    for least in (-0.1, 1.1, float("nan")):
        with pytest.raises(ConfigError, match=r"confidence is .*; it must be between 0 and 1"):
            fitted.match(min_confidence=least)
    with pytest.raises(ConfigError, match="match with the run's own matcher"):
        fitted.match(min_confidence=0.5, matcher="cosine")
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
    evaluation = fitted.evaluate()
    rows, ranks = evaluation.rows, evaluation.ranks
    places = [(row["direction"], row["matcher"], row["candidates"]) for row in rows]
    assert len(set(places)) == len(places) == 2 * 3 * 2
    assert {row["n"] for row in rows} == {15}
    assert {row["subset"] for row in rows} == {"all"}
    assert sorted(ranks) == ["cosine", "csls", "sinkhorn"]
    only = fitted.evaluate(candidates=("test",)).rows
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
    rows = fitted.evaluate().rows
    (row,) = [
        row
        for row in rows
        if (row["direction"], row["matcher"], row["candidates"]) == ("left-right", "cosine", "all")
    ]
    assert row["hits@1"] == pytest.approx((better < 1).mean())
    assert row["hits@10"] == pytest.approx((better < 10).mean())
    assert row["mr"] == pytest.approx((better + 1).mean())
    assert row["mrr"] == pytest.approx((1 / (better + 1)).mean())


def test_structure_alone_is_as_without_names_and_names_alone_as_without_structure() -> None:
    few = ("model.dim=6", "propagation.dim=8", "propagation.relation_dim=3", "training.epochs=2")
    rows = {}
    for weight in (0, 0.4, 1):
        settings = (*few, f"names.weight={weight}", "names.translation=0.5")
        made = Aligner.from_preset("strong", *settings).fit("world")
        rows[weight] = [
            [row[metric] for metric in ("n", "hits@1", "mrr")]
            for row in made.evaluate(candidates=("test",)).rows
            if (row["direction"], row["matcher"]) == ("left-right", "sinkhorn")
        ]
        rows[f"{weight} apart"] = made.evaluate_apart()
    assert rows["0 apart"] == rows["1 apart"] == []
    structure, names = rows["0.4 apart"]
    assert (structure["view"], names["view"]) == ("structure", "names")
    assert (structure["matcher"], names["matcher"]) == ("sinkhorn", "sinkhorn")
    for apart, alone in ((structure, rows[0][0]), (names, rows[1][0])):
        assert [apart[name] for name in ("n", "hits@1", "mrr")] == pytest.approx(alone, abs=2e-3)


def test_evaluation_takes_other_links_from_a_file(
    fitted: Aligner, twin_files: dict[str, Path], tmp_path: Path
) -> None:
    assert fitted.evaluate(links=twin_files["test"]).rows == fitted.evaluate().rows
    some = tmp_path / "some.tsv"
    some.write_text("".join(twin_files["test"].read_text().splitlines(True)[:4]))
    assert {row["n"] for row in fitted.evaluate(links=some).rows} == {4}
    without = make().fit(*(twin_files[name] for name in ("left", "right", "links")))
    with pytest.raises(InputError, match="there are no test links; give some"):
        without.evaluate()
    assert without.evaluate(links=twin_files["test"]).rows == fitted.evaluate().rows


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
    found = fitted.evaluate().rows
    hits = next(r["hits@1"] for r in found if r["matcher"] == "cosine")
    assert np.mean([row["correct"] for row in rows]) == pytest.approx(hits)


def test_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert (pick_device("auto").type, pick_device("cpu").type) == ("cpu", "cpu")
    with pytest.raises(ConfigError, match="no CUDA device here; use --device cpu"):
        pick_device("cuda")
    with pytest.raises(ConfigError, match="no device 'tpu'; there are: auto, cpu, cuda"):
        Aligner.from_preset("tiny", device="tpu")


# What Python users expect


def test_a_training_that_fails_leaves_what_was_learned_before(task: AlignmentTask) -> None:
    aligner = make().fit(task)
    before, growing = vectors(aligner).clone(), aligner.growing

    def fail(_: object) -> None:
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError):
        aligner.fit(task, on_epoch=fail)
    assert aligner.growing is growing
    assert torch.equal(vectors(aligner), before)


def test_it_says_what_it_is(task: AlignmentTask) -> None:
    aligner = make("training.epochs=1")
    assert repr(aligner) == "Aligner(preset='tiny', seed=0, not fitted)"
    aligner.fit(task)
    sizes = f"{len(task.left.entities):,} + {len(task.right.entities):,} entities"
    assert repr(aligner) == f"Aligner(preset='tiny', seed=0, fitted on {task.name!r}: {sizes})"


def test_rows_in_memory_teach_what_files_do(
    twins: dict[str, list[tuple[str, ...]]], twin_files: dict[str, Path]
) -> None:
    names = ("left", "right", "links")
    from_files = make("training.epochs=1").fit(*(twin_files[name] for name in names))
    from_rows = make("training.epochs=1").fit(*(twins[name] for name in names))
    assert torch.equal(vectors(from_files), vectors(from_rows))


def test_a_dataset_by_its_name_and_a_device_as_torch_has_it() -> None:
    settings = ("model.dim=8", "training.epochs=1")
    aligner = Aligner.from_preset("tiny", *settings, device=torch.device("cpu")).fit("world")
    assert aligner.task.name == "world"
    found = aligner.evaluate(("test",))
    assert len(found) == len(found.rows) == 6
    assert found.to_pandas()["hits@1"].tolist() == [row["hits@1"] for row in found]
    assert "hits@1" in str(found)


def test_a_library_is_quiet_and_logs_epochs_if_asked(
    task: AlignmentTask, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", logger="decentrl"):
        make("training.epochs=2").fit(task)
    assert len(caplog.records) == 2
    assert capsys.readouterr() == ("", "")
