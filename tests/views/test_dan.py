"""The paper's view: which parts a vector has, and what its training reads and samples."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from decentrl.config import Config
from decentrl.graph.adjacency import Adjacency, Ids
from decentrl.graph.merged import MergedGraph
from decentrl.graph.view import GraphView
from decentrl.views.base import INPUTS, STATES, TrainingData
from decentrl.views.dan import DANObjective, DANView

N, R, D, K = 6, 2, 4, 2
TRIPLES = np.array([(0, 0, 1), (1, 1, 2), (2, 0, 3), (3, 1, 4), (4, 0, 0)], np.int64)
SEEN = np.array([True, True, True, True, False, False])  # 4 is new; 5 has no triple at all


NO_LINKS = torch.empty(0, 2, dtype=torch.int64)
outputs = pytest.mark.parametrize("output", ["layers", "all-layers", "all-layers+input"])


def make(*settings: str) -> DANView:
    torch.manual_seed(0)
    small = (f"model.dim={D}", f"model.layers={K}", "model.hops=one")
    return DANView(Config.from_preset("tiny", (*small, *settings)), N, R)


def vectors_of(model: DANView, structure: GraphView) -> Tensor:
    return model.encode(structure, NO_LINKS).vectors


@pytest.fixture
def view() -> GraphView:
    return GraphView.build([TRIPLES], N, R, layers=K, seen=SEEN)


@pytest.mark.parametrize(
    ("output", "layers", "with_input"),
    [
        ("layers", [1, 2], False),
        ("all-layers", [0, 1, 2], False),
        ("all-layers+input", [0, 1, 2], True),
    ],
)
def test_the_parts_are_the_layers_asked_for(
    output: str, layers: list[int], with_input: bool, view: GraphView
) -> None:
    model = make(f"model.output={output}").eval()
    outputs, parts = model.dan(model.entities, view), model(view)
    assert len(parts) == len(layers) + with_input
    for part, layer in zip(parts, layers, strict=False):
        assert torch.equal(part, outputs[layer])
    assert vectors_of(model, view).shape == (N, model.dim) == (N, D * len(parts))


def test_the_input_part_of_an_unseen_entity_is_zero(view: GraphView) -> None:
    model = make("model.output=all-layers+input")
    own = model(view)[-1]
    assert torch.equal(own[SEEN], model.entities[SEEN])
    assert not own[~SEEN].any()


@outputs
def test_no_vector_notices_the_input_of_an_unseen_entity(output: str, view: GraphView) -> None:
    model = make(f"model.output={output}")
    before = vectors_of(model, view)
    with torch.no_grad():
        model.entities[~SEEN] = 100 * torch.rand(2, D)
    assert torch.equal(vectors_of(model, view), before)


def test_a_new_entity_is_encoded_and_one_without_triples_is_nothing(view: GraphView) -> None:
    lengths = vectors_of(make(), view).norm(dim=1)
    torch.testing.assert_close(lengths, torch.tensor([1.0, 1.0, 1.0, 1.0, 1.0, 0.0]))


@pytest.mark.parametrize("training", [True, False])
def test_encoding_is_without_dropout_and_leaves_the_mode_alone(
    training: bool, view: GraphView
) -> None:
    model = make().train(training)
    once, again = vectors_of(model, view), vectors_of(model, view)
    assert torch.equal(once, again)
    assert not once.requires_grad
    assert all(module.training == training for module in model.modules())


def test_the_mode_is_restored_after_an_error_too() -> None:
    model = make().train()
    with pytest.raises(AttributeError):
        model.encode(None, NO_LINKS)  # type: ignore[arg-type]
    assert model.training


def test_lengths_are_constant_unless_the_input_is_a_part(view: GraphView) -> None:
    def constant(output: str) -> bool:
        parts = make(f"model.output={output}").eval()(view)
        lengths = torch.cat([part.norm(dim=1) for part in parts])
        lengths = lengths[lengths > 0]
        return torch.allclose(lengths, lengths.mean())

    assert constant("layers")
    assert constant("all-layers")
    assert not constant("all-layers+input")


@outputs
def test_memories_hold_every_layer_and_the_trained_inputs(output: str, view: GraphView) -> None:
    model = make(f"model.output={output}").eval()
    rows = model.encode(view, NO_LINKS)
    assert {name: memory.shape[1] for name, memory in rows.memory.items()} == model.memories
    with torch.no_grad():
        layers = model.dan(model.entities, view)
    assert torch.equal(rows.memory[STATES], torch.cat(layers, 1))
    assert torch.equal(rows.memory[INPUTS][SEEN], model.entities[SEEN])
    assert not rows.memory[INPUTS][~SEEN].any()


def test_vectors_are_put_where_they_are_wanted(view: GraphView) -> None:
    model = make()
    place = torch.full((N, model.dim + 3), 7.0)
    model.encode(view, NO_LINKS, place[:, : model.dim])
    assert torch.equal(place[:, : model.dim], vectors_of(model, view))
    assert (place[:, model.dim :] == 7).all()


@pytest.mark.parametrize("output", ["layers", "all-layers"])
def test_the_distillation_head_reads_the_vector_again_from_the_states(
    output: str, view: GraphView
) -> None:
    model = make(f"model.output={output}")
    rows = model.encode(view, NO_LINKS)
    torch.testing.assert_close(model.students(rows.memory[STATES]), rows.vectors)


def test_of_a_newcomer_the_head_reads_no_input(view: GraphView) -> None:
    model = make("model.output=all-layers+input")
    rows = model.encode(view, NO_LINKS)
    read = model.students(rows.memory[STATES])
    assert not read[:, -D:].any()
    torch.testing.assert_close(read[4], rows.vectors[4])  # has no input of its own


@pytest.mark.parametrize(("hops", "reach"), [("one", K + 1), ("alternating", 2 * (K + 1))])
def test_a_triple_reaches_as_far_as_layers_read(hops: str, reach: int) -> None:
    model = make(f"model.hops={hops}")
    assert (model.reach, model.reads_two_hops) == (reach, hops == "alternating")


# Its objective.

SIZE = 12  # entities a side; the last one of each has no triple
LINKS = np.array([(0, 0), (1, 1), (2, 2), (3, 3), (4, SIZE - 1), (5, 5)])


def no_features() -> Tensor:
    raise AssertionError("it reads no features of relations")


def objective_of(*settings: str) -> DANObjective:
    config = Config.from_preset("tiny", ("model.dim=8", *settings))
    rng = np.random.default_rng(1)
    ring = np.array([(i, i % 2, (i + 1) % (SIZE - 1)) for i in range(SIZE - 1)])
    ends = SIZE - 1
    more = np.stack([rng.integers(0, size, 15) for size in (ends, 2, ends)], axis=1)
    triples = np.unique(np.concatenate((ring, more)), axis=0)
    graph = MergedGraph.merge(triples, triples, LINKS, (SIZE, SIZE), (2, 2))
    torch.manual_seed(0)
    model = DANView(config, graph.n_entities, graph.n_relations)
    structure = model.read(graph, graph, torch.device("cpu"))
    return model.objective(structure, TrainingData(graph, graph.links, no_features))


def test_what_has_no_triple_is_neither_pulled_nor_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    objective = objective_of()
    assert objective.links.tolist() == [[i, SIZE + i] for i in (0, 1, 2, 3, 5)]
    assert objective.seen_left.tolist() == list(range(SIZE - 1))
    assert objective.seen_right.tolist() == list(range(SIZE, 2 * SIZE - 1))

    sampled: list[tuple[Ids, Ids]] = []
    original = Adjacency.from_pairs

    def spy(rows: Ids, columns: Ids, n_rows: int, n_columns: int) -> Adjacency:
        sampled.append((rows, columns))
        return original(rows, columns, n_rows, n_columns)

    monkeypatch.setattr(Adjacency, "from_pairs", spy)
    rng = np.random.default_rng(0)
    for _ in range(10):
        objective.loss(objective.links, rng)
    assert len(sampled) == 10
    for rows, columns in sampled:
        assert len(rows) == len(columns) == 5 * objective.config.loss.negatives
        assert set(rows) <= set(objective.seen_left)
        assert set(columns) <= set(objective.seen_right)


def test_an_epoch_takes_every_link_once() -> None:
    objective = objective_of("training.batch=2")
    rng = np.random.default_rng(0)
    first, second = (list(objective.batches(rng)) for _ in range(2))
    assert [len(batch) for batch in first] == [2, 2, 1]
    for epoch in (first, second):
        assert sorted(map(tuple, np.concatenate(epoch))) == sorted(map(tuple, objective.links))
    assert not np.array_equal(np.concatenate(first), np.concatenate(second))


@pytest.mark.parametrize("size", [0, 5, 100])
def test_all_links_in_one_step_need_no_order(size: int) -> None:
    objective = objective_of(f"training.batch={size}")
    (batch,) = objective.batches(np.random.default_rng(0))
    assert np.array_equal(batch, objective.links)


def test_the_loss_depends_on_the_seeds_alone() -> None:
    def loss(seed: int, torch_seed: int) -> float:
        objective = objective_of()
        torch.manual_seed(torch_seed)
        return objective.loss(objective.links, np.random.default_rng(seed)).item()

    assert loss(0, 0) == loss(0, 0)
    assert loss(0, 0) != loss(1, 0)
    assert loss(0, 0) != loss(0, 1)  # dropout


def test_the_loss_reaches_every_seen_input_embedding_and_no_other() -> None:
    objective = objective_of("model.dropout=0", "distillation.variant=none")
    objective.loss(objective.links, np.random.default_rng(0)).backward()
    gradient = objective.model.entities.grad
    assert gradient is not None
    moved = gradient.abs().sum(1) > 0
    assert moved.tolist() == objective.structure.seen.tolist()


def test_the_weight_of_the_distillation_counts() -> None:
    def loss(*settings: str) -> float:
        objective = objective_of(*settings)
        torch.manual_seed(0)
        return objective.loss(objective.links, np.random.default_rng(0)).item()

    alone = loss("distillation.weight=0")
    once, twice = (loss(f"distillation.weight={w}") - alone for w in (0.5, 1.0))
    assert once > 0
    assert twice == pytest.approx(2 * once, rel=1e-4)
