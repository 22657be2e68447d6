"""One entity alone is matched as if all had been matched together."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from decentrl.config import MatchingConfig
from decentrl.matching.confidence import evidence
from decentrl.matching.matchers import MATCHERS, apply_matcher
from decentrl.matching.matches import KEPT, answer
from decentrl.matching.point import (
    COLUMNS,
    ROWS,
    CandidatePairs,
    End,
    Potentials,
    find_candidates,
    rescore,
)
from decentrl.matching.similarity import Scores
from decentrl.matching.sparse import top_pairs
from decentrl.storage.index import ExactIndex

N, M, D = 30, 40, 6
CONFIG = MatchingConfig(temperature=0.1)
NONE = torch.empty(0, dtype=torch.int64)


def unit(n: int, seed: int) -> Tensor:
    x = torch.randn(n, D, generator=torch.Generator().manual_seed(seed))
    return torch.nn.functional.normalize(x)


LEFT, RIGHT = unit(N, 0), unit(M, 1)
# The last five of the left and the last seven of the right are in known links.
FREE = torch.arange(N) < N - 5, torch.arange(M) < M - 7
ENDS = End(LEFT, FREE[0], ExactIndex(LEFT)), End(RIGHT, FREE[1], ExactIndex(RIGHT))
IDS = FREE[0].nonzero()[:, 0], FREE[1].nonzero()[:, 0]


def solve(matcher: str, config: MatchingConfig = CONFIG) -> tuple[Scores, Potentials]:
    scores = apply_matcher(Scores.cosine(LEFT[IDS[0]], RIGHT[IDS[1]]), matcher, config)
    if matcher == "cosine":
        return scores, Potentials(matcher, config, (torch.zeros(N), torch.zeros(M)))
    return scores, Potentials.from_scores(scores, IDS, (N, M), matcher, config)


def question(
    potentials: Potentials, asked: Tensor, counterparts: Tensor = NONE, near: bool = False
) -> CandidatePairs:
    return find_candidates(potentials, ENDS, asked, counterparts, top=3, rivals=True, near=near)


def without_rows(potentials: Potentials) -> Potentials:
    """As if no entity of the rows had been in the full problem."""
    unknown = torch.full((N,), torch.nan)
    columns = potentials.solved[COLUMNS]
    return Potentials(potentials.matcher, potentials.config, (unknown, columns))


@pytest.mark.parametrize("matcher", MATCHERS)
def test_an_answer_and_its_evidence_are_those_of_the_full_problem(matcher: str) -> None:
    scores, potentials = solve(matcher)
    pairs, cosines = rescore(top_pairs(scores, KEPT), scores)
    every, seen = answer(pairs, cosines, top=3), evidence(pairs, cosines)
    for i in range(len(IDS[0])):
        found = question(potentials, torch.tensor([i]))
        row = int((found.rows == i).nonzero())
        one = answer(found.pairs, found.cosines, top=3)
        assert torch.equal(found.columns[one.columns[row]], every.columns[i])
        assert torch.equal(one.scores[row], every.scores[i])
        facts = evidence(found.pairs, found.cosines).features[row]
        assert torch.equal(facts, seen.features[i])


@pytest.mark.parametrize("matcher", MATCHERS)
def test_an_own_term_that_is_not_known_is_made_as_the_full_problem_makes_it(matcher: str) -> None:
    scores, potentials = solve(matcher)
    found = question(without_rows(potentials), IDS[0])
    expected = rescore(top_pairs(scores, 3), scores)[0].best(1)
    best = found.pairs.best(1)
    assert torch.equal(found.columns[best[1]], expected[1])
    assert torch.allclose(best[0], expected[0], atol=1e-5)


@pytest.mark.parametrize("matcher", ["csls", "sinkhorn"])
def test_who_was_in_no_full_problem_gets_what_it_would_have_got_there(matcher: str) -> None:
    """A half-step gives a column what the last turn gave it, up to the turn that is to come."""
    config = MatchingConfig(temperature=0.1, iterations=200)
    _, potentials = solve(matcher, config)
    known = potentials.solved[COLUMNS].clone()
    sizes = (~potentials.solved[ROWS].isnan()).sum(), (~known.isnan()).sum()
    potentials.discard(COLUMNS, torch.arange(3), M)
    assert potentials.solved[COLUMNS][:3].isnan().all()
    made = potentials.values(COLUMNS, ENDS, NONE)
    shift = 0.0
    if matcher == "sinkhorn":  # three columns fewer to share the rows' mass
        shift = 0.1 * torch.log(sizes[1] / (sizes[1] - 3)).item()
    assert torch.allclose(made[:3], known[:3] + shift, atol=1e-4)
    assert torch.equal(made[3 : M - 7], known[3 : M - 7])
    linked = torch.tensor([M - 1])
    assert potentials.values(COLUMNS, ENDS, linked)[M - 1] != 0


def test_a_known_counterpart_is_a_candidate_for_who_asks() -> None:
    _, potentials = solve("sinkhorn")
    linked, counterpart = torch.tensor([N - 1]), torch.tensor([M - 1])
    alone = find_candidates(potentials, ENDS, linked, NONE, top=M, rivals=False, near=False)
    both = find_candidates(potentials, ENDS, linked, counterpart, top=M, rivals=False, near=False)
    assert (M - 1 in alone.columns.tolist(), M - 1 in both.columns.tolist()) == (False, True)
    for found in (alone, both):  # every row's mass is 1
        mass = (found.pairs.values.double() / CONFIG.temperature).exp().sum()
        assert mass.item() == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("matcher", MATCHERS)
def test_by_what_was_found_a_term_is_the_same_if_all_were_found(matcher: str) -> None:
    _, potentials = solve(matcher)
    potentials = without_rows(potentials)
    exact, near = (question(potentials, torch.tensor([1, N - 2]), NONE, x) for x in (False, True))
    best = [found.pairs.best(2) for found in (exact, near)]
    rows = [torch.searchsorted(found.rows, torch.tensor([1, N - 2])) for found in (exact, near)]
    assert torch.allclose(best[0][0][rows[0]], best[1][0][rows[1]], atol=1e-5)


@pytest.mark.parametrize("matcher", MATCHERS)
def test_where_nobody_is_free_only_the_counterpart_is_found(matcher: str) -> None:
    nobody = torch.full((N,), torch.nan), torch.full((M,), torch.nan)
    potentials = Potentials(matcher, CONFIG, nobody)
    ends = tuple(
        End(end.vectors, torch.zeros_like(end.free), ExactIndex(end.vectors)) for end in ENDS
    )
    asked = torch.tensor([2])
    for near in (False, True):
        found = find_candidates(
            potentials, (ends[0], ends[1]), asked, NONE, top=2, rivals=True, near=near
        )
        assert answer(found.pairs, found.cosines, top=2).columns.tolist() == [[-1, -1]]
        one = torch.tensor([5])
        found = find_candidates(
            potentials, (ends[0], ends[1]), asked, one, top=2, rivals=True, near=near
        )
        assert found.columns.tolist() == [5]
        assert found.pairs.values.isfinite().all()


def test_csls_is_the_same_from_both_sides_and_sinkhorn_is_not() -> None:
    _, potentials = solve("csls")
    assert torch.equal(potentials.T.solved[0].nan_to_num(), potentials.solved[1].nan_to_num())
    with pytest.raises(AssertionError):
        _ = solve("sinkhorn")[1].T
