"""Each question once, with all its answers, in both directions."""

from __future__ import annotations

from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from decentrl.graph.queries import Queries

N, R = 5, 3
Triples = list[tuple[int, int, int]]

triple_lists = st.lists(
    st.tuples(st.integers(0, N - 1), st.integers(0, R - 1), st.integers(0, N - 1)), max_size=20
)


def ids(triples: Triples) -> np.ndarray:
    return np.array(triples, np.int64).reshape(-1, 3)


def brute(triples: Triples) -> dict[tuple[int, int], list[int]]:
    """The answers of every question, sorted."""
    found: dict[tuple[int, int], set[int]] = {}
    for h, r, t in triples:
        found.setdefault((h, r), set()).add(t)
        found.setdefault((t, r + R), set()).add(h)
    return {question: sorted(answers) for question, answers in sorted(found.items())}


def told(queries: Queries) -> dict[tuple[int, int], list[int]]:
    return {
        (int(e), int(r)): queries.answers[queries.indptr[i] : queries.indptr[i + 1]].tolist()
        for i, (e, r) in enumerate(zip(queries.entities, queries.relations, strict=True))
    }


@given(triple_lists)
@settings(deadline=None)
def test_questions_are_sorted_and_have_all_their_answers(triples: Triples) -> None:
    queries, expected = Queries.of(ids(triples), R), brute(triples)
    assert list(told(queries).items()) == list(expected.items())  # the order too
    assert len(queries) == len(expected)
    assert queries.sizes.tolist() == [len(answers) for answers in expected.values()]
    parts = (queries.entities, queries.relations, queries.indptr, queries.answers, queries.sizes)
    assert all(part.dtype == np.int64 for part in parts)


@given(triple_lists)
@settings(deadline=None)
def test_every_triple_gives_two_answers_and_nothing_else_gives_any(triples: Triples) -> None:
    queries = Queries.of(ids(triples), R)
    rows = [(e, r, a) for (e, r), answers in told(queries).items() for a in answers]
    assert len(rows) == 2 * len(set(triples))  # a loop gives two as well
    assert {row for row in rows if row[1] < R} == set(triples)
    assert {(a, r - R, e) for e, r, a in rows if r >= R} == set(triples)


@given(triple_lists, st.randoms(use_true_random=False))
@settings(deadline=None)
def test_neither_order_nor_repetition_of_triples_matters(triples: Triples, random: Random) -> None:
    mixed = triples + [triple for triple in triples if random.random() < 0.5]
    random.shuffle(mixed)
    assert told(Queries.of(ids(mixed), R)) == told(Queries.of(ids(triples), R))


@given(triple_lists)
@settings(deadline=None)
def test_a_question_has_its_answers_and_an_unknown_one_none(triples: Triples) -> None:
    queries = Queries.of(ids(triples), R)
    entities, relations = (part.ravel() for part in np.mgrid[:N, : 2 * R])
    own = brute(triples)
    expected = [
        (place, answer)
        for place, question in enumerate(zip(entities.tolist(), relations.tolist(), strict=True))
        for answer in own.get(question, [])
    ]
    rows, answers = queries.held(entities, relations)
    assert list(zip(rows.tolist(), answers.tolist(), strict=True)) == expected
    rows, answers = queries.held(queries.entities, queries.relations)
    assert rows.tolist() == np.repeat(np.arange(len(queries)), queries.sizes).tolist()
    assert answers.tolist() == queries.answers.tolist()


@given(triple_lists, st.lists(st.integers(0, 1000), max_size=8))
@settings(deadline=None)
def test_places_lists_the_answers_of_chosen_questions_in_their_order(
    triples: Triples, numbers: list[int]
) -> None:
    queries, expected = Queries.of(ids(triples), R), list(brute(triples).values())
    # Any order, any repetition.
    chosen = [number % len(expected) for number in numbers] if expected else []
    rows, index = queries.places(np.array(chosen, np.int64))
    assert rows.tolist() == [a for a, i in enumerate(chosen) for _ in expected[i]]
    assert queries.answers[index].tolist() == [t for i in chosen for t in expected[i]]
    bounds = zip(queries.indptr[chosen][rows], queries.indptr[1:][chosen][rows], strict=True)
    # Equal answers of two questions lie in two places: each has its own question's.
    assert all(low <= i < high for i, (low, high) in zip(index, bounds, strict=True))


@given(triple_lists)
@settings(deadline=None)
def test_the_places_of_all_questions_are_all_places(triples: Triples) -> None:
    queries = Queries.of(ids(triples), R)
    rows, index = queries.places(np.arange(len(queries)))
    assert index.tolist() == list(range(len(queries.answers)))
    assert rows.tolist() == np.repeat(np.arange(len(queries)), queries.sizes).tolist()


def test_without_triples_there_is_nothing_to_ask() -> None:
    queries = Queries.of(np.empty((0, 3), np.int64), R)
    assert (len(queries), queries.indptr.tolist(), queries.answers.tolist()) == (0, [0], [])
    rows, answers = queries.held(np.array([0, 4]), np.array([1, 5]))
    assert (rows.tolist(), answers.tolist()) == ([], [])
    rows, index = queries.places(np.empty(0, np.int64))
    assert (rows.tolist(), index.tolist()) == ([], [])


def test_the_direction_of_a_triple_tells_its_questions_apart() -> None:
    queries = Queries.of(ids([(1, 0, 2), (2, 0, 1), (3, 1, 3)]), R)
    assert told(queries) == {
        (1, 0): [2], (1, 0 + R): [2], (2, 0): [1], (2, 0 + R): [1], (3, 1): [3], (3, 1 + R): [3],
    }  # fmt: skip


@given(triple_lists, st.integers(0, 2**N - 1))
@settings(deadline=None)
def test_questions_may_keep_some_of_their_answers(triples: Triples, bits: int) -> None:
    queries, allowed = Queries.of(ids(triples), R), [bool(bits >> i & 1) for i in range(N)]
    kept = told(queries.with_answers(np.array(allowed)))
    expected = {
        asked: [a for a in answers if allowed[a]] for asked, answers in told(queries).items()
    }
    assert kept == {asked: answers for asked, answers in expected.items() if answers}
