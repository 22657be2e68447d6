"""Ranks among all entities without the other right answers, against brute force and PyKEEN."""

from __future__ import annotations

import warnings
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from decentrl.errors import InputError
from decentrl.evaluation import filtered
from decentrl.evaluation import ranks as ranks_module
from decentrl.evaluation.filtered import draw_wrong, rank_answers
from decentrl.evaluation.metrics import mean_rank
from decentrl.graph.queries import Queries

N, R = 5, 2
Triples = list[tuple[int, int, int]]

triple_lists = st.lists(
    st.tuples(st.integers(0, N - 1), st.integers(0, R - 1), st.integers(0, N - 1)), max_size=12
)


def questions(triples: Triples, n_relations: int = R) -> Queries:
    return Queries.of(np.array(triples, np.int64).reshape(-1, 3), n_relations)


def table_of(seed: int) -> Tensor:
    """Scores of every answer to every question, with many ties: [N, 2 · R, N]."""
    integers = np.random.default_rng(seed).integers(-2, 3, (N, 2 * R, N))
    return torch.from_numpy(integers).double()


def brute(table: Tensor, asked: Triples, known: Triples, slack: float = 0.0) -> list[list[int]]:
    """(better, tied) of every question's every answer, sorted as questions are."""
    true = {(h, r, t) for h, r, t in known} | {(t, r + R, h) for h, r, t in known}
    rows = {(h, r, t) for h, r, t in asked} | {(t, r + R, h) for h, r, t in asked}
    found = []
    for e, r, answer in sorted(rows):
        right = table[e, r, answer].item()
        rivals = [table[e, r, a].item() for a in range(N) if a == answer or (e, r, a) not in true]
        better = sum(score > right + slack for score in rivals)
        found.append([better, sum(score >= right - slack for score in rivals) - better])
    return found


def listed(ranks: Any) -> list[list[int]]:
    return [list(pair) for pair in zip(ranks.better.tolist(), ranks.tied.tolist(), strict=True)]


@given(
    triple_lists,
    triple_lists,
    st.booleans(),
    st.integers(0, 2**16),
    st.sampled_from([1, N, 2 * N + 1, 2**25]),
    st.sampled_from([0.0, filtered.TOLERANCE]),
)
@settings(deadline=None)
def test_better_and_tied_answers_are_counted_without_other_right_ones(
    asked: Triples, known: Triples, told: bool, seed: int, cells: int, tolerance: float
) -> None:
    true = asked + known if told else known  # what is asked need not be known
    table, sizes = table_of(seed), list[int]()

    def score(entities: Tensor, relations: Tensor) -> Tensor:
        sizes.append(len(entities))
        return table[entities, relations]

    with patch.object(filtered, "CELLS", cells):
        ranks = rank_answers(score, questions(asked), questions(true), N, tolerance=tolerance)
    assert listed(ranks) == brute(table, asked, true)
    assert sum(sizes) == len(questions(asked))
    assert max(sizes, default=0) <= max(1, cells // N)


@given(triple_lists.filter(len), st.integers(0, 2**16))
@settings(deadline=None, max_examples=30)
def test_an_answer_never_counts_against_itself(asked: Triples, seed: int) -> None:
    table = table_of(seed)
    ranks = rank_answers(lambda e, r: table[e, r], questions(asked), questions([]), N)
    again = rank_answers(lambda e, r: table[e, r], questions(asked), questions(asked), N)
    assert (again.tied >= 1).all()
    assert (again.better <= ranks.better).all()
    assert (again.tied <= ranks.tied).all()


def test_scores_are_tied_within_a_millionth_of_the_largest_of_their_question() -> None:
    table = torch.zeros(N, 2 * R, N, dtype=torch.float64)
    table[0, 0] = table.new_tensor([50.0, 50.00009, 50.0002, 49.99991, -100])
    table[1, 0] = table.new_tensor([1.0, 1.0000005, 1.00009, 0.9999995, 0])
    table[:, R:] = 1e9  # another question's scores have no say
    asked = [(0, 0, 0), (1, 0, 0)]

    def ranked(known: Triples, tolerance: float) -> list[list[int]]:
        ranks = rank_answers(
            lambda e, r: table[e, r], questions(asked), questions(known), N, tolerance=tolerance
        )
        return [listed(ranks)[0], listed(ranks)[-1]]  # (0, 0, ?) is first, (1, 0, ?) last

    assert ranked([], 1e-6) == [[1, 3], [1, 3]]
    assert ranked([], 0) == [[2, 1], [2, 1]]
    # A tied, a better and a worse right answer each leave their own count.
    assert ranked([(0, 0, 1), (1, 0, 2)], 1e-6) == [[1, 2], [0, 3]]
    assert ranked([(0, 0, 4), (1, 0, 3)], 1e-6) == [[1, 3], [1, 2]]


@pytest.mark.parametrize("cells", [1, 2 * N, 2**25])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_many_rows_at_a_time_count_as_one_by_one(
    cells: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranks_module, "CELLS", cells)
    block = table_of(1).flatten(0, 1).to(dtype) / 3
    at = torch.tensor([0, 0, 3, 7, 7, 7, 19])
    right = block[at, torch.tensor([0, 4, 1, 2, 2, 3, 0])]
    limits = (right + 1 / 3, right - 1 / 3)
    found = ranks_module.count_above(block, at, *limits)
    for counts, other in zip(
        found, ranks_module._count_above_in_blocks(block, at, *limits), strict=True
    ):
        assert counts.dtype == other.dtype == torch.int64
        assert torch.equal(counts, other)
    assert found[0].any()
    assert (found[1] > 1).any()


def test_nothing_asked_has_no_ranks() -> None:
    ranks = rank_answers(lambda e, r: table_of(0)[e, r], questions([]), questions([(0, 0, 1)]), N)
    assert len(ranks) == 0


def test_the_order_of_ranks_is_that_of_the_answers() -> None:
    # 3 answers 4 questions best of all, 0 worst: the rank tells the answer.
    scores = torch.arange(N, dtype=torch.float64)
    asked = questions([(0, 1, 4), (0, 1, 0), (2, 0, 3), (1, 1, 2)])
    ranks = rank_answers(lambda e, _: scores.repeat(len(e), 1), asked, questions([]), N)
    assert (N - 1 - ranks.better).tolist() == asked.answers.tolist()


# PyKEEN.


def pykeens(table: Tensor, triples: Tensor, known: Tensor, n_relations: int) -> list[Tensor]:
    """Its filtered realistic ranks of tails and of heads."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pykeen.evaluation import RankBasedEvaluator
        from pykeen.evaluation.evaluator import create_sparse_positive_filter_, filter_scores_
    evaluator = RankBasedEvaluator(filtered=True)
    found = []
    for target, column in (("tail", 2), ("head", 0)):
        kinds = triples[:, 1] + (0 if column == 2 else n_relations)
        scores = table[triples[:, 2 - column], kinds].clone()
        right = scores.gather(1, triples[:, column, None])
        positives, _ = create_sparse_positive_filter_(triples, known, filter_col=column)
        scores = filter_scores_(scores, positives).scatter(1, triples[:, column, None], right)
        evaluator.process_scores_(triples, target, scores, right)
        (ranks,) = evaluator.ranks[target, "realistic"]
        found.append(torch.from_numpy(ranks).double())
    return found


@pytest.mark.parametrize("cells", [1, 2000, 2**25])
def test_ranks_are_pykeens_realistic_ones(cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    n, n_relations = 60, 4
    rng = np.random.default_rng(0)
    every = np.unique(rng.integers(0, [n, n_relations, n], (3000, 3)), axis=0)
    rng.shuffle(every)
    test = every[:600]
    table = torch.from_numpy(rng.integers(-4, 5, (n, 2 * n_relations, n))).float()

    monkeypatch.setattr(filtered, "CELLS", cells)
    asked, known = Queries.of(test, n_relations), Queries.of(every, n_relations)
    ranks = rank_answers(lambda e, r: table[e, r], asked, known, n, tolerance=0)
    assert (ranks.tied > 1).sum() > 1000
    rows = zip(
        np.repeat(asked.entities, asked.sizes).tolist(),
        np.repeat(asked.relations, asked.sizes).tolist(),
        asked.answers.tolist(),
        strict=True,
    )
    ours = dict(zip(rows, mean_rank(ranks).tolist(), strict=True))

    tails, heads = pykeens(table, torch.from_numpy(test), torch.from_numpy(every), n_relations)
    theirs = {(h, r, t): k for (h, r, t), k in zip(test.tolist(), tails.tolist(), strict=True)}
    theirs |= {
        (t, r + n_relations, h): k
        for (h, r, t), k in zip(test.tolist(), heads.tolist(), strict=True)
    }
    assert len(ours) == len(theirs) == 1200
    assert ours == theirs


@given(triple_lists, triple_lists, st.integers(0, 2**16), st.integers(0, 2**N - 1))
@settings(deadline=None)
def test_answers_may_be_ranked_among_some_entities(
    asked: Triples, known: Triples, seed: int, bits: int
) -> None:
    table, mask = table_of(seed), torch.tensor([bool(bits >> i & 1) for i in range(N)])
    queries = questions(asked).with_answers(mask.numpy())
    found = rank_answers(
        lambda e, r: table[e, r].clone(), queries, questions(known), N, tolerance=0, among=mask
    )
    true = {(h, r, t) for h, r, t in known} | {(t, r + R, h) for h, r, t in known}
    expected = []
    rows = np.repeat(np.arange(len(queries)), queries.sizes)
    for i, answer in zip(rows.tolist(), queries.answers.tolist(), strict=True):
        e, r = int(queries.entities[i]), int(queries.relations[i])
        assert mask[answer]
        right = table[e, r, answer]
        rivals = [table[e, r, a] for a in range(N)
                  if mask[a] and (a == answer or (e, r, a) not in true)]  # fmt: skip
        better = sum(bool(score > right) for score in rivals)
        expected.append([better, sum(bool(score >= right) for score in rivals) - better])
    assert listed(found) == expected


def test_answers_may_be_ranked_among_wrong_ones_drawn_once() -> None:
    asked, known = questions([(0, 0, 1), (0, 0, 2), (3, 1, 4)]), questions([(0, 0, 1), (0, 0, 2)])
    table, every = table_of(0), np.arange(N)
    drawn = draw_wrong(asked, known, every, 2)
    assert torch.equal(drawn, draw_wrong(asked, known, every, 2))
    assert not torch.equal(drawn, draw_wrong(asked, known, every, 2, seed=1))
    rows = np.repeat(np.arange(len(asked)), asked.sizes)
    ranks = rank_answers(
        lambda e, r: table[e, r].clone(), asked, known, N, tolerance=0, drawn=drawn
    )
    for k, (i, answer) in enumerate(zip(rows.tolist(), asked.answers.tolist(), strict=True)):
        e, r = int(asked.entities[i]), int(asked.relations[i])
        rivals = drawn[k].tolist()
        assert len(set(rivals)) == 2
        assert not set(rivals) & set(known.held(np.array([e]), np.array([r]))[1].tolist())
        right = table[e, r, answer]
        assert ranks.better[k] == sum(bool(table[e, r, a] > right) for a in rivals)
        assert ranks.tied[k] == 1 + sum(bool(table[e, r, a] == right) for a in rivals)
    # Where there are too few, some are drawn twice; where there are none, that is said.
    assert draw_wrong(asked, known, every[3:4], 5).eq(3).all()
    with pytest.raises(InputError, match="there are no wrong answers to draw"):
        draw_wrong(asked, known, np.array([1, 2]), 5)
