"""Every rival against its paper's formulas, in dense loops of double precision."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from decentrl.nn.alignment import join
from decentrl.nn.rivals.alinet import AliNet, GatedLayer, relation_loss
from decentrl.nn.rivals.centralised import CentralisedModel
from decentrl.nn.rivals.gat import GAT, SelfAttention
from decentrl.nn.rivals.gcn import GCNAlign
from decentrl.nn.rivals.translational import TranslationalModel
from torch import Tensor

from decentrl.config import ModelConfig
from decentrl.errors import ConfigError
from decentrl.graph.centralised import CentralisedView
from decentrl.graph.merged import MergedGraph

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


def make(kind: type[CentralisedModel]) -> CentralisedModel:
    torch.manual_seed(0)
    return kind(N, R, ModelConfig(dim=D, layers=2, dropout=0.0)).double().eval()


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
    config = ModelConfig(dim=20, layers=2)
    largest = AliNet(2000, R, config).entities.abs().max().item()
    bound = (6 / (2000 + 20)) ** 0.5  # Glorot's, of a table
    assert 0.99 * bound < largest <= bound
    for kind in (GCNAlign, GAT):
        lengths = kind(2000, R, config).entities.norm(dim=1)
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
    before = model.encode(view)
    torch.testing.assert_close(before.norm(dim=1), torch.ones(N, dtype=torch.float64))
    with torch.no_grad():
        model.entities[7] = -model.entities[7]  # alone in the graph: nobody else notices
    moved = (model.encode(view) - before).abs().amax(1)
    assert moved[7] > 0.1
    assert moved[:7].max() == 0


def table(encoder: str, dim: int = 6) -> TranslationalModel:
    torch.manual_seed(0)
    return TranslationalModel(N, R, ModelConfig(encoder=encoder, dim=dim))  # type: ignore[arg-type]


def test_linked_entities_share_a_row_also_by_several_steps() -> None:
    model = table("transe")
    model.unite(torch.tensor([(1, 6), (3, 6), (3, 7), (0, 4)]))
    assert model.representative.tolist() == [0, 1, 2, 1, 0, 5, 1, 1]
    vectors = model.encode()
    assert torch.equal(vectors[7], vectors[1])
    torch.testing.assert_close(vectors.norm(dim=1), torch.ones(N))
    model.unite(torch.tensor([(0, 4)]))  # what was shared before is forgotten
    assert model.representative.tolist() == [0, 1, 2, 3, 0, 5, 6, 7]


@pytest.mark.parametrize("encoder", ["transe", "rotate"])
def test_the_way_back_along_a_relation_undoes_it(encoder: str) -> None:
    model = table(encoder)
    heads = model.encode()[:R]
    there = torch.arange(R)
    moved = model.questions(heads, there) / 2  # a question is twice the place of its answer
    torch.testing.assert_close(model.questions(moved, there + R) / 2, heads)
    assert (moved - heads).abs().amax() > 0.01
    assert len(model.decoder.relations) == R


@pytest.mark.parametrize("encoder", ["transe", "rotate"])
def test_relations_move_little_at_first(encoder: str) -> None:
    """So that relations of the two graphs that mean the same begin alike."""
    model = table(encoder, 64)
    heads = model.encode()[:R]
    moved = model.questions(heads, torch.arange(R)) / 2
    assert (moved - heads).norm(dim=1).max() < 0.4


def test_rotate_turns_pairs_of_coordinates() -> None:
    with pytest.raises(ConfigError, match=r"even width, not model\.dim=5"):
        table("rotate", 5)
