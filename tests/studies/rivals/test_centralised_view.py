"""What centralised rivals read: itself too, and weights as their papers write them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from decentrl.graph.adjacency import Adjacency
from decentrl.graph.merged import MergedGraph
from studies.rivals.centralised_view import LEAST, CentralisedView, functionality

LEFT = np.array([(0, 0, 1), (0, 0, 2), (1, 1, 2), (3, 0, 1), (2, 1, 2), (0, 1, 1)], np.int64)
RIGHT = np.array([(0, 0, 1), (1, 0, 2)], np.int64)
LINKS = np.array([(0, 0), (1, 1)], np.int64)


@pytest.fixture
def graph() -> MergedGraph:
    """Five entities left, the last without a triple, and three right; three relations in all."""
    return MergedGraph.merge(LEFT, RIGHT, LINKS, (5, 3), (2, 1))


def dense(graph: Adjacency, values: torch.Tensor) -> np.ndarray:
    matrix = np.zeros((graph.n_rows, graph.n_columns))
    np.add.at(matrix, (graph.rows.numpy(), graph.columns.numpy()), values.double().numpy())
    return matrix


def normalised(matrix: np.ndarray) -> np.ndarray:
    scale = np.diag(matrix.sum(1) ** -0.5)
    return scale @ matrix @ scale


def test_functionality_counts_distinct_ends() -> None:
    fun, ifun = functionality(LEFT, 3)
    assert fun.tolist() == [2 / 3, 1.0, 1.0]  # relation 0 has 3 triples, heads 0 and 3
    assert ifun.tolist() == [2 / 3, 2 / 3, 1.0]  # nobody uses relation 2


def test_weights_by_functionality_are_those_of_the_formula(graph: MergedGraph) -> None:
    view = CentralisedView.build(graph, functional=True)
    triples = graph.triples()
    fun, ifun = (np.maximum(LEAST, kind) for kind in functionality(triples, 3))
    expected = np.eye(8)
    for h, r, t in triples:
        if h != t:
            expected[h, t] += ifun[r]
            expected[t, h] += fun[r]
    np.testing.assert_allclose(dense(view.near, view.weights), normalised(expected), rtol=1e-6)


def test_plain_weights_count_every_neighbour_once_and_itself(graph: MergedGraph) -> None:
    view = CentralisedView.build(graph)
    expected = np.eye(8)
    for h, _, t in graph.triples():
        expected[h, t] = expected[t, h] = 1
    np.testing.assert_allclose(dense(view.near, view.weights), normalised(expected), rtol=1e-6)
    assert view.far.n_edges == 0


def test_counterparts_are_told_only_if_asked(graph: MergedGraph) -> None:
    def edges(counterparts: bool) -> set[tuple[int, int]]:
        near = CentralisedView.build(graph, counterparts=counterparts).near
        return set(zip(near.rows.tolist(), near.columns.tolist(), strict=True))

    assert edges(True) == edges(False)  # the seeds are neighbours in both graphs already
    only_left = MergedGraph.merge(LEFT, RIGHT[1:], LINKS, (5, 3), (2, 1))
    told = CentralisedView.build(only_left, counterparts=True).near
    assert (5, 6) in zip(told.rows.tolist(), told.columns.tolist(), strict=True)


def test_everybody_is_its_own_distant_neighbour(graph: MergedGraph) -> None:
    far = CentralisedView.build(graph, two_hop=True).far
    edges = set(zip(far.rows.tolist(), far.columns.tolist(), strict=True))
    assert {(i, i) for i in range(8)} <= edges


def test_offsets_are_the_mean_of_heads_less_tails(graph: MergedGraph) -> None:
    view = CentralisedView.build(graph)
    vectors = np.random.default_rng(0).normal(size=(8, 4))
    triples = graph.triples()
    for relation in range(3):
        of_it = triples[triples[:, 1] == relation]
        expected = (vectors[of_it[:, 0]] - vectors[of_it[:, 2]]).mean(0)
        found = dense(view.offsets, view.signed)[relation] @ vectors
        np.testing.assert_allclose(found, expected, atol=1e-6)
    counts = np.bincount(triples[:, 1])
    expected = sorted((h, t, 1 / counts[r]) for h, r, t in triples.tolist())
    ends = view.triples.rows.tolist(), view.triples.columns.tolist()
    found = sorted(zip(*ends, view.shares.double().tolist(), strict=True))
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_seen_is_what_training_has_seen_and_nobody_is_left_out(graph: MergedGraph) -> None:
    grown = graph.grown(np.array([(4, 0, 0)]), RIGHT[:0])
    view = CentralisedView.build(grown, trained_on=graph)
    assert view.seen.tolist() == [True] * 4 + [False] + [True] * 3
    edges = set(zip(view.near.rows.tolist(), view.near.columns.tolist(), strict=True))
    assert {(0, 4), (4, 0)} <= edges
