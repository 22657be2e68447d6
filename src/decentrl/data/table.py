"""The columns of labels that every reader makes of a file, and how they become ids."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from decentrl.data.vocabulary import Ids, Vocabulary, did_you_mean
from decentrl.errors import InputError

# By extension; a name without one is TSV.
FORMATS = {
    "": "tsv",
    "tsv": "tsv",
    "txt": "tsv",
    "csv": "csv",
    "parquet": "parquet",
    "nt": "nt",
    "ttl": "ttl",
}
TRIPLE = ("head", "relation", "tail")
ALSO_TRIPLE = ("subject", "predicate", "object")
LINK = ("left", "right")
IDENTIFIER = ("id", "label")


@dataclass(frozen=True)
class Table:
    """The columns of one file: pyarrow string columns of equal length, no empty label."""

    file: Path
    columns: tuple[pa.ChunkedArray, ...]
    line_of: Callable[[int], int | None]  # row, from 0 -> line in the file, from 1
    literals: int = 0  # statements with a literal object, set aside

    def __len__(self) -> int:
        return len(self.columns[0])

    def row(self, i: int) -> tuple[str, ...]:
        return tuple(column[i].as_py() for column in self.columns)


def stem(file: Path, extension: bool = False) -> str:
    """The file's name without ``.gz`` and, unless wanted, without the format's extension."""
    name = file.name[:-3] if file.name.lower().endswith(".gz") else file.name
    if extension or Path(name).suffix.lower().lstrip(".") not in FORMATS:
        return name
    return Path(name).stem


def named_columns(header: list[str], names: tuple[str, ...]) -> list[int] | None:
    """Where the columns ``names`` stand in a header, or None if it does not have them all.

    Those of triples may also be called subject, predicate and object.
    """
    places = {x.strip().lower(): i for i, x in reversed(list(enumerate(header)))}
    for called in (names, ALSO_TRIPLE if names == TRIPLE else names):
        if all(x in places for x in called):
            return [places[x] for x in called]
    return None


def encode(column: pa.ChunkedArray) -> tuple[pa.Array, Ids]:
    """The distinct labels of a column and, for each row, the index of its label."""
    if not len(column):
        return pa.array([], pa.string()), np.empty(0, np.int64)
    encoded = column.dictionary_encode()  # all its chunks share one dictionary
    codes = [np.asarray(x.indices, np.int64) for x in encoded.chunks]
    return encoded.chunk(0).dictionary, np.concatenate(codes)


def column_ids(
    table: Table, column: int, vocabulary: Vocabulary, what: str, remedy: str | None = None
) -> Ids:
    """The ids of a column's labels, int64[n]; an unknown one is an error at its line."""
    labels, codes = encode(table.columns[column])
    ids: Ids = vocabulary.find_all(labels.to_pylist())[codes]
    if len(ids) and ids.min() < 0:
        raise unknown_label(table, int(np.argmax(ids < 0)), column, vocabulary, what, remedy)
    return ids


def unknown_label(
    table: Table, row: int, column: int, known: Vocabulary, what: str, remedy: str | None = None
) -> InputError:
    """The error for a label, at ``row`` and ``column``, that is no ``what``."""
    label = table.row(row)[column]
    return InputError(
        f"{label!r} is no {what}",
        file=table.file,
        line=table.line_of(row),
        remedy=remedy or did_you_mean(label, known),
    )
