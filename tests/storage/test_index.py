"""The exact index is what comparing all would give; the fast one misses little and tells damage."""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import normalize

from decentrl.errors import BundleError, MissingExtraError
from decentrl.storage.index import ExactIndex, FaissIndex, exact, ivf


class Stored:
    """Vectors that are handed out in blocks only."""

    def __init__(self, vectors: Tensor) -> None:
        self.shape, self._vectors, self.largest = tuple(vectors.shape), vectors, 0

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, chosen: slice | Tensor, /) -> Tensor:
        if isinstance(chosen, slice):
            self.largest = max(self.largest, chosen.stop - (chosen.start or 0))
        return self._vectors[chosen].clone()


def brute(
    vectors: Tensor,
    queries: Tensor,
    top: int,
    scale: float = 1.0,
    bias: Tensor | None = None,
    allowed: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """All scores in float64, sorted whole."""
    scores = scale * (queries.double().numpy() @ vectors.double().numpy().T)
    if bias is not None:
        scores = scores + bias.double().numpy()
    scores = scores.astype(np.float32)
    if allowed is not None:
        scores[:, ~allowed.numpy()] = -np.inf
    order = np.argsort(-scores, axis=1, kind="stable")[:, :top]
    best = np.full((len(queries), top), -np.inf, np.float32)
    best[:, : order.shape[1]] = np.take_along_axis(scores, order, 1)
    ids = np.full((len(queries), top), -1)
    ids[:, : order.shape[1]] = order
    ids[best == -np.inf] = -1
    return torch.from_numpy(best), torch.from_numpy(ids)


def clusters(n: int, dim: int = 32, seed: int = 0, each: int = 40) -> Tensor:
    chance = torch.Generator().manual_seed(seed)
    centres = normalize(torch.randn(max(1, n // each), dim, generator=chance))
    which = torch.randint(len(centres), (n,), generator=chance)
    return normalize(centres[which] + torch.randn(n, dim, generator=chance) * dim**-0.5)


@contextmanager
def blocks_of(size: int) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact, "BLOCK", size)
        yield


def same(found: tuple[Tensor, Tensor], expected: tuple[Tensor, Tensor]) -> None:
    torch.testing.assert_close(found[1], expected[1], rtol=0, atol=0)
    torch.testing.assert_close(found[0], expected[0], rtol=0, atol=0)


def everywhere(index: FaissIndex) -> FaissIndex:
    """A copy that looks into all lists."""
    found = copy.copy(index)
    found.probes = index.lists
    return found


def recall(found: Tensor, truth: Tensor) -> float:
    return (truth[:, :, None] == found[:, None, :]).any(2).float().mean().item()


@settings(deadline=None, max_examples=100)
@given(st.data())
def test_exact_is_brute_force_with_ties(data: st.DataObject) -> None:
    """Quarters are exact in any order of summation, and few of them tie often."""
    n, b, dim = (data.draw(st.integers(low, high)) for low, high in ((0, 60), (0, 5), (1, 4)))
    chance = torch.Generator().manual_seed(data.draw(st.integers(0, 99)))
    vectors = torch.randint(-1, 2, (n, dim), generator=chance) / 4
    queries = torch.randint(-1, 2, (b, dim), generator=chance) / 4
    bias = torch.randint(-2, 3, (n,), generator=chance) / 16 if data.draw(st.booleans()) else None
    allowed = torch.rand(n, generator=chance) < 0.5 if data.draw(st.booleans()) else None
    top, scale = data.draw(st.integers(1, 70)), data.draw(st.sampled_from((1.0, 2.0)))
    with blocks_of(data.draw(st.sampled_from((1, 64, 300, 1 << 20)))):
        index, asked = ExactIndex(vectors), {"scale": scale, "bias": bias, "allowed": allowed}
        found = index.search(queries, top, **asked)
        same(index.search(queries, top, **asked, products=queries @ vectors.t()), found)
    same(found, brute(vectors, queries, top, scale, bias, allowed))


@pytest.mark.parametrize("top", [1, 10, 100])
def test_exact_is_brute_force_on_real_numbers(top: int) -> None:
    vectors = clusters(5000)
    vectors[100:4000:7] = vectors[50]  # ties among numbers that are rounded
    vectors[3::11] = 0
    queries = torch.cat((vectors[40:60], clusters(30, seed=1)))
    bias = torch.rand(5000, generator=torch.Generator().manual_seed(2)).round(decimals=1)
    for extra in (None, bias):
        with blocks_of(1 << 16):
            found = ExactIndex(vectors).search(queries, top, scale=2, bias=extra)
        same(found, brute(vectors, queries, top, 2, extra))


def test_blocks_of_any_size_give_the_same() -> None:
    vectors, queries = clusters(3000), clusters(20, seed=1)
    whole = ExactIndex(vectors).search(queries, 10)
    for block in (5000, 12_345, 100_000):
        with blocks_of(block):
            same(ExactIndex(vectors).search(queries, 10), whole)


def test_many_queries_are_as_each_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors, queries = clusters(500), clusters(20, seed=1)
    together = ExactIndex(vectors).search(queries, 5)
    monkeypatch.setattr(ExactIndex, "_queries_at_once", lambda *_: 7)
    same(ExactIndex(vectors).search(queries, 5), together)
    alone = [ExactIndex(vectors).search(query[None], 5) for query in queries]
    same((torch.cat([s for s, _ in alone]), torch.cat([i for _, i in alone])), together)


def test_stored_vectors_are_read_in_blocks() -> None:
    vectors, queries = clusters(3000), clusters(3, seed=1)
    stored = Stored(vectors)
    with blocks_of(128 * 500):
        same(ExactIndex(stored).search(queries, 4), brute(vectors, queries, 4))
    assert stored.largest == 500
    fast = FaissIndex.build(Stored(vectors))
    same(everywhere(fast).search(queries, 4), brute(vectors, queries, 4))


# FAISS


@pytest.fixture(scope="module")
def vectors() -> Tensor:
    return clusters(8000)


@pytest.fixture(scope="module")
def built(vectors: Tensor) -> FaissIndex:
    """Nobody changes it."""
    return FaissIndex.build(vectors, stamp="run 1")


def test_the_fast_index_finds_nearly_all(vectors: Tensor, built: FaissIndex) -> None:
    queries = normalize(vectors[::40] + torch.randn(200, 32) * 0.02)
    truth = ExactIndex(vectors).search(queries, 10)
    found = built.search(queries, 10)
    assert built.lists == 8000 // 39
    assert built.probes < built.lists / 4
    assert recall(found[1], truth[1]) >= 0.95
    # What is found has its true score.
    exact = (queries[:, None].double() * vectors[found[1]].double()).sum(2)
    torch.testing.assert_close(found[0], exact.float(), rtol=0, atol=0)


def test_all_lists_give_the_exact_answer(vectors: Tensor, built: FaissIndex) -> None:
    queries, allowed = clusters(50, seed=1), torch.arange(8000) % 3 > 0
    bias = torch.rand(8000) * 1e-3
    for options in ({}, {"allowed": allowed}, {"scale": 2.0, "bias": bias, "allowed": allowed}):
        found = everywhere(built).search(queries, 10, **options)
        same(found, brute(vectors, queries, 10, **options))


def test_a_bias_orders_anew_who_was_found(vectors: Tensor, built: FaissIndex) -> None:
    query = vectors[:1]
    near = built.search(query, 5)[1][0]
    bias = torch.zeros(8000)
    bias[near[4]] = 10
    assert built.search(query, 5, bias=bias)[1][0].tolist() == near[[4, 0, 1, 2, 3]].tolist()


@pytest.mark.parametrize("n", [0, 1, 5, 38, 39, 80, 200])
def test_few_vectors(n: int) -> None:
    vectors, queries = clusters(n, 8), clusters(3, 8, seed=1)
    index = FaissIndex.build(vectors)
    assert len(index) == n
    same(everywhere(index).search(queries, 7), brute(vectors, queries, 7))
    assert len(index.search(queries[:0], 7)[1]) == 0


def test_equal_vectors_do_not_stop_the_building() -> None:
    vectors = clusters(1, 8).expand(500, 8)
    index = FaissIndex.build(vectors)
    assert index.lists == 12
    assert (
        index.search(vectors[:1], 3)[0].tolist()
        == ExactIndex(vectors).search(vectors[:1], 3)[0].tolist()
    )


def test_changing_is_as_building_anew(vectors: Tensor) -> None:
    before, after = vectors[:4000].clone(), vectors[:5000].clone()
    index = FaissIndex.build(before)
    after[100:200] = clusters(100, seed=5)
    index.add(torch.arange(4000, 5000), after[4000:])
    index.add(torch.arange(100, 200), after[100:200])
    assert len(index) == 5000
    queries, allowed = torch.cat((clusters(20, seed=1), after[150:160])), torch.ones(5000).bool()
    same(everywhere(index).search(queries, 10), brute(after, queries, 10))
    allowed[[7, 150, 4500]] = False
    index.remove(torch.tensor([7, 150, 4500, 99_999]))
    assert len(index) == 4997
    found = everywhere(index).search(queries, 10)
    same(found, brute(after, queries, 10, allowed=allowed))
    index.add(torch.tensor([7]), after[7:8])
    assert index.search(after[7:8], 1)[1].item() == 7


def test_building_is_repeatable(vectors: Tensor, built: FaissIndex) -> None:
    again = FaissIndex.build(vectors)
    queries = clusters(50, seed=1)
    same(again.search(queries, 10), built.search(queries, 10))


def test_an_index_comes_back_as_it_was(vectors: Tensor, built: FaissIndex, tmp_path: Path) -> None:
    file = tmp_path / "vectors.index"
    built.save(file)
    assert [p.name for p in tmp_path.iterdir()] == ["vectors.index"]
    assert file.stat().st_size < vectors.nbytes / 10
    back = FaissIndex.load(file, vectors, ["run 0", "run 1"])
    assert (back.stamp, back.probes, len(back)) == ("run 1", built.probes, 8000)
    queries = clusters(20, seed=1)
    same(back.search(queries, 10), built.search(queries, 10))
    back.add(torch.tensor([8000]), queries[:1])
    back.remove(torch.tensor([8000]))
    same(back.search(queries, 10), built.search(queries, 10))
    # Of more vectors, only those that were there are in it.
    more = FaissIndex.load(file, torch.cat((vectors, queries)), ["run 1"])
    same(more.search(queries, 10), built.search(queries, 10))


def test_damage_of_any_byte_is_noticed(tmp_path: Path) -> None:
    file, vectors = tmp_path / "small.index", clusters(10, 4)
    FaissIndex.build(vectors, stamp="x").save(file)
    whole = file.read_bytes()
    for place in range(len(whole)):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(BundleError, match=r"small\.index: .*; build the index again"):
            FaissIndex.load(file, vectors, ["x"])
    for size in (0, 3, 35, 36, len(whole) // 2, len(whole) - 1):
        file.write_bytes(whole[:size])
        with pytest.raises(BundleError, match=r"small\.index"):
            FaissIndex.load(file, vectors, ["x"])
    with pytest.raises(BundleError, match=r"none: .*; build the index again"):
        FaissIndex.load(tmp_path / "none", vectors, ["x"])


def test_an_index_of_other_vectors_is_refused(tmp_path: Path) -> None:
    file, vectors = tmp_path / "small.index", clusters(10, 4)
    FaissIndex.build(vectors, stamp="x").save(file)
    for other, stamp in ((vectors, "y"), (vectors[:9], "x"), (clusters(10, 5), "x")):
        with pytest.raises(BundleError, match=r"small\.index: .*; build the index again"):
            FaissIndex.load(file, other, [stamp])


@pytest.mark.parametrize(
    "change",
    [
        {"lists": torch.full((10,), 1, dtype=torch.int32)},
        {"lists": torch.full((10,), -1, dtype=torch.int32)},
        {"lists": torch.zeros(10)},
        {"lists": torch.zeros(10, dtype=torch.bfloat16)},
        {"centres": torch.full((1, 4), torch.nan)},
        {"centres": torch.zeros(4)},
        {"centres": torch.zeros(0, 4)},
        {"probes": "0"},
        {"probes": "many"},
    ],
    ids=str,
)
def test_a_made_up_index_is_refused_although_its_checksum_is_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any]
) -> None:
    file, vectors = tmp_path / "small.index", clusters(10, 4)
    index = FaissIndex.build(vectors)
    for name, value in change.items():
        monkeypatch.setattr(index, name if name == "probes" else f"_{name}", value)
    monkeypatch.setattr(ivf, "_checksum", lambda *_: "right")
    index.save(file)
    with pytest.raises(BundleError, match=r"small\.index: .*; build the index again"):
        FaissIndex.load(file, vectors, [""])


def test_a_failed_save_leaves_the_old_file(
    built: FaissIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "vectors.index"
    FaissIndex.build(clusters(10, 4)).save(file)
    before = file.read_bytes()
    monkeypatch.setattr(Path, "replace", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        built.save(file)
    assert [p.name for p in tmp_path.iterdir()] == ["vectors.index"]
    assert file.read_bytes() == before


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    vectors, file = clusters(5), tmp_path / "x"
    FaissIndex.build(vectors).save(file)
    monkeypatch.setitem(sys.modules, "faiss", None)
    for use in (FaissIndex.build, lambda vectors: FaissIndex.load(file, vectors, [""])):
        with pytest.raises(MissingExtraError, match=r"pip install 'decentrl\[ann\]'"):
            use(vectors)
    assert ExactIndex(clusters(5)).search(clusters(1), 1)[0].shape == (1, 1)
