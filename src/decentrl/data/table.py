"""Columns of labels, as every reader returns them, and their ids."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from decentrl.data.iris import iri_of_uri
from decentrl.data.unpacking import without_compression
from decentrl.data.vocabulary import Ids, Vocabulary, did_you_mean
from decentrl.errors import InputError, UnknownLabelError

# By extension; a name without one is TSV.
_OWN_NAMES = ("tsv", "csv", "parquet", "nt", "ttl", "rdf", "jsonld", "nq", "trig", "n3")
FORMATS = (
    {"": "tsv", "tsv": "tsv", "txt": "tsv"}
    | {name: name for name in (*_OWN_NAMES, "json", "jsonl")}
    | {"owl": "rdf", "xml": "rdf", "ndjson": "jsonl"}
)
TRIPLE = ("head", "relation", "tail")
ALSO_TRIPLE = ("subject", "predicate", "object")
LINK = ("left", "right")
IDENTIFIER = ("id", "label")
NAME = ("entity", "name", "language")  # or without the last
ATTRIBUTE = ("entity", "attribute", "value")
LITERAL = ("subject", "property", "value", "language", "datatype")
MAY_BE_EMPTY = {"name", "language", "value"}

Columns = tuple[tuple[Vocabulary, str], ...]
"""For each column of a table its vocabulary, and what a label of it is, for errors."""


@dataclass(frozen=True)
class Table:
    """Pyarrow string columns of equal length without empty labels, and where they come from."""

    file: Path
    columns: tuple[pa.ChunkedArray, ...]
    line_of: Callable[[int], int | None]  # row, from 0 -> line in the file, from 1
    literals: pa.Table | None = None  # the statements with a literal object, columns LITERAL
    uris: bool = False  # labels may be URIs, percent-encoded where the vocabulary has IRIs
    memory: str = ""  # what the rows are ("triples", "links") if they were never in a file
    file_of: Callable[[int], Path] | None = None  # the file of a row, where there are several

    def __len__(self) -> int:
        return len(self.columns[0])

    @cached_property
    def encoded(self) -> list[tuple[pa.Array, npt.NDArray[np.int32]]]:
        """For each column its distinct labels and, for each row, the index of its label.

        Of a large file both ends of triples share their labels.
        """
        coded = [column.dictionary_encode() for column in self.columns]
        whole = [x.chunk(0) if x.num_chunks == 1 else x.combine_chunks() for x in coded]
        return [(x.dictionary, np.asarray(x.indices)) for x in whole]

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
        file = self.file if row is None or self.file_of is None else self.file_of(row)
        return kind(problem, file=file, line=line, remedy=remedy)


def stem(file: Path, extension: bool = False) -> str:
    """The file's name without ``.gz`` or ``.zst`` and, unless wanted, the format's extension."""
    name = without_compression(file.name)
    if extension or Path(name).suffix.lower().lstrip(".") not in FORMATS:
        return name
    return Path(name).stem


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


def fitting(names: tuple[str, ...], found: Collection[object]) -> tuple[str, ...]:
    """The columns to read of those of a source: the language of names may be missing."""
    called = set(NAME[:2]) <= set(found) and NAME[2] not in found
    return NAME[:2] if names == NAME and (called or len(found) == 2) else names


def distinct_labels(tables: Iterable[Table], *columns: int) -> Vocabulary:
    """The sorted vocabulary of some columns of all tables."""
    parts = [table.encoded[i][0] for table in tables for i in columns]
    labels = pa.chunked_array(parts, pa.string()).unique()
    # By UTF-8 bytes, that is by code point.
    return Vocabulary.from_arrow(labels.take(pc.array_sort_indices(labels)))


def row_ids(table: Table, *columns: tuple[Vocabulary, str]) -> Ids:
    """The rows of a table as ids, int64[n, k]; an unknown label is an error at its line."""
    ids = np.empty((len(table), len(columns)), np.int64)
    for i, ((labels, codes), (vocabulary, _)) in enumerate(
        zip(table.encoded, columns, strict=True)
    ):
        ids[:, i] = _places(labels, vocabulary, table.uris)[codes]
    if len(ids) and ids.min() < 0:
        unknown = ids < 0
        row = int(np.argmax(unknown.any(axis=1)))
        labels = [column[row].as_py() for column in table.columns]
        i = int(np.argmax(unknown[row]))
        vocabulary, what = columns[i]
        remedy = did_you_mean(labels[i], vocabulary)
        if all(x in words for x, (words, _) in zip(labels[::-1], columns, strict=True)):
            remedy = "the two columns are swapped: write left, then right"
        raise table.error(f"{labels[i]!r} is no {what}", row, remedy, UnknownLabelError)
    return ids


def coded_keys(table: Table, *columns: tuple[Vocabulary, str]) -> Ids | None:
    """One integer for each row of a table, in the order of its rows of ids, int64[n].

    They are made without the rows. None if a label is unknown, or there are too many of them.
    """
    sizes = np.array([len(vocabulary) for vocabulary, _ in columns], np.float64)
    if np.prod(sizes) >= 2.0**62:
        return None
    keys = np.zeros(len(table), np.int64)
    for (labels, codes), (vocabulary, _) in zip(table.encoded, columns, strict=True):
        places = _places(labels, vocabulary, table.uris)
        if len(places) and places.min() < 0:
            return None
        keys *= len(vocabulary)
        keys += places[codes]
    return keys


def unknown_cells(table: Table, *columns: tuple[Vocabulary, str]) -> npt.NDArray[np.bool_]:
    """Which labels are not in the vocabulary of their column, bool[n, k]."""
    found = [
        (_places(labels, vocabulary, table.uris) < 0)[codes]
        for (labels, codes), (vocabulary, _) in zip(table.encoded, columns, strict=True)
    ]
    return np.stack(found, axis=1)


def _places(labels: pa.Array, vocabulary: Vocabulary, uris: bool) -> Ids:
    """Where labels are in a vocabulary, -1 for unknown ones."""
    known = vocabulary.to_arrow()
    places = pc.index_in(labels, value_set=known)
    if uris and places.null_count:
        iris = pa.array([iri_of_uri(label) for label in labels.to_pylist()], pa.string())
        places = pc.coalesce(places, pc.index_in(iris, value_set=known))
    found: Ids = places.fill_null(-1).to_numpy().astype(np.int64)
    return found


def column_ids(table: Table, column: int, vocabulary: Vocabulary, what: str) -> Ids:
    """The ids of one column's labels, int64[n]; see :func:`row_ids`."""
    ids: Ids = row_ids(
        replace(table, columns=table.columns[column : column + 1]), (vocabulary, what)
    )[:, 0]
    return ids
