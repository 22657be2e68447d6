"""Graph networks as rivals: layers and losses against their papers' formulas, in loops."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from decentrl.config import Config
from decentrl.graph.merged import MergedGraph
from decentrl.nn.losses import join
from decentrl.views.base import TrainingData
from decentrl.views.registry import view_type
from studies.rivals.alinet import AliNet, GatedLayer, relation_loss
from studies.rivals.centralised import CentralisedModel, CentralisedObjective
from studies.rivals.centralised_view import CentralisedView
from studies.rivals.gat import GAT, SelfAttention
from studies.rivals.gcn import GCNAlign

N, R, D = 8, 3, 5
LEFT = np.array(
    [(0, 0, 1), (1, 1, 2), (2, 0, 3), (3, 1, 0), (0, 1, 2), (1, 0, 3), (0, 0, 3)], np.int64
)
RIGHT = np.array([(0, 0, 1), (1, 0, 2), (2, 0, 0)], np.int64)  # the last one has no triple


@pytest.fixture
def view() -> CentralisedView:
    graph = MergedGraph.merge(LEFT, RIGHT, np.array([(0, 0)]), (4, 4), (2, 1))
    view = CentralisedView.build(graph, two_hop=True)
    far = view.triples  # any graph does; the two-hop graph of so few triples is itself alone
    return CentralisedView(**{**vars(view), "far": far})


NAMES = {GCNAlign: "gcn", GAT: "gat", AliNet: "alinet"}


def new(kind: type[CentralisedModel], n: int, dim: int) -> CentralisedModel:
    return kind(Config.from_preset(NAMES[kind], (f"model.dim={dim}",)), n, R)


def make(kind: type[CentralisedModel]) -> CentralisedModel:
    torch.manual_seed(0)
    return new(kind, N, D).double().eval()


def encode(model: CentralisedModel, view: CentralisedView) -> Tensor:
    return model.encode(view, torch.empty(0, 2, dtype=torch.int64)).vectors


def neighbours(view: CentralisedView, i: int, which: str = "near") -> list[int]:
    graph = getattr(view, which)
    return [c for r, c in zip(graph.rows.tolist(), graph.columns.tolist(), strict=True) if r == i]


def doubled(view: CentralisedView) -> CentralisedView:
    changed = {name: getattr(view, name).double() for name in ("weights", "shares", "signed")}
    return CentralisedView(**{**vars(view), **changed})


def by_row(h: Tensor, i: int, near: list[int], weights: Tensor) -> Tensor:
    total = torch.zeros(h.shape[1], dtype=torch.float64)
    for j, weight in zip(near, weights, strict=True):
        total = total + weight * h[j]
    return total


def test_gcn_averages_and_has_no_maps(view: CentralisedView) -> None:
    view, model = doubled(view), make(GCNAlign)
    matrix = torch.zeros(N, N, dtype=torch.float64)
    matrix[view.near.rows, view.near.columns] = view.weights
    (found,) = model(view)
    expected = matrix @ torch.relu(matrix @ model.entities)
    torch.testing.assert_close(found, expected)
    assert [name for name, _ in model.named_parameters()] == ["entities"]


def test_gat_asks_with_the_entity_itself(view: CentralisedView) -> None:
    model = make(GAT)
    assert isinstance(model, GAT)
    parts = model(view)
    h = model.entities.detach()
    for k, layer in enumerate(model.layers):
        assert isinstance(layer, SelfAttention)
        values = h @ layer.value.weight.T
        a = torch.cat((layer.query_score.weight[0], layer.key_score.weight[0]))
        rows = []
        for i in range(N):
            near = neighbours(view, i)
            assert i in near
            scores = torch.stack([a @ torch.cat((values[i], values[j])) for j in near])
            rows.append(by_row(values, i, near, F.leaky_relu(scores, 0.2).softmax(0)))
        torch.testing.assert_close(parts[k + 1], torch.stack(rows))
        h = F.elu(torch.stack(rows))
    assert torch.equal(parts[0], model.entities)


def test_alinet_gates_near_and_distant_neighbours(view: CentralisedView) -> None:
    view, model = doubled(view), make(AliNet)
    assert isinstance(model, AliNet)
    parts = model(view)
    assert [part.shape[1] for part in parts] == [5, 4, 3]  # as 500, 400 and 300
    h = model.entities.detach()
    for k, layer in enumerate(model.layers):
        assert isinstance(layer, GatedLayer)
        rows = []
        for i in range(N):
            near, far = neighbours(view, i), neighbours(view, i, "far")
            weights = view.weights[view.near.rows == i]
            one = torch.tanh(by_row(h @ layer.near_value.weight.T, i, near, weights))
            query = layer.query.weight @ h[i]
            scores = [F.leaky_relu(query @ (layer.key.weight @ h[j]), 0.2) for j in far]
            alpha = torch.stack(scores).softmax(0) if far else torch.empty(0)
            two = torch.tanh(by_row(h @ layer.far_value.weight.T, i, far, alpha))
            gate = torch.sigmoid(layer.gate.weight @ two + layer.gate.bias)
            rows.append(gate * one + (1 - gate) * two)
        h = torch.stack(rows)
        torch.testing.assert_close(parts[k + 1], h)


def test_alinet_s_embeddings_begin_small_and_those_of_others_with_length_1() -> None:
    largest = new(AliNet, 2000, 20).entities.abs().max().item()
    bound = (6 / (2000 + 20)) ** 0.5  # Glorot's, of a table
    assert 0.99 * bound < largest <= bound
    for kind in (GCNAlign, GAT):
        lengths = new(kind, 2000, 20).entities.norm(dim=1)
        torch.testing.assert_close(lengths, torch.ones(2000))


def test_the_relation_loss_is_the_spread_around_a_relation_s_mean(view: CentralisedView) -> None:
    view, model = doubled(view), make(AliNet)
    parts = model(view)
    vectors = join(parts)
    triples = np.concatenate((LEFT, RIGHT + np.array([4, 2, 4])))
    expected = torch.zeros((), dtype=torch.float64)
    for relation in range(R):
        of_it = triples[triples[:, 1] == relation]
        apart = vectors[of_it[:, 0]] - vectors[of_it[:, 2]]
        expected = expected + (apart - apart.mean(0)).square().sum(1).mean()
    found = relation_loss(parts, view)
    torch.testing.assert_close(found, expected)
    found.backward()
    assert model.entities.grad is not None
    assert model.entities.grad.abs().sum() > 0


@pytest.mark.parametrize("kind", [GCNAlign, GAT, AliNet])
def test_a_vector_notices_the_entity_s_own_embedding(
    kind: type[CentralisedModel], view: CentralisedView
) -> None:
    view, model = doubled(view), make(kind)
    before = encode(model, view)
    torch.testing.assert_close(before.norm(dim=1), torch.ones(N, dtype=torch.float64))
    with torch.no_grad():
        model.entities[7] = -model.entities[7]  # alone in the graph: nobody else notices
    moved = (encode(model, view) - before).abs().amax(1)
    assert moved[7] > 0.1
    assert moved[:7].max() == 0


# Their objective.

SIZE = 20  # entities a side; the last one of each has no triple


def no_features() -> Tensor:
    raise AssertionError("it reads no features of relations")


def objective_of(name: str, **constants: float) -> CentralisedObjective:
    """Two graphs that are the same, and a model some of whose constants are others."""
    ring = np.array([(i, i % 2, (i + 1) % (SIZE - 1)) for i in range(SIZE - 1)])
    links = np.stack((np.arange(8), np.arange(8)), 1)
    links = np.concatenate((links, [(9, SIZE - 1)]))
    graph = MergedGraph.merge(ring, ring, links, (SIZE, SIZE), (2, 2))
    torch.manual_seed(0)
    model = view_type(name)(Config.from_preset(name, ("model.dim=10",)), 2 * SIZE, 4)
    assert isinstance(model, CentralisedModel)
    for constant, value in constants.items():
        assert hasattr(model, constant)
        setattr(model, constant, value)
    structure = model.read(graph, graph, torch.device("cpu"))
    return model.objective(structure, TrainingData(graph, graph.links, no_features))


@pytest.mark.parametrize("hardness", [1, 4])
def test_wrong_counterparts_are_seen_entities_of_the_same_side(hardness: int) -> None:
    objective = objective_of("gcn", hardness=hardness, negatives=3)
    assert len(objective.links) == 8  # one link's right end has no triple
    links = torch.from_numpy(objective.links)
    left, right = objective._wrong(
        objective.model(objective.structure), links, np.random.default_rng(0)
    )
    assert left.shape == right.shape == (8, 3)
    assert set(left.flatten().tolist()) <= set(range(SIZE - 1))
    assert set(right.flatten().tolist()) <= set(range(SIZE, 2 * SIZE - 1))


@pytest.mark.parametrize("nearest_to", ["replaced", "kept"])
def test_hard_ones_are_the_nearest_but_never_the_end_itself(nearest_to: str) -> None:
    # A pool of all nineteen that have a triple: so it is known who must be found.
    kept = nearest_to == "kept"
    objective = objective_of("gat", hardness=100, negatives=4, nearest_to_kept=kept)
    parts, links = objective.model(objective.structure), torch.from_numpy(objective.links)
    vectors = join(parts).detach()
    for side, found in enumerate(objective._wrong(parts, links, np.random.default_rng(0))):
        pool = torch.arange(SIZE - 1) + side * SIZE
        for link, chosen in zip(links, found, strict=True):
            cosine = vectors[pool] @ vectors[link[side if nearest_to == "replaced" else 1 - side]]
            cosine[pool == link[side]] = -2
            assert set(chosen.tolist()) == set(pool[cosine.topk(4).indices].tolist())


def test_the_contrastive_loss_is_the_formula() -> None:
    objective = objective_of("alinet", negatives=2, relation_weight=0.05, margin=3)
    found = objective.loss(objective.links, np.random.default_rng(5))
    parts, links = objective.model(objective.structure), torch.from_numpy(objective.links)
    left, right = objective._wrong(parts, links, np.random.default_rng(5))
    x = join(parts)
    expected = (x[links[:, 0]] - x[links[:, 1]]).square().sum()
    for b, (i, j) in enumerate(links):
        for wrong in left[b]:
            expected = expected + 0.1 * F.relu(3 - (x[wrong] - x[j]).square().sum())
        for wrong in right[b]:
            expected = expected + 0.1 * F.relu(3 - (x[i] - x[wrong]).square().sum())
    expected = expected + 0.05 * relation_loss(parts, objective.structure)
    torch.testing.assert_close(found, expected)


def test_the_ranking_loss_is_the_formula() -> None:
    objective = objective_of("gcn", negatives=3, margin=2)
    found = objective.loss(objective.links, np.random.default_rng(5))
    (x,) = objective.model(objective.structure)
    links = torch.from_numpy(objective.links)
    left, right = objective._wrong([x], links, np.random.default_rng(5))
    terms = []
    for b, (i, j) in enumerate(links):
        near = (x[i] - x[j]).abs().sum()
        terms += [F.relu(near + 2 - (x[wrong] - x[j]).abs().sum()) for wrong in left[b]]
        terms += [F.relu(near + 2 - (x[i] - x[wrong]).abs().sum()) for wrong in right[b]]
    torch.testing.assert_close(found, torch.stack(terms).mean())


@pytest.mark.parametrize(
    ("name", "constants"),
    [
        ("gcn", (5, 3.0, 1, False)),
        ("gat", (10, 1.5, 50, False)),
        ("alinet", (10, 1.5, 50, True)),
    ],
)
def test_constants_are_those_of_the_papers(name: str, constants: tuple[object, ...]) -> None:
    model = objective_of(name).model
    found = model.negatives, model.margin, model.hardness, model.nearest_to_kept
    assert found == constants


@pytest.mark.parametrize("name", ["gcn", "gat", "alinet"])
def test_what_each_reads_of_a_graph(name: str) -> None:
    left, right = LEFT, RIGHT[1:]  # (0, 0, 1) is known of the linked entities 0 and 1 on the left
    graph = MergedGraph.merge(left, right, np.array([(0, 0), (1, 1)]), (4, 4), (2, 1))
    model = view_type(name)(Config.from_preset(name), N, R)
    assert isinstance(model, CentralisedModel)
    structure = model.read(graph, graph, torch.device("cpu"))
    ends = structure.near.rows.tolist(), structure.near.columns.tolist()
    assert ((4, 5) in zip(*ends, strict=True)) == (name == "alinet") == model.reads_links
    assert (structure.far.n_edges > 0) == (name == "alinet")
    weights = {round(value, 5) for value in (structure.weights**-2).tolist()}
    assert all(value.is_integer() for value in weights) == (name != "gcn")  # by functionality
