"""Columns of labels, as every reader returns them, and their ids."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from decentrl.data.vocabulary import Ids, Vocabulary, did_you_mean
from decentrl.errors import InputError, UnknownLabelError

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
    """Pyarrow string columns of equal length without empty labels, and where they come from."""

    file: Path
    columns: tuple[pa.ChunkedArray, ...]
    line_of: Callable[[int], int | None]  # row, from 0 -> line in the file, from 1
    literals: int = 0  # statements with a literal object, set aside
    memory: str = ""  # what the rows are ("triples", "links") if they were never in a file

    def __len__(self) -> int:
        return len(self.columns[0])

    def row(self, i: int) -> tuple[str, ...]:
        return tuple(column[i].as_py() for column in self.columns)

    def error(
        self,
        problem: str,
        row: int | None = None,
        remedy: str | None = None,
        kind: type[InputError] = InputError,
    ) -> InputError:
        """An error that names the file and line of ``row``, or the row of what is in memory."""
        if self.memory:
            place = f"the {self.memory}" if row is None else f"row {row} of the {self.memory}"
            return kind(f"{place} (rows count from 0): {problem}", remedy=remedy)
        line = None if row is None else self.line_of(row)
        return kind(problem, file=self.file, line=line, remedy=remedy)


def stem(file: Path, extension: bool = False) -> str:
    """The file's name without ``.gz`` and, unless wanted, without the format's extension."""
    name = file.name[:-3] if file.name.lower().endswith(".gz") else file.name
    if extension or Path(name).suffix.lower().lstrip(".") not in FORMATS:
        return name
    return Path(name).stem


def is_text(label: object) -> bool:
    """Whether a label can be kept: not empty, and without lone surrogates, which UTF-8 lacks."""
    try:
        return isinstance(label, str) and bool(label.encode())
    except UnicodeEncodeError:
        return False


def string_columns(columns: Iterable[Iterable[str]]) -> tuple[pa.ChunkedArray, ...]:
    """Columns of labels as those of pyarrow."""
    return tuple(pa.chunked_array([pa.array(column, pa.string())]) for column in columns)


def named_columns(header: list[str], names: tuple[str, ...]) -> list[int] | None:
    """The places of the columns ``names`` in a header, or None if it does not have them all.

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


def find_ids(table: Table, column: int, vocabulary: Vocabulary) -> Ids:
    """The ids of a column's labels, int64[n], with -1 for each unknown one."""
    labels, codes = encode(table.columns[column])
    found: Ids = vocabulary.find_all(labels.to_pylist())[codes]
    return found


def distinct_labels(tables: Iterable[Table], *columns: int) -> Vocabulary:
    """The sorted vocabulary of some columns of all tables."""
    parts = [table.columns[i].unique().to_pylist() for table in tables for i in columns]
    return Vocabulary.sorted(label for part in parts for label in part)


def column_ids(table: Table, column: int, vocabulary: Vocabulary, what: str) -> Ids:
    """The ids of a column's labels, int64[n]; an unknown one is an error at its line."""
    ids = find_ids(table, column, vocabulary)
    if len(ids) and ids.min() < 0:
        raise unknown_label(table, int(np.argmax(ids < 0)), column, vocabulary, what)
    return ids


def triple_ids(table: Table, entities: Vocabulary, relations: Vocabulary) -> Ids:
    """The rows of a table as triples of ids, int64[n, 3]; unknown labels are an error."""
    columns = [
        column_ids(table, 0, entities, "known entity"),
        column_ids(table, 1, relations, "known relation"),
        column_ids(table, 2, entities, "known entity"),
    ]
    return np.stack(columns, axis=1)


def unknown_label(
    table: Table, row: int, column: int, known: Vocabulary, what: str, remedy: str | None = None
) -> InputError:
    """The error for a label, at ``row`` and ``column``, that is no ``what``."""
    label = table.row(row)[column]
    remedy = remedy or did_you_mean(label, known)
    return table.error(f"{label!r} is no {what}", row, remedy, UnknownLabelError)
