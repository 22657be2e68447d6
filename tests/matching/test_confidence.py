"""Evidence, confidence and thresholds equal their definitions, also in degenerate cases."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from safetensors.torch import load, save
from torch import Tensor

from benchmarks.dangling import answer_scores
from decentrl.matching.confidence import (
    CAP,
    FEATURES,
    PENALTY,
    Confidence,
    choose_threshold,
    evidence,
    expected_calibration_error,
    fit_confidence,
    linked_share,
    precise_threshold,
)
from decentrl.matching.similarity import Scores
from decentrl.matching.sparse import SparseScores, sparse_csls, top_pairs

SIZE = 6

pair_values = st.dictionaries(
    st.tuples(st.integers(0, SIZE - 1), st.integers(0, SIZE - 1)),
    st.tuples(st.sampled_from([-1.5, -0.25, 0.0, 0.25, 0.5, 2.0]), st.floats(-1, 1, width=32)),
    max_size=SIZE * SIZE,
)
examples = st.lists(
    st.tuples(st.sampled_from([0.0, 0.1, 0.4, 0.5, 0.9, 1.0]), st.booleans(), st.booleans()),
    max_size=12,
)


def columns_of(
    rows: list[tuple[float, bool, bool]],
) -> tuple[Tensor, Tensor, Tensor]:
    """Confidence, whether the match is right, and whether there is one (always, if it is)."""
    confidence = torch.tensor([c for c, _, _ in rows], dtype=torch.float64)
    correct = torch.tensor([right for _, right, _ in rows], dtype=torch.bool)
    return confidence, correct, correct | torch.tensor([has for *_, has in rows], dtype=torch.bool)


@given(pair_values)
@settings(deadline=None)
def test_evidence_equals_its_definition(pairs: dict[tuple[int, int], tuple[float, float]]) -> None:
    keys = sorted(pairs)
    rows, columns = torch.tensor(keys, dtype=torch.int64).view(-1, 2).unbind(1)
    both = torch.tensor([pairs[key] for key in keys], dtype=torch.float32).view(-1, 2)
    scores = SparseScores(rows, columns, both[:, 0], (SIZE, SIZE))
    found, features = evidence(scores, SparseScores(rows, columns, both[:, 1], (SIZE, SIZE)))
    assert features.dtype == torch.float64
    for i in range(SIZE):
        own = sorted((-score, j) for (row, j), (score, _) in pairs.items() if row == i)
        if not own:
            assert found[i] == -1
            assert features[i].isnan().all()
            continue
        best, j = -own[0][0], own[0][1]
        rivals = [score for (row, k), (score, _) in pairs.items() if k == j and row != i]
        margin = best + own[1][0] if len(own) > 1 else math.inf
        preference = best - max(rivals, default=-math.inf)
        expected = [best, min(margin, CAP), pairs[i, j][1], min(preference, CAP)]
        assert found[i] == j
        assert features[i].tolist() == expected


def gradient(model: Confidence, features: Tensor, correct: Tensor) -> np.ndarray:
    """Of the penalised loss, which is zero at its only minimum."""
    z = (features.numpy() - model.mean.numpy()) / model.scale.numpy()
    slip = 1 / (1 + np.exp(-(z @ model.weights.numpy() + model.bias))) - correct.numpy()
    return np.append(slip @ z + PENALTY * model.weights.numpy(), slip.sum() + PENALTY * model.bias)


@given(
    st.integers(1, 40),
    st.integers(0, 10**6),
    st.sampled_from(["noise", "separable", "one", "zero"]),
)
@settings(deadline=None)
def test_the_fit_is_the_minimum(n: int, seed: int, kind: str) -> None:
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(n, 4, dtype=torch.float64, generator=generator)
    features[:, 2] = 0.1  # constant, and its mean is rounded
    features[:, 3] = 1000 + 1e-3 * features[:, 3]
    correct = {
        "noise": torch.rand(n, generator=generator) < 0.5,
        "separable": features[:, 0] > 0,
        "one": torch.ones(n, dtype=torch.bool),
        "zero": torch.zeros(n, dtype=torch.bool),
    }[kind]
    model = fit_confidence(features, correct)
    np.testing.assert_allclose(gradient(model, features, correct), 0, atol=1e-8)
    assert abs(model.weights[2]) < 1e-12
    chances = model(features)
    assert ((chances > 0) & (chances < 1)).all()
    if kind in ("one", "zero"):
        assert ((chances > 0.5) == correct).all()
    again = fit_confidence(features, correct)
    assert torch.equal(again.weights, model.weights)


def test_extreme_evidence_is_fitted_too() -> None:
    features = torch.tensor([[1e6], [-1e6], [3.0], [2.0], [1.0]], dtype=torch.float64)
    correct = torch.tensor([True, False, True, False, True])
    model = fit_confidence(features, correct)
    np.testing.assert_allclose(gradient(model, features, correct), 0, atol=1e-8)


def test_the_fit_finds_what_made_the_labels() -> None:
    generator = torch.Generator().manual_seed(0)
    features = 3 + 2 * torch.randn(20_000, 2, dtype=torch.float64, generator=generator)
    chances = (features @ torch.tensor([1.0, -0.5]).double() - 1).sigmoid()
    correct = torch.rand(20_000, dtype=torch.float64, generator=generator) < chances
    model = fit_confidence(features, correct)
    weights = model.weights / model.scale
    assert weights.tolist() == pytest.approx([1, -0.5], abs=0.05)
    assert model.bias - (weights @ model.mean).item() == pytest.approx(-1, abs=0.1)
    assert (model(features) - chances).abs().max() < 0.03
    assert expected_calibration_error(model(features), correct) < 0.015


def test_what_was_not_found_is_not_fitted_and_never_sure() -> None:
    features = torch.randn(30, 4, dtype=torch.float64)
    correct = features[:, 0] > 0
    nowhere = torch.full((3, 4), torch.nan, dtype=torch.float64)
    padded = torch.cat((features, nowhere))
    model = fit_confidence(padded, torch.cat((correct, torch.zeros(3, dtype=torch.bool))))
    assert torch.equal(model.weights, fit_confidence(features, correct).weights)
    assert model(padded)[30:].tolist() == [0, 0, 0]
    assert fit_confidence(nowhere, correct[:3])(features).tolist() == [0.5] * 30


def test_a_confidence_survives_a_file() -> None:
    features = torch.randn(9, 4, dtype=torch.float64)
    model = fit_confidence(features, features[:, 1] > 0)
    again = Confidence.from_tensors(load(save(model.to_tensors())))
    assert torch.equal(again(features), model(features))
    assert (again.bias, again.threshold) == (model.bias, model.threshold)


def f1_at(threshold: float, confidence: Tensor, correct: Tensor, has: Tensor) -> float:
    return answer_scores(correct, confidence >= threshold, has)["f1"]


@given(examples)
@settings(deadline=None)
def test_no_threshold_is_better_than_the_chosen_one(rows: list[tuple[float, bool, bool]]) -> None:
    confidence, correct, has = columns_of(rows)
    chosen = choose_threshold(confidence, correct, has)
    value = f1_at(chosen, confidence, correct, has)
    others = [*confidence.tolist(), math.inf]
    assert value == pytest.approx(max(f1_at(t, confidence, correct, has) for t in others))
    assert not any(
        t > chosen and f1_at(t, confidence, correct, has) >= value + 1e-12 for t in others
    )
    assert math.isfinite(chosen)


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), max_size=40), st.integers(1, 20))
@settings(deadline=None)
def test_the_calibration_error_equals_its_definition(
    rows: list[tuple[float, bool]], bins: int
) -> None:
    assume(len({c for c, _ in rows}) == len(rows))
    rows = sorted(rows)
    expected = 0.0
    for part in np.array_split(np.array(rows, dtype=np.float64).reshape(-1, 2), bins):
        if len(part):
            expected += len(part) / len(rows) * abs(part[:, 0].mean() - part[:, 1].mean())
    shuffled = rows[::2] + rows[1::2][::-1]
    confidence = torch.tensor([c for c, _ in shuffled], dtype=torch.float64)
    correct = torch.tensor([right for _, right in shuffled], dtype=torch.bool)
    found = expected_calibration_error(confidence, correct, bins)
    assert found == pytest.approx(expected, abs=1e-12)


def test_the_order_of_equal_confidences_changes_no_calibration_error() -> None:
    confidence = torch.full((40,), 0.5)
    correct = torch.arange(40) < 20
    assert expected_calibration_error(confidence, correct) == pytest.approx(0)
    assert expected_calibration_error(confidence, correct.roll(7)) == pytest.approx(0)
    assert expected_calibration_error(confidence, correct | True) == pytest.approx(0.5)


@given(st.lists(st.sampled_from(list(product([False, True], repeat=3))), max_size=12))
@settings(deadline=None)
def test_answer_scores_count_answers_and_silences(rows: list[tuple[bool, bool, bool]]) -> None:
    rows = [(right, answered, has or right) for right, answered, has in rows]
    masks = torch.tensor(rows, dtype=torch.bool).view(-1, 3).unbind(1)
    found = answer_scores(*masks)

    def expected(hits: int, predicted: int, true: int) -> list[float]:
        precision = hits / predicted if predicted else 0.0
        recall = hits / true if true else 0.0
        total = precision + recall
        return [precision, recall, 2 * precision * recall / total if total else 0.0]

    answers = expected(
        sum(right and answered for right, answered, _ in rows),
        sum(answered for _, answered, _ in rows),
        sum(has for *_, has in rows),
    )
    silences = expected(
        sum(not answered and not has for _, answered, has in rows),
        sum(not answered for _, answered, _ in rows),
        sum(not has for *_, has in rows),
    )
    assert list(found) == ["precision", "recall", "f1", "none_precision", "none_recall", "none_f1"]
    assert list(found.values()) == pytest.approx(answers + silences)


def test_entities_without_a_counterpart_get_less_confidence() -> None:
    """Noisy copies on the right of two thirds of the left; the rest have nobody to find."""
    generator = torch.Generator().manual_seed(0)
    left = torch.randn(300, 16, dtype=torch.float64, generator=generator)
    right = left[:200] + 0.6 * torch.randn(200, 16, dtype=torch.float64, generator=generator)
    normalise = torch.nn.functional.normalize
    cosine = top_pairs(Scores.cosine(normalise(left, dim=1), normalise(right, dim=1)), 10)
    seen = evidence(sparse_csls(cosine), cosine)
    assert seen[1].shape == (300, len(FEATURES))
    has = torch.arange(300) < 200
    correct = seen[0] == torch.arange(300)
    half = torch.arange(300) % 2 == 0
    model = fit_confidence(seen[1][half], correct[half])
    confidence = model(seen[1])
    threshold = choose_threshold(confidence[half], correct[half], has[half])
    held_out = answer_scores(correct[~half], confidence[~half] >= threshold, has[~half])
    everything = answer_scores(correct[~half], torch.ones(150, dtype=torch.bool), has[~half])
    assert held_out["f1"] > everything["f1"] + 0.05
    assert held_out["none_f1"] > 0.8


@pytest.mark.parametrize("share", [0.1, 0.4, 0.9])
def test_the_share_with_a_counterpart_is_estimated_from_features_alone(share: float) -> None:
    random = np.random.default_rng(0)

    def drawn(n: int, mean: float) -> Tensor:
        return torch.from_numpy(random.normal(mean, 1, (n, 2)))

    linked = int(share * 4000)
    every = torch.cat((drawn(linked, 1.0), drawn(4000 - linked, -0.5)))
    every[7] = torch.nan  # nothing was found for it
    found = linked_share(drawn(400, 1.0), drawn(300, -0.5), every)
    assert found == pytest.approx(share, abs=0.05)


def test_an_example_may_count_more_than_once() -> None:
    features = torch.tensor([[0.0], [1.0], [2.0], [3.0]], dtype=torch.float64)
    right = torch.tensor([False, True, False, True])
    counts = torch.tensor([1.0, 2.0, 3.0, 1.0], dtype=torch.float64)
    repeated = counts.long()
    once = fit_confidence(features, right, counts)
    often = fit_confidence(
        features.repeat_interleave(repeated, 0), right.repeat_interleave(repeated)
    )
    # Only the scale of the features differs, and with it what the small penalty costs.
    torch.testing.assert_close(once(features), often(features), atol=0.02, rtol=0)
    there = torch.tensor([True, True, False, True])
    sure = torch.tensor([0.1, 0.9, 0.5, 0.7], dtype=torch.float64)
    expected = choose_threshold(*(x.repeat_interleave(repeated) for x in (sure, right, there)))
    assert choose_threshold(sure, right, there, counts) == expected


def wilson(right: float, n: float) -> float:
    """Lower bound of the share, z = 1.645."""
    z, share = 1.645, right / n
    middle = share + z * z / (2 * n)
    error = z * np.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return float((middle - error) / (1 + z * z / n))


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from([0.1, 0.3, 0.5, 0.7, 0.9]), st.booleans()), max_size=40),
    st.floats(0.1, 0.9),
)
def test_the_precise_threshold_is_the_lowest_with_enough_precision_for_sure(
    examples: list[tuple[float, bool]], precision: float
) -> None:
    confidence = torch.tensor([x for x, _ in examples], dtype=torch.float64)
    right = torch.tensor([x for _, x in examples], dtype=torch.bool)
    found = precise_threshold(confidence, right, precision, torch.ones_like(confidence))
    enough = [
        value
        for value in confidence.unique().tolist()
        if wilson(int(right[confidence >= value].sum()), int((confidence >= value).sum()))
        >= precision
    ]
    assert found == min(enough, default=1.0)


def test_weighty_examples_make_a_precision_less_sure() -> None:
    confidence, right = torch.linspace(0.9, 0.8, 8), torch.ones(8, dtype=torch.bool)
    equal = precise_threshold(confidence, right, 0.7, torch.ones(8))
    assert equal == pytest.approx(0.8)
    uneven = torch.tensor([100.0, *[1.0] * 7])
    assert precise_threshold(confidence, right, 0.7, uneven) == 1.0
    wrong = torch.arange(8) == 0
    assert precise_threshold(confidence, ~wrong, 0.4, torch.where(wrong, 9.0, 1.0)) == 1.0
