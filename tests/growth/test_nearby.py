"""The doubt beside a match is counted as a plain loop over all pairs and matches would."""

from __future__ import annotations

from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from decentrl.data.knowledge_graph import KnowledgeGraph
from decentrl.growth.growing_graph import GrowingGraph
from decentrl.growth.nearby import doubt_nearby

SIZE = 5
ENDS = st.integers(0, SIZE - 1)
PAIRS = st.lists(st.tuples(ENDS, ENDS), unique=True)
GRAPHS = st.tuples(PAIRS, PAIRS)


def growing(trained: list[tuple[int, int]], later: list[tuple[int, int]]) -> GrowingGraph:
    """A graph of both, of one relation."""
    rows = [(f"{i}", "s", f"{i}") for i in range(SIZE)]  # in this order, by triples that count not
    rows += [(str(head), "r", str(tail)) for head, tail in trained]
    graph = KnowledgeGraph.read(rows)
    arrived = np.array([(h, 1, t) for h, t in later], np.int64).reshape(-1, 3)
    return GrowingGraph(graph, arrived, np.zeros((SIZE, 1)), dict, 0)  # type: ignore[arg-type]


@given(GRAPHS, GRAPHS, PAIRS, st.data())
def test_it_is_the_doubt_about_pairs_of_neighbours_of_both_ends(
    left: tuple[list[tuple[int, int]], list[tuple[int, int]]],
    right: tuple[list[tuple[int, int]], list[tuple[int, int]]],
    pairs: list[tuple[int, int]],
    data: st.DataObject,
) -> None:
    matches = list(dict(data.draw(PAIRS)).items())
    doubt = [data.draw(st.sampled_from([0.0, 0.1, 0.25])) for _ in pairs]
    graphs = growing(*left), growing(*right)
    near = [
        {(a, b) for edge in parts[0] + parts[1] for a, b in (edge, edge[::-1]) if a != b}
        for parts in (left, right)
    ]
    found = doubt_nearby(
        graphs,
        np.array(matches, np.int64).reshape(-1, 2),
        np.array(pairs, np.int64).reshape(-1, 2),
        np.array(doubt),
    )
    wanted = np.zeros(len(matches))
    for (i, (a, b)), ((c, d), much) in product(enumerate(matches), zip(pairs, doubt, strict=True)):
        wanted[i] += much * ((a, c) in near[0] and (b, d) in near[1])
    np.testing.assert_allclose(found, wanted)
