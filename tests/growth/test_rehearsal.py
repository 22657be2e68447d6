"""How sure matches of newcomers are is learned from entities that are made to arrive late."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from decentrl import Aligner, AlignmentTask, load_dataset
from decentrl.growth import rehearsal
from decentrl.growth.rehearsal import PRECISE, GrownConfidence, facts_of
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
    assert len(learned.weights) == len(FEATURES) + 5
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
    least = aligner.learned.confidence.threshold
    for name, row in careful.items():
        limit = PRECISE if name.startswith("new ") else least
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
    assert facts[:, 2:].tolist() == [[0, 0, 0], [0, 0, 0], [0, 0, 0], [0, 1, 0]]
    triples = graph.trained.triples[:, [0, 2]]
    assert facts[0, 0].item() == pytest.approx(np.log((triples == 0).sum()))
    assert facts[3, 0].item() == 0  # one triple
    right = aligner.growing.sides["right"].trained.triples[:, [0, 2]]
    assert facts[1, 1].item() == pytest.approx(np.log((right == 4).sum()))
    judge = GrownConfidence(
        aligner.learned.confidence, aligner.learned.newcomer, aligner.growing, "left", mine, theirs
    )
    careful, best = judge.least(found), judge.least(found, precise=False)
    assert careful[3] == max(PRECISE, aligner.learned.newcomer.threshold)
    assert best[3] == aligner.learned.newcomer.threshold
    assert torch.equal(careful[:3], best[:3])


def test_ends_come_late_with_few_triples_among_strangers(
    task: AlignmentTask, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    aligner = Aligner.load(run, "cpu")
    seen = {}

    def look(growing, state, valid):  # type: ignore[no-untyped-def]
        seen.update(growing.sides)

    monkeypatch.setattr(rehearsal, "_learned", look)
    valid = aligner.task.valid
    rehearsal.learn_newcomers(aligner.learned, valid, seed=0)
    late = []
    for i, side in enumerate(("left", "right")):
        graph = seen[side]
        new = graph.arrivals.new_entities()
        own = len((aligner.task.left, aligner.task.right)[i].entities)
        ends = new[new < own]
        late.append(set(ends.tolist()))
        assert set(ends) <= set(valid[:, i])
        assert len(new) - len(ends) >= 5 * len(ends)
        triples = graph.arrivals.triples[:, [0, 2]]
        counts = np.bincount(triples.ravel(), minlength=len(graph.entities))[new]
        assert counts.min() >= 1
        assert counts.max() <= rehearsal.MOST
        assert np.median(counts) <= 2
    both = sum(a in late[0] and b in late[1] for a, b in valid.tolist())
    one = sum((a in late[0]) != (b in late[1]) for a, b in valid.tolist())
    assert both == pytest.approx(len(valid) / 4, abs=5)
    assert one == pytest.approx(len(valid) / 4, abs=5)


def test_too_few_links_teach_nothing(run: Path) -> None:
    aligner = Aligner.load(run, "cpu")
    assert rehearsal.learn_newcomers(aligner.learned, aligner.task.valid[:99], seed=0) is None
