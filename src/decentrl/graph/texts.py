"""The n-grams of entities as rows of numbers, in the shape of an adjacency."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from decentrl.graph.adjacency import Ids

N_BUCKETS = 2**18
"""How many n-grams there are: each is a bucket of a hash."""


@dataclass(frozen=True, eq=False)
class TextRows:
    """How often each n-gram occurs in the names of each entity.

    Attributes:
        indptr: int64[n + 1], where each entity's row begins.
        buckets: int64[nnz], the n-grams of all rows, one row after the other.
        counts: float32[nnz].
    """

    indptr: Ids
    buckets: Ids
    counts: npt.NDArray[np.float32]

    @classmethod
    def joined(cls, parts: Iterable[TextRows]) -> TextRows:
        """Rows of several graphs, one after the other."""
        every = list(parts)
        starts = np.cumsum([0, *(len(part.buckets) for part in every)])
        indptr = [part.indptr[:-1] + start for part, start in zip(every, starts, strict=False)]
        return cls(
            np.concatenate((*indptr, starts[-1:])),
            np.concatenate([part.buckets for part in every]),
            np.concatenate([part.counts for part in every]),
        )

    def take(self, ids: Ids) -> TextRows:
        """The rows of some entities, in this order."""
        sizes = np.diff(self.indptr)[ids]
        indptr = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))
        places = np.repeat(self.indptr[:-1][ids] - indptr[:-1], sizes) + np.arange(indptr[-1])
        return TextRows(indptr, self.buckets[places], self.counts[places])

    def only(self, kept: npt.NDArray[np.bool_]) -> TextRows:
        """The same rows, those of other entities empty; bool[n]."""
        inside = np.repeat(kept, np.diff(self.indptr))
        sizes = np.where(kept, np.diff(self.indptr), 0)
        indptr = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))
        return TextRows(indptr, self.buckets[inside], self.counts[inside])

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def named(self) -> npt.NDArray[np.bool_]:
        """Which entities have a name, bool[n]."""
        return np.diff(self.indptr) > 0
