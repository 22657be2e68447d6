"""A knowledge graph: vocabularies and integer triples."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any

import numpy as np
import pyarrow as pa

from decentrl.data.attributes import NO_ATTRIBUTES, Attributes
from decentrl.data.headers import Reading
from decentrl.data.literals import of_literals, read_attributes, read_names
from decentrl.data.memory import Source, read_memory
from decentrl.data.names import NO_NAMES, Names, names_from_ids
from decentrl.data.readers import read_table
from decentrl.data.table import TRIPLE, Columns, Table, coded_keys, distinct_labels, row_ids
from decentrl.data.vocabulary import Ids, Vocabulary
from decentrl.errors import warn_left_out

NO_TRIPLES = np.empty((0, 3), np.int64)


@dataclass(frozen=True)
class ReadCounts:
    """What reading left out: repeated triples; names and values of what is in no triple."""

    duplicates: int = 0
    literals: int = 0

    def also(self, literals: int) -> ReadCounts:
        """These counts, and so many names or values more."""
        return replace(self, literals=self.literals + literals)


@dataclass(frozen=True, eq=False)
class KnowledgeGraph:
    """Entities, relations and triples.

    ``triples`` is int64[n, 3]: (head, relation, tail), distinct rows in lexicographic order.
    ``names`` and ``attributes`` are what is known of entities besides; there may be none.
    """

    entities: Vocabulary
    relations: Vocabulary
    triples: Ids
    counts: ReadCounts = field(default=ReadCounts())
    names: Names = NO_NAMES
    attributes: Attributes = NO_ATTRIBUTES

    @classmethod
    def read(
        cls,
        source: Source,
        format: str | Reading | None = None,
        *,
        name_properties: Collection[str] = (),
    ) -> KnowledgeGraph:
        """The graph of triples in a file or in memory.

        Labels are sorted, so neither the order of the triples nor the format changes an id.

        Args:
            source: a TSV, CSV, Parquet, JSON lines or RDF file, also gzipped, or a folder of them;
                rows (head, relation, tail); a numpy array of them; a pandas or polars data frame,
                an Arrow table, or a graph of rdflib or networkx.
            format: of a file, where its extension is not one of these; or a
                :class:`~decentrl.data.headers.Reading`, which says more of how it is read.
            name_properties: IRIs of RDF properties whose values are names, besides
                :data:`decentrl.data.literals.NAME_PROPERTIES`.
        """
        table = read_table(source, format=format)
        return cls.of_labels([table], name_properties).holding(table)

    @classmethod
    def from_labels(
        cls, heads: Iterable[str], relations: Iterable[str], tails: Iterable[str]
    ) -> KnowledgeGraph:
        """The graph of the triples (heads[i], relations[i], tails[i]); there may be none."""
        table = read_memory(zip_longest(heads, relations, tails))
        return cls.of_labels([table]).holding(table)

    @classmethod
    def of_labels(
        cls, tables: Collection[Table], name_properties: Collection[str] = ()
    ) -> KnowledgeGraph:
        """The entities and relations of tables of triples, sorted by label, without triples.

        It has the names and attributes that are in the tables besides.
        """
        entities, relations = distinct_labels(tables, 0, 2), distinct_labels(tables, 1)
        literals = [table.literals for table in tables if table.literals is not None]
        found = of_literals(literals, entities, name_properties)
        if found.left_out:
            first = next(x for x in tables if x.literals is not None)
            place = f"the {first.memory}" if first.memory else f"{first.file}"
            warn_left_out(
                f"{place}: {found.left_out:,} literals of what is in no triple were left out"
            )
        counts = ReadCounts(literals=found.left_out)
        return cls(entities, relations, NO_TRIPLES, counts, found.names, found.attributes)

    @property
    def sizes(self) -> tuple[int, int, int]:
        """The numbers of heads, relations and tails that ids can name."""
        return len(self.entities), len(self.relations), len(self.entities)

    def to_arrow(self) -> pa.Table:
        """The triples as a table of labels: head, relation, tail."""
        entities, relations = self.entities.to_arrow(), self.relations.to_arrow()
        parts = zip((entities, relations, entities), self.triples.T, strict=True)
        columns = [labels.take(pa.array(ids)) for labels, ids in parts]
        return pa.table(columns, names=list(TRIPLE))

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Export the triples to other libraries: ``polars.DataFrame(graph)``."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def with_triples(self, triples: Ids) -> KnowledgeGraph:
        """The same vocabularies with other triples, int64[n, 3], in any order."""
        distinct = distinct_rows(triples, self.sizes)
        return replace(self, triples=distinct, counts=ReadCounts())

    def with_names(
        self, source: Source, *, name_properties: Collection[str] = ()
    ) -> KnowledgeGraph:
        """The same graph with other names.

        Args:
            source: a file or rows (entity, name) or (entity, name, language), the first of an
                entity and language being its main name; an RDF file with labels; ``"ids"`` to make
                names of the identifiers; ``"none"`` for no names. Names of other entities are left
                out, but if all are, it is an error.
            name_properties: see :meth:`read`.
        """
        if isinstance(source, str) and source in ("ids", "none"):
            names = names_from_ids(self.entities) if source == "ids" else NO_NAMES
            return replace(self, names=names)
        found = read_names(source, self.entities, name_properties)
        return replace(self, names=found.names, counts=self.counts.also(found.left_out))

    def with_attributes(self, source: Source) -> KnowledgeGraph:
        """The same graph with other attributes.

        Args:
            source: a file or rows (entity, attribute, value); an RDF file; ``"none"`` for no
                attributes. Attributes of other entities are left out, but if all are, it is an
                error.
        """
        if isinstance(source, str) and source == "none":
            return replace(self, attributes=NO_ATTRIBUTES)
        found = read_attributes(source, self.entities)
        counts = self.counts.also(found.left_out)
        return replace(self, attributes=found.attributes, counts=counts)

    @property
    def columns(self) -> Columns:
        """What the columns of triples may hold, for :func:`decentrl.data.table.row_ids`."""
        entity, relation = (self.entities, "known entity"), (self.relations, "known relation")
        return entity, relation, entity

    def holding(self, table: Table) -> KnowledgeGraph:
        """The same vocabularies with the triples of a table, and what was left out of it."""
        # Of a large table the rows of ids would be most of the memory.
        keys = coded_keys(table, *self.columns)
        if keys is None:
            triples = distinct_rows(row_ids(table, *self.columns), self.sizes)
        else:
            triples = _rows_of_keys(keys, self.sizes)
        counts = ReadCounts(len(table) - len(triples), self.counts.literals)
        return replace(self, triples=triples, counts=counts)

    def content_hash(self) -> str:
        """SHA-256 over labels, in the order of their ids, triples, names and attributes."""
        digest = hashlib.sha256()
        self.entities.update_hash(digest)
        self.relations.update_hash(digest)
        digest.update(np.ascontiguousarray(self.triples, "<i8").tobytes())
        for part in (self.names, self.attributes):
            if len(part):  # a graph without any has the hash it always had
                part.update_hash(digest)
        return digest.hexdigest()

    def __repr__(self) -> str:
        return (
            f"KnowledgeGraph({len(self.entities)} entities, {len(self.relations)} relations, "
            f"{len(self.triples)} triples"
            + f", {len(self.names)} names" * bool(self.names)
            + f", {len(self.attributes)} attributes" * bool(self.attributes)
            + ")"
        )


def as_graph(
    source: KnowledgeGraph | Source, format: str | Reading | None = None
) -> KnowledgeGraph:
    """A graph as it is, or the one that :meth:`KnowledgeGraph.read` makes of the source."""
    return source if isinstance(source, KnowledgeGraph) else KnowledgeGraph.read(source, format)


def hash_arrays(start: str, parts: Iterable[Ids | None]) -> str:
    """SHA-256 over a text and the arrays that are there, each after its length."""
    digest = hashlib.sha256(start.encode())
    for part in parts:
        if part is not None:
            digest.update(np.array([len(part)], "<i8").tobytes())
            digest.update(np.ascontiguousarray(part, "<i8").tobytes())
    return digest.hexdigest()


def distinct_rows(rows: Ids, sizes: tuple[int, ...]) -> Ids:
    """The distinct rows of int64[n, k], in lexicographic order; column j holds ids < sizes[j]."""
    if not len(rows):
        return np.empty((0, len(sizes)), np.int64)
    return _rows_of_keys(row_keys(rows, sizes), sizes)


def _rows_of_keys(keys: Ids, sizes: tuple[int, ...]) -> Ids:
    """The distinct rows of these :func:`row_keys`, in lexicographic order; the keys are used up."""
    keys.sort()  # np.unique hashes instead, which is far slower here
    first = np.ones(len(keys), np.bool_)
    np.not_equal(keys[1:], keys[:-1], out=first[1:])
    keys = keys[first]
    found = np.empty((len(keys), len(sizes)), np.int64)
    for column in range(len(sizes) - 1, -1, -1):
        np.divmod(keys, sizes[column], out=(keys, found[:, column]))
    return found


def row_keys(rows: Ids, sizes: tuple[int, ...]) -> Ids:
    """One integer for each row, in the order of the rows: sorting these is ten times faster."""
    assert np.prod(np.array(sizes, np.float64)) < 2.0**62, "too many entities and relations"
    keys = np.zeros(len(rows), np.int64)
    for column, size in zip(rows.T, sizes, strict=True):
        keys *= size
        keys += column
    return keys


def first_occurrences(rows: Ids, sizes: tuple[int, ...]) -> Ids:
    """The indices of the rows that no earlier row repeats, in order."""
    return np.sort(np.unique(row_keys(rows, sizes), return_index=True)[1]).astype(np.int64)


class DisjointSets:
    """Reads sets of triples or links, such as training and test, that may not share a row.

    ``columns`` are what the rows may hold, ``noun`` is the word for a row in errors.
    """

    def __init__(self, noun: str, columns: Columns) -> None:
        self._noun, self._columns = noun, columns
        self._seen: list[tuple[str, Ids]] = []

    def add(self, table: Table, name: str) -> Ids:
        """The distinct rows of a table, in their order; a row of an earlier set is an error."""
        rows = row_ids(table, *self._columns)
        sizes = tuple(len(vocabulary) for vocabulary, _ in self._columns)
        keys = row_keys(rows, sizes)
        for other, seen in self._seen:
            shared = np.isin(keys, seen)
            if shared.any():
                raise table.error(
                    f"this {name} {self._noun} is also a {other} {self._noun}",
                    int(np.argmax(shared)),
                    "remove it from one of the two",
                )
        self._seen.append((name, keys))
        return rows[first_occurrences(rows, sizes)]
