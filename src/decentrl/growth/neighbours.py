"""Nearest entities by cosine, and search indexes that are updated with additions."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from decentrl.data.naming import add_names
from decentrl.data.vocabulary import Ids
from decentrl.errors import BundleError, ConfigError, InputError
from decentrl.growth.growing import Growing
from decentrl.growth.growing_graph import GrowingGraph
from decentrl.storage.addition import Growth
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


def neighbours_table(
    graph: GrowingGraph, ids: Ids, cosines: Tensor, language: str = ""
) -> pa.Table:
    """Entities of a graph with their ranks, the nearest first, and their names if it has any."""
    columns = {
        "entity": pa.array(graph.entities.take(ids), pa.string()),
        "rank": np.arange(1, len(ids) + 1, dtype=np.int32),
        "cosine": cosines.numpy(),
    }
    return add_names(pa.table(columns), {"entity": graph}, language)


def no_vector(graph: GrowingGraph, entity: int) -> InputError:
    """The error of a question about the vector of an entity that has none."""
    return InputError(
        f"nothing known reaches {graph.entities[entity]!r}, so it has no vector",
        remedy="add triples that join it to known entities",
    )


class Indexes:
    """The search indexes over the vectors of a model's graphs.

    The FAISS index of a graph is built at its first use, and kept in the folder of the run's
    additions if that is writable. New entities, and those with new rows, are added to it at its
    next use.

    Args:
        unit: whether the model's vectors have length 1 (or 0) already.
    """

    def __init__(self, growing: Growing, unit: bool) -> None:
        self._growing, self._unit = growing, unit
        # The index of each side, and the additions that it contains.
        self._built: dict[str, tuple[FaissIndex, list[Growth]]] = {}

    def vectors(self, side: str) -> Vectors:
        """Vectors of all entities there are now, [n, d], of length 1 or 0."""
        vectors = self._growing.sides[side].vectors
        return vectors if self._unit else NormalisedVectors(vectors)

    def _take(self, side: str, ids: Ids) -> Tensor:
        """Vectors of some entities, [k, d], of length 1 or 0."""
        vectors = self._growing.sides[side].take_vectors(ids)
        return vectors if self._unit else torch.nn.functional.normalize(vectors)

    def get(self, side: str, ann: bool) -> ExactIndex | FaissIndex:
        """The exact index of a side, or the FAISS one."""
        return self.faiss(side) if ann else ExactIndex(self.vectors(side))

    def faiss(self, side: str) -> FaissIndex:
        """The FAISS index of a side, up to date with all additions."""
        if side not in self._built:
            self._built[side] = self._opened(side)
        (index, seen), now = self._built[side], self._growing.growths
        ids = changed_entities(seen, now, side)
        there = ids[ids < len(self._growing.sides[side].entities)]
        index.remove(torch.from_numpy(ids))
        index.add(torch.from_numpy(there), self._take(side, there))
        self._built[side] = index, now
        return index

    def _opened(self, side: str) -> tuple[FaissIndex, list[Growth]]:
        """The index that the run holds, if it fits this state, or a new one."""
        store, now = self._growing.store, self._growing.growths
        if store is None:
            return FaissIndex.build(self.vectors(side)), now
        path = store.file.parent / f"index{side and '-' + side}.safetensors"
        # The states of the run: before its first addition, after it, and so on.
        states = ["0", *(f"{a.number} {a.time}" for a, _ in self._growing.additions)]
        stamps = [f"{store.base} {state}" for state in states]
        with suppress(BundleError):
            # An index of another bundle, or with an addition since undone, cannot be used.
            index = FaissIndex.load(path, self.vectors(side), stamps)
            return index, now[: stamps.index(index.stamp)]
        index = FaissIndex.build(self.vectors(side), stamp=stamps[-1])
        with suppress(OSError):  # if it cannot be written, it is built each time
            path.parent.mkdir(exist_ok=True)
            index.save(path)
        return index, now

    def nearest(
        self, entity: int, side: str, among: str, top: int, ann: bool
    ) -> tuple[Ids, Tensor]:
        """Find the entities of ``among`` nearest to one of ``side``, itself left out.

        Returns:
            ids int64[k] and cosines float32[k], the highest first; k is ``top`` or all there are.
        """
        if top < 1:
            raise ConfigError(f"top is {top}; it must be at least 1")
        query, graph = self._take(side, np.array([entity])), self._growing.sides[among]
        if not query.any():
            raise no_vector(self._growing.sides[side], entity)
        allowed = graph.has_vector().clone()  # no vector, no cosine
        if among == side:
            allowed[entity] = False
        top = min(top, len(graph.entities))
        cosines, ids = (x[0] for x in self.get(among, ann).search(query, top, allowed=allowed))
        return ids[ids >= 0].numpy(), cosines[ids >= 0]
