"""An encoder never reads a vector that nobody can know."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from decentrl.graph.adjacency import Adjacency
from decentrl.graph.view import GraphView, counterpart_triples, entities_of, relations_of

N, R = 7, 2
triple_lists = st.lists(
    st.tuples(st.integers(0, N - 1), st.integers(0, R - 1), st.integers(0, N - 1)), max_size=12
)
masks = st.lists(st.booleans(), min_size=N, max_size=N).map(np.array)
# 0 – 1 – 2 – 3: entities 1 and 2 are unseen in the tests that mask.
CHAIN = np.array([(0, 0, 1), (1, 0, 2), (2, 1, 3)], np.int64)
ENDS_SEEN = np.array([True, False, False, True])


def ids(triples: list[tuple[int, int, int]]) -> np.ndarray:
    return np.array(triples, np.int64).reshape(-1, 3)


def edges(graph: Adjacency) -> set[tuple[int, int]]:
    return set(zip(graph.rows.tolist(), graph.columns.tolist(), strict=True))


@given(triple_lists, masks, st.booleans(), st.booleans())
@settings(deadline=None)
def test_whatever_reads_input_embeddings_reads_seen_entities_only(
    triples: list[tuple[int, int, int]],
    seen: np.ndarray,
    two_hop: bool,
    self_entity: bool,
) -> None:
    view = GraphView.build(
        [ids(triples)],
        N,
        R,
        layers=3,
        two_hop=two_hop,
        self_entity=self_entity,
        seen=seen,
    )
    for graph in (view.first, view.layers[0]):
        assert seen[graph.columns.numpy()].all()
    assert view.seen.tolist() == seen.tolist()


@given(triple_lists, masks)
@settings(deadline=None)
def test_deeper_layers_read_the_entities_whose_vector_is_made_of_something(
    triples: list[tuple[int, int, int]], seen: np.ndarray
) -> None:
    view = GraphView.build([ids(triples)], N, R, layers=4, seen=seen)
    joined = {(h, t) for h, _, t in triples} | {(t, h) for h, _, t in triples}
    joined = {(i, j) for i, j in joined if i != j}
    readable = {-1: {j for j in range(N) if seen[j]}}  # g⁻¹ is the input embedding
    readable[0] = {i for i, j in joined if j in readable[-1]}
    for k, graph in enumerate(view.layers, start=1):
        source = readable[-1 if k == 1 else k - 2]
        assert edges(graph) == {(i, j) for i, j in joined if j in source}
        made = {i for i, j in joined if j in source}
        readable[k] = made | readable[k - 1]


def test_deeper_layers_reach_through_unseen_entities() -> None:
    view = GraphView.build([CHAIN], 4, R, layers=2, seen=ENDS_SEEN)
    assert edges(view.first) == edges(view.layers[0]) == {(1, 0), (2, 3)}
    # 1 and 2 have aggregated their seen neighbour by now; 0 and 3 have no seen neighbour.
    assert edges(view.layers[1]) == {(0, 1), (1, 2), (2, 1), (3, 2)}


def test_without_a_mask_the_entities_in_the_graph_are_seen() -> None:
    view = GraphView.build([CHAIN], 5, R, layers=1)
    assert view.seen.tolist() == [True] * 4 + [False]


def test_odd_layers_read_two_hop_neighbours_when_hops_alternate() -> None:
    # A path of seven relations has six patterns; all but the five "most frequent" ones remain.
    path = np.array([(i, i, i + 1) for i in range(7)], np.int64)
    view = GraphView.build([path], 8, 7, layers=3, two_hop=True)
    assert edges(view.layers[0]) == edges(view.layers[2]) == {(5, 7), (7, 5)}
    assert edges(view.layers[1]) == edges(view.first)


def test_unseen_relations_leave_the_bag_in_both_directions() -> None:
    view = GraphView.build([CHAIN], 4, R, layers=1, seen_relations=np.array([True, False]))
    assert edges(view.relations) == {(0, 0), (1, 0), (1, 0 + R), (2, 0 + R)}


def test_a_moved_view_shares_what_the_original_shared() -> None:
    view = GraphView.build([CHAIN], 4, R, layers=3).to(torch.device("cpu"))
    assert view.first is view.layers[0] is view.layers[2]


def test_who_occurs_in_triples() -> None:
    assert entities_of(CHAIN[:2], 5).tolist() == [True, True, True, False, False]
    assert relations_of(CHAIN[:2], R).tolist() == [True, False]


@pytest.mark.parametrize("seed", range(5))
def test_counterpart_triples_tell_a_seed_triple_in_the_other_graph(seed: int) -> None:
    random = np.random.default_rng(seed)
    left = random.integers(0, [4, 2, 4], (8, 3))
    right = random.integers([4, 2, 4], [9, 4, 9], (8, 3))
    links = np.stack((random.permutation(4)[:3], 4 + random.permutation(5)[:3]), axis=1)
    there = dict(links.tolist())
    back = {b: a for a, b in there.items()}

    new_left, new_right = counterpart_triples(left, right, links)

    def told(triples: np.ndarray, link: dict[int, int]) -> list[list[int]]:
        return [[link[h], r, link[t]] for h, r, t in triples.tolist() if h in link and t in link]

    assert new_left.tolist() == left.tolist() + told(right, back)
    assert new_right.tolist() == right.tolist() + told(left, there)
