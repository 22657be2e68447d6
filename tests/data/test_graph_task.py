"""Triples held out of one graph."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decentrl.data.graph_task import GraphTask
from decentrl.data.knowledge_graph import KnowledgeGraph
from decentrl.errors import InputError

label = st.sampled_from("abcdef")


@given(st.lists(st.tuples(label, label, label), min_size=1, max_size=40), st.integers(0, 3))
def test_every_entity_and_relation_still_occurs_in_training(
    rows: list[tuple[str, str, str]], seed: int
) -> None:
    graph = KnowledgeGraph.from_labels(*zip(*rows, strict=True))
    task = GraphTask.from_graph("g", graph, valid=0.2, test=0.3, seed=seed)
    train = task.graph.triples
    assert set(train[:, [0, 2]].ravel().tolist()) == set(range(len(graph.entities)))
    assert set(train[:, 1].tolist()) == set(range(len(graph.relations)))
    parts = np.concatenate([train, task.valid, task.test])
    assert sorted(parts.tolist()) == graph.triples.tolist()


def test_the_shares_are_met_where_the_graph_allows_it() -> None:
    n = 50
    heads = [f"e{i}" for i in range(n) for _ in range(n)]
    tails = [f"e{i}" for _ in range(n) for i in range(n)]
    task = GraphTask.from_graph("full", KnowledgeGraph.from_labels(heads, ["r"] * n * n, tails))
    assert (len(task.valid), len(task.test), len(task.graph.triples)) == (250, 250, 2000)


def test_seeds_differ_and_repeat() -> None:
    graph = KnowledgeGraph.from_labels(list("aabbccdd"), ["r"] * 8, list("bcacabab"))
    hashes = [GraphTask.from_graph("g", graph, 0.2, 0.2, seed).content_hash() for seed in (0, 0, 1)]
    assert hashes[0] == hashes[1] != hashes[2]


def test_something_must_be_left_for_training() -> None:
    graph = KnowledgeGraph.from_labels(["a"], ["r"], ["b"])
    with pytest.raises(InputError, match=r"cannot hold out 0\.5 and 0\.5"):
        GraphTask.from_graph("g", graph, 0.5, 0.5)


def test_a_graph_keeps_its_names_beside_other_files() -> None:
    graph = KnowledgeGraph.read([("b", "r", "c"), ("c", "r", "b")])
    graph = graph.with_names([("b", "Bee"), ("c", "Sea")]).with_attributes([("c", "age", "7")])
    task = GraphTask.read(graph, test=[("a", "r", "b"), ("d", "r", "c")])
    assert task.graph.names.shown(range(4)) == ["", "Bee", "Sea", ""]
    assert task.graph.attributes.of(2) == [("age", "7", "number")]
    assert GraphTask.read(graph, 0.0, 0.0).graph.names is graph.names
