"""Entities that no known link has taken: who they are, how they are matched, how surely."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from decentrl.config import MatchingConfig
from decentrl.evaluation.metrics import summary
from decentrl.evaluation.ranks import Ranks
from decentrl.graph.adjacency import Ids
from decentrl.matching.confidence import choose_threshold, evidence
from decentrl.matching.matches import best_pairs
from decentrl.matching.similarity import Scores
from decentrl.matching.sparse import SparseScores
from decentrl.training import unlinked as unlinked_module
from decentrl.training.unlinked import (
    VALIDATED,
    Unlinked,
    found_links,
    held_out_ranks,
    learn_confidence,
    worth_keeping,
)

LEFT, RIGHT = 7, 6
NOBODY = np.empty(0, np.int64)
link_lists = st.lists(
    st.tuples(st.integers(0, LEFT - 1), st.integers(LEFT, LEFT + RIGHT - 1)), max_size=6
)
matchers = pytest.mark.parametrize("matcher", ["cosine", "csls", "sinkhorn"])


def ids(links: list[tuple[int, int]]) -> Ids:
    return np.array(links, np.int64).reshape(-1, 2)


def noisy_twins(size: int, noise: float, seed: int = 0) -> Tensor:
    """Unit vectors of ``size`` left entities, then of their counterparts, some of them far off."""
    random = torch.Generator().manual_seed(seed)
    left = torch.randn(size, 16, generator=random, dtype=torch.float64)
    level = noise * 2 * torch.rand(size, 1, generator=random, dtype=torch.float64)
    right = left + level * torch.randn(size, 16, generator=random, dtype=torch.float64)
    return F.normalize(torch.cat((left, right)), dim=1)


# Who they are.


@given(link_lists, link_lists)
def test_they_are_those_outside_the_links_and_those_asked_for_anyway(
    links: list[tuple[int, int]], asked: list[tuple[int, int]]
) -> None:
    unlinked = Unlinked.of(LEFT, ids(links), ids(asked), np.arange(LEFT + RIGHT))
    for found, side, everybody in (
        (unlinked.left, 0, range(LEFT)),
        (unlinked.right, 1, range(LEFT, LEFT + RIGHT)),
    ):
        taken, named = ({link[side] for link in pairs} for pairs in (links, asked))
        assert found.tolist() == [i for i in everybody if i not in taken or i in named]


@given(link_lists, link_lists)
def test_a_link_that_is_asked_for_has_its_place_among_the_cosines(
    links: list[tuple[int, int]], asked: list[tuple[int, int]]
) -> None:
    unlinked = Unlinked.of(LEFT, ids(links), ids(asked), np.arange(LEFT + RIGHT))
    rows, columns = unlinked.places(ids(asked), torch.device("cpu"))
    found = np.stack((unlinked.left[rows.numpy()], unlinked.right[columns.numpy()]), axis=1)
    assert found.tolist() == ids(asked).tolist()


def test_cosines_are_those_of_the_unlinked_in_their_order() -> None:
    vectors = noisy_twins(5, 1.0)
    unlinked = Unlinked.of(5, np.array([(0, 6), (3, 9)]), np.array([(1, 9)]), np.arange(10))
    cosine = unlinked.cosine(vectors)
    assert cosine.shape == (3, 4)
    whole = [[float(vectors[i] @ vectors[j]) for j in (5, 7, 8, 9)] for i in (1, 2, 4)]
    torch.testing.assert_close(cosine.block(slice(None)), torch.tensor(whole).double())


# Matching them with each other.


def dense_scores(cosine: np.ndarray, matcher: str, config: MatchingConfig) -> np.ndarray:
    """A matcher over the whole matrix."""
    if matcher == "csls":
        k = config.csls_k
        rows, columns = (-np.sort(-cosine, axis=axis) for axis in (1, 0))
        return 2 * cosine - rows[:, :k].mean(1)[:, None] - columns[:k].mean(0)
    if matcher == "sinkhorn":
        return config.temperature * np.log(dense_mass(cosine, config))
    return cosine


def dense_mass(cosine: np.ndarray, config: MatchingConfig) -> np.ndarray:
    mass = np.exp(cosine / config.temperature)
    for _ in range(config.iterations):
        mass /= mass.sum(1, keepdims=True)
        mass /= mass.sum(0) * mass.shape[1] / mass.shape[0]
    return mass / mass.sum(1, keepdims=True)


@matchers
@pytest.mark.parametrize("noise", [0.1, 0.7, 3.0])
def test_held_out_links_are_ranked_among_all_unlinked_entities(matcher: str, noise: float) -> None:
    size, config = 30, MatchingConfig(matcher=matcher, temperature=0.05)
    vectors = noisy_twins(size, noise)
    known = np.stack((np.arange(8), size + np.arange(8)), axis=1)
    valid = np.stack((np.arange(10, 22), size + np.arange(10, 22)), axis=1)
    unlinked = Unlinked.of(size, known, valid, np.arange(2 * size))
    found = summary(held_out_ranks(vectors, unlinked, valid, config), VALIDATED)

    left, right = range(8, size), range(size + 8, 2 * size)
    cosine = np.array([[float(vectors[i] @ vectors[j]) for j in right] for i in left])
    scores = dense_scores(cosine, matcher, config)
    ranks = np.array([1 + (scores[i - 8] > scores[i - 8, i - 8]).sum() for i in range(10, 22)])
    assert list(found) == ["hits@1", "hits@10", "mrr"]
    assert found["hits@1"] == pytest.approx((ranks <= 1).mean())
    assert found["hits@10"] == pytest.approx((ranks <= 10).mean())
    assert found["mrr"] == pytest.approx((1 / ranks).mean())


def test_candidates_that_cannot_be_told_apart_share_their_ranks() -> None:
    vectors = torch.ones(8, 1)
    valid = np.array([(0, 4), (1, 5)])
    unlinked = Unlinked.of(4, valid[:0], valid, np.arange(8))
    found = summary(held_out_ranks(vectors, unlinked, valid, MatchingConfig()), VALIDATED)
    assert found["hits@1"] == pytest.approx(1 / 4)
    assert found["mrr"] == pytest.approx((1 + 1 / 2 + 1 / 3 + 1 / 4) / 4)


def ranked(*places: int) -> Ranks:
    return Ranks(torch.tensor(places) - 1, torch.ones(len(places), dtype=torch.int64))


def test_a_loss_within_its_standard_error_is_luck() -> None:
    best = ranked(*[1] * 100)
    assert not worth_keeping(best, best)  # nothing has changed
    assert worth_keeping(ranked(*[1] * 98, 2, 2), ranked(2, *[1] * 99))  # .005 lost, error .009
    assert not worth_keeping(ranked(*[1] * 90, *[2] * 10), best)  # .05 and .015
    assert worth_keeping(
        ranked(*[2] * 50, *[1] * 50), ranked(*[1] * 50, *[2] * 50)
    )  # others are lost
    assert worth_keeping(best, ranked(*[2] * 100))
    assert not worth_keeping(ranked(*[2] * 100), best)  # all the same: no error at all


@given(st.integers(0, 2**16), st.floats(0, 1), st.integers(2, 12), st.integers(2, 12))
@settings(deadline=None, max_examples=60)
def test_found_links_are_mutual_bests_with_enough_mass(
    seed: int, mass: float, n: int, m: int
) -> None:
    random, config = np.random.default_rng(seed), MatchingConfig(temperature=0.1)
    vectors = F.normalize(torch.from_numpy(random.standard_normal((40, 4))), dim=1)
    left = np.sort(random.choice(20, n, replace=False))
    right = np.sort(20 + random.choice(20, m, replace=False))
    found = found_links(vectors, Unlinked(left, right), mass, config)

    share = dense_mass((vectors[left] @ vectors[right].T).numpy(), config)
    expected = [
        [left[i], right[j]]
        for i, j in enumerate(share.argmax(1))
        if share[:, j].argmax() == i and share[i, j] >= mass
    ]
    assert found.tolist() == expected
    assert found.dtype == np.int64


def test_more_mass_is_asked_fewer_links_are_found_and_nobody_is_in_two() -> None:
    vectors = noisy_twins(40, 1.2)
    pool = Unlinked(np.arange(40), np.arange(40, 80))
    found = [
        found_links(vectors, pool, mass, MatchingConfig(temperature=0.1))
        for mass in (0.0, 0.3, 0.6, 0.9)
    ]
    sets = [set(map(tuple, links.tolist())) for links in found]
    assert sets[0] > sets[1] > sets[2] > sets[3]
    for links in found:
        assert len(set(links[:, 0])) == len(set(links[:, 1])) == len(links)


def test_the_twins_that_are_found_are_mostly_twins() -> None:
    vectors = noisy_twins(40, 0.4)
    pool = Unlinked(np.arange(40), np.arange(40, 80))
    links = found_links(vectors, pool, 0.5, MatchingConfig())
    assert len(links) > 20
    assert (links[:, 1] - links[:, 0] == 40).mean() > 0.9


@pytest.mark.parametrize(
    "pool",
    [
        Unlinked(NOBODY, np.array([3, 4])),
        Unlinked(np.array([0, 1]), NOBODY),
        Unlinked(NOBODY, NOBODY),
    ],
    ids=["no-left", "no-right", "neither"],
)
def test_where_a_side_is_all_taken_nothing_is_found(pool: Unlinked) -> None:
    links = found_links(noisy_twins(3, 0.1), pool, 0.3, MatchingConfig())
    assert links.shape == (0, 2)


# How surely.


SIZE = 150


@pytest.fixture(scope="module")
def doubtful() -> tuple[Tensor, Unlinked, Ids]:
    """Twins of which some are hard to find, and the first half of them as held-out links."""
    vectors = noisy_twins(SIZE, 0.9)
    valid = np.stack((np.arange(SIZE // 2), SIZE + np.arange(SIZE // 2)), axis=1)
    return vectors, Unlinked.of(SIZE, valid[:0], valid, np.arange(2 * SIZE)), valid


@matchers
@pytest.mark.parametrize("keep", [0, 10])
def test_right_matches_are_surer_than_wrong_ones_also_of_links_never_held_out(
    doubtful: tuple[Tensor, Unlinked, Ids], matcher: str, keep: int
) -> None:
    vectors, unlinked, valid = doubtful
    config = MatchingConfig(matcher=matcher, temperature=0.05, keep=keep)
    confidence = learn_confidence(vectors, unlinked, valid, config, seed=0)
    seen = evidence(*best_pairs(unlinked.cosine(vectors), matcher, config))
    rest = slice(SIZE // 2, None)
    sure, right = confidence(seen[1])[rest], (seen[0] == torch.arange(SIZE))[rest]
    assert 10 < int(right.sum()) < SIZE // 2 - 10
    assert ((sure >= 0) & (sure <= 1)).all()
    above = (sure[right][:, None] > sure[~right]).double().mean()
    assert above > 0.75
    assert abs(sure.mean() - right.double().mean()) < 0.15


@matchers
def test_the_threshold_is_a_probability_that_gives_up_some_matches(
    doubtful: tuple[Tensor, Unlinked, Ids], matcher: str
) -> None:
    vectors, unlinked, valid = doubtful
    config = MatchingConfig(matcher=matcher, temperature=0.05)
    confidence = learn_confidence(vectors, unlinked, valid, config, seed=0)
    assert 0 < confidence.threshold < 1
    seen = evidence(*best_pairs(unlinked.cosine(vectors), matcher, config))
    answered = confidence(seen[1]) >= confidence.threshold
    right = seen[0] == torch.arange(SIZE)
    assert right[answered].double().mean() > right.double().mean()
    assert not answered.all()


def test_the_threshold_is_learned_from_entities_whose_counterpart_is_gone() -> None:
    vectors, half = noisy_twins(60, 0.4), 30
    valid = np.stack((np.arange(60), 60 + np.arange(60)), axis=1)
    unlinked = Unlinked.of(60, valid[:0], valid, np.arange(120))
    config = MatchingConfig(matcher="cosine")
    confidence = learn_confidence(vectors, unlinked, valid, config, seed=0)

    def answered(candidates: int) -> Tensor:
        cosine = unlinked.cosine(vectors).columns(torch.arange(candidates))
        features = evidence(*best_pairs(cosine, "cosine", config))[1]
        return (confidence(features) >= confidence.threshold).double()

    assert answered(60).mean() > 0.8
    assert answered(half)[:half].mean() > 0.8
    assert answered(half)[half:].mean() < 0.3  # theirs are not among the candidates


def test_every_held_out_link_counts_once_with_its_counterpart_and_once_without(
    doubtful: tuple[Tensor, Unlinked, Ids], monkeypatch: pytest.MonkeyPatch
) -> None:
    examples: list[tuple[Tensor, ...]] = []

    def choose(*arguments: Tensor) -> float:
        examples.append(arguments[:3])
        return choose_threshold(*arguments)

    monkeypatch.setattr(unlinked_module, "choose_threshold", choose)
    vectors, unlinked, valid = doubtful
    learn_confidence(vectors, unlinked, valid, MatchingConfig(), seed=0)
    ((sure, right, there),) = examples
    assert len(sure) == len(right) == 2 * len(valid)
    first, second = there.chunk(2)
    assert torch.equal(first, ~second)
    assert abs(int(first.sum()) - int(second.sum())) <= 1
    assert right.any()
    assert not right[~there].any()
    assert sure[there].mean() > sure[~there].mean()


def test_the_seed_decides_and_nobody_elses_random_numbers_are_drawn(
    doubtful: tuple[Tensor, Unlinked, Ids],
) -> None:
    vectors, unlinked, valid = doubtful
    before = torch.get_rng_state(), np.random.get_state()[1].tolist()
    learned = [
        learn_confidence(vectors, unlinked, valid, MatchingConfig(), seed).to_tensors()
        for seed in (3, 3, 4, 5, 6)
    ]
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.random.get_state()[1].tolist() == before[1]
    assert all(torch.equal(learned[0][name], learned[1][name]) for name in learned[0])
    # The seed splits the links into those whose counterparts are taken away first and later.
    assert len({float(each["threshold"]) for each in learned}) > 1


@pytest.mark.parametrize("spare", [1, 0])
@matchers
def test_a_single_held_out_link_is_enough_to_learn_from(matcher: str, spare: int) -> None:
    size = 4 + spare
    known = np.array([(i, size + i) for i in range(3)])
    valid = np.array([(3, size + 3)])
    unlinked = Unlinked.of(size, known, valid, np.arange(2 * size))
    config = MatchingConfig(matcher=matcher)
    confidence = learn_confidence(noisy_twins(size, 0.1), unlinked, valid, config, seed=0)
    assert 0 <= confidence.threshold <= 1


def test_ties_do_not_go_to_the_lowest_id() -> None:
    """Ids may be in the same order on both sides; equal scores must not find that order."""
    n = 40
    vectors = torch.ones(2 * n, 4) / 2
    pool = Unlinked(np.arange(n), np.arange(n, 2 * n))
    found = [found_links(vectors, pool, 0.0, MatchingConfig(), seed) for seed in range(8)]
    assert all(len(links) for links in found)
    assert sum(int((links[:, 1] - links[:, 0] == n).sum()) for links in found) <= 3
    again = found_links(vectors, pool, 0.0, MatchingConfig(), 3)
    assert np.array_equal(again, found[3])
    assert len({links.tobytes() for links in found}) > 1


def test_where_all_pairs_are_too_many_the_best_of_each_entity_serve(
    doubtful: tuple[Tensor, Unlinked, Ids], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is asked of the whole matrix again: one pass finds the pairs, they do the rest."""
    vectors, unlinked, valid = doubtful
    config = MatchingConfig(temperature=0.05)
    ranks = held_out_ranks(vectors, unlinked, valid, config)
    found = found_links(vectors, unlinked, 0.3, config)
    sure = learn_confidence(vectors, unlinked, valid, config, seed=0)
    monkeypatch.setattr(
        unlinked_module.Scores, "cosine", lambda left, right: Scores(left, right, budget=1)
    )
    monkeypatch.setattr(unlinked_module, "LARGE_KEEP", SIZE)  # all of them
    assert isinstance(unlinked.candidates(vectors, config), SparseScores)
    again = held_out_ranks(vectors, unlinked, valid, config)
    assert again.better.tolist() == ranks.better.tolist()
    assert found_links(vectors, unlinked, 0.3, config).tolist() == found.tolist()
    same = learn_confidence(vectors, unlinked, valid, config, seed=0)
    for name, tensor in same.to_tensors().items():
        torch.testing.assert_close(tensor, sure.to_tensors()[name], msg=name)
    monkeypatch.setattr(unlinked_module, "LARGE_KEEP", 10)  # a few are enough
    fewer = summary(held_out_ranks(vectors, unlinked, valid, config), VALIDATED)
    assert fewer["hits@1"] == pytest.approx(summary(ranks, VALIDATED)["hits@1"], abs=0.03)


@pytest.mark.parametrize("linked", [30, 75, 150])
def test_the_fewer_seem_to_have_a_counterpart_the_less_sure_their_matches_are(linked: int) -> None:
    """Of all left entities so many have a counterpart; half of these links are held out.

    What is expected and what is right agree, whichever the others are. Their seeds are not that of
    the twins, or they would be copies of left entities, which nothing could tell from counterparts.
    """
    valid = np.stack((np.arange(0, linked, 2), SIZE + np.arange(0, linked, 2)), axis=1)
    unlinked = Unlinked.of(SIZE, valid[:0], valid, np.arange(2 * SIZE))
    config, errors = MatchingConfig(temperature=0.05), []
    for seed in range(1, 7):
        random = torch.Generator().manual_seed(seed)
        vectors = noisy_twins(SIZE, 0.7)
        strangers = torch.randn(SIZE - linked, 16, dtype=torch.float64, generator=random)
        vectors[SIZE + linked :] = F.normalize(strangers, dim=1)
        confidence = learn_confidence(vectors, unlinked, valid, config, seed=0)
        found, features = evidence(*best_pairs(unlinked.cosine(vectors), "blend", config))
        right = found == torch.arange(SIZE)
        errors.append(float(confidence(features).mean() - right.double().mean()))
    assert abs(np.mean(errors)) < 0.1
    assert max(map(abs, errors)) < 0.15
