"""The open world: entities that arrive after training get vectors, and training never sees them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from decentrl.aligner import Aligner, _graphs
from decentrl.data.alignment_task import AlignmentTask
from decentrl.data.registry import load_dataset

QUICK = ("model.dim=16", "training.epochs=2")


@pytest.fixture(scope="module")
def task() -> AlignmentTask:
    found = load_dataset("world", open_world=True)
    assert isinstance(found, AlignmentTask)
    return found


def fit(task: AlignmentTask, *settings: str) -> Aligner:
    return Aligner.from_preset("tiny", *QUICK, *settings, device="cpu").fit(task)


@pytest.fixture(scope="module")
def fitted(task: AlignmentTask) -> Aligner:
    """Nobody changes it."""
    return fit(task)


def unseen(task: AlignmentTask) -> tuple[np.ndarray, np.ndarray]:
    """Entities of left and right without a training triple."""
    graphs = (task.left, task.right)
    left, right = (np.setdiff1d(np.arange(len(g.entities)), g.triples[:, [0, 2]]) for g in graphs)
    return left, right


def encode_again(aligner: Aligner, weights: dict[str, torch.Tensor]) -> torch.Tensor:
    """All vectors, from weights, with the graph that queries see."""
    known, now = _graphs(aligner.task)
    model = aligner._model(known)
    model.load_state_dict(weights)
    return model.encode(aligner._view(now, known))


def test_new_entities_have_vectors_that_say_something(task: AlignmentTask, fitted: Aligner) -> None:
    for side, new in zip(("left", "right"), unseen(task), strict=True):
        graph = getattr(task, side)
        assert len(new) >= 130
        vectors = fitted.embed(graph.entities.take(new), side=side)  # type: ignore[arg-type]
        lengths = np.linalg.norm(vectors, axis=1)
        auxiliary = task.auxiliary[side == "right"] if task.auxiliary else []
        # Of two new entities that only know each other nothing can be said.
        neighbours = {int(t) for h, _, t in auxiliary if h in new and t not in new}
        assert neighbours
        assert (lengths > 0.99).mean() > 0.95
        assert len(np.unique(vectors.round(4), axis=0)) > 0.9 * len(new)


@pytest.mark.parametrize("output", ["layers", "all-layers", "all-layers+input"])
def test_the_input_embedding_of_a_new_entity_has_no_influence(
    task: AlignmentTask, output: str
) -> None:
    aligner = fit(task, f"model.output={output}")
    before = encode_again(aligner, aligner._weights)
    expected = torch.cat([aligner._vectors["left"], aligner._vectors["right"]])
    assert torch.equal(before, expected)
    left, right = unseen(task)
    rows = torch.from_numpy(np.concatenate((left, right + len(task.left.entities))))
    weights = {name: tensor.clone() for name, tensor in aligner._weights.items()}
    weights["entities"][rows] = 1e3 * torch.randn(
        len(rows), 16, generator=torch.Generator().manual_seed(0)
    )
    assert torch.equal(encode_again(aligner, weights), before)
    # … while that of a known one has.
    weights["entities"][torch.from_numpy(task.left.triples[:1, 0])] += 1
    assert not torch.equal(encode_again(aligner, weights), before)


def test_training_never_sees_what_arrives_later(task: AlignmentTask, fitted: Aligner) -> None:
    assert task.auxiliary is not None
    rng = np.random.default_rng(0)

    def shuffled(triples: np.ndarray) -> np.ndarray:
        return np.stack([rng.permutation(column) for column in triples.T], axis=1)

    other = fit(replace(task, auxiliary=tuple(map(shuffled, task.auxiliary))))
    assert other._weights.keys() == fitted._weights.keys()
    for name, tensor in fitted._weights.items():
        assert torch.equal(other._weights[name], tensor), name
    assert [row["loss"] for row in other.history] == [row["loss"] for row in fitted.history]
    # The queries do see it.
    assert not torch.equal(other._vectors["left"], fitted._vectors["left"])


def test_new_entities_did_not_move_in_training(task: AlignmentTask, fitted: Aligner) -> None:
    untrained = fit(task, "training.epochs=0")
    left, right = unseen(task)
    rows = np.concatenate((left, right + len(task.left.entities)))
    start, end = untrained._weights["entities"], fitted._weights["entities"]
    assert torch.equal(start[rows], end[rows])
    moved = (start != end).any(1).numpy()
    assert moved.sum() > 0.9 * (len(start) - len(rows))


def test_results_tell_known_from_unknown(open_run: Path, task: AlignmentTask) -> None:
    rows = json.loads((open_run / "results.json").read_bytes())["results"]
    assert task.unknown is not None
    counts = {"all": 654, "known": int((~task.unknown).sum()), "unknown": int(task.unknown.sum())}
    for row in rows:
        assert row["n"] == counts[row["subset"]]
    groups: dict[tuple[str, ...], dict[str, dict[str, float]]] = {}
    for row in rows:
        place = (row["direction"], row["matcher"], row["candidates"])
        groups.setdefault(place, {})[row["subset"]] = row
    assert len(groups) == 12
    for parts in groups.values():
        assert parts.keys() == counts.keys()
        for name in ("hits@1", "hits@5", "hits@10", "hits@50", "mr", "mrr"):
            mean = sum(counts[s] * parts[s][name] for s in ("known", "unknown")) / counts["all"]
            assert parts["all"][name] == pytest.approx(mean)


def test_new_entities_can_be_matched_from_the_saved_run(
    open_run: Path, task: AlignmentTask
) -> None:
    aligner = Aligner.load(open_run, "cpu")
    new = task.left.entities.take(unseen(task)[0][:5])
    table = aligner.match(new, top=3)
    assert table["left"].to_pylist() == [name for name in new for _ in range(3)]
    assert np.isfinite(table["score"].to_numpy()).all()
    assert set(new) <= set(aligner.match()["left"].to_pylist())
