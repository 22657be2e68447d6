"""Nearest pairs by clusters: nearly the same pairs, with work in line with the entities."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

from decentrl.matching import clustered
from decentrl.matching.clustered import clustered_pairs, nearest_pairs
from decentrl.matching.similarity import Scores
from decentrl.matching.sparse import SparseScores, top_pairs


def sides(n: int, dim: int = 16, groups: int = 40) -> tuple[Tensor, Tensor]:
    """Two sides in groups, each entity near to its counterpart of the same number."""
    chance = torch.Generator().manual_seed(n)
    centres = normalize(torch.randn(groups, dim, generator=chance))
    left = centres[torch.randint(groups, (n,), generator=chance)]
    left = normalize(left + 0.15 * torch.randn(n, dim, generator=chance))
    return left, normalize(left + 0.05 * torch.randn(n, dim, generator=chance))


def keys(pairs: SparseScores) -> set[int]:
    return set((pairs.rows * pairs.shape[1] + pairs.columns).tolist())


def test_with_all_clusters_all_best_pairs_are_found() -> None:
    left, right = sides(300)
    cosine = Scores.cosine(left, right[:200], budget=0)
    found, exact = clustered_pairs(cosine, 5, 7, 7), top_pairs(cosine, 5)
    assert keys(found) == keys(exact)
    assert torch.allclose(found.values, exact.values, atol=1e-6)
    assert found.shape == (300, 200)


def test_with_few_clusters_nearly_all_are_found() -> None:
    left, right = sides(4000)
    cosine = Scores.cosine(left, right, budget=0)
    found, exact = clustered_pairs(cosine, 10, 40, 8), top_pairs(cosine, 10)
    assert len(keys(found) & keys(exact)) > 0.97 * len(exact)
    own = torch.arange(4000)
    best = top_pairs(cosine, 1).best(1)[1][:, 0]
    assert (found.best(1)[1][:, 0] == best).float().mean() > 0.99
    assert ((found.best(10)[1] == own[:, None]).any(1)).float().mean() > 0.99


def test_pairs_are_sorted_distinct_and_have_their_cosine() -> None:
    left, right = sides(500)
    found = clustered_pairs(Scores.cosine(left, right, budget=0), 8, 20, 2)
    order = found.rows * 500 + found.columns
    assert (order[1:] > order[:-1]).all()
    expected = (left[found.rows] * right[found.columns]).sum(1)
    assert torch.allclose(found.values, expected, atol=1e-6)


def test_the_same_pairs_every_time() -> None:
    cosine = Scores.cosine(*sides(600), budget=0)
    first, second = (clustered_pairs(cosine, 4, 12, 3) for _ in range(2))
    assert torch.equal(first.rows, second.rows)
    assert torch.equal(first.values, second.values)


def test_equal_vectors_and_vectors_of_zero_are_no_problem() -> None:
    left = torch.zeros(50, 4)
    left[:40, 0] = 1
    found = clustered_pairs(Scores.cosine(left, left.clone(), budget=0), 3, 6, 2)
    assert found.values.isfinite().all()
    assert (found.values <= 1).all()
    one = clustered_pairs(Scores.cosine(left[:1], left[:1], budget=0), 3, 2, 2)
    assert one.rows.tolist() == [0]


def test_small_problems_are_solved_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    left, right = sides(60)
    cosine = Scores.cosine(left, right, budget=0)
    assert keys(nearest_pairs(cosine, 3)) == keys(top_pairs(cosine, 3))
    monkeypatch.setattr(clustered, "MOST_EXACT", 60 * 60 - 1)
    monkeypatch.setattr(clustered, "SIZE", 10)
    monkeypatch.setattr(clustered, "top_pairs", None)
    assert len(nearest_pairs(cosine, 3)) >= 60


def test_work_grows_with_the_entities(monkeypatch: pytest.MonkeyPatch) -> None:
    """From 5,000 to 40,000 entities of a side, by the products that are made."""
    monkeypatch.setattr(clustered, "MOST_EXACT", 0)
    monkeypatch.setattr(clustered, "SIZE", 256)
    products = clustered.dot_products
    work = 0

    def counted(left: Tensor, right: Tensor, out: Tensor) -> Tensor:
        nonlocal work
        work += out.numel()
        return products(left, right, out)

    monkeypatch.setattr(clustered, "dot_products", counted)
    made = []
    for n in (5_000, 40_000):
        work = 0
        found = nearest_pairs(Scores.cosine(*sides(n, dim=8, groups=n // 50), budget=0), 4)
        made.append(work)
        assert len(found) < 9 * n
    assert made[1] < 8**1.15 * made[0]
    assert made[1] < 0.2 * 2 * 40_000**2
