"""What is written about entities as rows of numbers, in the shape of an adjacency."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from decentrl.graph.adjacency import Ids

N_BUCKETS = 2**18
"""How many n-grams there are: each is a bucket of a hash."""
MIXER = np.uint64(0x9E3779B97F4A7C15)
"""A number times this one is a hash of it, in its upper bits."""


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
        indptr, places = _taken(self.indptr, ids)
        return TextRows(indptr, self.buckets[places], self.counts[places])

    def only(self, kept: npt.NDArray[np.bool_]) -> TextRows:
        """The same rows, those of other entities empty; bool[n]."""
        if kept.all():
            return self
        inside = np.repeat(kept, np.diff(self.indptr))
        sizes = np.where(kept, np.diff(self.indptr), 0)
        indptr = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))
        return TextRows(indptr, self.buckets[inside], self.counts[inside])

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def named(self) -> npt.NDArray[np.bool_]:
        """Which entities have a name, bool[n]."""
        return np.diff(self.indptr) > 0


@dataclass(frozen=True, eq=False)
class ValueRows:
    """The forms of each entity's values.

    Attributes:
        indptr: int64[n + 1], where each entity's row begins.
        attributes: int64[nnz], the hash of the attribute of each form.
        forms: int64[nnz], hashes; equal forms of two attributes that mean the same are alike.
    """

    indptr: Ids
    attributes: Ids
    forms: Ids

    @classmethod
    def empty(cls, n: int) -> ValueRows:
        """Rows of n entities without attributes."""
        return cls(np.zeros(n + 1, np.int64), np.empty(0, np.int64), np.empty(0, np.int64))

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def take(self, ids: Ids) -> ValueRows:
        """The rows of some entities, in this order."""
        indptr, places = _taken(self.indptr, ids)
        return ValueRows(indptr, self.attributes[places], self.forms[places])

    @property
    def owners(self) -> Ids:
        """Which entity each form is of."""
        return np.repeat(np.arange(len(self)), np.diff(self.indptr))

    def bucketed(self, known: Ids) -> tuple[TextRows, Ids]:
        """The forms of known attributes as rows of buckets, and which attribute each is of.

        Args:
            known: distinct hashes of attributes, int64[p]; the same place on both sides means the
                same attribute, and gives the same bucket to the same form.
        """
        order = np.argsort(known)
        places = np.searchsorted(known[order], self.attributes).clip(max=max(0, len(known) - 1))
        pairs = order[places] if len(known) else places
        kept = known[pairs] == self.attributes if len(known) else np.zeros(len(places), bool)
        pairs = pairs[kept]
        code = (self.forms[kept].astype(np.uint64) + pairs.astype(np.uint64)) * MIXER
        buckets = (code >> np.uint64(65 - N_BUCKETS.bit_length())).astype(np.int64)
        indptr = np.concatenate(([0], np.cumsum(kept)))[self.indptr]
        return TextRows(indptr, buckets, np.ones(len(buckets), np.float32)), pairs


@dataclass(frozen=True, eq=False)
class Texts:
    """What is written about each entity of a graph: n-grams of names, forms of values."""

    names: TextRows
    values: ValueRows

    def take(self, ids: Ids) -> Texts:
        """What is written about some entities, in this order."""
        return Texts(self.names.take(ids), self.values.take(ids))

    def __len__(self) -> int:
        return len(self.names)

    def there(self) -> npt.NDArray[np.bool_]:
        """Of which entities something is written, bool[n]."""
        return self.names.named() | (np.diff(self.values.indptr) > 0)


def _taken(indptr: Ids, ids: Ids) -> tuple[Ids, Ids]:
    """Where some rows begin once they are taken, and the places of all that is in them."""
    sizes = np.diff(indptr)[ids]
    starts = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))
    return starts, np.repeat(indptr[:-1][ids] - starts[:-1], sizes) + np.arange(starts[-1])
