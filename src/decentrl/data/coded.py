"""Columns of labels that arrive piece by piece, kept as ids of their distinct labels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_FEWEST = 1 << 20  # distinct labels of pieces that are merged at once, at least


class CodedColumns:
    """Columns of labels, each row a 32-bit code, with the distinct labels of some columns together.

    Labels of pieces are merged when they are as many as those that are known already: so each label
    is hashed a few times in all, however many pieces there are.

    Args:
        groups: for each column the number of its set of labels; heads and tails share one.
    """

    def __init__(self, groups: Sequence[int]) -> None:
        self._groups = list(groups)
        self._labels = [pa.array([], pa.string()) for _ in set(groups)]
        self._codes: list[list[npt.NDArray[np.int32]]] = [[] for _ in groups]
        self._waiting: list[list[tuple[pa.Array, list[npt.NDArray[np.int32]]]]]
        self._waiting = [[] for _ in self._labels]

    @property
    def nbytes(self) -> int:
        """Bytes that are kept."""
        waiting = sum(
            labels.nbytes + sum(x.nbytes for x in codes)
            for group in self._waiting
            for labels, codes in group
        )
        kept = sum(x.nbytes for codes in self._codes for x in codes)
        return int(waiting + kept + sum(labels.nbytes for labels in self._labels))

    def add(self, columns: Sequence[pa.ChunkedArray]) -> None:
        """Take in the rows of a piece, string columns of equal length."""
        for group, known in enumerate(self._labels):
            own = [column for i, column in enumerate(columns) if self._groups[i] == group]
            chunks = [chunk for column in own for chunk in column.chunks]
            piece = pa.chunked_array(chunks, pa.string()).dictionary_encode().combine_chunks()
            codes = np.asarray(piece.indices).astype(np.int32)
            ends = np.cumsum([len(column) for column in own])[:-1]
            self._waiting[group].append((piece.dictionary, np.split(codes, ends)))
            count = sum(len(labels) for labels, _ in self._waiting[group])
            if count > max(_FEWEST, len(known)):
                self._merge(group)

    def _merge(self, group: int) -> None:
        """Make the labels that wait known, and their codes those of the known ones."""
        waiting, self._waiting[group] = self._waiting[group], []
        if not waiting:
            return
        new = [labels for labels, _ in waiting]
        # Those that are known stand first and keep their codes.
        known = pa.chunked_array([self._labels[group], *new]).unique()
        self._labels[group] = known
        places = pc.index_in(pa.chunked_array(new), value_set=known).to_numpy().astype(np.int32)
        mine = [i for i, own in enumerate(self._groups) if own == group]
        start = 0
        for labels, codes in waiting:
            own = places[start : start + len(labels)]
            start += len(labels)
            for i, rows in zip(mine, codes, strict=True):
                self._codes[i].append(own[rows])

    def columns(self) -> tuple[pa.ChunkedArray, ...]:
        """The columns, of the type dictionary; call it once, at the end."""
        for group in range(len(self._labels)):
            self._merge(group)
        found = []
        for i, group in enumerate(self._groups):
            codes, self._codes[i] = self._codes[i], []
            whole = pa.array(np.concatenate(codes) if codes else np.empty(0, np.int32))
            labels = self._labels[group]
            found.append(pa.chunked_array([pa.DictionaryArray.from_arrays(whole, labels)]))
        return tuple(found)
