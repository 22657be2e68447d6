"""Vectors of names against dense float64 computations of the same."""

from __future__ import annotations

from collections import Counter
from math import log

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import Tensor

from decentrl.data.names import Names
from decentrl.data.ngrams import ngram_counts
from decentrl.graph.texts import TextRows
from decentrl.nn.text import (
    RIDGE,
    Weighted,
    learn_translation,
    name_vectors,
    rarity,
    shared_rarity,
    translated,
)

BUCKETS = 2**18
LEFT = ["Rivière Rouge", "Lac Bleu", "", "Mont Rouge", "Lac Noir", "Rivière Bleue", "Ax"]
RIGHT = ["Red River", "Blue Lake", "Mount Red", "", "Black Lake", "Blue River", "Ay", "Lac Noir"]
LINKS = [(0, 0), (1, 1), (3, 2), (4, 4)]
Dense = npt.NDArray[np.float64]


def rows_of(texts: list[str]) -> TextRows:
    names = Names.of_rows(np.arange(len(texts)), texts)
    return TextRows(*ngram_counts(names, len(texts), BUCKETS))


def dense(rows: TextRows, rare: Tensor) -> Dense:
    """TF-IDF of rows as a matrix, each row of length 1."""
    found = np.zeros((len(rows), BUCKETS))
    for i in range(len(rows)):
        for place in range(rows.indptr[i], rows.indptr[i + 1]):
            bucket = rows.buckets[place]
            found[i, bucket] = (1 + log(rows.counts[place])) * float(rare[bucket])
    lengths = np.linalg.norm(found, axis=1, keepdims=True)
    return np.divide(found, lengths, out=found, where=lengths > 0)


@pytest.mark.parametrize("texts", [LEFT, RIGHT, ["a"], ["", ""], ["same"] * 50])
def test_rarity_is_that_of_a_plain_count(texts: list[str]) -> None:
    rows = rows_of(texts)
    counts = Counter(rows.buckets.tolist())
    named = sum(bool(text) for text in texts)
    found = rarity(rows, BUCKETS)
    assert found.shape == (BUCKETS,)
    assert (found > 0).all()
    for bucket, n in counts.items():
        assert float(found[bucket]) == pytest.approx(1 + log((1 + named) / (1 + n)), abs=1e-5)
    unseen = next(i for i in range(BUCKETS) if i not in counts)
    assert float(found[unseen]) == pytest.approx(1 + log((1 + named) / 2), abs=1e-5)


def test_ngrams_of_one_side_have_no_weight_and_those_of_neither_do() -> None:
    left, right = rows_of(LEFT), rows_of(RIGHT)
    found, there = shared_rarity(left, right, BUCKETS), [set(x.buckets) for x in (left, right)]
    whole = rarity(TextRows.joined((left, right)), BUCKETS)
    for bucket in range(BUCKETS):
        one = (bucket in there[0]) != (bucket in there[1])
        assert found[bucket] == (0 if one else whole[bucket])


def test_rows_are_tf_idf() -> None:
    rows = rows_of([*LEFT, "a a a a"])
    rare = shared_rarity(rows, rows_of(RIGHT), BUCKETS)
    found, expected = Weighted.of(rows, rare), dense(rows, rare)
    made = np.zeros_like(expected)
    made[found.graph.rows, found.buckets[found.graph.columns]] = found.weights
    np.testing.assert_allclose(made, expected, atol=1e-6)
    turned, weights = found.transposed
    made = np.zeros_like(expected)
    made[turned.columns, found.buckets[turned.rows]] = weights
    np.testing.assert_allclose(made, expected, atol=1e-6)
    some = found.buckets[::3]
    fewer = found.only(torch.cat((some, torch.tensor([BUCKETS - 1]))))
    assert torch.equal(fewer.buckets, some)
    made = np.zeros_like(expected)
    made[fewer.graph.rows, fewer.buckets[fewer.graph.columns]] = fewer.weights
    kept = np.isin(np.arange(BUCKETS), some)
    np.testing.assert_allclose(made, np.where(kept, expected, 0), atol=1e-6)


@pytest.mark.parametrize("width", [200, 4096])
def test_cosines_of_projections_are_near_those_of_tf_idf(width: int) -> None:
    rows = TextRows.joined((rows_of(LEFT), rows_of(RIGHT)))
    rare = rarity(rows, BUCKETS)
    vectors = name_vectors(Weighted.of(rows, rare), width).double().numpy()
    assert vectors.shape == (len(rows), width)
    exact = dense(rows, rare)
    lengths = rows.named().astype(float)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), lengths, atol=1e-6)
    errors = vectors @ vectors.T - exact @ exact.T
    assert np.abs(errors).max() < 5 / width**0.5
    assert np.sqrt((errors**2).mean()) < 1 / width**0.5


def test_projections_are_the_same_in_any_company_and_version() -> None:
    rare = torch.ones(BUCKETS)
    whole = name_vectors(Weighted.of(rows_of(LEFT), rare), 300)
    alone = name_vectors(Weighted.of(rows_of(LEFT[3:4]), rare), 300)
    assert torch.equal(whole[3:4], alone)
    # Bundles hold vectors that later ones are compared with.
    one = name_vectors(Weighted.of(TextRows(*np_rows([7])), rare), 300)[0]
    signs = "".join("+" if x > 0 else "-" for x in one[:24])
    assert signs == "-+-+++++++++--++-+--+++-"
    assert -40 < float(one.sign().sum()) < 40


def np_rows(buckets: list[int]) -> tuple[npt.NDArray[np.int64], ...]:
    n = len(buckets)
    return np.array([0, n]), np.array(buckets), np.ones(n, np.float32)  # type: ignore[return-value]


def taught(width: int = 160) -> tuple[Weighted, Tensor, Tensor, TextRows]:
    """Left names of links, vectors of their right names, rarity on the left, all left names."""
    left, right = rows_of(LEFT), rows_of(RIGHT)
    own = rarity(left, BUCKETS)
    ends = np.array(LINKS)
    linked = Weighted.of(left.take(ends[:, 0]), own)
    rights = Weighted.of(right.take(ends[:, 1]), shared_rarity(left, right, BUCKETS))
    return linked, name_vectors(rights, width), own, left


def test_translation_is_ridge_regression() -> None:
    linked, targets, own, left = taught()
    coefficients = learn_translation(linked, targets)
    inputs = dense(left.take(np.array(LINKS)[:, 0]), own)
    kernel = inputs @ inputs.T
    expected = np.linalg.solve(kernel + RIDGE * np.eye(len(kernel)), targets.double().numpy())
    np.testing.assert_allclose(coefficients.numpy(), expected, atol=1e-5)

    found = translated(Weighted.of(left, own), linked, coefficients)
    # The same in the space of n-grams, of those that occur.
    used = inputs.any(0)
    x = inputs[:, used]
    weights = np.linalg.solve(x.T @ x + RIDGE * np.eye(x.shape[1]), x.T @ targets.double().numpy())
    mapped = dense(left, own)[:, used] @ weights
    lengths = np.linalg.norm(mapped, axis=1, keepdims=True)
    mapped = np.divide(mapped, lengths, out=mapped, where=lengths > 1e-9)
    assert lengths[2] == 0  # it has no name
    np.testing.assert_allclose(found.numpy(), mapped, atol=1e-4)


def test_a_translated_name_is_nearest_to_its_counterpart() -> None:
    left = [
        "rouge lac",
        "bleu lac",
        "rouge mont",
        "noir mont",
        "bleu bois",
        "rouge bois",
        "noir lac",
    ]
    right = ["red ZZZ", "blue ZZZ", "red QQQ", "black QQQ", "blue KKK", "red KKK", "black ZZZ"]
    own, other = rarity(rows_of(left), BUCKETS), rarity(rows_of(right), BUCKETS)
    targets = name_vectors(Weighted.of(rows_of(right), other), 512)
    linked = Weighted.of(rows_of(left[:5]), own)
    coefficients = learn_translation(linked, targets[:5])
    found = translated(Weighted.of(rows_of(left), own), linked, coefficients) @ targets.T
    assert (found.argmax(1) == torch.arange(7)).all()


def test_names_translate_the_same_in_any_company() -> None:
    linked, targets, own, left = taught(300)
    coefficients = learn_translation(linked, targets)
    whole = translated(Weighted.of(left, own), linked, coefficients)
    for i in range(len(left)):
        alone = translated(Weighted.of(left.take(np.array([i])), own), linked, coefficients)
        assert torch.equal(whole[i : i + 1], alone)


@pytest.mark.parametrize("texts", [["same"] * 200, ["a"], ["x", "y"], ["same"] * 130 + ["other"]])
def test_names_that_say_the_same_are_no_singular_kernel(texts: list[str]) -> None:
    rows = rows_of(texts)
    own = rarity(rows, BUCKETS)
    linked = Weighted.of(rows, own)
    targets = name_vectors(linked, 64)
    found = translated(linked, linked, learn_translation(linked, targets))
    assert found.isfinite().all()
    assert ((found * targets).sum(1) > 0.9).all()


def test_nothing_in_common_is_0() -> None:
    left, right = rows_of(["abc", "", "abd"]), rows_of(["xyz", "!"])
    rare = shared_rarity(left, right, BUCKETS)
    for rows in (left, right, rows_of([]), rows_of(["", ""])):
        found = name_vectors(Weighted.of(rows, rare), 130)
        assert found.shape == (len(rows), 130)
        assert not found.any()
    linked = Weighted.of(left, rarity(left, BUCKETS))
    coefficients = learn_translation(linked, torch.zeros(3, 130))
    assert not translated(linked, linked, coefficients).any()
    later = Weighted.of(rows_of(["qqq", ""]), rarity(left, BUCKETS))
    assert not translated(later, linked, torch.ones(3, 130)).any()
