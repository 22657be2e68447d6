"""Two-hop neighbours, against the definition read word by word."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decentrl.graph.hops import Growth, two_hop_neighbours

Triple = tuple[int, int, int]
Pair = tuple[int, int]
N = 6
triple_sets = st.sets(
    st.tuples(st.integers(0, N - 1), st.integers(0, 2), st.integers(0, N - 1)), max_size=14
).map(sorted)


def ids(triples: list[Triple]) -> np.ndarray:
    return np.array(triples, np.int64).reshape(-1, 3)


def joined(*graphs: np.ndarray, dropped: int = 0, growth: Growth | None = None) -> list[Pair]:
    graph = two_hop_neighbours(graphs, N, growth, dropped)
    return list(zip(graph.rows.tolist(), graph.columns.tolist(), strict=True))


def both(*ends: Pair) -> list[Pair]:
    """The pairs and their reverse, each once, in order."""
    return sorted({*ends, *((t, h) for h, t in ends)})


def pairs(triples: list[Triple], dropped: int = 0) -> list[Pair]:
    return joined(ids(triples), dropped=dropped)


def by_definition(triples: list[Triple], dropped: int) -> list[Pair]:
    adjacent = {(h, t) for h, _, t in triples} | {(t, h) for h, _, t in triples}
    paths = [
        (first, second, h, t)
        for h, first, x in triples
        for y, second, t in triples
        if x == y and h != t and (h, t) not in adjacent
    ]
    counts = Counter((first, second) for first, second, _, _ in paths)
    frequent = sorted(counts, key=lambda pattern: (-counts[pattern], pattern))[:dropped]
    return both(*((h, t) for first, second, h, t in paths if (first, second) not in frequent))


@given(triple_sets, st.integers(0, 4))
def test_two_hop_neighbours_are_what_the_definition_says(
    triples: list[Triple], dropped: int
) -> None:
    assert pairs(triples, dropped) == by_definition(triples, dropped)


@given(triple_sets, st.randoms(use_true_random=False))
def test_the_order_of_triples_does_not_matter(triples: list[Triple], random) -> None:
    shuffled = random.sample(triples, len(triples))
    assert pairs(shuffled, 2) == pairs(triples, 2)


def test_a_path_follows_the_direction_of_its_triples() -> None:
    assert pairs([(0, 0, 1), (1, 0, 2)]) == both((0, 2))
    assert pairs([(0, 0, 1), (2, 0, 1)]) == []


@pytest.mark.parametrize("shortcut", [(0, 1, 2), (2, 1, 0)])
def test_adjacent_ends_are_one_hop_apart_whichever_way(shortcut: Triple) -> None:
    assert (0, 2) not in pairs([(0, 0, 1), (1, 0, 2), shortcut])


def test_there_and_back_again_leads_nowhere() -> None:
    assert pairs([(0, 0, 1), (1, 1, 0)]) == []


def test_the_most_frequent_pattern_is_left_out() -> None:
    hub = [(0, 0, 1), (2, 0, 1), (1, 0, 3)]  # two paths of the pattern (0, 0)
    rare = [(3, 1, 4)]  # one path of the pattern (0, 1)
    assert pairs(hub + rare, 0) == both((0, 3), (1, 4), (2, 3))
    assert pairs(hub + rare, 1) == both((1, 4))


def test_patterns_as_frequent_as_each_other_are_dropped_by_their_code() -> None:
    triples = [(0, 1, 1), (1, 0, 2), (3, 0, 4), (4, 1, 5)]  # patterns (1, 0) and (0, 1), once each
    assert pairs(triples, 1) == both((0, 2))


def test_what_arrives_at_a_trained_entity_reaches_nobody_through_it() -> None:
    triples = ids([(0, 0, 1), (1, 0, 2), (1, 1, 3), (4, 0, 2)])
    later = np.array([True, False, True, True])

    def found(trained: list[int], dropped: list[Pair]) -> list[Pair]:
        patterns = np.array(dropped, np.int64).reshape(-1, 2)
        return joined(triples, growth=Growth(np.isin(np.arange(N), trained), later, patterns))

    assert found([1, 2], []) == both((0, 2))  # not (0, 3): both of its triples came later
    assert found([2], []) == both((0, 2), (0, 3))  # through a new entity everything passes
    assert found([2], [(0, 0)]) == both(
        (0, 3)
    )  # what training has left out, not what is frequent now


@given(triple_sets, triple_sets)
@settings(deadline=None)
def test_two_hop_neighbours_join_both_directions_of_each_graph(
    left: list[Triple], right: list[Triple]
) -> None:
    expected = by_definition(left, 1) + by_definition(right, 1)
    assert joined(ids(left), ids(right), dropped=1) == sorted(set(expected))
