"""Ids depend on the content of a graph, never on how it was written."""

from __future__ import annotations

import random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from decentrl.data.knowledge_graph import KnowledgeGraph, distinct_rows, first_occurrences

label = st.sampled_from(["a", "b", "c", "ä", "Z", "\uffff", "😀"])
triples = st.lists(st.tuples(label, label, label), min_size=1, max_size=20)


@given(triples, st.randoms())
def test_the_order_of_the_triples_changes_nothing(
    rows: list[tuple[str, str, str]], rng: random.Random
) -> None:
    shuffled = rng.sample(rows, len(rows))
    one, other = (KnowledgeGraph.from_labels(*zip(*x, strict=True)) for x in (rows, shuffled))
    assert one.entities == other.entities
    assert list(one.entities) == sorted({x for h, _, t in rows for x in (h, t)})
    assert list(one.relations) == sorted({r for _, r, _ in rows})
    assert np.array_equal(one.triples, other.triples)
    assert one.content_hash() == other.content_hash()


@given(st.lists(st.tuples(*[st.integers(0, 3)] * 3)))
def test_rows_are_distinct_and_in_order(rows: list[tuple[int, int, int]]) -> None:
    array = np.array(rows, np.int64).reshape(-1, 3)
    assert distinct_rows(array, (4, 4, 4)).tolist() == [list(x) for x in sorted(set(rows))]
    first = array[first_occurrences(array, (4, 4, 4))]
    assert [tuple(x) for x in first.tolist()] == list(dict.fromkeys(rows))


def test_the_hash_sees_labels_and_triples() -> None:
    graph = KnowledgeGraph.from_labels(["a", "b"], ["r", "r"], ["b", "c"])
    renamed = KnowledgeGraph.from_labels(["a", "b"], ["r", "r"], ["b", "d"])
    fewer = graph.with_triples(graph.triples[:1])
    assert len({x.content_hash() for x in (graph, renamed, fewer)}) == 3


def test_a_graph_given_as_lists_may_be_empty() -> None:
    graph = KnowledgeGraph.from_labels([], [], [])
    assert (len(graph.entities), graph.triples.shape) == (0, (0, 3))


def test_other_triples_keep_the_vocabularies() -> None:
    graph = KnowledgeGraph.from_labels(["a", "b"], ["r", "s"], ["b", "c"])
    fewer = graph.with_triples(graph.triples[[1, 1, 0, 1]])
    assert fewer.entities is graph.entities
    assert np.array_equal(fewer.triples, graph.triples)
    assert repr(fewer) == "KnowledgeGraph(3 entities, 2 relations, 2 triples)"
