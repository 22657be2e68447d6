"""Drift is 0 for a graph that has not grown, and rises with what it does not know."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from decentrl import load_dataset
from decentrl.aligner import Aligner
from decentrl.data.alignment_task import AlignmentTask
from decentrl.predictor import Predictor

SMALL = ("model.dim=16", "propagation.dim=32", "propagation.relation_dim=8", "training.epochs=4")


@pytest.fixture(scope="module")
def world() -> AlignmentTask:
    task = load_dataset("world")
    assert isinstance(task, AlignmentTask)
    return task


def grown(task: AlignmentTask, share: float) -> Aligner:
    """An aligner that learned of some left entities, and was told of the others afterwards."""
    graph, rng = task.left, np.random.default_rng(0)
    known = np.ones(len(graph.entities), bool)
    known[rng.permutation(len(known))[: round(share * len(known))]] = False
    inside = known[graph.triples[:, [0, 2]]].all(axis=1)
    part = replace(task, left=replace(graph, triples=graph.triples[inside]))
    aligner = Aligner.from_preset("quick", *SMALL, device="cpu").fit(part)
    names = graph.entities, graph.relations, graph.entities
    later = [
        tuple(v[i] for v, i in zip(names, row, strict=True))
        for row in graph.triples[~inside].tolist()
    ]
    aligner.add(later, side="left")  # type: ignore[arg-type]
    return aligner


def test_it_rises_with_the_share_that_is_induced(world: AlignmentTask) -> None:
    found = [grown(world, share).drift() for share in (0, 0.2, 0.4, 0.6, 0.8)]
    drifts = [drift.drift for drift in found]
    assert drifts[0] == pytest.approx(0, abs=1e-6)
    assert drifts == sorted(drifts)
    assert drifts[1] > 1e-3
    shares = [drift.induced / drift.entities for drift in found]
    assert shares == sorted(shares)
    assert [drift.arrived for drift in found] == sorted(drift.arrived for drift in found)
    for drift in found[1:]:
        assert drift.stale > 0
        assert drift.expected is not None
        assert drift.expected.keys() == {"trained", "induced"}
        assert drift.calibration == {}  # no link was held out to learn it


def test_a_refresh_takes_it_away_and_changes_nothing_else(world: AlignmentTask) -> None:
    aligner = grown(world, 0.3)
    before = aligner.vectors("left").clone()
    assert aligner.drift().drift > 0
    assert torch.equal(aligner.vectors("left"), before)  # looking changes nothing
    aligner.refresh()
    after = aligner.drift()
    assert after.drift == pytest.approx(0, abs=1e-6)
    assert after.induced > 0
    assert after.stale == 0


def test_calibration_is_told_where_it_was_learned(people: list[tuple[str, str, str]]) -> None:
    from decentrl.data.knowledge_graph import KnowledgeGraph

    graph = KnowledgeGraph.from_labels(*zip(*people, strict=True))
    settings = ("model.dim=8", "training.epochs=2")
    predictor = Predictor.from_preset("paper", *settings, device="cpu").fit(graph, test=0.1)
    assert predictor.drift().drift == pytest.approx(0, abs=1e-6)
    predictor.add([("new", "lives in", "city 1"), ("new", "knows", "person 1")])
    drift = predictor.drift()
    assert drift.drift > 0
    assert (drift.induced, drift.arrived) == (1, 2)
    assert drift.stale >= 2
    assert drift.calibration.keys() == {"ece", "mean", "right"}


# Training again


def test_a_warm_start_knows_what_was_learned(world: AlignmentTask) -> None:
    """Even without an epoch's worth of steps it is as good as the refreshed one, or nearly so."""
    aligner = grown(world, 0.2)
    again = aligner.refit(share=0.25)
    assert len(again.history) == 1  # a quarter of four epochs
    assert again.config == aligner.config  # a refit of a refit has as many epochs
    task = again.task
    assert task.auxiliary is None
    assert len(task.left.triples) == len(world.left.triples)
    aligner.refresh()
    cold = Aligner.from_preset("quick", *SMALL, device="cpu").fit(task, share=0.25)
    (warm_hits, kept_hits, cold_hits) = (
        next(r["hits@1"] for r in m.evaluate(("test",)).rows if r["matcher"] == "sinkhorn")
        for m in (again, aligner, cold)
    )
    assert warm_hits > cold_hits
    assert warm_hits > 0.8 * kept_hits


def test_new_links_are_learned_from(world: AlignmentTask, tmp_path: object) -> None:
    from pathlib import Path

    aligner = grown(world, 0.2)
    file = Path(str(tmp_path)) / "more.tsv"
    taken = set(aligner.task.train[:, 0].tolist()) | set(aligner.task.test[:, 0].tolist())
    left = next(i for i in range(len(aligner.task.left.entities)) if i not in taken)
    names = aligner.task.left.entities, aligner.task.right.entities
    i, j = aligner.task.train[0].tolist()
    pairs = [(names[0][left], names[1][0]), (names[0][i], names[1][j])]
    file.write_text("".join(f"{a}\t{b}\n" for a, b in pairs), "utf-8")
    task = aligner.settled_task(file)
    assert len(task.train) == len(aligner.task.train) + 1  # the other was known already


def test_a_predictor_is_refitted_on_all_but_what_is_held_out(
    people: list[tuple[str, str, str]],
) -> None:
    from decentrl.data.knowledge_graph import KnowledgeGraph

    known = [row for row in people if "person 31" not in row]
    graph = KnowledgeGraph.from_labels(*zip(*known, strict=True))
    predictor = Predictor.from_preset("strong", "model.dim=8", "training.epochs=4", device="cpu")
    predictor.fit(graph, test=0.1)
    predictor.add([row for row in people if "person 31" in row])
    again = predictor.refit()
    assert len(again.history) == 2
    assert len(again.task.graph.triples) == len(people) - len(graph.triples) + len(
        predictor.task.graph.triples
    )
    assert np.array_equal(again.task.test, predictor.task.test)
    assert again.predict(head="person 31", relation="lives in").num_rows > 0
