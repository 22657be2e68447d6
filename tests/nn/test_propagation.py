"""Seeds travel as dense float64 matrices say, and counterparts meet the same ones."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from decentrl.graph.merged import MergedGraph
from decentrl.graph.relational import PropagationView
from decentrl.nn.propagation import SeedPropagation, same_relations

N, R = 8, 3
DIM, SEED = 16, 3
# Several relations between 0 and 1, a triple told twice, a loop at 2; 7 has no triple.
TRIPLES = np.array(
    [
        (0, 0, 1),
        (0, 1, 1),
        (1, 0, 0),
        (1, 2, 2),
        (2, 1, 2),
        (2, 0, 3),
        (2, 0, 3),
        (3, 1, 4),
        (4, 2, 5),
        (6, 0, 5),
    ],
    np.int64,
)
LINKS = torch.tensor([(0, 4), (3, 6)])  # no tail of relation 2 is linked, so it is met later


def propagation(
    triples: np.ndarray = TRIPLES,
    links: Tensor = LINKS,
    *,
    n: int = N,
    r: int = R,
    rounds: int = 2,
    seed: int = SEED,
) -> SeedPropagation:
    view = PropagationView.build(triples, n, r)
    return SeedPropagation(view, links, dim=DIM, rounds=rounds, seed=seed)


def unit(rows: Tensor) -> Tensor:
    return rows / rows.norm(dim=-1, keepdim=True).clamp(min=1e-12)


def draws(*shapes: tuple[int, int]) -> Iterator[Tensor]:
    """What the seed gives, one after the other."""
    random = torch.Generator().manual_seed(SEED)
    for shape in shapes:
        yield torch.randn(*shape, generator=random).double()


def dense(rounds: int) -> tuple[Tensor, Tensor]:
    """The formula as matrices: entities and relations, every round beside the one before."""
    edges = torch.zeros(N, N, dtype=torch.float64)
    heads, tails = torch.zeros(2 * R, N).double(), torch.zeros(N, 2 * R).double()
    for h, r, t in TRIPLES.tolist():
        edges[h, t] += 1
        edges[t, h] += 1
        heads[r, h] = heads[r + R, t] = tails[t, r] = tails[h, r + R] = 1
    degrees = torch.diag(edges.sum(1))
    entities = torch.zeros(N, DIM, dtype=torch.float64)
    (seeds,) = draws((len(LINKS), DIM))
    for (left, right), vector in zip(LINKS.tolist(), unit(seeds), strict=True):
        entities[left] = entities[right] = vector
    relations = torch.zeros(2 * R, DIM, dtype=torch.float64)
    all_entities, all_relations = [entities], [relations]
    for _ in range(rounds):
        moved = unit((edges + 2 * degrees) @ entities + tails @ relations)
        entities, relations = moved, unit(heads @ entities)
        all_entities.append(entities)
        all_relations.append(relations)
    return unit(torch.cat(all_entities, 1)), torch.cat(all_relations, 1)


def twins(seed: int = 0, n: int = 30, r: int = 6) -> tuple[MergedGraph, np.ndarray, np.ndarray]:
    """A graph, its copy with other names, and the names: entity i is n + names[i] there."""
    random = np.random.default_rng(seed)
    left = random.integers(0, [n, r, n], (4 * n, 3))
    names, relation_names = random.permutation(n), random.permutation(r)
    right = np.stack((names[left[:, 0]], relation_names[left[:, 1]], names[left[:, 2]]), axis=1)
    links = np.stack((np.arange(n), names), axis=1)
    merged = MergedGraph.merge(left, random.permutation(right), links, (n, n), (r, r))
    return merged, names, relation_names


def over(merged: MergedGraph, n_links: int) -> SeedPropagation:
    links = torch.from_numpy(merged.links[:n_links])
    view = PropagationView.build(merged.triples(), merged.n_entities, merged.n_relations)
    return SeedPropagation(view, links, dim=DIM, rounds=2, seed=SEED)


@pytest.mark.parametrize("rounds", [0, 1, 3])
def test_seeds_travel_as_dense_matrices_say(rounds: int) -> None:
    found = propagation(rounds=rounds)
    entities, relations = dense(rounds)
    torch.testing.assert_close(found.entities.double(), entities, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(found.relations.double(), relations, rtol=1e-4, atol=1e-6)


def test_features_are_projected_products_of_relation_and_neighbour() -> None:
    relation_dim, width, rounds = 3, 5, 2
    entities, relations = dense(rounds)
    total = (rounds + 1) * DIM
    shapes = [(len(LINKS), DIM), (total, relation_dim), *[(total, width)] * relation_dim]
    _, q, *projections = draws(*shapes)
    expected = torch.zeros(N, relation_dim, width, dtype=torch.float64)
    for h, r, t in TRIPLES.tolist():
        for i, kind, j in ((h, r, t), (t, r + R, h)):
            by_relation = unit(relations)[kind] @ q
            for k, p in enumerate(projections):
                expected[i, k] += by_relation[k] * (entities[j] @ p)
    found = propagation(rounds=rounds).features(relation_dim, width)
    torch.testing.assert_close(found.double(), unit(expected.flatten(1)), rtol=1e-4, atol=1e-5)


def test_features_have_length_one_where_there_is_an_edge() -> None:
    features = propagation(rounds=3).features(4, 8)
    assert features.shape == (N, 4 * 8)
    lengths = torch.tensor([1.0] * 7 + [0.0])
    torch.testing.assert_close(features.norm(dim=1), lengths)


@pytest.mark.parametrize("n_links", [30, 12], ids=["all-linked", "some-linked"])
def test_counterparts_in_a_renamed_copy_have_the_same_features(n_links: int) -> None:
    merged, names, _ = twins()
    seeds = over(merged, n_links)
    features = seeds.features(4, 16)
    for made in (seeds.entities, features):
        torch.testing.assert_close(made[:30], made[30 + names], rtol=1e-4, atol=1e-5)
    # And a stranger has others: nobody is nearer to an entity than its counterpart.
    assert (features[:30] @ features[30:].T).argmax(1).tolist() == names.tolist()


def test_one_seed_gives_the_same_bits_and_another_gives_others() -> None:
    first, again, other = propagation(), propagation(), propagation(seed=SEED + 1)
    made, repeated, different = (p.features(2, 8) for p in (first, again, other))
    assert torch.equal(first.entities, again.entities)
    assert torch.equal(first.relations, again.relations)
    assert torch.equal(made, repeated)
    assert not torch.allclose(first.entities, other.entities)
    assert not torch.allclose(made, different)


def test_who_is_in_several_links_has_something_of_each() -> None:
    links = torch.tensor([(0, 3), (0, 5), (1, 4)])
    zero, three, five, one, four = propagation(links=links, rounds=0).entities[[0, 3, 5, 1, 4]]
    assert zero @ three > 0.4
    assert zero @ five > 0.4
    assert torch.equal(one, four)
    torch.testing.assert_close(zero.norm(), torch.tensor(1.0))


def test_the_random_numbers_of_others_are_left_alone() -> None:
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    made = propagation().features(2, 8)
    assert torch.equal(torch.rand(3), expected)
    torch.manual_seed(1)
    assert torch.equal(propagation().features(2, 8), made)


def test_who_shares_neither_path_nor_relation_with_a_seed_gets_nothing() -> None:
    # 0 – 1 – 2 is seeded at 0; 3 – 4 has a relation of its own; 5 – 6 shares that of 0 – 1.
    triples = np.array([(0, 0, 1), (1, 1, 2), (3, 2, 4), (5, 0, 6)], np.int64)
    seeds = propagation(triples, torch.tensor([(0, 0)]), rounds=3)
    met = [True, True, True, False, False, True, True, False]
    assert seeds.entities.any(1).tolist() == met
    assert seeds.relations.any(1).tolist() == [True, True, False] * 2
    features = seeds.features(2, 8)
    assert features.any(1).tolist() == met
    assert features.isfinite().all()


def test_seeds_travel_one_edge_a_round() -> None:
    # Every edge has its own relation, so that there is no shorter way.
    path = np.array([(i, i, i + 1) for i in range(5)], np.int64)
    seeds = propagation(path, torch.tensor([(0, 0)]), n=6, r=5, rounds=3)
    for step, part in enumerate(seeds.entities.split(DIM, 1)):
        assert part.any(1).tolist() == [entity <= step for entity in range(6)]


def test_without_links_there_is_nothing_to_meet() -> None:
    seeds = propagation(links=torch.empty(0, 2, dtype=torch.int64))
    features = seeds.features(2, 8)
    assert not seeds.entities.any()
    assert not seeds.relations.any()
    assert torch.equal(features, torch.zeros(N, 16))


def test_features_may_be_put_where_the_caller_wants_them() -> None:
    room = torch.full((N, 20), 7.0)
    out = room[:, 2:18]
    made = propagation().features(2, 8, out=out)
    assert made is out
    assert torch.equal(room[:, 2:18], propagation().features(2, 8))
    assert (room[:, :2] == 7).all()
    assert (room[:, 18:] == 7).all()


# Relations that are the same.


@pytest.mark.parametrize("seed", range(3))
def test_the_relations_of_a_renamed_copy_find_each_other(seed: int) -> None:
    merged, _, relation_names = twins(seed)
    features = over(merged, 20).relations
    expected = np.arange(24)
    expected[6 + relation_names] = np.arange(6)
    expected[12 + 6 + relation_names] = 12 + np.arange(6)
    assert same_relations(features, 6, 0.99).tolist() == expected.tolist()


def two_directions(*rows: list[float]) -> Tensor:
    """Relations that look the same from both of their ends."""
    return torch.tensor(rows).repeat(2, 1)


def test_two_relations_are_the_same_from_the_threshold_on() -> None:
    features = two_directions([1.0, 0.0], [0.8, 0.6])  # a cosine of 0.8
    assert same_relations(features, 1, 0.79).tolist() == [0, 0, 2, 2]
    assert same_relations(features, 1, 0.81).tolist() == [0, 1, 2, 3]


def test_both_directions_count_for_the_cosine() -> None:
    # From their heads the same, from their tails the opposite: as a whole, a right angle.
    features = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    assert same_relations(features, 1, 0.5).tolist() == [0, 1, 2, 3]
    # From their tails unknown: only half of it is known to be the same.
    features[3] = 0
    assert same_relations(features, 1, 0.75).tolist() == [0, 1, 2, 3]
    assert same_relations(features, 1, 0.70).tolist() == [0, 0, 2, 2]


def test_only_those_that_choose_each_other_are_the_same() -> None:
    # Left 0 and 1 both like right 2 best, which prefers 1; nobody is left for 0 or for right 3.
    features = two_directions([0.9, 0.4], [1.0, 0.0], [1.0, 0.01], [0.1, -1.0])
    assert same_relations(features, 2, 0.5).tolist() == [0, 1, 1, 3, 4, 5, 5, 7]


@given(st.integers(0, 6), st.integers(0, 6), st.integers(0, 2**16), st.floats(0.01, 1))
@settings(deadline=None)
def test_representatives_are_left_relations_that_stand_for_one_right_relation_at_most(
    n_left: int, n_right: int, seed: int, threshold: float
) -> None:
    half = n_left + n_right
    random = torch.Generator().manual_seed(seed)
    features = torch.randn(2 * half, 3, generator=random)
    representative = same_relations(features, n_left, threshold)
    found = representative.tolist()
    assert found[:n_left] == list(range(n_left))
    assert found[half:] == [half + kind for kind in found[:half]]  # both directions alike
    matched = {kind: found[kind] for kind in range(n_left, half) if found[kind] != kind}
    assert all(left < n_left for left in matched.values())
    assert len(set(matched.values())) == len(matched)
    both = unit(torch.cat((features[:half], features[half:]), 1).double())
    for right, left in matched.items():
        own = float(both[right] @ both[left])
        assert own >= threshold - 1e-6
        assert own >= (both[:n_left] @ both[right]).max() - 1e-6
        assert own >= (both[n_left:half] @ both[left]).max() - 1e-6


def test_a_higher_threshold_joins_fewer_relations() -> None:
    random = torch.Generator().manual_seed(0)
    features = torch.randn(40, 3, generator=random)
    joined = [
        {k for k, kind in enumerate(same_relations(features, 10, at).tolist()) if k != kind}
        for at in (0.0, 0.5, 0.8, 0.99)
    ]
    assert all(fewer <= more for more, fewer in pairwise(joined))
    assert joined[0] > joined[-1]


@pytest.mark.parametrize("n_left", [0, 3], ids=["no-left", "no-right"])
def test_without_a_second_graph_every_relation_stands_for_itself(n_left: int) -> None:
    assert same_relations(torch.ones(6, 4), n_left, 0.5).tolist() == list(range(6))


def test_without_relations_there_is_nothing_to_stand_for() -> None:
    assert same_relations(torch.empty(0, 4), 0, 0.5).tolist() == []


@pytest.mark.parametrize("threshold", [0.0, 0.1])
def test_a_relation_that_met_no_seed_is_the_same_as_none(threshold: float) -> None:
    assert same_relations(torch.zeros(4, 3), 1, threshold).tolist() == [0, 1, 2, 3]
    one_of_two = two_directions([1.0, 0.0], [0.0, 0.0])
    assert same_relations(one_of_two, 1, threshold).tolist() == [0, 1, 2, 3]


def test_relations_at_a_right_angle_are_not_the_same_even_without_a_threshold() -> None:
    apart, hardly = two_directions([1.0, 0.0], [0.0, 1.0]), two_directions([1.0, 0.0], [0.01, 1.0])
    assert same_relations(apart, 1, 0.0).tolist() == [0, 1, 2, 3]
    assert same_relations(hardly, 1, 0.0).tolist() == [0, 0, 2, 2]
