"""Entities that arrive after training, chosen as the paper chose them."""

from __future__ import annotations

import gzip
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decentrl.data.alignment_task import AlignmentTask
from decentrl.data.graph_task import GraphTask
from decentrl.data.knowledge_graph import KnowledgeGraph
from decentrl.data.open_world import split_alignment, split_graph
from decentrl.data.registry import data_root, load_dataset
from decentrl.errors import InputError

NONE = np.empty((0, 2), np.int64)
NO_TRIPLES = np.empty((0, 3), np.int64)


def ring(n: int) -> KnowledgeGraph:
    """A graph of n entities in a ring."""
    names = [f"e{i:03}" for i in range(n)]
    return KnowledgeGraph.from_labels(names, ["r"] * n, names[1:] + names[:1])


def alignment(n: int = 40) -> AlignmentTask:
    """Two rings; the links of the first ten entities are for training."""
    pairs = np.stack([np.arange(n)] * 2, axis=1)
    return AlignmentTask("rings", ring(n), ring(n), pairs[:10], NONE, pairs[10:])


shares = st.tuples(st.floats(0.05, 0.5), st.floats(0.05, 0.5)).map(sorted)


@given(shares, st.integers(0, 9))
def test_new_links_of_a_smaller_share_are_among_those_of_a_larger(
    pair: list[float], seed: int
) -> None:
    small, large = (split_alignment(alignment(), share, seed) for share in pair)
    assert small.unknown is not None
    assert large.unknown is not None
    assert not (small.unknown & ~large.unknown).any()
    assert small.unknown.sum() == int(pair[0] * 30)


@given(shares, st.integers(0, 9))
def test_new_entities_of_a_smaller_share_are_among_those_of_a_larger(
    pair: list[float], seed: int
) -> None:
    task = GraphTask("ring", ring(40), NO_TRIPLES, NO_TRIPLES)
    small, large = (split_graph(task, share, seed).new_entities for share in pair)
    assert small is not None
    assert large is not None
    assert set(small.tolist()) <= set(large.tolist())


def test_no_new_entity_is_left_in_training_and_no_triple_is_lost() -> None:
    task = alignment()
    split = split_alignment(task, 0.3, seed=1)
    assert split.open_world
    assert split.auxiliary is not None
    new = set(split.test[split.unknown, 0].tolist())
    assert not new & set(split.left.triples[:, [0, 2]].ravel().tolist())
    for before, after, later in zip(
        (task.left, task.right), (split.left, split.right), split.auxiliary, strict=True
    ):
        assert all({h, t} & new for h, _, t in later.tolist())
        both = np.concatenate([after.triples, later])
        assert sorted(both.tolist()) == before.triples.tolist()
        assert after.entities is before.entities


def test_training_links_of_a_new_entity_are_dropped() -> None:
    task = alignment()
    twice = np.concatenate([task.train, [[39, 5]]])
    split = split_alignment(replace(task, train=twice, test=task.test[-2:]), 0.99, seed=0)
    assert split.unknown is not None
    new = set(split.test[split.unknown, 0].tolist())
    assert ([39, 5] in split.train.tolist()) == (39 not in new)


@pytest.mark.parametrize(
    ("share", "says"),
    [(0.0, "impossible"), (1.0, "impossible"), (0.01, "of 30 test links is none")],
)
def test_impossible_shares_are_refused(share: float, says: str) -> None:
    with pytest.raises(InputError, match=says):
        split_alignment(alignment(), share, 0)


def test_a_split_dataset_cannot_be_split_again() -> None:
    with pytest.raises(InputError, match="already split"):
        split_alignment(split_alignment(alignment(), 0.2, 0), 0.2, 0)


def test_a_share_that_leaves_no_training_triple_is_refused() -> None:
    task = GraphTask("ring", ring(4), NO_TRIPLES, NO_TRIPLES)
    with pytest.raises(InputError, match="no training triple would be left"):
        split_graph(task, 0.9, 0)


@pytest.mark.data
@pytest.mark.parametrize("pair", ["zh-en", "ja-en", "fr-en"])
def test_the_published_split_of_dbp15k_comes_out_exactly(pair: str) -> None:
    conventional = load_dataset(f"dbp15k/{pair}")
    assert isinstance(conventional, AlignmentTask)
    published = load_dataset(f"dbp15k/{pair}", open_world=True)
    made = split_alignment(conventional, 0.2, seed=0)
    assert isinstance(published, AlignmentTask)
    assert np.array_equal(made.test, conventional.test)
    assert np.array_equal(made.unknown, published.unknown)
    assert made.content_hash() == published.content_hash()


@pytest.mark.data
def test_the_triples_of_a_split_are_those_of_the_published_file() -> None:
    folder = data_root() / "DBP15K" / "zh_en"

    def rows(name: str) -> list[list[str]]:
        text = gzip.decompress((folder / f"{name}.tsv.gz").read_bytes()).decode()
        return [line.split("\t") for line in text.splitlines()]

    uris = {x: uri for i in "12" for x, uri in rows(f"ent_ids_{i}")}
    relations = {x: uri for i in "12" for x, uri in rows(f"rel_ids_{i}")}
    task = load_dataset("dbp15k/zh-en")
    assert isinstance(task, AlignmentTask)
    split = split_alignment(task, 0.2, seed=0)
    for name, graph in (("open/triples_1", split.left), ("open/triples_2", split.right)):
        e, r = graph.entities, graph.relations
        made = {(e[h], r[k], e[t]) for h, k, t in graph.triples.tolist()}
        assert made == {(uris[h], relations[k], uris[t]) for h, k, t in rows(name)}


@pytest.mark.data
def test_the_published_split_of_fb15k_237_comes_out_exactly() -> None:
    conventional = load_dataset("fb15k-237")
    assert isinstance(conventional, GraphTask)
    published = load_dataset("fb15k-237", open_world=True)
    assert split_graph(conventional, 0.2, seed=0).content_hash() == published.content_hash()
