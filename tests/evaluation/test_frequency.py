"""How often an answer was right, and how many answers a relation has."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decentrl.evaluation.groups import frequency_scores, relation_categories
from decentrl.graph.queries import Queries

N, R = 4, 3
Triples = list[tuple[int, int, int]]


def questions(triples: Triples, n_relations: int = R) -> Queries:
    return Queries.of(np.array(triples, np.int64).reshape(-1, 3), n_relations)


@given(
    st.lists(
        st.tuples(st.integers(0, N - 1), st.integers(0, R - 1), st.integers(0, N - 1)), max_size=20
    )
)
@settings(deadline=None)
def test_a_score_is_how_many_triples_have_the_answer_there(triples: Triples) -> None:
    distinct = set(triples)
    expected = [
        [sum(k == r and t == e for _, k, t in distinct) for e in range(N)] for r in range(R)
    ] + [[sum(k == r and h == e for h, k, _ in distinct) for e in range(N)] for r in range(R)]
    assert frequency_scores(questions(triples), N).tolist() == expected


def test_an_entity_that_never_answers_scores_nothing() -> None:
    scores = frequency_scores(questions([(0, 1, 2), (3, 1, 2)]), 6)
    assert scores.shape == (2 * R, 6)
    assert scores[1].tolist() == [0, 0, 2, 0, 0, 0]
    assert scores[1 + R].tolist() == [1, 0, 0, 1, 0, 0]
    assert scores.sum() == 4


@pytest.mark.parametrize(
    ("triples", "category"),
    [
        ([(0, 0, 1), (1, 0, 2)], "1-1"),
        ([(0, 0, 1), (0, 0, 2)], "1-N"),
        ([(1, 0, 0), (2, 0, 0)], "N-1"),
        ([(0, 0, 2), (0, 0, 3), (1, 0, 2), (1, 0, 3)], "N-N"),
        ([], "1-1"),
        ([(0, 0, 1), (0, 0, 2), (3, 0, 4)], "1-1"),  # 1.5 tails on average are not yet many
        ([(1, 0, 0), (2, 0, 0), (4, 0, 3)], "1-1"),
        ([(0, 0, 1), (0, 0, 2), (0, 0, 5), (3, 0, 4), (3, 0, 1)], "1-N"),
        ([(1, 0, 0), (2, 0, 0), (5, 0, 0), (4, 0, 3), (1, 0, 3)], "N-1"),
    ],
)
def test_a_relation_is_called_by_how_many_stand_at_its_ends(
    triples: Triples, category: str
) -> None:
    # A second relation that joins everybody does not disturb.
    others = [(h, 1, t) for h in range(6) for t in range(6)]
    assert relation_categories(questions(triples + others, 2)) == [category, "N-N"]
