"""Answers in ids: which are possible, how they are sorted, and what speaks for them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from decentrl.config import PredictionConfig
from decentrl.graph.queries import Queries
from decentrl.graph.splits import Splits
from decentrl.matching.confidence import Confidence
from decentrl.scorers import completion
from decentrl.scorers.completion import (
    CALIBRATED,
    Completion,
    answered,
    features,
    reliability,
)
from decentrl.scorers.model import PredictionModel

N, R = 8, 3
# 0 likes itself by relation 1; 6 arrives later, nothing is known of 7, relation 2 is never trained.
TRAIN = np.array([(0, 0, 1), (1, 0, 2), (2, 0, 3), (3, 1, 4), (0, 1, 0), (4, 0, 5), (5, 1, 2)])
LATER = np.array([(6, 0, 1)])
VALID = np.array([(1, 0, 3)])
TEST = np.array([(0, 0, 2), (5, 0, 4)])
TOLD = Splits(TRAIN, LATER, VALID, TEST, N, R)
NOBODY = TOLD.queries(TRAIN[:0])
SURE = Confidence(torch.ones(2).double(), 0.5, torch.zeros(2).double(), torch.ones(2).double(), 0.5)


def made(*settings: str, confidence: Confidence | None = None) -> Completion:
    config = PredictionConfig.from_preset("paper", ("model.encoder=none", "model.dim=6"))
    for setting in settings:
        config = config.with_setting(setting)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = PredictionModel(N, R, config).eval()
        vectors = torch.nn.functional.normalize(torch.randn(N, 6), dim=1)
    vectors[7] = 0
    return Completion(model, vectors, TOLD, confidence)


def every_question() -> tuple[np.ndarray, np.ndarray]:
    return np.repeat(np.arange(N), 2 * R), np.tile(np.arange(2 * R), N)


@pytest.mark.parametrize("output", ["tied", "table"])
def test_what_cannot_be_an_answer_is_none(output: str) -> None:
    asked = made(f"model.output={output}")
    scores = asked.possible(*every_question())
    for e, kind, row in zip(*every_question(), scores, strict=True):
        there = set(range(7 if output == "tied" else 6))
        if kind % R != 1:
            there -= {int(e)}
        if kind % R == 2 or e == 7:
            there = set()
        assert set(row.isfinite().nonzero()[:, 0].tolist()) == there
    plain = asked.scores(*map(torch.from_numpy, every_question()))
    assert torch.equal(plain[scores.isfinite()], scores[scores.isfinite()])


def test_rows_of_a_table_nobody_trained_are_ranked_last() -> None:
    scores = made("model.output=table").scores(torch.tensor([0, 3]), torch.tensor([0, 1]))
    assert torch.equal(scores[:, 6:], scores[:, :6].amin(1, keepdim=True).expand(-1, 2))


@pytest.mark.parametrize("decoder", ["transe", "rotate", "distmult", "complex"])
def test_who_has_no_vector_is_ranked_last(decoder: str) -> None:
    asked = made(f"decoder.name={decoder}")
    entities, kinds = map(torch.from_numpy, every_question())
    scores = asked.scores(entities, kinds)
    assert (scores[:, 7] == scores.amin(1)).all()
    told = scores[:, :7]
    torch.testing.assert_close(told, asked.model.scores(asked.ground, entities, kinds)[:, :7])
    assert (told.amax(1) > scores[:, 7])[entities != 7].all()


@pytest.mark.parametrize("also_known", [False, True])
def test_answers_are_the_best_scores_whatever_the_blocks(
    also_known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = made(confidence=SURE)
    found = asked.entities(*every_question(), TOLD.every, 4, also_known)
    scores = asked.possible(*every_question())
    told = answered(TOLD.every, *every_question(), N)
    unknown = scores.masked_fill(told, -torch.inf)
    for row, answers in enumerate(found):
        rivals = (scores if also_known else unknown)[row]
        best = [i for i in rivals.argsort(descending=True).tolist() if rivals[i].isfinite()][:4]
        assert [answer.id for answer in answers] == best
        for answer in answers:
            assert answer.score == scores[row, answer.id].item()
            assert answer.known == bool(told[row, answer.id])
            if answer.known:
                assert answer.probability is None
            else:
                share = (unknown[row] - unknown[row].logsumexp(0)).double()
                chance = torch.sigmoid(share[answer.id] + share.max() + 0.5).item()
                assert answer.probability == pytest.approx(chance, abs=1e-6)
    monkeypatch.setattr(completion, "CELLS", 5 * N)
    parted = asked.entities(*every_question(), TOLD.every, 4, also_known)
    assert [[a.id for a in row] for row in parted] == [[a.id for a in row] for row in found]


def test_without_confidence_there_are_no_probabilities() -> None:
    rows = made().entities(np.array([0]), np.array([0]), NOBODY, 5)
    assert [answer.probability for answer in rows[0]] == [None] * 5


def test_relations_are_sorted_too() -> None:
    asked = made()
    heads, tails = np.array([0, 0, 7]), np.array([1, 4, 1])
    known, other, nothing = asked.relations(heads, tails, TOLD.every, 9, also_known=True)
    assert sorted(answer.id for answer in known) == [0, 1]  # nobody trained 2
    assert {answer.id: answer.known for answer in known} == {0: True, 1: False}
    assert [answer.score for answer in other] == sorted((a.score for a in other), reverse=True)
    assert nothing == []
    assert [a.id for a in asked.relations(heads, tails, TOLD.every, 9)[0]] == [1]
    assert asked.relations(heads, tails, TOLD.every, 1)[1] == other[:1]


def test_a_relation_to_an_answer_is_told_by_the_table_that_answers() -> None:
    asked = made("model.output=table")
    assert asked.model.table is not None
    heads, tails = np.array([0, 0]), np.array([1, 6])  # no row of the table was trained for 6
    found, nothing = asked.relations(heads, tails, NOBODY, 9)
    assert nothing == []
    for answer in found:
        kind = torch.tensor([answer.id])
        scores = asked.model.scores(asked.ground, torch.tensor([0]), kind)
        assert answer.score == pytest.approx(scores[0, 1].item(), rel=1e-5)


@pytest.mark.parametrize("decoder", ["transe", "rotate"])
def test_what_was_learned_by_distances_is_told_by_distances(decoder: str) -> None:
    squares, distances = (
        made(f"decoder.name={decoder}", f"loss.root={root}") for root in ("false", "true")
    )
    entities, kinds = (torch.from_numpy(part) for part in every_question())
    model, x = distances.model, distances.ground
    found = model.scores(x, entities, kinds)
    scale = model.log_scale.exp()
    with torch.no_grad():
        places = model.decoder.query(x[entities], kinds) / 2
        expected = -torch.cdist(places, x) * scale.sqrt()
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=5e-3)
    before = squares.model.scores(x, entities, kinds)
    apart = before.diff(dim=1).abs() > 1e-4
    assert torch.equal(before.diff(dim=1).sign()[apart], found.diff(dim=1).sign()[apart])


triple_lists = st.lists(
    st.tuples(st.integers(0, N - 1), st.integers(0, R - 1), st.integers(0, N - 1)), max_size=12
)


@given(triple_lists)
@settings(deadline=None, max_examples=30)
def test_known_answers_are_found(triples: list[tuple[int, int, int]]) -> None:
    known = Queries.of(np.array(triples, np.int64).reshape(-1, 3), R)
    true = {(h, r, t) for h, r, t in triples} | {(t, r + R, h) for h, r, t in triples}
    entities, kinds = every_question()
    expected = [[(e, k, a) in true for a in range(N)] for e, k in zip(entities, kinds, strict=True)]
    assert answered(known, entities, kinds, N).tolist() == expected


def test_the_share_of_an_answer_and_of_the_best_speak_for_it() -> None:
    unknown = torch.tensor([[0.2, 0.5, 0.3]]).log()
    found = features(unknown[:, [1, 0]], unknown)
    assert found.dtype == torch.float64
    torch.testing.assert_close(found.exp()[0], torch.tensor([[0.5, 0.5], [0.2, 0.5]]).double())


def test_evidence_is_of_the_best_unknown_answers_of_each_question(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(completion, "CALIBRATED", 3)
    asked, held, known = made(), TOLD.queries(TEST), TOLD.queries(TOLD.now, VALID)
    facts, right = asked.evidence(held, known)
    rows = asked.entities(held.entities, held.relations, known, 3)
    truth = answered(held, held.entities, held.relations, N)
    expected = [bool(truth[i, a.id]) for i, answers in enumerate(rows) for a in answers]
    assert right.tolist() == expected
    assert any(expected)
    assert facts.shape == (len(expected), 2)


def test_a_score_that_speaks_against_an_answer_is_not_listened_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    facts = torch.tensor([[-3.0, -1], [-2, -2], [-1, -1], [-0.5, -0.5]]).double()

    def learned(right: list[bool]) -> Tensor:
        told = facts.clone(), torch.tensor(right)
        monkeypatch.setattr(Completion, "evidence", lambda *_: told)
        return made().calibrated(NOBODY, NOBODY).weights

    assert learned([False, False, True, True])[0] > 0
    assert learned([True, True, False, False])[0] == 0


def test_reliability_is_empty_where_nothing_was_learned_or_held_out() -> None:
    held, known = TOLD.queries(TEST), TOLD.known

    def measured(made: Completion, asked: Queries) -> dict[str, float]:
        asking = asked.entities, asked.relations
        return reliability(asked, made.entities(*asking, known, CALIBRATED))

    assert measured(made(), held) == {}
    assert measured(made(confidence=SURE), NOBODY) == {}
    found = measured(made(confidence=SURE), held)
    facts, right = made().evidence(held, known)
    assert found["mean"] == pytest.approx(SURE(facts).mean().item())
    assert found["right"] == pytest.approx(right.double().mean().item())
