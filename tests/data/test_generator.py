"""Generated pairs keep their laws at any size."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decentrl.data.generator import KEPT, RELATIONS, SHARED, Shape, Side, World, generate

shapes = st.builds(
    Shape,
    entities=st.integers(10, 400),
    triples=st.floats(1, 12),
    batches=st.integers(0, 4),
    seed=st.integers(0, 2**32 - 1),
)


def arrays(world: World) -> list[np.ndarray]:
    parts = [[x.triples, x.arrived, x.entities, x.names] for x in (world.left, world.right)]
    return [*parts[0], *parts[1], world.links]


@given(shapes)
@settings(max_examples=30, deadline=None)
def test_laws_of_any_pair(shape: Shape) -> None:
    world = generate(shape)
    for side in (world.left, world.right):
        counts = np.bincount(side.entities, minlength=shape.batches + 1)
        assert counts.tolist() == [shape.entities] + shape.batches * [shape.arriving]
        h, r, t = side.triples.T
        keys = (h * RELATIONS + r) * len(side.entities) + t
        assert (np.diff(keys) > 0).all()  # distinct and sorted
        assert 0 <= r.min() <= r.max() < RELATIONS
        # A triple comes when both of its ends are there, and no entity comes without one.
        ends = side.triples[:, [0, 2]]
        assert np.array_equal(side.arrived, side.entities[ends].max(axis=1))
        first = np.full(len(side.entities), shape.batches + 1)
        np.minimum.at(first, ends.ravel(), np.repeat(side.arrived, 2))
        assert np.array_equal(first, side.entities)
    links = world.links
    assert len(links) == round(SHARED * shape.all_entities)
    assert all(len(np.unique(ids)) == len(links) for ids in links.T)
    assert links.min() >= 0
    assert links.max() < shape.all_entities


@given(shapes)
@settings(max_examples=8, deadline=None)
def test_a_seed_decides_every_bit(shape: Shape) -> None:
    same = zip(arrays(generate(shape)), arrays(generate(shape)), strict=True)
    assert all(np.array_equal(a, b) for a, b in same)


@pytest.fixture(scope="module")
def world() -> World:
    return generate(Shape(20_000, batches=1))


def common(world: World, shift: int = 0) -> float:
    """The share of the left neighbours of linked entities that are linked to right neighbours."""
    counterpart = np.full(len(world.left.entities), -1)
    counterpart[world.links[:, 0]] = np.roll(world.links[:, 1], shift)
    ends = counterpart[world.left.triples[:, [0, 2]]]
    ends = ends[(ends >= 0).all(axis=1)]
    n = len(world.right.entities)
    theirs = world.right.triples[:, 0] * n + world.right.triples[:, 2]
    return float(np.isin(ends[:, 0] * n + ends[:, 1], theirs).mean())


def test_linked_entities_have_linked_neighbours(world: World) -> None:
    assert KEPT - 0.1 < common(world) < KEPT + 0.1
    assert common(world, shift=1) < 0.03


def test_ids_say_nothing_about_links(world: World) -> None:
    left, right = world.links.T
    assert abs(np.corrcoef(left, right)[0, 1]) < 0.05
    assert (left == right).mean() < 0.01


@pytest.mark.parametrize("side", ["left", "right"])
def test_degrees_and_relations_are_as_in_real_graphs(world: World, side: str) -> None:
    of: Side = getattr(world, side)
    degree = np.bincount(of.triples[:, [0, 2]].ravel())
    assert 8 < degree.mean() < 14
    assert np.median(degree) < 0.75 * degree.mean()
    assert degree.max() > 40 * degree.mean()
    often = np.sort(np.bincount(of.triples[:, 1], minlength=RELATIONS))[::-1]
    assert often[:40].sum() > 0.28 * often.sum()


def test_names_mostly_agree(world: World) -> None:
    left, right = (
        side.names[ids] for side, ids in zip((world.left, world.right), world.links.T, strict=True)
    )
    both = (left != b"") & (right != b"")
    assert 0.75 < both.mean() < 0.87
    assert 0.6 < (left == right)[both].mean() < 0.75
    assert len(np.unique(left)) < 0.99 * (left != b"").sum()  # some share a name
    assert all(len(name) > 4 for name in left[both].tolist())
