"""Neighbourhoods of two graphs, compared by what neighbours match."""

from __future__ import annotations

from collections import Counter
from math import log, sqrt

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from decentrl.data.knowledge_graph import KnowledgeGraph
from decentrl.data.vocabulary import Vocabulary
from decentrl.growth.growing_graph import GrowingGraph
from decentrl.growth.neighbourhoods import UNSEEN, Neighbourhoods

N, R = 6, 2
Triple = tuple[int, int, int]
TRIPLES = st.lists(
    st.tuples(st.integers(0, N - 1), st.integers(0, R - 1), st.integers(0, N - 1)),
    min_size=1,
    max_size=15,
    unique=True,
)
PAIRS = st.permutations(range(N)).map(lambda x: list(enumerate(x)))


def graph_of(triples: list[Triple], arrived: list[Triple]) -> GrowingGraph:
    """A graph in which all entities and relations are known."""
    entities, relations = (Vocabulary(f"{x}{i}" for i in range(n)) for x, n in (("e", N), ("r", R)))
    early, late = (np.array(x, np.int64).reshape(-1, 3) for x in (triples, arrived))
    return GrowingGraph(
        KnowledgeGraph(entities, relations, np.unique(early, axis=0)),
        late,
        torch.zeros(N, 1),
        dict,
        0,
    )


def about(triples: list[Triple]) -> list[tuple[int, int, int]]:
    """Own entity, directed relation and neighbour, from both ends."""
    inverse = [(t, r + R, h) for h, r, t in triples]
    return [*triples, *inverse]


def compared(
    source: list[Triple],
    target: list[Triple],
    pairs: list[tuple[int, int]],
    asked: list[tuple[int, int, bool]],
    sure: dict[int, tuple[int, float]],
) -> list[float]:
    """What :class:`Neighbourhoods` computes, written down as it is defined."""
    there, same = about(target), dict(pairs)
    kinds = Counter((r, b) for _, r, b in there)
    degrees = Counter(b for _, _, b in there)
    seen = Counter(r for a, r, b in about(source) if a in same and b in same)
    both = Counter(
        (r, s)
        for a, r, b in about(source)
        for x, s, y in there
        if a in same and b in same and (same[a], same[b]) == (x, y)
    )

    def rarity(times: int) -> float:
        return log(N / min(max(times, 1), N))

    found = []
    for entity in range(N):
        own = [(r, b) for a, r, b in there if a == entity]
        length = sqrt(sum(rarity(kinds[x]) ** 2 for x in own))
        total, mine = 0.0, 0.0
        for relation, neighbour, head in asked:
            if neighbour not in sure:
                continue
            other, confidence = sure[neighbour]
            r = relation if head else relation + R
            total += (confidence * rarity(degrees[other])) ** 2
            mine += max(
                (
                    confidence * rarity(kinds[s, b]) ** 2 * max(UNSEEN, both[r, s] / (seen[r] + 1))
                    for s, b in own
                    if b == other
                ),
                default=0.0,
            )
        found.append(min(1.0, mine / max(1e-9, length) / max(1e-9, sqrt(total))))
    return found


@given(TRIPLES, TRIPLES, PAIRS, st.data())
def test_it_is_what_its_definition_says(
    source: list[Triple], target: list[Triple], pairs: list[tuple[int, int]], data: st.DataObject
) -> None:
    known = data.draw(st.integers(0, N))
    sure = {a: (b, data.draw(st.sampled_from([0.0, 0.5, 1.0]))) for a, b in pairs[1:]}
    asked = [(r, b, head) for (_, r, b), head in zip(source, [True, False] * 8, strict=False)]
    early, late = target[::2], [x for x in target[1::2] if x not in target[::2]]
    made = Neighbourhoods(
        graph_of(source, []),
        graph_of(early, late),
        np.array(pairs[:known], np.int64).reshape(-1, 2),
    )
    expected = compared(source, [*early, *late], pairs[:known], asked, sure)
    assert made.compare(asked, sure) == pytest.approx(expected, abs=1e-9)


def test_rare_neighbours_in_relations_that_agree_count() -> None:
    """Entities 0 to 2 are hubs and neighbours; 3, 4 and 5 are asked about."""
    triples = [(3, 0, 0), (4, 0, 0), (5, 0, 0), (3, 1, 1), (4, 1, 2), (5, 0, 1)]
    graph = graph_of(triples, [])
    same = np.array([(i, i) for i in range(N)])
    sure = {i: (i, 1.0) for i in range(3)}
    found = Neighbourhoods(graph, graph, same).compare([(0, 0, True), (1, 1, True)], sure)
    assert found.argmax() == 3
    assert found[5] > 0.5 * UNSEEN * found[3]
    assert found[3] > 2 * max(found[4], found[5])
    # Nothing is known of the neighbours: nothing is alike.
    assert not Neighbourhoods(graph, graph, same).compare([(0, 0, True)], {}).any()
