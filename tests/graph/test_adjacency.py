"""Edges are sorted, know their transpose, and come from triples as the paper says."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from decentrl.graph.adjacency import Adjacency, neighbours, relation_bag, unique_pairs

N_ROWS, N_COLUMNS, N_RELATIONS = 5, 4, 3

edge_lists = st.lists(st.tuples(st.integers(0, N_ROWS - 1), st.integers(0, N_COLUMNS - 1)))
triple_lists = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, N_RELATIONS - 1), st.integers(0, 5))
)


def adjacency(edges: list[tuple[int, int]]) -> Adjacency:
    rows, columns = np.array(edges, np.int64).reshape(-1, 2).T
    return Adjacency.from_pairs(rows, columns, N_ROWS, N_COLUMNS)


def edges_of(graph: Adjacency) -> list[tuple[int, int]]:
    return list(zip(graph.rows.tolist(), graph.columns.tolist(), strict=True))


def ids(triples: list[tuple[int, int, int]]) -> np.ndarray:
    return np.array(triples, np.int64).reshape(-1, 3)


@given(edge_lists)
def test_edges_are_sorted_whatever_order_they_came_in(edges: list[tuple[int, int]]) -> None:
    graph = adjacency(edges[::-1])
    assert edges_of(graph) == sorted(edges)  # parallel edges stay
    assert (graph.n_rows, graph.n_columns, graph.n_edges) == (N_ROWS, N_COLUMNS, len(edges))


@given(edge_lists)
def test_pointers_delimit_the_edges_of_a_row(edges: list[tuple[int, int]]) -> None:
    graph = adjacency(edges)
    for row in range(N_ROWS):
        own = graph.columns[graph.indptr[row] : graph.indptr[row + 1]]
        assert own.tolist() == sorted(j for i, j in edges if i == row)
        assert graph.degrees()[row] == len(own)
        assert graph.reached()[row] == (len(own) > 0)


@given(edge_lists)
def test_the_transpose_holds_the_same_edges_by_column(edges: list[tuple[int, int]]) -> None:
    graph = adjacency(edges)
    assert torch.equal(graph.t_rows, graph.rows[graph.t_order])
    for column in range(N_COLUMNS):
        own = graph.t_rows[graph.t_indptr[column] : graph.t_indptr[column + 1]]
        assert own.tolist() == sorted(i for i, j in edges if j == column)


@given(edge_lists, st.lists(st.booleans(), min_size=N_COLUMNS, max_size=N_COLUMNS))
def test_keep_columns_drops_the_edges_that_read_others(
    edges: list[tuple[int, int]], mask: list[bool]
) -> None:
    kept = adjacency(edges).keep_columns(np.array(mask))
    assert edges_of(kept) == sorted((i, j) for i, j in edges if mask[j])
    assert (kept.n_rows, kept.n_columns) == (N_ROWS, N_COLUMNS)


def test_keep_columns_does_not_copy_a_graph_that_stays_whole() -> None:
    graph = adjacency([(0, 1), (2, 1)])
    assert graph.keep_columns(np.array([False, True, False, False])) is graph


@given(edge_lists)
def test_unique_pairs_are_a_sorted_set(edges: list[tuple[int, int]]) -> None:
    rows, columns = np.array(edges, np.int64).reshape(-1, 2).T
    found = unique_pairs(rows, columns, N_COLUMNS)
    assert list(zip(*(side.tolist() for side in found), strict=True)) == sorted(set(edges))


@given(triple_lists)
@settings(deadline=None)
def test_neighbours_are_joined_by_a_triple_of_either_direction(
    triples: list[tuple[int, int, int]],
) -> None:
    joined = {(h, t) for h, _, t in triples} | {(t, h) for h, _, t in triples}
    expected = sorted((i, j) for i, j in joined if i != j)
    assert edges_of(neighbours(ids(triples), 6)) == expected


def test_nobody_is_their_own_neighbour_not_even_by_a_loop() -> None:
    graph = neighbours(ids([(0, 0, 0), (0, 0, 1), (0, 1, 1)]), 3)
    assert edges_of(graph) == [(0, 1), (1, 0)]


def test_the_self_entity_ablation_adds_those_who_have_a_neighbour() -> None:
    graph = neighbours(ids([(0, 0, 1), (2, 0, 2)]), 4, self_entity=True)
    assert edges_of(graph) == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_a_relation_looks_different_from_its_two_ends() -> None:
    bag = relation_bag(ids([(0, 2, 1), (0, 2, 3), (1, 0, 0)]), 4, N_RELATIONS)
    assert edges_of(bag) == [(0, 2), (0, 0 + 3), (1, 0), (1, 2 + 3), (3, 2 + 3)]
    assert (bag.n_rows, bag.n_columns) == (4, 2 * N_RELATIONS)
