"""A knowledge graph: vocabularies and integer triples."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from os import PathLike

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from decentrl.data.readers import read_table
from decentrl.data.table import encode
from decentrl.data.vocabulary import Ids, Vocabulary
from decentrl.errors import InputError


@dataclass(frozen=True)
class ReadCounts:
    """What reading left out: repeated triples, and statements about literals."""

    duplicates: int = 0
    literals: int = 0


@dataclass(frozen=True, eq=False)
class KnowledgeGraph:
    """Entities, relations and triples.

    ``triples`` is int64[n, 3]: (head, relation, tail), distinct rows in lexicographic order.
    """

    entities: Vocabulary
    relations: Vocabulary
    triples: Ids
    counts: ReadCounts = field(default=ReadCounts())

    @classmethod
    def read(cls, path: str | PathLike[str], format: str | None = None) -> KnowledgeGraph:
        """Read a TSV, CSV, Parquet, N-Triples or Turtle file, also gzipped.

        Labels are sorted, so neither the order of the lines nor the format changes an id.
        """
        table = read_table(path, format=format)
        return _assemble(table.columns, table.literals)

    @classmethod
    def from_labels(
        cls, heads: Iterable[str], relations: Iterable[str], tails: Iterable[str]
    ) -> KnowledgeGraph:
        """The graph of the triples (heads[i], relations[i], tails[i])."""
        columns = [list(heads), list(relations), list(tails)]
        if len({len(c) for c in columns}) != 1:
            sizes = ", ".join(str(len(c)) for c in columns)
            raise InputError(
                f"heads, relations and tails differ in number ({sizes})",
                remedy="give one of each per triple",
            )
        for column in columns:
            for i, label in enumerate(column):
                if not is_text(label):
                    raise InputError(
                        f"the label {label!r} of triple {i} is no text",
                        remedy="give non-empty strings",
                    )
        return _assemble([pa.chunked_array([c], pa.string()) for c in columns], literals=0)

    def with_triples(self, triples: Ids) -> KnowledgeGraph:
        """The same vocabularies with other triples, int64[n, 3], in any order."""
        return KnowledgeGraph(self.entities, self.relations, self.distinct(triples))

    def distinct(self, triples: Ids) -> Ids:
        """The distinct rows of ``triples`` in lexicographic order."""
        return distinct_rows(triples, (len(self.entities), len(self.relations), len(self.entities)))

    def content_hash(self) -> str:
        """SHA-256 over labels, in the order of their ids, and triples."""
        digest = hashlib.sha256()
        self.entities.update_hash(digest)
        self.relations.update_hash(digest)
        digest.update(np.ascontiguousarray(self.triples, "<i8").tobytes())
        return digest.hexdigest()

    def __repr__(self) -> str:
        return (
            f"KnowledgeGraph({len(self.entities)} entities, {len(self.relations)} relations, "
            f"{len(self.triples)} triples)"
        )


def is_text(label: object) -> bool:
    """Whether a label can be kept: a lone surrogate, for one, is in no encoding."""
    try:
        return isinstance(label, str) and bool(label.encode())
    except UnicodeEncodeError:
        return False


def _assemble(columns: Sequence[pa.ChunkedArray], literals: int) -> KnowledgeGraph:
    """A graph of three columns of labels: heads, relations, tails."""
    heads, names, tails = columns
    # Heads and tails are encoded together, so that each entity is looked up once.
    entities, ends = _sorted_ids(pa.chunked_array([*heads.chunks, *tails.chunks], pa.string()))
    relations, kinds = _sorted_ids(names)
    rows = np.stack([ends[: len(heads)], kinds, ends[len(heads) :]], axis=1)
    triples = distinct_rows(rows, (len(entities), len(relations), len(entities)))
    counts = ReadCounts(len(rows) - len(triples), literals)
    return KnowledgeGraph(entities, relations, triples, counts)


def _sorted_ids(column: pa.ChunkedArray) -> tuple[Vocabulary, Ids]:
    """Vocabulary.sorted of a column's labels and, for each row, its id, int64[n]."""
    labels, codes = encode(column)
    order = np.asarray(pc.array_sort_indices(labels))  # by UTF-8 bytes, that is by code point
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    return Vocabulary(labels.take(pa.array(order)).to_pylist()), ranks[codes]


def distinct_rows(rows: Ids, sizes: tuple[int, ...]) -> Ids:
    """The distinct rows of int64[n, k], in lexicographic order; column j holds ids < sizes[j]."""
    if not len(rows):
        return np.empty((0, len(sizes)), np.int64)
    keys = np.sort(row_keys(rows, sizes))  # np.unique hashes instead, which is far slower here
    keys = keys[np.concatenate([[True], keys[1:] != keys[:-1]])]
    return np.stack(np.unravel_index(keys, sizes), axis=1).astype(np.int64)


def row_keys(rows: Ids, sizes: tuple[int, ...]) -> Ids:
    """One integer for each row, in the order of the rows: sorting these is ten times faster."""
    assert np.prod(np.array(sizes, np.float64)) < 2.0**62, "too many entities and relations"
    keys = np.zeros(len(rows), np.int64)
    for column, size in zip(rows.T, sizes, strict=True):
        keys = keys * size + column
    return keys


def first_occurrences(rows: Ids, sizes: tuple[int, ...]) -> Ids:
    """The indices of the rows that no earlier row repeats, in order."""
    return np.sort(np.unique(row_keys(rows, sizes), return_index=True)[1]).astype(np.int64)
