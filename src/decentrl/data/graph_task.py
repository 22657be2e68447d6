"""One graph with triples held out for validation and test."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path

import numpy as np

from decentrl.data.knowledge_graph import (
    KnowledgeGraph,
    ReadCounts,
    first_occurrences,
    row_keys,
)
from decentrl.data.readers import read_table
from decentrl.data.table import Table, column_ids, stem
from decentrl.data.vocabulary import Ids, Vocabulary
from decentrl.errors import InputError


@dataclass(frozen=True, eq=False)
class GraphTask:
    """A graph of training triples, and triples int64[n, 3] to predict.

    The graph's vocabularies hold all entities and relations. In an open world ``auxiliary`` are the
    triples int64[n, 3] that arrive after training, with the entities ``new_entities``, int64[m].
    """

    name: str
    graph: KnowledgeGraph
    valid: Ids
    test: Ids
    auxiliary: Ids | None = None
    new_entities: Ids | None = None

    @property
    def open_world(self) -> bool:
        return self.auxiliary is not None

    @classmethod
    def from_graph(
        cls, name: str, graph: KnowledgeGraph, valid: float = 0.1, test: float = 0.1, seed: int = 0
    ) -> GraphTask:
        """Hold out random shares of the triples.

        A triple leaves training only if its entities and its relation still occur there without
        it; where too few such triples exist, fewer are held out.
        """
        if min(valid, test) < 0 or valid + test >= 1:
            raise InputError(
                f"cannot hold out {valid} and {test} of the triples",
                remedy="give shares of 0 or more that leave something for training",
            )
        sizes = [round(share * len(graph.triples)) for share in (test, valid)]
        order = np.random.default_rng(seed).permutation(len(graph.triples))
        held = _removable(graph, order, sum(sizes))
        cut = round(len(held) * sizes[0] / max(1, sum(sizes)))
        triples = graph.triples
        train = graph.with_triples(np.delete(triples, held, axis=0))
        return cls(name, train, triples[np.sort(held[cut:])], triples[np.sort(held[:cut])])

    @classmethod
    def read(
        cls,
        triples: str | PathLike[str],
        valid: str | PathLike[str] | None = None,
        test: str | PathLike[str] | None = None,
        format: str | None = None,
        *,
        valid_share: float = 0.1,
        test_share: float = 0.1,
        seed: int = 0,
    ) -> GraphTask:
        """Read training triples, and those to validate and to test on.

        Where one of these files is not given, a random share of the training triples is held out.
        ``format`` overrides the extensions.
        """
        names = {"training": triples, "validation": valid, "test": test}
        tables = {
            what: read_table(file, format=format)
            for what, file in names.items()
            if file is not None
        }
        sides = [[table.columns[i] for table in tables.values()] for i in range(3)]
        entities, relations = (
            Vocabulary.sorted(x for column in columns for x in column.unique().to_pylist())
            for columns in (sides[0] + sides[2], sides[1])
        )
        graph = KnowledgeGraph(entities, relations, np.empty((0, 3), np.int64))
        rows = {what: _ids(table, graph) for what, table in tables.items()}
        _check_apart(tables, rows, graph)
        train = graph.with_triples(rows["training"])
        shares = (0.0 if valid else valid_share, 0.0 if test else test_share)
        task = cls.from_graph(stem(Path(triples)), train, *shares, seed)
        repeated = len(rows["training"]) - len(train.triples)
        counts = ReadCounts(repeated, tables["training"].literals)
        return replace(
            task,
            graph=replace(task.graph, counts=counts),
            valid=_distinct(rows["validation"], graph) if valid else task.valid,
            test=_distinct(rows["test"], graph) if test else task.test,
        )

    def read_triples(self, file: str | PathLike[str]) -> Ids:
        """Other triples of the same entities and relations, int64[n, 3]."""
        return _distinct(_ids(read_table(file), self.graph), self.graph)

    def content_hash(self) -> str:
        """SHA-256 over the graph, the splits and, in an open world, what arrives later."""
        digest = hashlib.sha256(self.graph.content_hash().encode())
        for part in (self.valid, self.test, self.auxiliary, self.new_entities):
            if part is not None:
                digest.update(np.array([len(part)], "<i8").tobytes())
                digest.update(np.ascontiguousarray(part, "<i8").tobytes())
        return digest.hexdigest()


def _sizes(graph: KnowledgeGraph) -> tuple[int, int, int]:
    return len(graph.entities), len(graph.relations), len(graph.entities)


def _ids(table: Table, graph: KnowledgeGraph) -> Ids:
    """The rows of a table as triples of ids, int64[n, 3]."""
    columns = [
        column_ids(table, 0, graph.entities, "known entity"),
        column_ids(table, 1, graph.relations, "known relation"),
        column_ids(table, 2, graph.entities, "known entity"),
    ]
    return np.stack(columns, axis=1)


def _distinct(rows: Ids, graph: KnowledgeGraph) -> Ids:
    """The rows in their order, without repetitions."""
    return rows[first_occurrences(rows, _sizes(graph))]


def _check_apart(tables: dict[str, Table], rows: dict[str, Ids], graph: KnowledgeGraph) -> None:
    """No two files may share a triple: what was trained on tests nothing."""
    seen: list[tuple[str, Ids]] = []
    for what, table in tables.items():
        keys = row_keys(rows[what], _sizes(graph))
        for other, before in seen:
            shared = np.isin(keys, before)
            if shared.any():
                raise InputError(
                    f"this {what} triple is also a {other} triple",
                    file=table.file,
                    line=table.line_of(int(np.argmax(shared))),
                    remedy="remove it from one of the two files",
                )
        seen.append((what, keys))


def _removable(graph: KnowledgeGraph, order: Ids, limit: int) -> Ids:
    """The first ``limit`` triples of ``order`` whose removal, one by one, loses nothing."""
    uses = np.bincount(graph.triples[:, [0, 2]].ravel(), minlength=len(graph.entities)).tolist()
    relation_uses = np.bincount(graph.triples[:, 1], minlength=len(graph.relations)).tolist()
    held: list[int] = []
    for i, (head, relation, tail) in zip(
        order.tolist(), graph.triples[order].tolist(), strict=True
    ):
        if len(held) == limit:
            break
        # A triple from an entity to itself uses it twice.
        needed = 2 + (head == tail)
        if min(uses[head], uses[tail]) >= needed and relation_uses[relation] >= 2:
            uses[head] -= 1
            uses[tail] -= 1
            relation_uses[relation] -= 1
            held.append(i)
    return np.array(held, np.int64)
