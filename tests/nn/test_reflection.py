"""Relations reflect neighbours; nothing that training never saw has a say."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import gradcheck

from decentrl.graph.relational import RelationalEdges, RelationalView, directed_edges
from decentrl.nn.reflection import ReflectionLayer, RelationalEncoder

N, R, D = 7, 3, 4
# Three relations between 0 and 1, a loop at 2, a triple told twice; 5 has but a loop, 6 nothing.
TRIPLES = np.array(
    [
        (0, 0, 1),
        (0, 1, 1),
        (1, 2, 0),
        (1, 0, 2),
        (2, 1, 2),
        (2, 2, 3),
        (3, 0, 4),
        (3, 0, 4),
        (4, 1, 0),
        (5, 2, 5),
    ],
    np.int64,
)
UNSEEN, UNSEEN_RELATION = 2, 1
seen = np.arange(N) != UNSEEN
seen_relations = np.arange(R) != UNSEEN_RELATION
Triples = list[tuple[int, int, int]]
triple_lists = st.lists(
    st.tuples(st.integers(0, N - 1), st.integers(0, R - 1), st.integers(0, N - 1)), max_size=12
)
with_and_without_context = pytest.mark.parametrize(
    "context", [False, True], ids=["plain", "context"]
)


def randn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def unit(*shape: int, seed: int = 0) -> Tensor:
    return torch.nn.functional.normalize(randn(*shape, seed=seed), dim=-1)


def make_layer(context: bool, dim: int = D) -> ReflectionLayer:
    torch.manual_seed(0)
    return ReflectionLayer(dim, context).double()


def make(layers: int = 2, **options: Any) -> RelationalEncoder:
    torch.manual_seed(0)
    encoder = RelationalEncoder(N, R, D, layers, **{"dropout": 0.0, **options}).double()
    with torch.no_grad():  # so that no relation has length 1 by chance
        encoder.entities.copy_(randn(N, D, seed=1))
        encoder.relations.copy_(2 * randn(2 * R, D, seed=2))
    return encoder


def edges_of(triples: np.ndarray, n: int = N, r: int = R) -> RelationalEdges:
    return RelationalEdges.build(*directed_edges(triples, r, "cpu"), n, 2 * r)


def build(**masks: Any) -> RelationalView:
    return RelationalView.build(TRIPLES, N, R, **masks)


# The formulas, written down once more as loops over edges.


def edges_around(i: int, triples: np.ndarray) -> list[tuple[int, int]]:
    """(relation, neighbour) as i sees them."""
    away = [(r, t) for h, r, t in triples.tolist() if h == i != t]
    return away + [(r + R, h) for h, r, t in triples.tolist() if t == i != h]


def looped_layer(layer: ReflectionLayer, h: Tensor, units: Tensor, triples: np.ndarray) -> Tensor:
    a = layer.relation_score.weight[0]
    rows = []
    for i in range(len(h)):
        total, weight = 0 * h[i], torch.zeros((), dtype=torch.float64)
        for r, j in edges_around(i, triples):
            logit = a @ units[r]
            if layer.context_score is not None:
                (k,) = layer.context_score.weight
                logit = logit + torch.tanh(k @ h[j])
            mirror = torch.eye(len(h[j]), dtype=torch.float64) - 2 * torch.outer(units[r], units[r])
            total = total + logit.exp() * (mirror @ h[j])
            weight = weight + logit.exp()
        rows.append(torch.tanh(total / weight if weight else total))
    return torch.stack(rows)


def looped_encoder(
    encoder: RelationalEncoder,
    seen: np.ndarray,
    seen_relations: np.ndarray,
) -> Tensor:
    relations = torch.stack([encoder.relations[k] for k in encoder.representative.tolist()])
    units = torch.stack(
        [v / v.norm() if seen_relations[r % R] else 0 * v for r, v in enumerate(relations)]
    )
    by_entity, by_relation = [], []
    for i in range(N):
        around = {j for _, j in edges_around(i, TRIPLES) if seen[j]}
        bag = {r for h, r, _ in TRIPLES.tolist() if h == i}
        bag |= {r + R for _, r, t in TRIPLES.tolist() if t == i}
        bag = {r for r in bag if seen_relations[r % R]}
        by_entity.append(mean([encoder.entities[j] for j in around]))
        by_relation.append(mean([relations[r] for r in bag]))
    parts = []
    for layers, pooled in zip(encoder.views, (by_entity, by_relation), strict=True):
        parts.append(torch.tanh(torch.stack(pooled)))
        for layer in layers:
            parts.append(looped_layer(layer, parts[-1], units, TRIPLES))
    return torch.cat(parts, 1)


def mean(vectors: list[Tensor]) -> Tensor:
    return torch.stack(vectors).mean(0) if vectors else torch.zeros(D, dtype=torch.float64)


# One layer.


@given(triple_lists, st.booleans())
@settings(deadline=None, max_examples=40)
def test_a_layer_equals_a_loop_over_edges_with_its_gradients(
    triples: Triples, context: bool
) -> None:
    table = np.array(triples, np.int64).reshape(-1, 3)
    layer = make_layer(context)
    inputs = [randn(N, D).requires_grad_(), unit(2 * R, D, seed=1).requires_grad_()]
    found = layer(*inputs, edges_of(table))
    expected = looped_layer(layer, *inputs, table)
    torch.testing.assert_close(found, expected)
    wanted, toward = [*inputs, *layer.parameters()], randn(N, D, seed=2)
    torch.testing.assert_close(
        torch.autograd.grad(found, wanted, toward, materialize_grads=True, allow_unused=True),
        torch.autograd.grad(expected, wanted, toward, materialize_grads=True, allow_unused=True),
    )


@with_and_without_context
def test_the_gradients_of_a_layer_are_right(context: bool) -> None:
    layer, edges = make_layer(context, dim=2), edges_of(TRIPLES)
    names = [name for name, _ in layer.named_parameters()]

    def run(h: Tensor, units: Tensor, *weights: Tensor) -> Tensor:
        parameters = dict(zip(names, weights, strict=True))
        return torch.func.functional_call(layer, parameters, (h, units, edges))

    inputs = [randn(N, 2), unit(2 * R, 2, seed=1), *(p.detach() for p in layer.parameters())]
    assert gradcheck(run, [tensor.clone().requires_grad_() for tensor in inputs])


@given(st.integers(0, 2**16))
@settings(deadline=None, max_examples=25)
def test_a_reflection_keeps_lengths(seed: int) -> None:
    edges = edges_of(np.array([(0, 0, 1)]), 2, 1)
    h, units = randn(2, D, seed=seed), unit(2, D, seed=seed + 1)
    sums = torch.atanh(make_layer(context=True)(h / 4, units, edges))  # 0 reads 1, and 1 reads 0
    torch.testing.assert_close(sums.norm(dim=1), h.norm(dim=1).flip(0) / 4)


def test_a_mirror_turns_what_is_along_the_relation_and_nothing_else() -> None:
    edges = edges_of(np.array([(0, 0, 1)]), 2, 1)
    h = torch.tensor([[0.0, 0.0], [0.3, 0.5]], dtype=torch.float64)
    units = torch.tensor([[1.0, 0.0], [0.0, 1.0]], dtype=torch.float64)
    made = torch.atanh(make_layer(context=False, dim=2)(h, units, edges))
    torch.testing.assert_close(made[0], torch.tensor([-0.3, 0.5], dtype=torch.float64))


def test_two_relations_to_one_neighbour_reflect_it_twice() -> None:
    edges = edges_of(np.array([(0, 0, 1), (0, 1, 1)]), 2, 2)
    h = torch.tensor([[0.0, 0.0], [0.3, 0.5]], dtype=torch.float64)
    units = torch.eye(2, dtype=torch.float64).repeat(2, 1)
    layer = make_layer(context=False, dim=2)
    with torch.no_grad():
        layer.relation_score.weight.copy_(torch.tensor([[np.log(3), 0.0]]))  # 3 : 1
    expected = 3 / 4 * torch.tensor([-0.3, 0.5]) + 1 / 4 * torch.tensor([0.3, -0.5])
    made = torch.atanh(layer(h, units, edges))[0]
    torch.testing.assert_close(made, expected.double(), rtol=1e-6, atol=1e-7)


@with_and_without_context
def test_a_layer_made_for_some_entities_has_their_rows(context: bool) -> None:
    layer, edges = make_layer(context), edges_of(TRIPLES)
    h, units, some = randn(N, D), unit(2 * R, D, seed=1), torch.tensor([4, 0, 6, 0])
    torch.testing.assert_close(layer(h, units, edges.of(some)), layer(h, units, edges)[some])


@with_and_without_context
def test_a_graph_without_edges_gives_zeros(context: bool) -> None:
    edges = edges_of(np.empty((0, 3), np.int64))
    h = randn(N, D).requires_grad_()
    made = make_layer(context)(h, unit(2 * R, D), edges)
    assert torch.equal(made, torch.zeros(N, D, dtype=torch.float64))
    made.sum().backward()
    assert h.grad is not None
    assert not h.grad.any()


def test_edges_are_left_out_while_training_only() -> None:
    torch.manual_seed(0)
    layer = ReflectionLayer(D, dropout=0.5).double()
    h, units = randn(N, D), unit(2 * R, D, seed=1)
    edges = edges_of(TRIPLES)
    whole = looped_layer(layer, h, units, TRIPLES)
    assert not torch.allclose(layer(h, units, edges), whole)
    torch.testing.assert_close(layer.eval()(h, units, edges), whole)


# The whole encoder.


@pytest.mark.parametrize("masked", [False, True], ids=["all-seen", "some-unseen"])
@pytest.mark.parametrize("layers", [1, 2, 3])
@with_and_without_context
def test_an_entity_is_every_layer_of_both_views(context: bool, layers: int, masked: bool) -> None:
    encoder = make(layers, context=context)
    masks = {"seen": seen, "seen_relations": seen_relations} if masked else {}
    vectors = encoder(build(**masks))
    assert vectors.shape == (N, encoder.dim) == (N, 2 * (layers + 1) * D)
    everybody = {"seen": np.arange(N) < 6, "seen_relations": np.ones(R, bool)}
    torch.testing.assert_close(vectors, looped_encoder(encoder, **{**everybody, **masks}))


@pytest.mark.parametrize("layers", [1, 3])
@with_and_without_context
def test_some_entities_are_encoded_as_they_are_among_all(context: bool, layers: int) -> None:
    encoder = make(layers, context=context).eval()
    view = build(seen=seen, seen_relations=seen_relations)
    some = torch.tensor([3, 0, 6, 3, 2, 5])
    found, expected = encoder(view, some), encoder(view)[some]
    torch.testing.assert_close(found, expected)
    parameters, toward = list(encoder.parameters()), randn(len(some), encoder.dim, seed=3)
    torch.testing.assert_close(
        torch.autograd.grad(found, parameters, toward),
        torch.autograd.grad(expected, parameters, toward),
    )


def test_nobody_may_be_asked_for() -> None:
    encoder = make()
    assert encoder(build(), torch.empty(0, dtype=torch.int64)).shape == (0, encoder.dim)


def test_nothing_of_an_entity_itself_enters_its_first_layer() -> None:
    encoder, view = make(), build()
    for i in range(N):
        first = encoder(view)[i, :D]
        gradient = torch.autograd.grad(first.sum(), encoder.entities)[0]
        assert not gradient[i].any()
        assert gradient.any(1).tolist() == [
            j in {j for _, j in edges_around(i, TRIPLES)} for j in range(N)
        ]
        changed = make()
        with torch.no_grad():
            changed.entities[i] = torch.nan
        assert torch.equal(changed(view)[i, :D], first)


@pytest.mark.parametrize("some", [None, torch.tensor([2, 0, 1, 3])], ids=["all", "some"])
@with_and_without_context
def test_what_an_unseen_entity_has_as_input_never_matters(
    context: bool, some: Tensor | None
) -> None:
    encoder, changed = make(3, context=context), make(3, context=context)
    view = build(seen=seen)
    with torch.no_grad():
        changed.entities[UNSEEN] = torch.nan  # one product with it anywhere would show
    vectors = encoder(view, some)
    assert torch.equal(changed(view, some), vectors)
    vectors.square().sum().backward()
    assert encoder.entities.grad is not None
    # Entity 5 is its own and only neighbour, 6 nobody's: nobody reads them either.
    read = [entity not in (UNSEEN, 5, 6) for entity in range(N)]
    assert encoder.entities.grad.any(1).tolist() == read


@with_and_without_context
def test_what_an_unseen_relation_has_as_vector_never_matters(context: bool) -> None:
    encoder, changed = make(3, context=context), make(3, context=context)
    view = build(seen_relations=seen_relations)
    directions = [UNSEEN_RELATION, UNSEEN_RELATION + R]
    with torch.no_grad():
        changed.relations[directions] = 100 * randn(2, D, seed=9)
    vectors = encoder(view)
    assert torch.equal(changed(view), vectors)
    assert not torch.allclose(changed(build()), encoder(build()))  # trained, it would matter
    vectors.square().sum().backward()
    assert encoder.relations.grad is not None
    assert encoder.relations.grad.any(1).tolist() == [r not in directions for r in range(2 * R)]


def test_an_edge_along_an_unseen_relation_still_leads_to_its_neighbour() -> None:
    alone = np.array([(0, 0, 1), (1, 1, 2)], np.int64)
    view = RelationalView.build(alone, N, R, seen_relations=np.array([False, True, True]))
    vectors = make(1)(view)
    first, second = vectors[:, :D], vectors[:, D : 2 * D]
    torch.testing.assert_close(second[0], torch.tanh(first[1]))  # as it is, not reflected


def test_an_unseen_entity_still_has_a_vector_and_still_leads_on() -> None:
    # 0 – 1 – 2 with 1 unseen: 1 is made of both ends, and in layer 1 both ends are made of 1.
    chain = np.array([(0, 0, 1), (1, 0, 2)], np.int64)
    view = RelationalView.build(chain, N, R, seen=np.arange(N) != 1)
    vectors = make(1)(view)
    assert vectors[1, :D].any()
    assert not vectors[[0, 2], :D].any()
    assert vectors[[0, 2], D : 2 * D].any(1).all()


def test_an_entity_without_edges_is_zero_and_disturbs_no_gradient() -> None:
    encoder = make(2, context=True)
    vectors = encoder(build())
    assert not vectors[6].any()
    assert vectors[:5].any(1).all()
    gradients = torch.autograd.grad(vectors.sum(), list(encoder.parameters()))
    assert all(gradient.isfinite().all() for gradient in gradients)


def test_relations_known_to_be_the_same_share_a_vector() -> None:
    shared, copied, changed = make(), make(), make()
    for encoder in (shared, changed):
        encoder.representative[2] = 0
        encoder.representative[2 + R] = 0 + R
    with torch.no_grad():
        copied.relations[[2, 2 + R]] = copied.relations[[0, 0 + R]]
        changed.relations[[2, 2 + R]] = torch.nan
    view = build()
    assert not torch.allclose(shared(view), make()(view))
    assert torch.equal(shared(view), copied(view))
    assert torch.equal(shared(view), changed(view))

    toward = randn(N, shared.dim, seed=3)
    found, apart = (
        torch.autograd.grad(encoder(view), encoder.relations, toward)[0]
        for encoder in (shared, copied)
    )
    torch.testing.assert_close(found[[0, R]], apart[[0, R]] + apart[[2, 2 + R]])
    assert not found[[2, 2 + R]].any()


def test_representatives_are_saved_with_the_weights() -> None:
    encoder, other = make(), make()
    encoder.representative[2] = 0
    other.load_state_dict(encoder.state_dict())
    assert other.representative.tolist() == [0, 1, 0, 3, 4, 5]


@pytest.mark.parametrize("some", [None, torch.tensor([2, 0, 1, 3])], ids=["all", "some"])
@with_and_without_context
def test_other_inputs_are_read_instead_of_the_trained_ones(
    context: bool, some: Tensor | None
) -> None:
    encoder, other = make(2, context=context), make(2, context=context)
    view, inputs = build(seen=seen), randn(N, D, seed=5).requires_grad_()
    with torch.no_grad():
        other.entities.copy_(inputs)
        encoder.entities.fill_(torch.nan)  # one product with it anywhere would show
    vectors = encoder(view, some, inputs=inputs)
    torch.testing.assert_close(vectors, other(view, some), rtol=0, atol=0)
    toward = randn(*vectors.shape, seed=6)
    (found,) = torch.autograd.grad(vectors, inputs, toward)
    (expected,) = torch.autograd.grad(other(view, some), other.entities, toward)
    torch.testing.assert_close(found, expected)
    assert found.any()


def test_where_more_may_be_read_more_inputs_count() -> None:
    view, inputs = build(seen=seen), randn(N, D, seed=5)
    everybody = view.reading(torch.ones(N, dtype=torch.bool))
    encoder = make()
    vectors = encoder(everybody, inputs=inputs)
    with torch.no_grad():
        encoder.entities.copy_(inputs)
    torch.testing.assert_close(vectors, looped_encoder(encoder, np.ones(N, bool), np.ones(R, bool)))
    assert not torch.allclose(vectors, encoder(view))  # where UNSEEN is left out


def test_an_input_left_out_while_training_is_as_if_never_seen() -> None:
    encoder, view = make(entity_dropout=0.5), build()
    every = np.ones(R, bool)
    masks = [np.array(mask) for mask in product((False, True), repeat=N)]
    possible = torch.stack([looped_encoder(encoder, mask, every) for mask in masks])
    found = set()
    for _ in range(10):
        apart = (possible - encoder(view)).abs().amax((1, 2))
        assert apart.min() < 1e-12
        found.add(int(apart.argmin()))
    assert len(found) > 1  # other ones every time
    torch.testing.assert_close(encoder.eval()(view), possible[-1])  # and none at rest
    nobody = make(entity_dropout=1.0)(view)
    torch.testing.assert_close(nobody, possible[0])


# Hidden edges.


def some(n_edges: int, seed: int) -> Tensor:
    return torch.rand(n_edges, generator=torch.Generator().manual_seed(seed)) < 0.6


def edges_without(triples: np.ndarray, kept: Tensor) -> RelationalEdges:
    """The edges made of nothing but those that are kept."""
    every = directed_edges(triples, R, "cpu")
    apart = every[0] != every[1]
    return RelationalEdges.build(*(part[apart][kept] for part in every), N, 2 * R)


@given(triple_lists, st.booleans(), st.integers(0, 2**16))
@settings(deadline=None, max_examples=40)
def test_a_layer_over_kept_edges_is_that_of_a_graph_without_the_others(
    triples: Triples, context: bool, seed: int
) -> None:
    table = np.array(triples, np.int64).reshape(-1, 3)
    layer, edges = make_layer(context), edges_of(table)
    kept = some(edges.nodes.n_edges, seed)
    inputs = [randn(N, D).requires_grad_(), unit(2 * R, D, seed=1).requires_grad_()]
    found = layer(*inputs, edges, kept)
    expected = layer(*inputs, edges_without(table, kept))
    torch.testing.assert_close(found, expected)
    wanted, toward = [*inputs, *layer.parameters()], randn(N, D, seed=2)
    torch.testing.assert_close(
        torch.autograd.grad(found, wanted, toward, materialize_grads=True, allow_unused=True),
        torch.autograd.grad(expected, wanted, toward, materialize_grads=True, allow_unused=True),
    )


@pytest.mark.parametrize("layers", [1, 3])
@with_and_without_context
def test_an_encoder_over_kept_edges_is_that_of_a_graph_without_the_others(
    context: bool, layers: int
) -> None:
    encoder = make(layers, context=context)
    view = build(seen=seen, seen_relations=seen_relations)
    kept = some(view.edges.nodes.n_edges, 1), some(view.first.n_edges, 2)
    assert not kept[0].all()
    assert not kept[1].all()
    smaller = replace(
        view,
        edges=edges_without(TRIPLES, kept[0]),
        first=view.first.keep_edges(kept[1].nonzero()[:, 0]),
    )
    found, expected = encoder(view, kept=kept), encoder(smaller)
    torch.testing.assert_close(found, expected)
    for part in range(2 * (layers + 1)):
        if part != layers + 1:  # the relations around are known all the same
            own = slice(part * D, (part + 1) * D)
            assert not torch.allclose(found[:, own], encoder(view)[:, own])
    parameters, toward = list(encoder.parameters()), randn(N, encoder.dim, seed=3)
    torch.testing.assert_close(
        torch.autograd.grad(found, parameters, toward),
        torch.autograd.grad(expected, parameters, toward),
    )


def test_dropout_thins_out_the_vectors_while_training() -> None:
    encoder, some = make(dropout=0.5), torch.arange(5).repeat(20)
    plain = encoder.eval()(build(), some)
    assert plain.all()
    thinned = encoder.train()(build(), some)
    assert 0.4 < (thinned == 0).double().mean() < 0.6
    torch.testing.assert_close(thinned[thinned != 0], 2 * plain[thinned != 0])


def test_renumbering_entities_renumbers_the_vectors() -> None:
    new_id = np.random.default_rng(1).permutation(N)
    renumbered = np.stack((new_id[TRIPLES[:, 0]], TRIPLES[:, 1], new_id[TRIPLES[:, 2]]), axis=1)
    encoder, moved = make(context=True), make(context=True)
    with torch.no_grad():
        moved.entities[new_id] = encoder.entities
    found = moved(RelationalView.build(renumbered, N, R))
    torch.testing.assert_close(found[new_id], encoder(build()))
