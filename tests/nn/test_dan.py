"""An entity's vector is made of its neighbours' alone: nothing of its own, nothing unseen."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from decentrl.nn import DAN, GraphView

N, R, D = 12, 6, 4
UNSEEN = [2, 7, 11]


def random_triples() -> np.ndarray:
    """A ring of the entities 0 … 9 and ten random triples among them; 10 and 11 are isolated."""
    random = np.random.default_rng(0)
    ring = [(i, random.integers(R), (i + 1) % 10) for i in range(10)]
    return np.concatenate((ring, random.integers(0, [10, R, 10], (10, 3))))


def inputs(n: int = N, seed: int = 0) -> Tensor:
    return torch.randn(n, D, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def make(layers: int, **options: Any) -> DAN:
    """A network with dropout off and biases that are not 0."""
    torch.manual_seed(0)
    dan = DAN(D, layers, n_relations=R, **options).double().eval()
    for attention in dan.attentions:
        torch.nn.init.constant_(attention.query_score.bias, 0.3)
    return dan


def build(layers: int, **options: Any) -> GraphView:
    return GraphView.build([random_triples()], N, R, layers=layers, **options)


def influence(dan: DAN, view: GraphView) -> Tensor:
    """How much of ∂ gᵏ_i / ∂ e_j there is, in a random direction of gᵏ_i: [K + 1, N, N]."""
    e = inputs().requires_grad_()
    found = [
        torch.autograd.grad(g_i @ inputs(1, seed=1)[0], e, retain_graph=True)[0].abs().sum(-1)
        for g in dan(e, view)
        for g_i in g
    ]
    return torch.stack(found).reshape(-1, N, N)


relations_off_and_on = pytest.mark.parametrize("relations", ["off", "add", "multiply"])


# Promise: in one layer no entity's own embedding has any influence on its own output.


@relations_off_and_on
@pytest.mark.parametrize("two_hop", [False, True])
def test_one_layer_has_no_gradient_of_an_entity_to_itself(relations: Any, two_hop: bool) -> None:
    dan = make(1, relations=relations)
    by_entity = influence(dan, build(1, two_hop=two_hop))
    assert not by_entity.diagonal(dim1=1, dim2=2).any()
    assert by_entity[:, :10].sum(-1).all()  # though somebody's embedding always matters


@relations_off_and_on
def test_one_layer_does_not_notice_an_entitys_own_embedding(relations: Any) -> None:
    dan = make(1, relations=relations)
    view = build(1)
    for entity in range(10):
        changed = inputs()
        changed[entity] = 100 * inputs(seed=1)[entity]
        for before, after in zip(dan(inputs(), view), dan(changed, view), strict=True):
            assert torch.equal(before[entity], after[entity])
            assert not torch.allclose(before, after)  # others do notice


@relations_off_and_on
def test_the_self_entity_ablation_gives_that_up(relations: Any) -> None:
    dan = make(1, relations=relations)
    by_entity = influence(dan, build(1, self_entity=True))
    assert by_entity.diagonal(dim1=1, dim2=2)[:, :10].all()


# Promise: the input embedding of an unseen entity has no influence on any output.

mask = np.ones(N, bool)
mask[UNSEEN] = False
one_hop_and_two = pytest.mark.parametrize("two_hop", [False, True])


@one_hop_and_two
@relations_off_and_on
def test_unseen_entities_have_no_gradient_at_any_layer(two_hop: bool, relations: Any) -> None:
    dan = make(4, relations=relations)
    by_entity = influence(dan, build(4, two_hop=two_hop, seen=mask))
    assert not by_entity[:, :, UNSEEN].any()
    assert by_entity.any(2).any(1).all()  # every layer reads somebody


@one_hop_and_two
@relations_off_and_on
def test_no_output_notices_what_an_unseen_entity_has_as_input(
    two_hop: bool, relations: Any
) -> None:
    dan = make(4, relations=relations)
    view = build(4, two_hop=two_hop, seen=mask)
    changed = inputs()
    changed[UNSEEN] = torch.nan  # one product with it anywhere would show
    for before, after in zip(dan(inputs(), view), dan(changed, view), strict=True):
        assert torch.equal(before, after)


def test_an_unseen_entity_still_has_a_vector_and_still_helps_others() -> None:
    # 0 – 1 – 2 with 1 unseen: 1 is made of both ends, and in layer 2 both ends are made of 1.
    chain = np.array([(0, 0, 1), (1, 0, 2)], np.int64)
    view = GraphView.build([chain], 3, 1, layers=2, seen=np.array([True, False, True]))
    outputs = make(2)(inputs(3), view)
    assert outputs[1][1].any()
    assert not outputs[1][0].any()
    assert outputs[2][0].any()


# The formula, written down once more as dense algebra.


def norm_rows(rows: Tensor) -> Tensor:
    centred = rows - rows.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt()


def dense_attention(attention: Any, query: Tensor, keys: Tensor, joined: Tensor) -> Tensor:
    by_query = torch.tanh(query @ attention.query_score.weight[0] + attention.query_score.bias)
    by_key = torch.tanh(keys @ attention.key_score.weight[0])
    scores = by_query[:, None] + by_key[None, :]
    scores = torch.where(scores > 0, scores, 0.2 * scores).exp() * joined
    weights = scores / scores.sum(1, keepdim=True).clamp(min=1e-300)
    return weights @ (keys @ attention.value.weight.T)


def dense_mean(vectors: Tensor, joined: Tensor) -> Tensor:
    return torch.stack([vectors[row].sum(0) / max(1, int(row.sum())) for row in joined])


def dense_dan(
    dan: DAN, e: Tensor, triples: np.ndarray, layers: int, relations: str
) -> list[Tensor]:
    joined = torch.zeros(N, N, dtype=torch.bool)
    bag = torch.zeros(N, 2 * R, dtype=torch.bool)
    for h, r, t in triples.tolist():
        joined[h, t] = joined[t, h] = True
        bag[h, r] = bag[t, R + r] = True
    joined.fill_diagonal_(False)

    def with_relations(k: int, g: Tensor) -> Tensor:
        if relations == "off":
            return g
        vectors = norm_rows(dan.relation_vectors)
        attended = dense_attention(dan.relations[k].attention, g, vectors, bag)
        return g + 0.6 * attended if relations == "add" else g * attended

    g = {-1: norm_rows(e)}
    context = norm_rows(dense_mean(g[-1], joined) @ dan.contexts[0].weight.T)
    g[0] = norm_rows(with_relations(0, context))
    for k in range(1, layers + 1):
        attended = dense_attention(dan.attentions[k - 1], g[k - 1], g[k - 2], joined)
        g[k] = norm_rows(with_relations(k, norm_rows(attended)) + g[0] + g[k - 1])
    return [g[k] for k in range(layers + 1)]


@relations_off_and_on
def test_every_layer_equals_dense_algebra(relations: Any) -> None:
    dan = make(3, relations=relations)
    outputs = dan(inputs(), build(3))
    expected = dense_dan(dan, inputs(), random_triples(), 3, relations)
    for found, right in zip(outputs, expected, strict=True):
        torch.testing.assert_close(found, right, rtol=1e-9, atol=1e-12)


# Symmetries.


@pytest.mark.parametrize("two_hop", [False, True])
def test_renumbering_entities_renumbers_the_outputs(two_hop: bool) -> None:
    dan = make(3, relations="add")
    new_id = np.random.default_rng(1).permutation(N)
    triples = random_triples()
    renumbered = np.stack((new_id[triples[:, 0]], triples[:, 1], new_id[triples[:, 2]]), axis=1)
    moved = torch.empty_like(inputs())
    moved[new_id] = inputs()

    def view(graph: np.ndarray) -> GraphView:
        return GraphView.build([graph], N, R, layers=3, two_hop=two_hop)

    outputs, others = dan(inputs(), view(triples)), dan(moved, view(renumbered))
    for there, here in zip(others, outputs, strict=True):
        torch.testing.assert_close(there[new_id], here)


def test_entities_with_the_same_neighbours_get_the_same_vector() -> None:
    # 0 and 1 are told apart by nothing but their own input embeddings.
    twins = [(e, r, t) for e, (r, t) in itertools.product((0, 1), ((0, 2), (1, 3)))]
    triples = np.array([*twins, (3, 2, 4)], np.int64)
    dan = make(3, relations="multiply")
    view = GraphView.build([triples], 5, R, layers=3)
    for g in dan(inputs(5), view):
        torch.testing.assert_close(g[0], g[1], rtol=0, atol=1e-14)
        assert not torch.allclose(g[0], g[2])


# Hidden edges.


def without(view: GraphView, kept: Tensor) -> GraphView:
    """The view as if the other edges had never been there; the relations around stay known."""
    graph = view.first.keep_edges(kept.nonzero()[:, 0])
    return replace(view, first=graph, layers=(graph,) * len(view.layers))


@relations_off_and_on
def test_over_kept_edges_it_is_the_network_of_a_graph_without_the_others(relations: Any) -> None:
    dan = make(3, relations=relations)
    view = build(3)
    kept = torch.rand(view.first.n_edges, generator=torch.Generator().manual_seed(1)) < 0.6
    kept[view.first.rows == 4] = False  # who loses every neighbour
    e = inputs().requires_grad_()
    found, expected = dan(e, view, kept), dan(e, without(view, kept))
    torch.testing.assert_close(found, expected)
    assert not any(torch.allclose(a, b) for a, b in zip(found, dan(e, view), strict=True))
    wanted = [e, *dan.parameters()]
    toward = [inputs(seed=k) for k in range(len(found))]
    torch.testing.assert_close(
        torch.autograd.grad(found, wanted, toward, materialize_grads=True, allow_unused=True),
        torch.autograd.grad(expected, wanted, toward, materialize_grads=True, allow_unused=True),
    )


def test_a_network_that_keeps_every_edge_is_the_whole_one() -> None:
    dan = make(3, relations="multiply")
    view = build(3)
    every = torch.ones(view.first.n_edges, dtype=torch.bool)
    torch.testing.assert_close(dan(inputs(), view, every), dan(inputs(), view))


# As a module.


def test_dropout_is_for_training_only() -> None:
    dan = make(2)
    view = build(2)
    assert torch.equal(dan(inputs(), view)[-1], dan(inputs(), view)[-1])
    dan.train()
    assert not torch.equal(dan(inputs(), view)[-1], dan(inputs(), view)[-1])


@relations_off_and_on
def test_every_parameter_of_a_deep_network_learns(relations: Any) -> None:
    dan = make(3, relations=relations)
    weighting = torch.linspace(-1, 1, N * D, dtype=torch.float64).reshape(N, D)
    sum((weighting * g).sum() for g in dan(inputs(), build(3))).backward()
    # An additive constant inside a softmax cancels, so a query's influence may be small, not 0.
    idle = [name for name, p in dan.named_parameters() if p.grad is None or not p.grad.any()]
    assert idle == []
