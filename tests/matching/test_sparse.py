"""Matchers over the best pairs equal the dense ones if all pairs are kept, and keep the best."""

from __future__ import annotations

import subprocess
import sys
from textwrap import dedent

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from decentrl.config import MatchingConfig
from decentrl.matching.matchers import MATCHERS, apply_matcher
from decentrl.matching.similarity import Scores, csls, sinkhorn
from decentrl.matching.sparse import (
    SparseScores,
    sparse_csls,
    sparse_sinkhorn,
    top_pairs,
)

SHAPES = [(7, 7), (9, 4), (4, 9), (1, 5), (5, 1), (40, 3)]
TINY = 1  # byte: one row a block

tied_matrices = st.tuples(st.integers(1, 6), st.integers(1, 6)).flatmap(
    lambda shape: st.lists(
        st.lists(st.integers(-2, 2), min_size=shape[1], max_size=shape[1]),
        min_size=shape[0],
        max_size=shape[0],
    )
)


def unit(n: int, seed: int, d: int = 6) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return F.normalize(torch.randn(n, d, dtype=torch.float64, generator=generator), dim=1)


def cosines(n: int, m: int, budget: int = TINY) -> Scores:
    return Scores.cosine(unit(n, 0), unit(m, 1), budget)


def as_scores(matrix: Tensor, budget: int = TINY) -> Scores:
    """Vectors whose dot products are exactly this matrix."""
    return Scores.cosine(matrix, torch.eye(matrix.shape[1], dtype=matrix.dtype), budget)


def dense(scores: Scores | SparseScores) -> Tensor:
    """The whole matrix; -inf where no pair is stored."""
    if isinstance(scores, Scores):
        return torch.cat([block for _, block in scores.blocks()])
    matrix = scores.values.new_full(scores.shape, -torch.inf)
    matrix[scores.rows, scores.columns] = scores.values
    return matrix


def sparse(matrix: Tensor) -> SparseScores:
    """The finite entries of a matrix."""
    rows, columns = matrix.isfinite().nonzero().unbind(1)
    return SparseScores(rows, columns, matrix[rows, columns], (len(matrix), matrix.shape[1]))


def with_holes(n: int, m: int, share: float = 0.5) -> Tensor:
    """Cosines of some pairs; row 1 and column 2 have none."""
    matrix = dense(cosines(n, m))
    generator = torch.Generator().manual_seed(2)
    matrix[torch.rand(n, m, generator=generator) > share] = -torch.inf
    matrix[1], matrix[:, 2] = -torch.inf, -torch.inf
    return matrix


def entries(scores: SparseScores) -> list[tuple[int, int, float]]:
    parts = (scores.rows.tolist(), scores.columns.tolist(), scores.values.tolist())
    return list(zip(*parts, strict=True))


def best_of(values: list[float], k: int) -> list[int]:
    """The k best, of tied ones those that come first."""
    return sorted(range(len(values)), key=lambda j: (-values[j], j))[:k]


@given(tied_matrices, st.integers(1, 7), st.sampled_from([TINY, 800, 1 << 20]))
@settings(deadline=None)
def test_the_best_of_rows_and_of_columns_are_kept(
    matrix: list[list[float]], k: int, budget: int
) -> None:
    n, m = len(matrix), len(matrix[0])
    expected = {(i, j) for i in range(n) for j in best_of(matrix[i], k)}
    expected |= {(i, j) for j in range(m) for i in best_of([row[j] for row in matrix], k)}
    found = top_pairs(as_scores(torch.tensor(matrix, dtype=torch.float64), budget), k)
    assert entries(found) == [(i, j, matrix[i][j]) for i, j in sorted(expected)]
    assert found.shape == (n, m)


@given(tied_matrices, st.integers(1, 7))
@settings(deadline=None)
def test_best_sorts_each_row_and_pads_it(matrix: list[list[float]], top: int) -> None:
    holes = torch.tensor(matrix, dtype=torch.float64)
    holes[holes == 0] = -torch.inf
    values, columns = sparse(holes).best(top)
    assert values.shape == columns.shape == (len(matrix), top)
    for i, row in enumerate(holes.tolist()):
        stored = [j for j in best_of(row, len(row)) if row[j] > -torch.inf][:top]
        padding = top - len(stored)
        assert columns[i].tolist() == stored + [-1] * padding
        assert values[i].tolist() == [row[j] for j in stored] + [-torch.inf] * padding


def test_the_transpose_is_that_of_the_matrix() -> None:
    scores = sparse(with_holes(6, 5))
    other = scores.T
    assert torch.equal(dense(other), dense(scores).T)
    keys = other.rows * 6 + other.columns
    assert (keys[1:] > keys[:-1]).all()
    assert torch.equal(dense(other.T), dense(scores))


@pytest.mark.parametrize("matcher", MATCHERS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("n", "m"), SHAPES)
def test_with_every_pair_kept_nothing_is_lost(
    n: int, m: int, dtype: torch.dtype, matcher: str
) -> None:
    cosine = Scores.cosine(unit(n, 0).to(dtype), unit(m, 1).to(dtype), TINY)
    found = apply_matcher(top_pairs(cosine, max(n, m)), matcher, MatchingConfig())
    expected = dense(apply_matcher(cosine, matcher, MatchingConfig()))
    assert len(found) == n * m
    assert found.values.dtype == dtype
    tolerance = 1e-10 if dtype == torch.float64 else 2e-6
    torch.testing.assert_close(dense(found), expected, atol=tolerance, rtol=0)


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize(("n", "m"), SHAPES)
def test_csls_is_exact_if_as_many_pairs_are_kept(n: int, m: int, k: int) -> None:
    found = dense(sparse_csls(top_pairs(cosines(n, m), k), k))
    stored = found.isfinite()
    torch.testing.assert_close(found[stored], dense(csls(cosines(n, m), k))[stored])


@pytest.mark.parametrize("k", [1, 2, 50])
def test_csls_takes_the_mean_of_what_is_stored(k: int) -> None:
    matrix = with_holes(9, 7)
    cosine = matrix.numpy()
    for i, j, value in entries(sparse_csls(sparse(matrix), k)):
        near_i = np.sort(cosine[i][np.isfinite(cosine[i])])[::-1][:k]
        near_j = np.sort(cosine[:, j][np.isfinite(cosine[:, j])])[::-1][:k]
        assert value == pytest.approx(2 * cosine[i, j] - near_i.mean() - near_j.mean())


@pytest.mark.parametrize("iterations", [1, 10])
@pytest.mark.parametrize("holes", [True, False])
def test_sinkhorn_normalises_what_is_stored(iterations: int, holes: bool) -> None:
    n, m, temperature = 9, 7, 0.05
    matrix = with_holes(n, m) if holes else dense(top_pairs(cosines(n, m), 3))
    mass = np.exp(matrix.numpy() / temperature)
    for turn in range(iterations + 1):
        mass /= np.maximum(mass.sum(1, keepdims=True), 1e-300)
        if turn < iterations:
            mass /= np.maximum(mass.sum(0, keepdims=True) / (n / m), 1e-300)
    scores = sparse_sinkhorn(sparse(matrix), temperature, iterations)
    found = (dense(scores) / temperature).exp().numpy()
    np.testing.assert_allclose(found, mass, rtol=1e-9, atol=1e-200)
    np.testing.assert_allclose(found.sum(1), matrix.isfinite().any(1).double().numpy())


def test_sinkhorn_stays_finite_where_no_matching_exists() -> None:
    # Three rows want the one column 0, columns 1 and 2 share row 3; and the cold makes it worse.
    matrix = torch.full((5, 3), -torch.inf)
    matrix[:4, 0], matrix[3, 1:] = torch.tensor([1.0, 0.5, -1.0, 1.0]), torch.tensor([-1.0, 0.2])
    scores = sparse_sinkhorn(sparse(matrix), temperature=1e-4, iterations=300)
    assert scores.values.isfinite().all()
    mass = (dense(scores) / 1e-4).exp()
    torch.testing.assert_close(mass.sum(1)[:4], torch.ones(4), atol=1e-2, rtol=0)


@pytest.mark.parametrize("matcher", MATCHERS)
@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0), (3, 2)])
def test_nothing_stored_is_nothing_matched(shape: tuple[int, int], matcher: str) -> None:
    nothing = torch.zeros(0, dtype=torch.int64)
    pairs = SparseScores(nothing, nothing, torch.zeros(0), shape)
    scores = apply_matcher(pairs, matcher, MatchingConfig())
    assert (len(scores), scores.shape) == (0, shape)
    assert scores.best(2)[1].tolist() == [[-1, -1]] * shape[0]
    if 0 in shape:
        empty = Scores.cosine(torch.zeros(shape[0], 4), torch.zeros(shape[1], 4))
        assert len(apply_matcher(top_pairs(empty, 2), matcher, MatchingConfig())) == 0


def test_twins_are_kept_by_their_number_whatever_the_blocks() -> None:
    twins = torch.ones(30, 1)
    for budget in (TINY, 2000, 1 << 20):
        found = top_pairs(Scores.cosine(twins, twins, budget), 2)
        expected = [(i, j, 1.0) for i in range(30) for j in range(30) if i < 2 or j < 2]
        assert entries(found) == expected


def test_the_dense_sinkhorn_ranks_like_the_sparse_one() -> None:
    cosine = cosines(60, 50)
    found = sparse_sinkhorn(top_pairs(cosine, 20)).best(1)[1][:, 0]
    assert (found == dense(sinkhorn(cosine)).argmax(1)).float().mean() > 0.9


# Promise: memory is that of a few blocks and the kept pairs.


def test_keeping_the_best_of_six_thousand_entities_keeps_to_the_budget() -> None:
    """6,000 × 6,000 similarities take 144 MB; the pairs, 6,000 × 2 × 5, a few."""
    script = dedent("""
        import resource
        import torch
        from decentrl.config import MatchingConfig
        from decentrl.matching.similarity import Scores
        from decentrl.matching.matchers import apply_matcher
        from decentrl.matching.sparse import top_pairs

        torch.set_num_threads(1)

        def match(n, budget):
            vectors = torch.nn.functional.normalize(torch.randn(n, 8), dim=1)
            cosine = Scores.cosine(vectors, vectors.flip(0), budget)
            apply_matcher(top_pairs(cosine, 5), "csls", MatchingConfig())
            apply_matcher(top_pairs(cosine, 5), "sinkhorn", MatchingConfig())

        def peak():
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

        match(100, 1)  # whatever torch loads on first use
        before = peak()
        match(6000, 8 << 20)
        print(peak() - before)
    """)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 48 * 1024  # kilobytes


@given(tied_matrices, st.integers(1, 7))
@settings(deadline=None)
def test_the_best_of_stored_pairs_are_those_that_one_pass_keeps(
    matrix: list[list[float]], k: int
) -> None:
    whole = as_scores(torch.tensor(matrix, dtype=torch.float64))
    assert entries(top_pairs(whole, 9).nearest(k)) == entries(top_pairs(whole, k))


@given(tied_matrices, st.data())
@settings(deadline=None)
def test_some_columns_of_stored_pairs_are_those_of_the_matrix(
    matrix: list[list[float]], data: st.DataObject
) -> None:
    whole = torch.tensor(matrix, dtype=torch.float64)
    numbers = st.lists(st.integers(0, whole.shape[1] - 1), unique=True)
    chosen = torch.tensor(sorted(data.draw(numbers)), dtype=torch.int64)
    found = sparse(whole).among(chosen)
    assert torch.equal(dense(found), whole[:, chosen])
