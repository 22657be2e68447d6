"""Answers by paths: what a step hides and compares, and what to hide.

Each change of the left column was made by hand, one at a time; the tests beside it failed.

=========================================  =====================================================
change                                     test that fails
=========================================  =====================================================
degrees counted with the hidden edges      test_a_step_learns_from_the_graph_without_its_answers
hide nothing                               test_a_step_learns_from_the_graph_without_its_answers
other known answers compete                test_other_known_answers_do_not_compete
entities without an edge compete           test_other_known_answers_do_not_compete
=========================================  =====================================================
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from decentrl.config import PredictionConfig
from decentrl.data.graph_task import GraphTask
from decentrl.data.registry import load_task
from decentrl.graph.adjacency import Ids
from decentrl.graph.messages import Messages
from decentrl.graph.splits import Splits
from decentrl.nn.frontier import frontier_scores
from decentrl.scorers.completion import Completion
from decentrl.scorers.paths import PathObjective, PathScorer, what_to_hide

N, R = 9, 2
# Entity 8 has no triple; 0 and 1 are joined by both relations.
TRIPLES = np.array(
    [(0, 0, 1), (0, 0, 2), (0, 1, 1), (1, 1, 3), (3, 0, 4), (4, 1, 5), (5, 0, 6), (7, 1, 2)]
)
NOTHING = np.empty((0, 3), np.int64)
SMALL = ("model.dim=8", "model.layers=2", "training.batch=3")
CPU = torch.device("cpu")


def scorer(*settings: str) -> PathScorer:
    torch.manual_seed(0)
    config = PredictionConfig.from_preset("paths", (*SMALL, *settings))
    return PathScorer(N, R, config)


def objective(*settings: str, triples: Ids = TRIPLES) -> PathObjective:
    made = scorer(*settings)
    return made.objective(triples, made.read(triples, triples, CPU), NOTHING)


def place(made: PathObjective, entity: int, relation: int, answer: int) -> int:
    found = (made.entities == entity) & (made.relations == relation)
    (one,) = np.flatnonzero(found & (made.queries.answers == answer))
    return int(one)


@pytest.mark.parametrize("frontier", [0, 2])
@pytest.mark.parametrize("how", ["pair", "triple"])
def test_a_step_learns_from_the_graph_without_its_answers(how: str, frontier: int) -> None:
    """The loss is what it would be if the hidden triples had never been there."""
    made = objective(f"model.hide={how}", f"model.frontier={frontier}")
    batch = np.array([place(made, 0, 0, 1), place(made, 4, R + 0, 3)])
    found = made.loss(batch, np.random.default_rng(0))
    gone = {(0, 0, 1), (3, 0, 4)} | ({(0, 1, 1)} if how == "pair" else set())
    left = np.array([row for row in TRIPLES.tolist() if tuple(row) not in gone])
    graph = Messages.of_triples(left, N, R)
    scores = made.model.propagated(graph, torch.tensor([0, 4]), torch.tensor([0, R]))
    others = torch.zeros(2, N, dtype=torch.bool)
    others[0, 2] = True  # another answer that is known
    others[:, 8] = True
    expected = F.cross_entropy(scores.masked_fill(others, -torch.inf), torch.tensor([1, 3]))
    torch.testing.assert_close(found, expected)


def test_other_known_answers_do_not_compete() -> None:
    made = objective()
    batch = np.array([place(made, 0, 0, 1)])
    given: list[torch.Tensor] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(F, "cross_entropy", lambda x, _: given.append(x) or x.sum())
        made.loss(batch, np.random.default_rng(0))
    competes = given[0].isfinite()[0].tolist()
    assert [i for i in range(N) if not competes[i]] == [2, 8]


def test_an_epoch_asks_about_triples_in_both_directions_each_once() -> None:
    made = objective("training.steps=0")
    batches = made.batches(np.random.default_rng(0))
    assert sorted(np.concatenate(batches).tolist()) == list(range(2 * len(TRIPLES)))
    assert {len(batch) for batch in batches[:-1]} == {3}
    some = objective("training.steps=2").batches(np.random.default_rng(0))
    assert [len(batch) for batch in some] == [3, 3]


@pytest.mark.parametrize(
    ("held_out", "expected"),
    [
        ([(2, 0, 3), (4, 0, 1)], "pair"),  # joins no two entities that are joined in training
        ([(1, 0, 0), (4, 0, 3)], "triple"),
        ([], "triple"),
    ],
)
def test_what_to_hide_is_seen_in_validation_triples(held_out: Any, expected: str) -> None:
    """Where held-out pairs are never joined in training, though training pairs often are."""
    known = np.array([(0, 0, 1), (0, 1, 1), (1, 0, 2), (2, 1, 1), (3, 0, 4)])
    assert what_to_hide(known, np.array(held_out, np.int64).reshape(-1, 3)) == expected


def test_where_no_two_entities_are_joined_twice_it_does_not_matter() -> None:
    chain = np.array([(0, 0, 1), (1, 0, 2), (2, 0, 3)])
    assert what_to_hide(chain, np.array([(0, 0, 3)])) == "triple"


@pytest.mark.data
@pytest.mark.parametrize(
    ("dataset", "expected"),
    [
        ("fb15k-237", "pair"),
        ("wn18rr", "triple"),
        ("fb15k", "triple"),
        ("wn18", "triple"),
        ("inductive/fb237-v1", "triple"),
        ("inductive/wn18rr-v1", "triple"),
    ],
)
def test_of_the_benchmarks_only_one_was_cleaned_of_pairs(dataset: str, expected: str) -> None:
    task = load_task(GraphTask, dataset)
    assert what_to_hide(task.graph.triples, task.valid) == expected


def completion(made: PathScorer, triples: Ids) -> Completion:
    splits = Splits(triples, NOTHING, NOTHING, NOTHING, N, R)
    return Completion(made, made.ground(splits, torch.zeros(N, 0), CPU), splits)


def test_blocks_of_questions_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    made = scorer()
    graph = made.read(TRIPLES, TRIPLES, CPU)
    asked = torch.arange(8), torch.arange(8) % (2 * R)
    before = made.scores(graph, *asked)
    monkeypatch.setattr("decentrl.scorers.paths.CELLS", 1)
    torch.testing.assert_close(made.scores(graph, *asked), before)


def test_an_entity_without_an_edge_neither_asks_nor_answers() -> None:
    asked = completion(scorer(), TRIPLES)
    assert asked.possible(np.array([8]), np.array([0])).eq(-torch.inf).all()
    assert asked.possible(np.array([0]), np.array([0]))[0, 8] == -torch.inf
    ranked = asked.scores(torch.tensor([0]), torch.tensor([0]))[0]
    assert ranked[8] == ranked.min()


def test_a_frontier_is_what_questions_are_answered_by() -> None:
    made, exact = scorer("model.frontier=1"), scorer()
    graph, asked = made.read(TRIPLES, TRIPLES, CPU), (torch.arange(8), torch.arange(8) % (2 * R))
    expected = frontier_scores(made.network, graph, *asked, 1)
    torch.testing.assert_close(made.scores(graph, *asked), expected)
    assert not torch.allclose(exact.scores(graph, *asked), expected)
    wide = scorer("model.frontier=9", "model.layers=1").scores(graph, *asked)
    torch.testing.assert_close(wide, scorer("model.layers=1").scores(graph, *asked))


def test_members_average_their_log_probabilities() -> None:
    made = scorer("model.members=2", "model.layers=3")
    graph, asked = made.read(TRIPLES, TRIPLES, CPU), (torch.arange(8), torch.arange(8) % (2 * R))
    assert len(made.more) == 1
    both = [net(graph, *asked).log_softmax(1) for net in (made.network, made.more[0])]
    assert not torch.allclose(*both)
    torch.testing.assert_close(made.scores(graph, *asked), (both[0] + both[1]) / 2)
    some = 0
    for triple in TRIPLES.tolist():
        alone = scorer("model.layers=3").reasons(graph, *triple, 999)
        found = {path.edges: path.share for path in made.reasons(graph, *triple, 999)}
        assert {path.edges for path in alone} <= set(found)
        assert all(found[path.edges] >= path.share / 2 - 1e-6 for path in alone)
        assert sum(found.values()) <= 1 + 1e-6
        some += len(found)
    assert some


def test_paths_of_a_frontier_join_a_question_with_its_answer() -> None:
    made = scorer("model.frontier=2", "model.layers=3")
    graph = made.read(TRIPLES, TRIPLES, CPU)
    edges = {(h, r, t) for h, r, t in TRIPLES.tolist()}
    edges |= {(t, r + R, h) for h, r, t in TRIPLES.tolist()}
    some = 0
    for h, r, t in TRIPLES.tolist():
        for path in made.reasons(graph, h, r, t, 3):
            nodes = [h, *(v for _, _, v in path.edges)]
            assert nodes[-1] == t
            assert [u for u, _, _ in path.edges] == nodes[:-1]
            assert set(path.edges) <= edges - {(h, r, t), (t, r + R, h)}
            some += 1
    assert some
    assert made.reasons(graph, 0, 0, 6, 3) == []  # too far for two entities a layer


def test_relations_are_compared_by_how_likely_their_answer_is() -> None:
    made = scorer()
    graph = made.read(TRIPLES, TRIPLES, CPU)
    found = made.relation_scores(graph, torch.tensor([0, 3]), torch.tensor([2, 4]))
    for i, (head, tail) in enumerate([(0, 2), (3, 4)]):
        for r in range(R):
            scores = made.scores(graph, torch.tensor([head]), torch.tensor([r]))[0]
            torch.testing.assert_close(found[i, r], scores.log_softmax(0)[tail])
