"""Scores in blocks equal scores in one matrix, whatever the matcher and the budget."""

from __future__ import annotations

import subprocess
import sys
from textwrap import dedent

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from decentrl.matching.similarity import Scores, csls, sinkhorn

SHAPES = [(7, 7), (9, 4), (4, 9), (1, 5), (5, 1)]
TINY = 1  # byte: one row a block, and no matrix is kept


def unit(n: int, seed: int, d: int = 6) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return F.normalize(torch.randn(n, d, dtype=torch.float64, generator=generator), dim=1)


def cosines(n: int, m: int, budget: int = TINY) -> Scores:
    return Scores.cosine(unit(n, 0), unit(m, 1), budget)


def dense(scores: Scores) -> Tensor:
    """The whole matrix, put together from blocks."""
    return torch.cat([block for _, block in scores.blocks()])


@pytest.mark.parametrize(("n", "m"), SHAPES)
def test_cosines_in_blocks_equal_one_product(n: int, m: int) -> None:
    scores = cosines(n, m)
    assert scores.kept is None
    torch.testing.assert_close(dense(scores), unit(n, 0) @ unit(m, 1).T)
    assert scores.largest() == pytest.approx(dense(scores).abs().max().item())


def test_what_fits_the_budget_is_computed_once() -> None:
    assert cosines(3, 4, budget=3 * 4 * 8).kept is not None
    assert cosines(3, 4, budget=3 * 4 * 8 - 1).kept is None


@pytest.mark.parametrize("budget", [TINY, 2000, 1 << 20])
def test_blocks_cover_every_row_once(budget: int) -> None:
    rows = [i for block, _ in cosines(23, 5, budget).blocks() for i in range(23)[block]]
    assert rows == list(range(23))


def test_matchers_leave_the_kept_cosines_as_they_were() -> None:
    scores = cosines(3, 3, budget=1 << 20)
    assert scores.kept is not None
    before = scores.kept.clone()
    for made in (csls(scores), sinkhorn(scores, 0.1), sinkhorn(scores.T, 0.1)):
        made.largest()
        torch.testing.assert_close(scores.kept, before, rtol=0, atol=1e-12)


@pytest.mark.parametrize("budget", [TINY, 1 << 20])
@pytest.mark.parametrize("matcher", [lambda s: s, csls, sinkhorn], ids=["cosine", "csls", "sink"])
def test_the_transpose_and_some_rows_are_those_of_the_matrix(matcher, budget: int) -> None:
    scores = matcher(cosines(6, 4, budget))
    whole = dense(scores)
    torch.testing.assert_close(dense(scores.T), whole.T)
    assert scores.T.shape == (4, 6)
    chosen = torch.tensor([4, 0, 4])
    torch.testing.assert_close(dense(scores.rows(chosen)), whole[chosen])


@pytest.mark.parametrize("k", [1, 2, 3, 50])
@pytest.mark.parametrize(("n", "m"), SHAPES)
def test_csls_equals_its_definition(n: int, m: int, k: int) -> None:
    cosine = dense(cosines(n, m)).numpy()
    expected = np.empty_like(cosine)
    for i, j in np.ndindex(n, m):
        near_i, near_j = np.sort(cosine[i])[::-1][:k], np.sort(cosine[:, j])[::-1][:k]
        expected[i, j] = 2 * cosine[i, j] - near_i.mean() - near_j.mean()
    for budget in (TINY, 1 << 20):
        found = dense(csls(cosines(n, m, budget), k)).numpy()
        np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize("iterations", [1, 10])
@pytest.mark.parametrize(("n", "m"), SHAPES)
def test_sinkhorn_equals_dense_normalisation(n: int, m: int, iterations: int) -> None:
    temperature = 0.05
    mass = np.exp(dense(cosines(n, m)).numpy() / temperature)
    for _ in range(iterations):
        mass /= mass.sum(1, keepdims=True)
        mass /= mass.sum(0, keepdims=True) / (n / m)
    mass /= mass.sum(1, keepdims=True)
    for budget in (TINY, 1 << 20):
        scores = sinkhorn(cosines(n, m, budget), temperature, iterations)
        found = (dense(scores) / temperature).exp().numpy()
        np.testing.assert_allclose(found, mass, rtol=1e-9, atol=1e-15)
        np.testing.assert_allclose(found.sum(1), 1)


def test_sinkhorn_ends_near_a_one_to_one_matching() -> None:
    scores = sinkhorn(cosines(8, 8), temperature=0.1, iterations=500)
    np.testing.assert_allclose((dense(scores) / 0.1).exp().sum(0), 1, atol=1e-6)


def test_sinkhorn_does_not_underflow_in_single_precision() -> None:
    left, right = unit(5, 0).float(), unit(5, 1).float()
    scores = dense(sinkhorn(Scores.cosine(left, right), temperature=1e-4))
    assert scores.isfinite().all()


# Promise: evaluation memory is bounded by the block size, not by entities².


@pytest.mark.slow
def test_matching_twenty_thousand_entities_keeps_to_its_budget() -> None:
    """A matrix of 20,000 × 20,000 takes 1.6 GB; with a budget of 32 MB nothing comes near it."""
    script = dedent("""
        import resource
        import torch
        from decentrl.evaluation.ranks import rank
        from decentrl.matching.similarity import Scores, csls, sinkhorn

        torch.set_num_threads(1)

        def evaluate(n, budget):
            vectors = torch.nn.functional.normalize(torch.randn(n, 8), dim=1)
            cosine = Scores.cosine(vectors, vectors, budget)
            rank(csls(cosine), torch.arange(n), tolerance=0)
            sinkhorn(cosine, iterations=1)

        def peak():
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

        evaluate(100, 1)  # whatever torch loads on first use
        before = peak()
        evaluate(20_000, 32 << 20)
        print(peak() - before)
    """)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 128 * 1024  # kilobytes


@pytest.mark.parametrize("k", [1, 2, 3])
def test_csls_of_many_scores_in_threads_is_that_of_a_sort(k: int) -> None:
    left, right = (unit(n, n).float() for n in (2300, 1900))
    right[1000:1200] = right[:200]  # ties
    scores = Scores.cosine(left, right)
    assert scores.kept is not None
    assert scores.kept.numel() >= 1 << 22
    before = scores.kept.clone()
    made = csls(scores, k)
    assert scores.kept.equal(before)
    assert made.row is not None
    assert made.column is not None
    rows, columns = (before.sort(dim, descending=True).values for dim in (1, 0))
    torch.testing.assert_close(made.row, -rows[:, :k].mean(1))
    torch.testing.assert_close(made.column, -columns[:k].mean(0))
