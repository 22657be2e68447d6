"""The open world: entities that arrive after training get vectors, and training never sees them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open

from decentrl.aligner import Aligner
from decentrl.data.alignment_task import AlignmentTask
from decentrl.data.registry import load_dataset
from decentrl.growth.alignment_state import merged_graphs
from decentrl.training.fitting import TrainingContext
from decentrl.views import make_view

QUICK = ("model.dim=16", "training.epochs=2")
# The default preset in small, with all that may look at a graph before its time.
STRONG = (
    "model.dim=16",
    "loss.entities=256",
    "propagation.dim=16",
    "propagation.relation_dim=8",
    "training.epochs=2",
    "training.batch=200",
    "self_training.rounds=1",
    "self_training.epochs=1",
    "matching.iterations=5",
)


@pytest.fixture(scope="module")
def task() -> AlignmentTask:
    found = load_dataset("world", open_world=True)
    assert isinstance(found, AlignmentTask)
    return found


def fit(task: AlignmentTask, *settings: str) -> Aligner:
    """By structure alone."""
    bare = ("names.weight=0", *QUICK, *settings)
    return Aligner.from_preset("tiny", *bare, device="cpu").fit(task)


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
    known, now = merged_graphs(aligner.task)
    encoder = make_view(aligner.config, known.n_entities, known.n_relations)
    assert encoder is not None
    encoder.load_state_dict(weights)
    context = TrainingContext(known, now, aligner.config, torch.device("cpu"))
    structure = context.structures_of(known.links)["now"].of(encoder)
    return encoder.encode(structure, torch.from_numpy(known.links)).vectors


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
    before = encode_again(aligner, aligner.learned.weights)
    expected = torch.cat([aligner.learned.vectors["left"], aligner.learned.vectors["right"]])
    assert torch.equal(before, expected)
    left, right = unseen(task)
    rows = torch.from_numpy(np.concatenate((left, right + len(task.left.entities))))
    weights = {name: tensor.clone() for name, tensor in aligner.learned.weights.items()}
    weights["entities"][rows] = 1e3 * torch.randn(
        len(rows), 16, generator=torch.Generator().manual_seed(0)
    )
    assert torch.equal(encode_again(aligner, weights), before)
    # … while that of a known one has.
    weights["entities"][torch.from_numpy(task.left.triples[:1, 0])] += 1
    assert not torch.equal(encode_again(aligner, weights), before)


# The default preset


def strong(task: AlignmentTask, run: Path | None = None, *settings: str) -> Aligner:
    return Aligner.from_preset("strong", *STRONG, *settings, device="cpu").fit(task, run=run)


@pytest.fixture(scope="module")
def strong_run(task: AlignmentTask, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What training with the default preset leaves; nobody writes to it."""
    run = tmp_path_factory.mktemp("strong")
    aligner = strong(task, run)
    assert aligner.chosen_rounds == 1, "choose settings in which it learns from found links"
    aligner.save(run)
    return run


def test_new_entities_have_vectors_and_matches_with_the_default_preset(
    task: AlignmentTask, strong_run: Path
) -> None:
    aligner = Aligner.load(strong_run, "cpu")
    for side, new in zip(("left", "right"), unseen(task), strict=True):
        names = getattr(task, side).entities.take(new)
        found = aligner.embed(names, side=side)  # type: ignore[arg-type]
        assert np.isfinite(found).all()
        assert (np.linalg.norm(found, axis=1) > 0.99).mean() > 0.95
        assert len(np.unique(found.round(4), axis=0)) > 0.9 * len(new)
        table = aligner.match(names, side=side)  # type: ignore[arg-type]
        other = "right" if side == "left" else "left"
        assert table[side].to_pylist() == names
        assert (table[other].null_count, table["score"].null_count) == (0, 0)
        assert np.isfinite(table["score"].to_numpy()).all()
        assert np.isfinite(table["confidence"].to_numpy()).all()
    assert task.unknown is not None
    rows = aligner.evaluate(candidates=("test",)).rows
    (row,) = [
        row
        for row in rows
        if (row["direction"], row["matcher"], row["subset"])
        == ("left-right", "sinkhorn", "unknown")
    ]
    assert row["hits@1"] > 10 / len(task.test)  # ten times chance


@pytest.mark.parametrize("induce", ["true", "false"])
def test_the_default_preset_reads_no_input_embedding_of_a_new_entity(
    task: AlignmentTask, induce: str
) -> None:
    settings = (f"distillation.induce={induce}", "propagation.weight=0", "self_training.rounds=0")
    settings += ("names.weight=0",)
    aligner = strong(task, None, *settings, "training.refit=false", "training.epochs=1")
    before = encode_again(aligner, aligner.learned.weights)
    assert torch.equal(
        before, torch.cat([aligner.learned.vectors["left"], aligner.learned.vectors["right"]])
    )
    left, right = unseen(task)
    rows = torch.from_numpy(np.concatenate((left, right + len(task.left.entities))))
    weights = {name: tensor.clone() for name, tensor in aligner.learned.weights.items()}
    weights["encoder.entities"][rows] = 1e3 * torch.randn(
        len(rows), 16, generator=torch.Generator().manual_seed(0)
    )
    assert torch.equal(encode_again(aligner, weights), before)
    # … while that of a known one is read.
    weights["encoder.entities"][torch.from_numpy(task.left.triples[:1, 0])] += 1
    assert not torch.equal(encode_again(aligner, weights), before)


def checkpoints(run: Path) -> dict[str, tuple[dict[str, torch.Tensor], object]]:
    """Of every stage all tensors and what stands beside them, apart from times."""
    found = {}
    for path in sorted(run.rglob("checkpoint.safetensors")):
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            state = json.loads(file.metadata()["state"])
        for row in state["progress"]["history"]:
            del row["seconds"]
        found[str(path.parent.relative_to(run))] = (tensors, state)
    return found


@pytest.mark.parametrize("arrives", ["nothing", "something else"])
def test_no_stage_of_training_sees_what_arrives_later(
    task: AlignmentTask, strong_run: Path, tmp_path: Path, arrives: str
) -> None:
    assert task.auxiliary is not None
    rng = np.random.default_rng(0)
    other = replace(task, auxiliary=None, unknown=None)
    if arrives == "something else":
        left, right = (
            np.stack([rng.permutation(column) for column in triples.T], axis=1)
            for triples in task.auxiliary
        )
        other = replace(task, auxiliary=(left, right))
    without = strong(other, tmp_path)
    expected, found = checkpoints(strong_run), checkpoints(tmp_path)
    stages = ["", "/refit-0", "/refit-1", "/train-1"]
    assert list(expected) == list(found) == [f"checkpoint{stage}" for stage in stages]
    for stage, (tensors, state) in expected.items():
        assert found[stage][1] == state
        assert found[stage][0].keys() == tensors.keys()
        for name, tensor in tensors.items():
            assert torch.equal(found[stage][0][name], tensor), (stage, name)
    with_arrivals = Aligner.load(strong_run, "cpu")
    assert without.learned.found.tolist() == with_arrivals.learned.found.tolist()
    assert without.confidence()["threshold"] == with_arrivals.confidence()["threshold"]
    # The queries do see it.
    new = task.left.entities.take(unseen(task)[0])
    assert not np.array_equal(without.embed(new), with_arrivals.embed(new))


def test_nobody_new_is_linked_by_training(task: AlignmentTask, strong_run: Path) -> None:
    found = Aligner.load(strong_run, "cpu").learned.found
    assert len(found) > 0
    for ids, new in zip(found.T, unseen(task), strict=True):
        assert not set(ids) & set(new)


# The paper's network


def test_training_never_sees_what_arrives_later(task: AlignmentTask, fitted: Aligner) -> None:
    assert task.auxiliary is not None
    rng = np.random.default_rng(0)

    def shuffled(triples: np.ndarray) -> np.ndarray:
        return np.stack([rng.permutation(column) for column in triples.T], axis=1)

    other = fit(replace(task, auxiliary=tuple(map(shuffled, task.auxiliary))))
    assert other.learned.weights.keys() == fitted.learned.weights.keys()
    for name, tensor in fitted.learned.weights.items():
        assert torch.equal(other.learned.weights[name], tensor), name
    assert [row["loss"] for row in other.history] == [row["loss"] for row in fitted.history]
    # The queries do see it.
    assert not torch.equal(other.learned.vectors["left"], fitted.learned.vectors["left"])


def test_new_entities_did_not_move_in_training(task: AlignmentTask, fitted: Aligner) -> None:
    untrained = fit(task, "training.epochs=0")
    left, right = unseen(task)
    rows = np.concatenate((left, right + len(task.left.entities)))
    start, end = untrained.learned.weights["entities"], fitted.learned.weights["entities"]
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
