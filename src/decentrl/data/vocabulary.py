"""Vocabularies: the ids of labels, deterministic and append-only."""

from __future__ import annotations

import difflib
import heapq
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import chain
from operator import eq
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from decentrl.errors import InputError, UnknownLabelError

if TYPE_CHECKING:
    from hashlib import _Hash

    import pyarrow as pa

Ids = npt.NDArray[np.int64]


class _Labels:
    """Distinct labels that no longer change, so that vocabularies can share them.

    Those of a large vocabulary come as an Arrow array: no Python object is made before it is
    needed, because a million take a second.
    """

    def __init__(self, given: list[str] | pa.Array, file: str = "") -> None:
        self._given, self._file = given, file

    def __len__(self) -> int:
        return len(self._given)

    @cached_property
    def labels(self) -> list[str]:
        return self._given if isinstance(self._given, list) else self._given.to_pylist()

    @cached_property
    def ids(self) -> dict[str, int]:
        found = {label: i for i, label in enumerate(self.labels)}
        if self._file and len(found) != len(self):
            raise InputError("a label occurs twice", file=self._file, remedy="copy the run again")
        return found

    def to_arrow(self) -> pa.Array:
        import pyarrow as pa

        return pa.array(self._given, pa.string()) if isinstance(self._given, list) else self._given


class Vocabulary:
    """Labels with ids 0..n-1 in the order of arrival. An id, once given, never moves."""

    def __init__(self, labels: Iterable[str] = ()) -> None:
        self._first = _Labels(list(labels))
        self._later: list[str] = []
        self._later_ids: dict[str, int] = {}
        if len(self._first.ids) != len(self._first):
            twice = Counter(self._first.labels).most_common(1)[0][0]
            raise ValueError(f"the label {twice!r} occurs twice in a vocabulary")

    @classmethod
    def from_arrow(cls, labels: pa.Array, file: str = "") -> Vocabulary:
        """The vocabulary of distinct labels, string[n]; it costs nothing before its first use.

        ``file`` is where they come from, if that they are distinct is still to be seen.
        """
        vocabulary = cls()
        vocabulary._first = _Labels(labels, file)
        return vocabulary

    def __len__(self) -> int:
        return len(self._first) + len(self._later)

    def __contains__(self, label: object) -> bool:
        return label in self._first.ids or label in self._later_ids

    def __getitem__(self, id: int) -> str:
        # A negative id would silently count from the end.
        if id < 0:
            raise IndexError(f"no label has the id {id}")
        n = len(self._first)
        return self._first.labels[id] if id < n else self._later[id - n]

    def __iter__(self) -> Iterator[str]:
        return chain(self._first.labels, self._later)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Vocabulary) or len(self) != len(other):
            return False
        if self._first is other._first:
            return self._later == other._later
        return all(map(eq, self, other))

    # Append-only is still mutable: equal vocabularies may differ later.
    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Vocabulary({len(self)} labels)"

    def id(self, label: str) -> int:
        """The id of ``label``; see :meth:`ids`."""
        return int(self.ids([label])[0])

    def ids(self, labels: Iterable[str]) -> Ids:
        """The ids of ``labels``, int64[n]; an unknown one is an error that names similar ones."""
        labels = list(labels)
        found = self.find_all(labels)
        if len(found) and found.min() < 0:
            label = labels[int(found.argmin())]
            raise UnknownLabelError(
                f"the label {label!r} is unknown", remedy=did_you_mean(label, self)
            )
        return found

    def find_all(self, labels: Iterable[str]) -> Ids:
        """The ids of ``labels``, int64[n], with -1 for each unknown one."""
        labels = list(labels)
        get = self._first.ids.get
        found = np.fromiter((get(x, -1) for x in labels), np.int64, len(labels))
        if self._later:
            for i in np.flatnonzero(found < 0):
                found[i] = self._later_ids.get(labels[i], -1)
        return found

    def take(self, ids: Iterable[int] | Ids) -> list[str]:
        """The labels of ``ids``."""
        ids = ids.tolist() if isinstance(ids, np.ndarray) else ids
        return [self[i] for i in ids]

    def append(self, labels: Iterable[str]) -> Ids:
        """Take in the unknown labels, sorted among themselves; the ids of all given, int64[n]."""
        labels = list(labels)
        for label in sorted({x for x in labels if x not in self}):
            self._later_ids[label] = len(self)
            self._later.append(label)
        return self.ids(labels)

    def copy(self) -> Vocabulary:
        """An independent vocabulary with the same labels and ids."""
        # What came later is copied each time; once it is much, it pays to share it as well.
        if 8 * len(self._later) > len(self._first):
            return Vocabulary(self)
        other = Vocabulary()
        other._first, other._later = self._first, self._later.copy()
        other._later_ids = self._later_ids.copy()
        return other

    def to_arrow(self) -> pa.Array:
        """The labels in the order of their ids, string[n]."""
        import pyarrow as pa

        return pa.concat_arrays([self._first.to_arrow(), pa.array(self._later, pa.string())])

    def update_hash(self, digest: _Hash) -> None:
        """Feed the labels to a hash. Lengths go first, so that no two lists look the same."""
        encoded = [x.encode() for x in self]
        digest.update(np.array([len(encoded), *map(len, encoded)], "<i8").tobytes())
        digest.update(b"".join(encoded))


def nearest(label: str, known: Iterable[str], n: int = 3) -> list[str]:
    """Up to ``n`` known labels that look most like ``label``, then those that it is a part of.

    difflib alone needs seconds over the entities of a large graph; so the labels that share most
    character trigrams are picked first, and only these are compared closely.
    """
    sought = label.casefold()
    grams = {sought[i : i + 3] for i in range(max(1, len(sought) - 2))}
    grams = set(sorted(grams)[:: max(1, len(grams) // 24)])

    def shared(candidate: str) -> tuple[int, int]:
        text = candidate.casefold()
        return sum(gram in text for gram in grams), -len(text)

    known = list(known)
    around = (x for x in known if len(sought) > 2 and sought in x.casefold())
    found = heapq.nsmallest(n, dict.fromkeys(around), key=lambda x: (len(x), x))
    pool = heapq.nlargest(100, known, key=shared)
    folded: dict[str, str] = {}
    for candidate in pool:
        folded.setdefault(candidate.casefold(), candidate)
    close = [folded[x] for x in difflib.get_close_matches(sought, folded, n)]
    return list(dict.fromkeys([*close[:1], *found, *close]))[:n]


def did_you_mean(label: str, known: Iterable[str]) -> str:
    """A remedy for an unknown label."""
    close = nearest(label, known)
    if not close:
        return "check its spelling (no known label is similar)"
    return f"did you mean {' or '.join(repr(x) for x in close)}?"
