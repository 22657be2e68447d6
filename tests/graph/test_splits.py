"""What was told, to whom, and what follows from it."""

from __future__ import annotations

import numpy as np

from decentrl.graph.queries import Queries
from decentrl.graph.splits import Splits

TRAIN = np.array([(0, 0, 1), (1, 1, 1)])
LATER = np.array([(3, 0, 0)])
VALID = np.array([(0, 1, 2)])
TEST = np.array([(2, 0, 1)])
TOLD = Splits(TRAIN, LATER, VALID, TEST, n_entities=5, n_relations=3)


def triples(queries: Queries) -> set[tuple[int, int, int]]:
    """Those of the questions for tails."""
    rows, index = queries.places(np.arange(len(queries)))
    found = zip(
        queries.entities[rows], queries.relations[rows], queries.answers[index], strict=True
    )
    return {(int(h), int(r), int(t)) for h, r, t in found if r < 3}


def test_what_came_later_is_seen_and_what_was_held_out_is_not() -> None:
    assert TOLD.now.tolist() == [*TRAIN.tolist(), *LATER.tolist()]
    assert triples(TOLD.known) == {(0, 0, 1), (1, 1, 1), (3, 0, 0)}
    assert triples(TOLD.every) == triples(TOLD.known) | {(0, 1, 2), (2, 0, 1)}
    assert triples(TOLD.true(np.array([(4, 2, 4)]))) == triples(TOLD.every) | {(4, 2, 4)}


def test_who_was_there_and_who_is() -> None:
    assert TOLD.seen.nonzero()[0].tolist() == [0, 1]
    assert TOLD.present.nonzero()[0].tolist() == [0, 1, 3]
    assert TOLD.trained_relations.tolist() == [True, True, False]
    assert TOLD.reflexive.tolist() == [False, True, False]
