"""Edges are sorted, know their transpose, and come from triples as the paper says."""

from __future__ import annotations

from random import Random

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from decentrl.graph.adjacency import Adjacency, neighbours, relation_bag

N_ROWS, N_COLUMNS, N_RELATIONS = 5, 4, 3

edge_lists = st.lists(st.tuples(st.integers(0, N_ROWS - 1), st.integers(0, N_COLUMNS - 1)))
row_lists = st.lists(st.integers(0, N_ROWS - 1))
triple_lists = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, N_RELATIONS - 1), st.integers(0, 5))
)


def adjacency(edges: list[tuple[int, int]]) -> Adjacency:
    rows, columns = np.array(edges, np.int64).reshape(-1, 2).T
    return Adjacency.from_pairs(rows, columns, N_ROWS, N_COLUMNS)


def edges_of(graph: Adjacency) -> list[tuple[int, int]]:
    return list(zip(graph.rows.tolist(), graph.columns.tolist(), strict=True))


def check_pointers(graph: Adjacency) -> None:
    """Both directions say where the edges of a row, or of a column, lie."""
    rows, columns, order = (part.tolist() for part in (graph.rows, graph.columns, graph.t_order))
    for row in range(graph.n_rows):
        own = range(int(graph.indptr[row]), int(graph.indptr[row + 1]))
        assert list(own) == [e for e, i in enumerate(rows) if i == row]
    for column in range(graph.n_columns):
        own_order = order[graph.t_indptr[column] : graph.t_indptr[column + 1]]
        assert own_order == [e for e, j in enumerate(columns) if j == column]
    assert graph.t_rows.tolist() == [rows[e] for e in order]
    parts = (graph.indptr, graph.columns, graph.rows, graph.t_indptr, graph.t_rows, graph.t_order)
    assert all(part.dtype == torch.int64 for part in parts)


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
    kept = adjacency(edges).keep_columns(torch.tensor(mask))
    assert edges_of(kept) == sorted((i, j) for i, j in edges if mask[j])
    assert (kept.n_rows, kept.n_columns) == (N_ROWS, N_COLUMNS)


def test_keep_columns_does_not_copy_a_graph_that_stays_whole() -> None:
    graph = adjacency([(0, 1), (2, 1)])
    assert graph.keep_columns(torch.tensor([False, True, False, False])) is graph


@given(edge_lists)
@settings(deadline=None)
def test_edges_sorted_by_row_keep_their_order_of_columns(edges: list[tuple[int, int]]) -> None:
    by_row = sorted(edges, key=lambda edge: edge[0])
    rows, columns = torch.tensor(by_row, dtype=torch.int64).reshape(-1, 2).T
    graph = Adjacency.from_sorted(rows, columns, N_ROWS, N_COLUMNS)
    assert edges_of(graph) == by_row
    assert (graph.n_rows, graph.n_columns) == (N_ROWS, N_COLUMNS)
    check_pointers(graph)


@given(st.integers(0, 5), st.integers(1, 4), st.randoms(use_true_random=False))
@settings(deadline=None)
def test_a_regular_graph_reads_a_table_of_columns(n: int, k: int, random: Random) -> None:
    table = [[random.randrange(N_COLUMNS) for _ in range(k)] for _ in range(n)]
    columns = torch.tensor(table, dtype=torch.int64).reshape(n, k)
    graph = Adjacency.regular(columns, N_COLUMNS)
    assert edges_of(graph) == [(row, column) for row in range(n) for column in table[row]]
    assert (graph.n_rows, graph.n_columns) == (n, N_COLUMNS)
    check_pointers(graph)


@given(edge_lists, row_lists)
@settings(deadline=None)
def test_taken_rows_have_their_edges_in_order_and_say_which_these_are(
    edges: list[tuple[int, int]], chosen: list[int]
) -> None:
    graph = adjacency(edges)
    taken, which = graph.take_rows(torch.tensor(chosen, dtype=torch.int64))
    expected = [
        (a, e) for a, row in enumerate(chosen) for e, (i, _) in enumerate(sorted(edges)) if i == row
    ]
    assert which.tolist() == [e for _, e in expected]
    assert edges_of(taken) == [(a, sorted(edges)[e][1]) for a, e in expected]
    assert (taken.n_rows, taken.n_columns) == (len(chosen), N_COLUMNS)
    check_pointers(taken)


@given(edge_lists, st.randoms(use_true_random=False))
@settings(deadline=None)
def test_kept_edges_stay_in_their_rows_and_columns(
    edges: list[tuple[int, int]], random: Random
) -> None:
    chosen = [e for e in range(len(edges)) if random.random() < 0.5]
    kept = adjacency(edges).keep_edges(torch.tensor(chosen, dtype=torch.int64))
    assert edges_of(kept) == [sorted(edges)[e] for e in chosen]
    assert (kept.n_rows, kept.n_columns) == (N_ROWS, N_COLUMNS)
    check_pointers(kept)


@given(edge_lists, row_lists, st.randoms(use_true_random=False))
@settings(deadline=None)
def test_edges_taken_like_others_have_these_rows_and_their_own_columns(
    edges: list[tuple[int, int]], chosen: list[int], random: Random
) -> None:
    graph = adjacency(edges)
    other = [random.randrange(7) for _ in edges]  # what else is known of each edge
    columns = torch.tensor(other, dtype=torch.int64)
    labels = Adjacency.from_sorted(graph.rows, columns, N_ROWS, 7)
    taken, which = graph.take_rows(torch.tensor(chosen, dtype=torch.int64))
    labelled = taken.reading(labels.columns[which], labels.n_columns)
    assert labelled.rows.tolist() == taken.rows.tolist()
    assert labelled.columns.tolist() == [other[e] for e in which.tolist()]
    assert (labelled.n_rows, labelled.n_columns) == (len(chosen), 7)
    check_pointers(labelled)


@given(edge_lists)
def test_distinct_edges_are_a_sorted_set(edges: list[tuple[int, int]]) -> None:
    rows, columns = np.array(edges, np.int64).reshape(-1, 2).T
    found = Adjacency.from_pairs(rows, columns, N_ROWS, N_COLUMNS, distinct=True)
    assert edges_of(found) == sorted(set(edges))


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
