"""Names in training: weights that held-out links choose, and pairs that are surely the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from decentrl.config import Config
from decentrl.nn.text import missing_names
from decentrl.training import names as names_module
from decentrl.training.names import (
    TRANSLATIONS,
    WEIGHTS,
    best_name_weights,
    doubted_names,
    same_names,
    settled_names,
)
from decentrl.training.unlinked import Unlinked

SIZE, VALID = 60, 25
LINKS = np.stack((np.arange(SIZE), np.arange(SIZE) + SIZE), axis=1)
POOL = Unlinked(np.arange(SIZE), np.arange(SIZE) + SIZE)


def config(weight: float = -1, translation: float = -1) -> Config:
    changes = (f"names.weight={weight}", f"names.translation={translation}")
    return Config.from_preset("strong", changes)


def noisy(noise: float, seed: int) -> Tensor:
    """Vectors of both sides, the same but for noise."""
    rng = np.random.default_rng(seed)
    one = rng.standard_normal((SIZE, 32))
    both = np.concatenate([one + noise * rng.standard_normal((SIZE, 32)) for _ in range(2)])
    return F.normalize(torch.from_numpy(both).float(), dim=1)


def chosen(
    others: Tensor, direct: Tensor, left: Tensor | None = None, settings: Config | None = None
) -> tuple[float, float]:
    translated = torch.cat(((direct if left is None else left)[:SIZE], direct[SIZE:]))
    found = best_name_weights(
        settings or config(), others, (direct, translated), POOL, LINKS[:VALID]
    )
    return found.names.weight, found.names.translation


def test_right_names_get_a_high_weight_and_random_ones_none() -> None:
    good, bad = noisy(0.3, 0), noisy(100, 1)
    assert chosen(bad, good)[0] == max(WEIGHTS)
    assert chosen(good, bad) == (0.0, TRANSLATIONS[0])
    assert 0.2 <= chosen(noisy(0.8, 2), noisy(0.8, 3))[0] <= 0.7


def test_translation_is_chosen_by_what_it_gives() -> None:
    structure, good, bad = noisy(1, 0), noisy(0.3, 1), noisy(100, 2)
    good_right = torch.cat((bad[:SIZE], good[SIZE:]))  # as it is, a left name says nothing
    assert chosen(structure, good_right, left=good)[1] >= 0.75
    assert chosen(structure, good, left=bad)[1] <= 0.25


def test_weights_that_are_given_stay() -> None:
    good, bad = noisy(0.3, 0), noisy(100, 1)
    assert chosen(good, bad, settings=config(weight=0.7))[0] == 0.7
    assert chosen(bad, good, settings=config(translation=0.9))[1] == 0.9
    assert chosen(bad, good, settings=config(0.2, 0.3)) == (0.2, 0.3)


def expected_likelihood(
    others: Tensor, direct: Tensor, mapped: Tensor, weight: float, share: float, temperature: float
) -> float:
    """Of fused vectors, one by one."""
    names = F.normalize((1 - share) * direct.double() + share * mapped.double(), dim=1)
    known = others.any(1, keepdim=True)
    made = [
        missing_names(x.any(1), left=left)
        for x, left in zip(names.split(SIZE), (True, False), strict=True)
    ]
    factors, beside = (torch.cat(x).double() for x in zip(*made, strict=True))
    names = torch.where(
        known, torch.cat((names * factors[:, None], beside), 1), F.pad(names, (0, 2))
    )
    parts = ((1 - weight) ** 0.5 * others.double(), weight**0.5 * names)
    fused = F.normalize(torch.cat(parts, 1), dim=1)
    scores = fused[:SIZE] @ fused[SIZE:].T / temperature
    places = torch.arange(VALID)
    ways = (scores.log_softmax(dim) for dim in (1, 0))
    return sum(float(way[places, places].mean()) for way in ways)


@pytest.mark.parametrize("seed", range(4))
def test_the_choice_is_the_likeliest_of_fused_vectors(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(seed)
    others, direct, mapped = (noisy(float(rng.uniform(0.4, 1.5)), 10 * seed + i) for i in range(3))
    # Entities without a structure, without a name, with a translated name alone.
    for vectors, share in ((others, 0.2), (direct, 0.4), (mapped, 0.2)):
        vectors[torch.from_numpy(rng.random(2 * SIZE) < share)] = 0
    # Of some, one of two views of the structure has no vector.
    others[torch.from_numpy(rng.random(2 * SIZE) < 0.5)] *= 0.3
    mapped = torch.cat((mapped[:SIZE], direct[SIZE:]))
    options = [(w, s) for w in WEIGHTS for s in TRANSLATIONS]
    found = {
        option: expected_likelihood(others, direct, mapped, *option, config().matching.temperature)
        for option in options
    }
    best = max(found.values())
    pair = chosen(others, direct, left=mapped)
    assert found[pair] == pytest.approx(best, abs=1e-4)
    monkeypatch.setattr(names_module, "_AT_ONCE", 3 * SIZE)  # three links at once
    assert chosen(others, direct, left=mapped) == pair
    monkeypatch.setattr(names_module, "_AT_ONCE", 1)
    assert chosen(others, direct, left=mapped) == pair


def test_entities_outside_the_pool_have_no_influence() -> None:
    others, direct = noisy(0.8, 2), noisy(0.8, 3)
    pool = Unlinked(POOL.left[:40], POOL.right[:40])
    gone = np.r_[40:SIZE, SIZE + 40 : 2 * SIZE]
    found = []
    for value in (0.0, 1.0):
        others[gone] = direct[gone] = value
        found.append(best_name_weights(config(), others, (direct, direct), pool, LINKS[:VALID]))
    assert found[0].names == found[1].names


def test_without_validation_links_there_are_usual_weights() -> None:
    usual = config().names.USUAL
    assert settled_names(config(), True).names == replace(
        config().names, weight=usual[0], translation=usual[1]
    )
    assert settled_names(config(0.7), True).names.weight == 0.7
    assert settled_names(config(0.7), True).names.translation == usual[1]
    assert settled_names(config(translation=0.1), True).names.translation == 0.1
    nothing = settled_names(config(), False).names
    assert (nothing.weight, nothing.translation) == (0, 0)


def one_hot(*rows: tuple[int, ...]) -> Tensor:
    """Names as words: vectors of length 1, 0 without any."""
    found = torch.zeros(len(rows), 16)
    for i, words in enumerate(rows):
        found[i, list(words)] = 1
    return F.normalize(found, dim=1)


def pairs(left: Tensor, right: Tensor, shift: int = 0) -> list[tuple[int, int]]:
    pool = Unlinked(np.arange(len(left)) + shift, np.arange(len(right)) + len(left) + shift)
    vectors = torch.cat((torch.zeros(shift, 16), left, right))
    found = same_names(vectors, pool)
    assert found.dtype == np.int64
    assert found.shape[1:] == (2,)
    assert found[:, 0].tolist() == sorted(found[:, 0])
    return [(a - shift, b - len(left) - shift) for a, b in found.tolist()]


def test_names_like_no_other_are_the_same() -> None:
    left, right = one_hot((1,), (2,), (3,)), one_hot((3,), (1,), (9,))
    assert pairs(left, right) == [(0, 1), (2, 0)]
    assert pairs(left, right, shift=5) == [(0, 1), (2, 0)]


def test_ambiguous_names_are_not_taken() -> None:
    a = one_hot((1,))
    twice = one_hot((1,), (1,))
    assert pairs(a, twice) == pairs(twice, a) == pairs(twice, twice) == []
    nearly = F.normalize(one_hot((1,)) + 0.1 * one_hot((2,)), dim=1)
    assert pairs(a, torch.cat((a, nearly))) == pairs(torch.cat((nearly, a)), a) == []
    apart = F.normalize(one_hot((1,)) + 0.8 * one_hot((2,)), dim=1)
    assert pairs(a, torch.cat((apart, a))) == [(0, 1)]
    assert pairs(torch.cat((apart, a)), a) == [(1, 0)]


def test_names_that_are_not_alike_are_not_taken() -> None:
    assert pairs(one_hot((1, 2)), one_hot((2, 3))) == []  # a cosine of a half
    assert pairs(one_hot((1, 2, 3, 4)), one_hot((1, 2, 3, 5))) == [(0, 0)]  # three quarters


def test_no_names_and_no_entities() -> None:
    nothing = one_hot((), ())
    assert pairs(nothing, one_hot((1,), ())) == pairs(one_hot((1,)), nothing) == []
    assert pairs(nothing[:0], one_hot((1,))) == pairs(one_hot((1,)), nothing[:0]) == []
    assert pairs(one_hot((1,)), one_hot((1,))) == [(0, 0)]


@pytest.mark.parametrize("seed", range(3))
def test_names_that_contradict_sure_pairs_weigh_less(seed: int) -> None:
    usual = config(weight=0.4, translation=0)
    good = noisy(0.1, seed)
    weights = []
    for share in (0.0, 0.2, 0.5, 1.0):
        names = good.clone()
        wrong = np.random.default_rng(seed).permutation(SIZE)[: int(share * SIZE)]
        names[wrong] = good[np.roll(wrong, 1)]  # dealt to others
        found = doubted_names(usual, names, POOL, LINKS)
        assert found.names.translation == 0
        scores = names[:SIZE].double() @ names[SIZE:].double().T
        doubt = (scores.max(1).values - scores.diagonal()).mean().item()
        assert found.names.weight == pytest.approx(max(0, min(0.4, 0.5 - doubt)), abs=1e-6)
        weights.append(found.names.weight)
    assert weights[0] == 0.4
    assert weights == sorted(weights, reverse=True)
    assert weights[-1] == 0
