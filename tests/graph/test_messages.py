"""Edges grouped by end and relation, and the edges that a batch must not see."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from decentrl.graph.adjacency import Ids
from decentrl.graph.messages import Hide, Hiding, Messages

N, R = 5, 3
Edge = tuple[int, int, int]


@st.composite
def triples(draw: st.DrawFn) -> Ids:
    one = st.tuples(st.integers(0, N - 1), st.integers(0, R - 1), st.integers(0, N - 1))
    return np.array(sorted(draw(st.sets(one, max_size=25))), np.int64).reshape(-1, 3)


def edges(messages: Messages) -> list[Edge]:
    """(row, relation, column) of each, in their order."""
    return list(zip(*(x.tolist() for x in messages.edges), strict=True))


def both_ways(some: Ids) -> list[Edge]:
    there = [(t, r, h) for h, r, t in some.tolist()]
    return sorted(there + [(h, r + R, t) for h, r, t in some.tolist()])


@given(triples())
def test_every_triple_is_an_edge_either_way(some: Ids) -> None:
    made = Messages.of_triples(some, N, R)
    assert edges(made) == both_ways(some)
    groups = list(zip(made.groups.rows.tolist(), made.groups.columns.tolist(), strict=True))
    assert groups == sorted({(row, relation) for row, relation, _ in edges(made)})
    ends = np.concatenate((some[:, 0], some[:, 2]))
    assert made.degrees().tolist() == np.bincount(ends, minlength=N).tolist()


@given(triples(), st.booleans())
def test_the_transpose_has_every_edge_the_other_way(some: Ids, symmetric: bool) -> None:
    made = Messages.of_triples(some, N, R)
    if not symmetric:
        made = Messages.of_edges(*made.edges, made.sizes)
    turned = [(u, relation, v) for v, relation, u in edges(made)]
    assert sorted(edges(made.transposed)) == sorted(turned)


@given(triples(), st.integers(1, 9))
def test_blocks_hold_every_row_and_group_once(some: Ids, most: int) -> None:
    made = Messages.of_triples(some, N, R)
    ends, rows, groups = made.groups.indptr.tolist(), 0, 0
    for row, group in made.blocks(most):
        assert (row.start, group.start) == (rows, groups)
        assert (group.start, group.stop) == (ends[row.start], ends[row.stop])
        assert group.stop - group.start <= most or row.stop - row.start == 1
        rows, groups = row.stop, group.stop
    assert (rows, groups) == (N, len(made.groups.columns))


@given(triples(), st.sampled_from(["pair", "triple"]), st.data())
def test_what_joins_questions_and_answers_is_hidden(
    some: Ids, how: Hide, data: st.DataObject
) -> None:
    made = Messages.of_triples(some, N, R)
    every = both_ways(some)
    asked = data.draw(st.lists(st.sampled_from(every), max_size=4)) if every else []
    # (answer, relation, entity): the question (entity, relation, ?) has this answer
    answers, relations, entities = np.array(asked, np.int64).reshape(-1, 3).T
    kept = Hiding(made, how).kept(entities, relations, answers)
    hidden: set[Edge] = set()
    for a, r, e in asked:
        hidden |= {(a, r, e), (e, (r + R) % (2 * R), a)}
        if how == "pair":
            hidden |= {edge for edge in every if {edge[0], edge[2]} == {a, e}}
    assert edges(made.keep(kept)) == [edge for edge in every if edge not in hidden]


@pytest.mark.parametrize("how", ["pair", "triple"])
def test_a_batch_hides_nothing_of_the_next(how: Hide) -> None:
    made = Messages.of_triples(np.array([(0, 0, 1), (0, 1, 1), (2, 0, 3)]), N, R)
    hiding, one = Hiding(made, how), np.array([0])
    first = hiding.kept(one, one, one + 1)
    hiding.kept(one + 2, one, one + 3)
    assert torch.equal(hiding.kept(one, one, one + 1), first)
    assert int((~first).sum()) == {"pair": 4, "triple": 2}[how]
