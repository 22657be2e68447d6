"""How sure matches of newcomers are is learned from entities that are made to arrive late."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from decentrl import Aligner, AlignmentTask, load_dataset
from decentrl.growth import rehearsal
from decentrl.growth.rehearsal import FACTS, PRECISE, GrownConfidence, facts_of, rarest
from decentrl.matching.confidence import FEATURES

FEW = ("model.dim=16", "propagation.dim=32", "propagation.relation_dim=4", "names.weight=0")


@pytest.fixture(scope="module")
def task() -> AlignmentTask:
    found = load_dataset("world")
    assert isinstance(found, AlignmentTask)
    return found


@pytest.fixture(scope="module")
def run(task: AlignmentTask, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rehearsed") / "run"
    settings = (*FEW, "training.valid=0.5", "training.epochs=5")
    Aligner.from_preset("strong", *settings, device="cpu").fit(task).save(folder)
    return folder


def newcomers(aligner: Aligner, count: int = 40) -> list[tuple[str, str, str]]:
    """Each of a left entity's triples alone, told of a newcomer."""
    graph = aligner.task.left
    rows = graph.triples[:: len(graph.triples) // count][:count]
    heads, relations, tails = (
        words.take(column)
        for words, column in zip(
            (graph.entities, graph.relations, graph.entities), rows.T, strict=True
        )
    )
    assert len(set(heads)) > 1
    return [(f"new {i}", r, t) for i, (r, t) in enumerate(zip(relations, tails, strict=True))]


def test_it_is_part_of_the_bundle(run: Path, tmp_path: Path) -> None:
    aligner = Aligner.load(run, "cpu")
    learned = aligner.learned.newcomer
    assert learned is not None
    assert len(learned.weights) == len(FEATURES) + FACTS
    assert learned.precise is not None
    assert learned.threshold != aligner.learned.confidence.threshold
    aligner.save(tmp_path)
    again = Aligner.load(tmp_path, "cpu").learned.newcomer
    for name, tensor in learned.to_tensors().items():
        assert torch.equal(again.to_tensors()[name], tensor)


def test_matches_of_newcomers_are_judged_by_it_and_others_as_before(run: Path) -> None:
    aligner = Aligner.load(run, "cpu")
    aligner.add(newcomers(aligner), side="left")
    rows = {row["left"]: row for row in aligner.match().to_pylist()}
    new = [name for name in rows if name.startswith("new ")]
    assert len(new) == 40
    sure = np.array([rows[name]["confidence"] for name in new])
    # With one triple, and mostly without a counterpart: hardly any can be right.
    assert sure.mean() < 0.2
    careful = {row["left"]: row for row in aligner.match(min_confidence="fitted").to_pylist()}
    least, new_least = aligner.learned.confidence.threshold, aligner.learned.newcomer
    precise = max(new_least.threshold, new_least.precise)
    for name, row in careful.items():
        limit = precise if name.startswith("new ") else least
        if row["right"] is not None:
            assert row["confidence"] >= np.float32(min(limit, 0.8)) - 1e-6
    aligner.growing.learned = replace(aligner.learned, newcomer=None)
    loose = {row["left"]: row["confidence"] for row in aligner.match().to_pylist()}
    assert np.mean([loose[name] for name in new]) != pytest.approx(sure.mean(), abs=1e-3)
    old = [name for name in rows if not name.startswith("new ")]
    assert [loose[name] for name in old] == [rows[name]["confidence"] for name in old]


def test_features_say_how_much_is_known_of_both_and_which_is_new(run: Path) -> None:
    aligner = Aligner.load(run, "cpu")
    aligner.add(newcomers(aligner, 3), side="left")
    graph = aligner.growing.sides["left"]
    mine = np.append(np.arange(3), graph.arrivals.new_entities()[0])
    theirs = np.arange(5)
    found = torch.tensor([0, 4, -1, 2])
    facts, new = facts_of(aligner.growing, "left", mine, theirs, found)
    assert new.tolist() == [False, False, False, True]
    assert facts[:, 2:5].tolist() == [[0, 0, 0], [0, 0, 0], [0, 0, 0], [0, 1, 0]]
    triples = graph.trained.triples[:, [0, 2]]
    assert facts[0, 0].item() == pytest.approx(np.log((triples == 0).sum()))
    assert facts[3, 0].item() == 0  # one triple
    right = aligner.growing.sides["right"].trained.triples[:, [0, 2]]
    assert facts[1, 1].item() == pytest.approx(np.log((right == 4).sum()))
    judge = GrownConfidence(
        aligner.learned.confidence, aligner.learned.newcomer, aligner.growing, "left", mine, theirs
    )
    careful, best = judge.least(found), judge.least(found, precise=False)
    learned = aligner.learned.newcomer
    assert careful[3] == max(learned.precise, learned.threshold)
    assert best[3] == learned.threshold
    assert torch.equal(careful[:3], best[:3])
    # A bundle of an earlier version has fewer features, and a limit that was the same for all.
    few = {x: getattr(learned, x)[: len(FEATURES) + 5] for x in ("weights", "mean", "scale")}
    earlier = replace(learned, **few, precise=None)
    judge = replace(judge, new=earlier)
    assert judge.least(found)[3] == max(PRECISE, learned.threshold)
    assert 0 <= judge.of(found, torch.zeros(4, len(FEATURES)).double())[3] <= 1


@settings(deadline=None)
@given(st.lists(st.tuples(*[st.integers(0, 5), st.integers(0, 2), st.integers(0, 5)]), max_size=20))
def test_the_rarest_triple_is_that_which_the_fewest_entities_have(
    rows: list[tuple[int, int, int]],
) -> None:
    triples = np.array(sorted(set(rows)), np.int64).reshape(-1, 3)
    sayings = [(h, (r, "to", t)) for h, r, t in triples.tolist()]
    sayings += [(t, (r, "from", h)) for h, r, t in triples.tolist()]
    owners: dict[Any, set[int]] = {}
    for entity, said in sayings:
        owners.setdefault(said, set()).add(entity)
    asked = np.array([5, 0, 3, 0])
    expected = [
        min([len(owners[said]) for x, said in sayings if x == entity], default=1)
        for entity in asked.tolist()
    ]
    assert rarest(triples, asked, 6).tolist() == expected


def test_ends_come_late_with_few_triples_among_strangers(
    task: AlignmentTask, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    aligner = Aligner.load(run, "cpu")
    seen = {}

    def look(growing, state, cast):  # type: ignore[no-untyped-def]
        seen.update(growing.sides, cast=cast)

    monkeypatch.setattr(rehearsal, "_learned", look)
    valid = aligner.task.valid
    rehearsal.learn_newcomers(aligner.learned, valid, seed=0)
    cast, pairs = seen["cast"], set(map(tuple, valid.tolist()))
    assert set(map(tuple, cast.linked.tolist())) < pairs
    for i, side in enumerate(("left", "right")):
        graph = seen[side]
        new = set(graph.arrivals.new_entities().tolist())
        own = len((aligner.task.left, aligner.task.right)[i].entities)
        # Some have a triple to nothing but others that come late, and do not come at all.
        ends, strangers = (set(x[i].tolist()) for x in (cast.late, cast.strangers))
        assert {x for x in new if x < own} <= ends | strangers
        assert len(new & ends) > 0.7 * len(ends)
        assert len(new & strangers) > 0.7 * len(strangers)
        there = {*graph.trained.triples[:, [0, 2]].ravel().tolist(), *new}
        assert not there & set(cast.gone[i].tolist())
        assert len({x for x in new if x >= own}) > len(ends)
        triples = graph.arrivals.triples[:, [0, 2]]
        counts = np.bincount(triples.ravel(), minlength=len(graph.entities))[sorted(new)]
        assert counts.min() >= 1
        assert counts.max() <= rehearsal.MOST
        assert np.median(counts) <= 2
    late = [set(x.tolist()) for x in cast.late]
    both = sum(a in late[0] and b in late[1] for a, b in valid.tolist())
    one = sum((a in late[0]) != (b in late[1]) for a, b in valid.tolist())
    assert both == pytest.approx(len(valid) / 5, abs=2)
    assert one == pytest.approx(len(valid) / 5, abs=2)
    # Of all others one end is a stranger, the counterpart of which is gone.
    pairs -= set(map(tuple, cast.linked.tolist()))
    for mine, theirs in ((0, 1), (1, 0)):
        chosen = {link for link in pairs if link[mine] in cast.strangers[mine]}
        assert {link[theirs] for link in chosen} == set(cast.gone[theirs].tolist())


def test_a_match_of_an_old_entity_with_a_stranger_is_an_example_of_a_wrong_one(
    task: AlignmentTask, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Most matches of strangers are claimed by old entities of which nothing is known."""
    aligner, examples = Aligner.load(run, "cpu"), []
    fit = rehearsal.fit_confidence

    def look(features, right, weights):  # type: ignore[no-untyped-def]
        examples.append((features, right, weights))
        return fit(features, right, weights)

    monkeypatch.setattr(rehearsal, "fit_confidence", look)
    rehearsal.learn_newcomers(aligner.learned, aligner.task.valid, seed=0)
    ((features, right, weights),) = examples
    theirs_new = features[:, len(FEATURES) + 4] > 0
    assert theirs_new.sum() > 20
    assert 0 <= right[theirs_new].double().mean() < 0.5
    assert (weights[right] == 1).all()
    assert weights[theirs_new & ~right].max() > 2  # strangers count as often as they arrive


def test_too_few_links_teach_nothing(run: Path) -> None:
    aligner = Aligner.load(run, "cpu")
    assert rehearsal.learn_newcomers(aligner.learned, aligner.task.valid[:99], seed=0) is None
