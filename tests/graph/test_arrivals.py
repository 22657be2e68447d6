"""Arrivals: who is affected by what arrives, and what the new ones are made of."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from decentrl.graph.arrivals import Arrivals

N, TRAINED = 12, 5
triple = st.tuples(st.integers(0, N - 1), st.integers(0, 2), st.integers(0, N - 1))
lists = st.lists(triple, max_size=25)


def array(triples: list[tuple[int, int, int]]) -> np.ndarray:
    return np.array(triples, np.int64).reshape(-1, 3)


def arrivals(triples: list[tuple[int, int, int]]) -> Arrivals:
    found = Arrivals(np.arange(N) < TRAINED, array([(0, 0, 1), (1, 1, 2), (3, 0, 4)]))
    found.add(array(triples))
    return found


def test_new_is_who_is_in_no_training_triple() -> None:
    found = arrivals([(0, 0, 1), (7, 0, 1), (7, 2, 9), (7, 0, 1)])
    assert found.new_entities().tolist() == [7, 9]
    assert len(found) == 3
    assert (7, 2, 9) in found
    assert (7, 1, 9) not in found


def test_the_effect_of_a_triple_goes_through_new_entities_only() -> None:
    found = arrivals([(7, 0, 8), (8, 0, 9), (9, 0, 10), (9, 0, 0), (0, 0, 11)])
    changed = array([(7, 0, 8)])
    assert found.affected(changed, 0).tolist() == [7, 8]
    assert found.affected(changed, 1).tolist() == [7, 8, 9]
    assert found.affected(changed, 9).tolist() == [7, 8, 9, 10]  # not 11: 0 was trained


def test_a_neighbourhood_has_all_triples_of_the_new_and_no_others() -> None:
    found = arrivals([(7, 0, 8), (8, 0, 9), (9, 2, 0)])
    part = found.neighbourhood(np.array([7, 8]))
    assert part.entities.tolist() == [7, 8, 9]
    assert part.made.tolist() == [7, 8]
    assert part.triples.tolist() == [[0, 0, 1], [1, 0, 2]]
    wide = found.neighbourhood(np.array([9]), around=True)
    # 9, its neighbours 8 and 0, and their triples: of the new 8 and of 0 in training.
    assert wide.entities.tolist() == [0, 1, 7, 8, 9]
    named = wide.triples.copy()
    named[:, [0, 2]] = wide.entities[named[:, [0, 2]]]
    assert sorted(map(tuple, named.tolist())) == [(0, 0, 1), (7, 0, 8), (8, 0, 9), (9, 2, 0)]


def test_an_entity_of_which_nothing_is_left_is_there_all_the_same() -> None:
    part = arrivals([]).neighbourhood(np.array([8]))
    assert part.entities.tolist() == [8]
    assert part.triples.shape == (0, 3)


@settings(deadline=None)
@given(lists, st.integers(0, 25), st.integers(0, 3))
def test_affected_equals_a_search_over_the_whole_graph(
    triples: list[tuple[int, int, int]], cut: int, hops: int
) -> None:
    found = arrivals(triples)
    later = triples[cut:]
    expected = {end for h, _, t in later for end in (h, t) if end >= TRAINED}
    for _ in range(hops):
        expected |= {
            b for h, _, t in triples for a, b in ((h, t), (t, h)) if a in expected and b >= TRAINED
        }
    assert found.affected(array(later), hops).tolist() == sorted(expected)


@given(lists, st.integers(0, 25))
def test_in_two_steps_or_in_one(triples: list[tuple[int, int, int]], cut: int) -> None:
    once, twice = arrivals(triples), arrivals(triples[:cut])
    twice.add(array(triples[cut:]))
    assert np.array_equal(once.triples, twice.triples)
    assert np.array_equal(once.new_entities(), twice.new_entities())
