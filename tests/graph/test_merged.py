"""Two graphs share one id space, and one of them may grow."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from decentrl.graph.adjacency import Adjacency
from decentrl.graph.merged import MergedGraph
from decentrl.graph.relational import PropagationView

OPTIONS: dict[str, Any] = {
    "layers": 1,
    "two_hop": False,
    "self_entity": False,
}


def edges(graph: Adjacency) -> set[tuple[int, int]]:
    return set(zip(graph.rows.tolist(), graph.columns.tolist(), strict=True))


@pytest.fixture
def merged() -> MergedGraph:
    """Left 0 – 1 – 2, right 3 – 4 (and 5 without a triple); 0 ≡ 4 and 1 ≡ 5."""
    left = np.array([(0, 0, 1), (1, 1, 2)], np.int64)
    right = np.array([(0, 0, 1)], np.int64)
    return MergedGraph.merge(left, right, np.array([(0, 1), (1, 2)]), (3, 3), (2, 1))


@pytest.fixture
def unlinked(merged: MergedGraph) -> MergedGraph:
    """The same without links."""
    return replace(merged, links=np.empty((0, 2), np.int64))


def test_right_ids_start_where_left_ids_end(merged: MergedGraph) -> None:
    assert merged.triples().tolist() == [[0, 0, 1], [1, 1, 2], [3, 2, 4]]
    assert merged.links.tolist() == [[0, 4], [1, 5]]
    assert (merged.n_entities, merged.n_relations) == (6, 3)


def test_a_view_joins_nothing_across_the_graphs(unlinked: MergedGraph) -> None:
    joined = {(0, 1), (1, 0), (1, 2), (2, 1), (3, 4), (4, 3)}
    assert edges(unlinked.view(**OPTIONS).first) == joined


def test_counterparts_tell_seed_triples_in_the_other_graph(
    merged: MergedGraph, unlinked: MergedGraph
) -> None:
    plain, view = unlinked.view(**OPTIONS), merged.view(**OPTIONS)
    # The triple (0, 0, 1) is told of 4 and 5. 5 has none of its own, so nobody may read its
    # input embedding; its own row reads 4.
    assert edges(view.first) - edges(plain.first) == {(5, 4)}
    assert not view.seen[5]


def test_growth_adds_triples_and_keeps_ids(merged: MergedGraph) -> None:
    grown = merged.grown(np.empty((0, 3), np.int64), np.array([(5, 2, 3)]))
    assert grown.triples().tolist() == [*merged.triples().tolist(), [5, 2, 3]]
    assert merged.right.tolist() == [[3, 2, 4]]


def test_what_training_did_not_know_is_unseen(unlinked: MergedGraph) -> None:
    trained = replace(unlinked, left=unlinked.left[:1])
    view = unlinked.view(**OPTIONS, trained_on=trained)
    assert view.seen.tolist() == [True, True, False, True, True, False]
    assert edges(view.first) == {(0, 1), (1, 0), (2, 1), (3, 4), (4, 3)}
    assert not {relation % 3 for _, relation in edges(view.relations)} & {1}


def test_right_relations_come_after_the_left_ones_also_after_growth(merged: MergedGraph) -> None:
    grown = merged.grown(np.array([(2, 0, 0)]), np.array([(5, 2, 3)]))
    for graph in (merged, grown):
        assert graph.n_left_relations == 2
        assert (graph.left[:, 1] < 2).all()
        assert (graph.right[:, 1] >= 2).all()


def test_a_relational_view_joins_nothing_across_the_graphs(merged: MergedGraph) -> None:
    view = merged.relational_view()
    joined = {(0, 1), (1, 0), (1, 2), (2, 1), (3, 4), (4, 3)}
    assert edges(view.edges.nodes) == edges(view.first) == joined
    assert edges(view.bag) == {(0, 0), (1, 0 + 3), (1, 1), (2, 1 + 3), (3, 2), (4, 2 + 3)}
    assert edges(view.edges.relations) == edges(view.bag)
    assert view.seen.tolist() == [True] * 5 + [False]
    assert view.seen_relations.all()


def test_a_relational_view_reads_edges_but_no_embedding_that_training_did_not_know(
    merged: MergedGraph,
) -> None:
    grown = merged.grown(np.array([(2, 1, 0)]), np.array([(5, 2, 3)]))
    trained = MergedGraph(merged.left[:1], merged.right, merged.links, 3, 3, 3, 2)
    view = grown.relational_view(trained_on=trained)
    unseen = {2, 5}
    assert view.seen.tolist() == [entity not in unseen for entity in range(6)]
    assert view.seen_relations.tolist() == [True, False, True] * 2
    everything = grown.relational_view()
    assert edges(view.edges.nodes) == edges(everything.edges.nodes)
    assert {(0, 2), (3, 5)} <= edges(everything.first)
    assert edges(view.first) == {(i, j) for i, j in edges(everything.first) if j not in unseen}
    assert edges(view.bag) == {(i, r) for i, r in edges(everything.bag) if r % 3 != 1}


def test_seeds_travel_in_both_graphs_and_both_directions(merged: MergedGraph) -> None:
    view = PropagationView.build(merged.triples(), merged.n_entities, merged.n_relations)
    assert edges(view.edges) == {(0, 1), (1, 0), (1, 2), (2, 1), (3, 4), (4, 3)}
    assert edges(view.heads) == {(0, 0), (1, 1), (2, 3), (0 + 3, 1), (1 + 3, 2), (2 + 3, 4)}
    assert edges(view.tails) == {(1, 0), (2, 1), (4, 2), (0, 0 + 3), (1, 1 + 3), (3, 2 + 3)}
