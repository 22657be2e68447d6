"""Every edge knows its relation, and is read from both of its ends."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from decentrl.graph.adjacency import Adjacency
from decentrl.graph.relational import (
    PropagationView,
    RelationalEdges,
    RelationalView,
    directed_edges,
)

N, R = 6, 3
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
Triples = list[tuple[int, int, int]]
triple_lists = st.lists(  # with loops, repetitions and several relations between two entities
    st.tuples(st.integers(0, N - 1), st.integers(0, R - 1), st.integers(0, N - 1)), max_size=14
)
entity_lists = st.lists(st.integers(0, N - 1), max_size=8)
entity_masks = st.lists(st.booleans(), min_size=N, max_size=N)
relation_masks = st.lists(st.booleans(), min_size=R, max_size=R)
# Two relations from 0 to 1, one the other way, a loop at 2; 3 – 2; 4 and 5 have no triple.
AWKWARD: Triples = [(0, 0, 1), (0, 1, 1), (1, 2, 0), (2, 0, 2), (3, 2, 2)]


def ids(triples: Triples) -> np.ndarray:
    return np.array(triples, np.int64).reshape(-1, 3)


def build(triples: Triples) -> RelationalEdges:
    return RelationalEdges.build(*directed_edges(ids(triples), R, "cpu"), N, 2 * R)


def both_directions(triples: Triples) -> Counter[tuple[int, int, int]]:
    """(row, column, relation) as often as it is to occur."""
    return Counter([(h, t, r) for h, r, t in triples] + [(t, h, r + R) for h, r, t in triples])


def edges(graph: Adjacency) -> list[tuple[int, int]]:
    return list(zip(graph.rows.tolist(), graph.columns.tolist(), strict=True))


def told(built: RelationalEdges) -> list[tuple[int, int, int]]:
    """(row, column, relation) of every edge, in order."""
    assert torch.equal(built.nodes.rows, built.relations.rows)
    assert torch.equal(built.nodes.indptr, built.relations.indptr)
    columns, kinds = built.nodes.columns.tolist(), built.relations.columns.tolist()
    return list(zip(built.nodes.rows.tolist(), columns, kinds, strict=True))


def check_pairs(built: RelationalEdges) -> None:
    """Each edge points at its neighbour and relation; every pair occurs once, and is needed."""
    pairs = edges(built.pairs)
    assert [pairs[k] for k in built.edge_pair.tolist()] == [(j, r) for _, j, r in told(built)]
    assert pairs == sorted({(j, r) for _, j, r in told(built)})
    assert (built.pairs.n_rows, built.pairs.n_columns) == (N, 2 * R)


@given(triple_lists)
@settings(deadline=None)
def test_directed_edges_are_both_directions_of_every_triple_sorted(triples: Triples) -> None:
    columns = (part.tolist() for part in directed_edges(ids(triples), R, "cpu"))
    assert list(zip(*columns, strict=True)) == sorted(both_directions(triples).elements())


@given(triple_lists)
@settings(deadline=None)
def test_every_triple_is_read_from_both_ends_but_none_leads_to_itself(triples: Triples) -> None:
    built = build(triples)
    apart = [edge for edge in both_directions(triples).elements() if edge[0] != edge[1]]
    assert told(built) == sorted(apart)
    assert (built.nodes.n_rows, built.nodes.n_columns) == (N, N)
    assert (built.relations.n_rows, built.relations.n_columns) == (N, 2 * R)


@given(triple_lists)
@settings(deadline=None)
def test_an_edge_points_at_the_pair_of_its_neighbour_and_relation(triples: Triples) -> None:
    check_pairs(build(triples))


@given(triple_lists, entity_lists)
@settings(deadline=None)
def test_the_edges_of_some_entities_are_theirs_as_often_as_they_are_asked_for(
    triples: Triples, entities: list[int]
) -> None:
    built = build(triples)
    some = built.of(torch.tensor(entities, dtype=torch.int64))
    assert told(some) == [
        (a, j, r) for a, entity in enumerate(entities) for i, j, r in told(built) if i == entity
    ]
    check_pairs(some)
    assert (some.nodes.n_rows, some.nodes.n_columns) == (len(entities), N)
    assert (some.relations.n_rows, some.relations.n_columns) == (len(entities), 2 * R)


def test_several_relations_between_two_entities_are_several_edges() -> None:
    built = build(AWKWARD)
    assert [edge for edge in told(built) if edge[0] == 0] == [(0, 1, 0), (0, 1, 1), (0, 1, 2 + R)]
    assert [edge for edge in told(built) if edge[0] == 2] == [(2, 3, 2 + R)]  # without the loop


def test_entities_that_share_neighbour_and_relation_share_a_pair() -> None:
    built = build([(0, 1, 5), (2, 1, 5), (3, 0, 5)])
    shared = {edge[0]: pair for edge, pair in zip(told(built), built.edge_pair, strict=True)}
    assert shared[0] == shared[2] != shared[3]
    assert (built.nodes.n_edges, built.pairs.n_edges) == (6, 5)


@given(triple_lists, entity_masks, relation_masks)
@settings(deadline=None)
def test_a_view_pools_what_was_trained_and_nothing_else(
    triples: Triples, seen: list[bool], seen_relations: list[bool]
) -> None:
    view = RelationalView.build(
        ids(triples), N, R, seen=np.array(seen), seen_relations=np.array(seen_relations)
    )
    directed = both_directions(triples)
    assert edges(view.first) == sorted({(i, j) for i, j, _ in directed if i != j and seen[j]})
    assert edges(view.bag) == sorted({(i, r) for i, _, r in directed if seen_relations[r % R]})
    assert view.seen.tolist() == seen
    assert view.seen_relations.tolist() == seen_relations * 2
    # Who is unseen still has a place in the graph.
    assert told(view.edges) == told(build(triples))


@given(triple_lists, entity_masks, entity_masks)
@settings(deadline=None)
def test_the_same_view_may_read_others_and_nothing_else_of_it_changes(
    triples: Triples, seen: list[bool], readable: list[bool]
) -> None:
    view = RelationalView.build(ids(triples), N, R, seen=np.array(seen))
    other = view.reading(torch.tensor(readable))
    directed = both_directions(triples)
    assert edges(other.first) == sorted({(i, j) for i, j, _ in directed if i != j and readable[j]})
    assert (other.first.n_rows, other.first.n_columns) == (N, N)
    assert other.edges is view.edges
    assert other.bag is view.bag
    assert other.seen.tolist() == seen  # who was trained is another question
    assert other.seen_relations is view.seen_relations
    for one, same in zip(tensors(view.reading(view.seen)), tensors(view), strict=True):
        assert torch.equal(one, same)


def test_without_masks_who_has_a_triple_is_seen_and_so_is_every_relation() -> None:
    view = RelationalView.build(ids(AWKWARD), N, R)
    assert view.seen.tolist() == [True] * 4 + [False] * 2
    assert view.seen_relations.tolist() == [True] * 2 * R


@given(triple_lists)
@settings(deadline=None)
def test_seeds_travel_along_every_triple_also_along_a_loop(triples: Triples) -> None:
    view = PropagationView.build(ids(triples), N, R)
    rows, columns = view.edges.rows.tolist(), view.edges.columns.tolist()
    found = list(zip(rows, columns, view.directed_relations.tolist(), strict=True))
    assert found == sorted(both_directions(triples).elements())
    assert (view.edges.n_rows, view.edges.n_columns) == (N, N)


@given(triple_lists)
@settings(deadline=None)
def test_a_relation_has_each_head_and_each_tail_once_and_reversed_they_swap(
    triples: Triples,
) -> None:
    view = PropagationView.build(ids(triples), N, R)
    heads = {(r, h) for h, r, _ in triples} | {(r + R, t) for _, r, t in triples}
    tails = {(t, r) for _, r, t in triples} | {(h, r + R) for h, r, _ in triples}
    assert edges(view.heads) == sorted(heads)
    assert edges(view.tails) == sorted(tails)
    assert (view.heads.n_rows, view.heads.n_columns) == (2 * R, N)
    assert (view.tails.n_rows, view.tails.n_columns) == (N, 2 * R)


def tensors(part: object) -> list[torch.Tensor]:
    """All that a view holds, however deep."""
    if isinstance(part, torch.Tensor):
        return [part]
    if isinstance(part, Adjacency):
        return [part.indptr, part.columns, part.rows, part.t_indptr, part.t_rows, part.t_order]
    return [] if part is None else [found for p in vars(part).values() for found in tensors(p)]


@needs_cuda
@pytest.mark.parametrize("kind", [RelationalView, PropagationView])
def test_a_view_is_the_same_wherever_it_is_made(
    kind: type[RelationalView | PropagationView],
) -> None:
    here = tensors(kind.build(ids(AWKWARD), N, R))
    there = tensors(kind.build(ids(AWKWARD), N, R, device="cuda"))
    assert all(tensor.is_cuda for tensor in there)
    for one, other in zip(here, there, strict=True):
        assert torch.equal(one, other.cpu())
