"""Nearest entities by cosine, and search indexes that are updated with additions."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from decentrl.data.vocabulary import Ids
from decentrl.errors import BundleError, ConfigError, InputError
from decentrl.growth.growing_graph import Growing
from decentrl.matching.point import Search
from decentrl.storage.additions import Growth
from decentrl.storage.index import ExactIndex, FaissIndex, Vectors


class NormalisedVectors:
    """Vectors [n, d] normalised to length 1 (or 0), block by block as they are read."""

    def __init__(self, vectors: Tensor) -> None:
        self._vectors, self.shape = vectors, tuple(vectors.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, chosen: slice | Tensor) -> Tensor:
        return torch.nn.functional.normalize(self._vectors[chosen])


def changed_entities(before: Sequence[Growth], now: Sequence[Growth], side: str) -> Ids:
    """Entities of a side, ascending, that may differ between two lists of additions."""
    same = 0
    while same < min(len(before), len(now)) and before[same] is now[same]:
        same += 1
    parts = [
        part
        for growth in (*before[same:], *now[same:])
        if growth.side == side
        for part in (growth.ids, np.arange(growth.first, growth.first + len(growth.labels)))
    ]
    return np.unique(np.concatenate(parts)) if parts else np.empty(0, np.int64)


@dataclass(eq=False)
class _Kept:
    """An index, the trained vectors it was built from, and the additions it contains."""

    index: FaissIndex
    trained: object
    seen: list[Growth]


class Indexes:
    """The search indexes over the vectors of a model's graphs.

    The FAISS index of a graph is built at its first use, and kept in the folder of the run's
    additions if that is writable. New entities, and those with new rows, are added to it at its
    next use.

    Args:
        unit: whether the model's vectors have length 1 (or 0) already.
    """

    def __init__(self, unit: bool) -> None:
        self._unit = unit
        self._kept: dict[str, _Kept] = {}

    def vectors(self, growing: Growing, side: str) -> Vectors:
        """Vectors of all entities there are now, [n, d], of length 1 or 0."""
        vectors = growing.sides[side].vectors
        return vectors if self._unit else NormalisedVectors(vectors)

    def take(self, growing: Growing, side: str, ids: Ids) -> Tensor:
        """Vectors of some entities, [k, d], of length 1 or 0."""
        vectors = growing.sides[side].take_vectors(ids)
        return vectors if self._unit else torch.nn.functional.normalize(vectors)

    def get(self, growing: Growing, side: str, ann: bool) -> Search:
        """The exact index of a side, or the FAISS one."""
        return self.faiss(growing, side) if ann else ExactIndex(self.vectors(growing, side))

    def faiss(self, growing: Growing, side: str) -> FaissIndex:
        """The FAISS index of a side, up to date with all additions."""
        kept = self._kept.get(side)
        if kept is None or kept.trained is not growing.trained[side].vectors:
            kept = self._kept[side] = self._open(growing, side)
        now = [growth for _, growth in growing.additions]
        ids = changed_entities(kept.seen, now, side)
        there = ids[ids < len(growing.sides[side].entities)]
        kept.index.remove(torch.from_numpy(ids))
        kept.index.add(torch.from_numpy(there), self.take(growing, side, there))
        kept.seen = now
        return kept.index

    def _open(self, growing: Growing, side: str) -> _Kept:
        """Load the index of a side from the run if it fits this state, or build it."""
        trained, now = growing.trained[side].vectors, [growth for _, growth in growing.additions]
        if growing.store is None:
            return _Kept(FaissIndex.build(self.vectors(growing, side)), trained, now)
        path = growing.store.file.parent / f"index{side and '-' + side}.safetensors"
        stamps = _stamps(growing)
        with contextlib.suppress(BundleError):
            # An index of another bundle, or with an addition since undone, cannot be used.
            index = FaissIndex.load(path, self.vectors(growing, side), stamps)
            return _Kept(index, trained, now[: stamps.index(index.stamp)])
        index = FaissIndex.build(self.vectors(growing, side), stamp=stamps[-1])
        _try_to_save(index, path)
        return _Kept(index, trained, now)


def _stamps(growing: Growing) -> list[str]:
    """Identifiers of the states of a run: before its first addition, after it, and so on."""
    assert growing.store is not None
    times = [f"{addition.number} {addition.time}" for addition, _ in growing.additions]
    return [f"{growing.store.base} {state}" for state in ("0", *times)]


def _try_to_save(index: FaissIndex, path: Path) -> None:
    """Save the index, unless the folder is not writable; it is then built again each time."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(exist_ok=True)
        index.save(path)


def neighbours(
    growing: Growing, indexes: Indexes, entity: int, side: str, among: str, top: int, ann: bool
) -> tuple[Ids, Tensor]:
    """Find the entities of ``among`` nearest to one of ``side``, itself left out.

    Returns:
        ids int64[k] and cosines float32[k], the highest first; k is ``top`` or all there are.
    """
    if top < 1:
        raise ConfigError(f"top is {top}; it must be at least 1")
    query = indexes.take(growing, side, np.array([entity]))
    if not query.any():
        raise InputError(
            f"nothing known reaches {growing.sides[side].entities[entity]!r}, so it has no vector",
            remedy="add triples that join it to known entities",
        )
    n = len(growing.sides[among].entities)
    allowed = torch.ones(n, dtype=torch.bool)
    if among == side:
        allowed[entity] = False
    index = indexes.get(growing, among, ann)
    allowed &= growing.sides[among].has_vector().cpu()  # no vector, no cosine
    cosines, ids = (found[0] for found in index.search(query, min(top, n), allowed=allowed))
    return ids[ids >= 0].numpy(), cosines[ids >= 0]
