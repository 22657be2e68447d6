"""What the baselines of prediction read beside the edges."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from studies.rivals import baseline_view as baselines
from studies.rivals.baseline_view import RAREST, BaselineView

N, R = 6, 3
triple_lists = st.lists(
    st.tuples(st.integers(0, N - 1), st.integers(0, R - 1), st.integers(0, N - 1)), max_size=12
)
Triples = list[tuple[int, int, int]]


def array(triples: Triples) -> np.ndarray:
    return np.array(triples, np.int64).reshape(-1, 3)


def around(triples: Triples) -> dict[int, set[int]]:
    """The directed relations of every entity."""
    found: dict[int, set[int]] = {i: set() for i in range(N)}
    for head, relation, tail in triples:
        found[head].add(relation)
        found[tail].add(R + relation)
    return found


def tells(known: Triples, now: set[int], r: int) -> float:
    """From the formula: how much relation r tells of an entity with the relations ``now``."""
    bags = around(known).values()
    counts = [sum(r in bag for bag in bags) for r in range(2 * R)]

    def implies(a: int, b: int) -> float:
        return sum(a in bag and b in bag for bag in bags) / max(1, counts[a])

    mean = sum(n * implies(r, q) for q, n in enumerate(counts)) / max(1, sum(counts))
    rival = max((implies(other, r) for other in now - {r}), default=0.0)
    return mean / (max(rival, RAREST) if rival else 1.0)


@pytest.mark.parametrize("cells", [1, 20, 10**6])
@settings(deadline=None)
@given(known=triple_lists, later=triple_lists)
def test_relations_tell_what_the_formula_says(cells: int, known: Triples, later: Triples) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(baselines, "CELLS", cells)
        view = BaselineView.of(array(known + later), array(known), N, R)
        found = view.informative
    trained = {relation for _, relation, _ in known}
    edges = [t for t in known + later if t[0] != t[2] and t[1] in trained]
    nodes, kinds = view.edges.nodes, view.edges.relations.columns
    assert nodes.n_edges == 2 * len(edges)
    now = around(edges)
    expected = [
        tells(known, now[i], r) for i, r in zip(nodes.rows.tolist(), kinds.tolist(), strict=True)
    ]
    torch.testing.assert_close(found, torch.tensor(expected))


@given(triple_lists)
def test_groups_and_messages_are_the_same_edges(triples: Triples) -> None:
    view = BaselineView.of(array(triples), array(triples), N, R)
    nodes, kinds = view.edges.nodes, view.edges.relations.columns
    ends = list(zip(nodes.rows.tolist(), kinds.tolist(), strict=True))
    groups = view.groups.tolist()
    assert len(set(groups)) == len(set(ends)) == len(set(zip(ends, groups, strict=True)))
    chosen = view.message_edges
    assert sorted(chosen.tolist()) == list(range(nodes.n_edges))
    backwards = kinds[chosen] >= R
    assert torch.equal(view.messages.rows, nodes.rows[chosen] + N * backwards)
    pairs = view.edges.pairs
    assert torch.equal(pairs.rows[view.messages.columns], nodes.columns[chosen])
    assert torch.equal(pairs.columns[view.messages.columns], kinds[chosen])
