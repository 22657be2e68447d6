"""Label <-> id: deterministic, append-only."""

from __future__ import annotations

import difflib
import heapq
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from decentrl.errors import UnknownLabelError

if TYPE_CHECKING:
    import pyarrow as pa

Ids = npt.NDArray[np.int64]


class _Hash(Protocol):
    def update(self, data: bytes, /) -> None: ...


class Vocabulary:
    """Labels with ids 0..n-1 in the order of arrival. An id, once given, never moves."""

    def __init__(self, labels: Iterable[str] = ()) -> None:
        self._labels = list(labels)
        self._ids = {label: i for i, label in enumerate(self._labels)}
        if len(self._ids) != len(self._labels):
            seen: set[str] = set()
            twice = next(x for x in self._labels if x in seen or seen.add(x))  # type: ignore[func-returns-value]
            raise ValueError(f"the label {twice!r} occurs twice in a vocabulary")

    @classmethod
    def sorted(cls, labels: Iterable[str]) -> Vocabulary:
        """The distinct labels, sorted by code point: the order of arrival leaves no trace."""
        return cls(sorted(set(labels)))

    def __len__(self) -> int:
        return len(self._labels)

    def __contains__(self, label: object) -> bool:
        return label in self._ids

    def __getitem__(self, id: int) -> str:
        # A negative id would silently count from the end.
        if id < 0:
            raise IndexError(f"no label has the id {id}")
        return self._labels[id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._labels)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self._labels == other._labels

    # Append-only is still mutable: equal vocabularies may differ later.
    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Vocabulary({len(self)} labels)"

    def id(self, label: str) -> int:
        """The id of ``label``; an unknown label is an error that names the nearest known ones."""
        try:
            return self._ids[label]
        except KeyError:
            raise UnknownLabelError(
                f"the label {label!r} is unknown", remedy=did_you_mean(label, self._labels)
            ) from None

    def find(self, label: str) -> int | None:
        """The id of ``label``, or None."""
        return self._ids.get(label)

    def ids(self, labels: Iterable[str]) -> Ids:
        """The ids of ``labels``, int64[n]."""
        labels = list(labels)
        try:
            return np.fromiter(map(self._ids.__getitem__, labels), np.int64, len(labels))
        except KeyError:
            return np.array([self.id(x) for x in labels], np.int64)  # raises, in good words

    def find_all(self, labels: Iterable[str]) -> Ids:
        """The ids of ``labels``, int64[n], with -1 for each unknown one."""
        labels = list(labels)
        get = self._ids.get
        return np.fromiter((get(x, -1) for x in labels), np.int64, len(labels))

    def take(self, ids: Iterable[int] | Ids) -> list[str]:
        """The labels of ``ids``."""
        ids = ids.tolist() if isinstance(ids, np.ndarray) else ids
        return [self[i] for i in ids]

    def append(self, labels: Iterable[str]) -> Ids:
        """Take in the unknown labels, sorted among themselves; the ids of all given, int64[n]."""
        labels = list(labels)
        for label in sorted({x for x in labels if x not in self._ids}):
            self._ids[label] = len(self._labels)
            self._labels.append(label)
        return self.ids(labels)

    def copy(self) -> Vocabulary:
        """An independent vocabulary with the same labels and ids."""
        return Vocabulary(self._labels)

    def to_arrow(self) -> pa.Array:
        """The labels in the order of their ids, string[n]."""
        import pyarrow as pa

        return pa.array(self._labels, pa.string())

    def update_hash(self, digest: _Hash) -> None:
        """Feed the labels to a hash. Lengths go first, so that no two lists look the same."""
        encoded = [x.encode() for x in self._labels]
        digest.update(np.array([len(encoded), *map(len, encoded)], "<i8").tobytes())
        digest.update(b"".join(encoded))


def nearest(label: str, known: Iterable[str], n: int = 3) -> list[str]:
    """Up to ``n`` known labels that look most like ``label``.

    difflib alone needs seconds over the entities of a large graph; so the labels that share most
    character trigrams are picked first, and only these are compared closely.
    """
    sought = label.casefold()
    grams = {sought[i : i + 3] for i in range(max(1, len(sought) - 2))}
    grams = set(sorted(grams)[:: max(1, len(grams) // 24)])

    def shared(candidate: str) -> tuple[int, int]:
        text = candidate.casefold()
        return sum(gram in text for gram in grams), -len(text)

    pool = heapq.nlargest(100, known, key=shared)
    folded: dict[str, str] = {}
    for candidate in pool:
        folded.setdefault(candidate.casefold(), candidate)
    return [folded[x] for x in difflib.get_close_matches(sought, folded, n)]


def did_you_mean(label: str, known: Iterable[str]) -> str:
    """A remedy for an unknown label."""
    close = nearest(label, known)
    if not close:
        return "check its spelling (no known label is similar)"
    return f"did you mean {' or '.join(repr(x) for x in close)}?"
