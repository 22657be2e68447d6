"""Reads folders of datasets as the field publishes them, recognised by the names of their files.

- DBP15K: ``triples_1|2``, ``sup_pairs``, ``ref_pairs``, optional ``ent_ids_1|2``, ``rel_ids_1|2``
- OpenEA: ``rel_triples_1|2``, ``721_5fold/1/train_links``, ``valid_links``, ``test_links``
- one graph: ``train``, ``valid``, ``test``, optional ``entities``, ``relations``

each as ``name``, ``name.txt`` or ``name.tsv``, also with ``.gz``. A folder ``open`` inside holds
what the open world changes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from decentrl.data.alignment_task import NO_LINKS, AlignmentTask, LinkSets
from decentrl.data.graph_task import GraphTask
from decentrl.data.knowledge_graph import (
    NO_TRIPLES,
    KnowledgeGraph,
    first_occurrences,
    row_keys,
)
from decentrl.data.readers import read_table
from decentrl.data.table import IDENTIFIER, LINK, Table, column_ids, distinct_labels, triple_ids
from decentrl.data.vocabulary import Ids, Vocabulary
from decentrl.errors import InputError

Task = AlignmentTask | GraphTask


def find_file(folder: Path, *names: str) -> Path | None:
    """The file of one of these names, with any of the usual extensions."""
    for name in names:
        for extension in ("", ".txt", ".tsv"):
            for packed in ("", ".gz"):
                file = folder / f"{name}{extension}{packed}"
                if file.is_file():
                    return file
    return None


def read_folder(folder: Path, name: str, open_world: bool = False) -> Task:
    """The dataset in a folder of any known layout."""
    if find_file(folder, "triples_1"):
        return _read_dbp15k(folder, name, open_world)
    if find_file(folder, "rel_triples_1"):
        return _read_openea(folder, name, open_world)
    if find_file(folder, "train"):
        return _read_splits(folder, name, open_world)
    raise InputError(
        "this folder has no known layout",
        file=folder,
        remedy="name its files triples_1, triples_2, sup_pairs, ref_pairs; or rel_triples_1, "
        "rel_triples_2 with 721_5fold/; or train, valid, test",
    )


def require(folder: Path, *names: str) -> Path:
    """The same as find_file, where the file must exist."""
    file = find_file(folder, *names)
    if file is None:
        raise InputError(
            f"the file {' or '.join(names)} is missing in this folder",
            file=folder,
            remedy="add it (.txt, .tsv or no extension, also .gz)",
        )
    return file


def _open_folder(folder: Path, open_world: bool) -> Path | None:
    if not open_world:
        return None
    if not (folder / "open").is_dir():
        raise InputError(
            "this dataset has no open-world split",
            file=folder,
            remedy="make one with: decentrl data split",
        )
    return folder / "open"


@dataclass(frozen=True)
class _Names:
    """Tokens, as the triples use them, and labels; entry i of both is the same thing."""

    tokens: Vocabulary
    labels: Vocabulary

    @classmethod
    def read(cls, file: Path | None, tables: Iterable[Table], *columns: int) -> _Names:
        """Read an id file, ``id <TAB> label``; its order is the order of the vocabulary.

        Without one, the tokens in these columns of the triples are the labels.
        """
        if file is None:
            vocabulary = distinct_labels(tables, *columns)
            return cls(vocabulary, vocabulary)
        table = read_table(file, IDENTIFIER)
        return cls(_unique(table, 0, "id"), _unique(table, 1, "label"))

    def by_label(self) -> _Names:
        """The same where the triples name entities by their labels in spite of an id file."""
        return _Names(self.labels, self.labels)


def _unique(table: Table, column: int, what: str) -> Vocabulary:
    values = table.columns[column].to_pylist()
    try:
        return Vocabulary(values)
    except ValueError:
        first: dict[str, int] = {}
        row = next(i for i, x in enumerate(values) if first.setdefault(x, i) != i)
        before = table.line_of(first[values[row]])
        raise table.error(
            f"the {what} {values[row]!r} occurs twice (before in line {before})",
            row,
            "give each entity and relation one line",
        ) from None


@dataclass(frozen=True)
class _Side:
    """One graph of a folder with the names its files use."""

    entities: _Names
    relations: _Names
    graph: KnowledgeGraph

    @classmethod
    def of(cls, triples: Table, entities: _Names, relations: _Names) -> _Side:
        bare = KnowledgeGraph(entities.labels, relations.labels, NO_TRIPLES)
        rows = triple_ids(triples, entities.tokens, relations.tokens)
        return cls(entities, relations, bare.with_triples(rows).counted(triples))

    def ids(self, table: Table) -> Ids:
        return triple_ids(table, self.entities.tokens, self.relations.tokens)


def _read_side(folder: Path, i: int) -> _Side:
    """The graph ``i`` of a folder of the layout of DBP15K."""
    triples = read_table(require(folder, f"triples_{i}"))
    entities = _Names.read(find_file(folder, f"ent_ids_{i}"), [triples], 0, 2)
    relations = _Names.read(find_file(folder, f"rel_ids_{i}"), [triples], 1)
    return _Side.of(triples, entities, relations)


def _read_dbp15k(folder: Path, name: str, open_world: bool) -> AlignmentTask:
    opened = _open_folder(folder, open_world)
    left, right = _read_side(folder, 1), _read_side(folder, 2)
    sets = LinkSets(left.entities.tokens, right.entities.tokens)

    def links(file: Path | None, what: str) -> Ids:
        return NO_LINKS if file is None else sets.add(read_table(file, LINK), what)

    train = links(require(folder, "sup_pairs", "sup_ent_ids"), "training")
    valid = links(find_file(folder, "valid_pairs"), "validation")
    test = links(find_file(folder, "ref_pairs", "ref_ent_ids"), "test")
    task = AlignmentTask(name, left.graph, right.graph, train, valid, test)
    if opened is None:
        return task
    table = read_table(require(opened, "new_pairs"), LINK)
    return _open_alignment(task, opened, (left, right), table, sets.encode(table))


def _open_alignment(
    task: AlignmentTask, opened: Path, sides: tuple[_Side, _Side], table: Table, new: Ids
) -> AlignmentTask:
    """The task in the open world; ``new`` are the ids of ``table``, the new test links."""
    parts = [
        _open_triples(side, read_table(require(opened, f"triples_{i}")))
        for i, side in enumerate(sides, 1)
    ]
    sizes = (len(task.left.entities), len(task.right.entities))
    test, unknown = row_keys(task.test, sizes), row_keys(new, sizes)
    stray = ~np.isin(unknown, test)
    if stray.any():
        raise table.error(
            "this new link is no test link",
            int(np.argmax(stray)),
            "remove it, or add it to ref_pairs",
        )
    return replace(
        task,
        left=parts[0][0],
        right=parts[1][0],
        auxiliary=(parts[0][1], parts[1][1]),
        unknown=np.isin(test, unknown),
    )


def _open_triples(side: _Side, table: Table) -> tuple[KnowledgeGraph, Ids]:
    """The graph of the open training triples, and the conventional ones that are not in it."""
    graph, rows = side.graph, side.ids(table)
    keys, known = row_keys(rows, graph.sizes), row_keys(graph.triples, graph.sizes)
    stray = ~np.isin(keys, known)
    if stray.any():
        raise table.error(
            "this open-world training triple is not among the conventional ones",
            int(np.argmax(stray)),
            "remove it, or add it to the file outside open/",
        )
    return graph.with_triples(rows), graph.triples[~np.isin(known, keys)]


def _read_openea(folder: Path, name: str, open_world: bool) -> AlignmentTask:
    _open_folder(folder, open_world)
    graphs = [KnowledgeGraph.read(require(folder, f"rel_triples_{i}"), "tsv") for i in (1, 2)]
    fold = folder / "721_5fold" / "1"
    if not fold.is_dir():
        fold = folder  # the links of some releases lie beside the triples
    sets = LinkSets(graphs[0].entities, graphs[1].entities)
    files = {"training": "train_links", "validation": "valid_links", "test": "test_links"}
    parts = [sets.add(read_table(require(fold, x), LINK), what) for what, x in files.items()]
    return AlignmentTask(name, graphs[0], graphs[1], parts[0], parts[1], parts[2])


def _read_splits(folder: Path, name: str, open_world: bool) -> GraphTask:
    opened = _open_folder(folder, open_world)
    tables = {
        part: read_table(file)
        for part in ("train", "valid", "test")
        if (file := find_file(folder, part))
    }
    entities = _Names.read(find_file(folder, "entities"), tables.values(), 0, 2)
    relations = _Names.read(find_file(folder, "relations"), tables.values(), 1)
    side = _Side.of(tables["train"], entities.by_label(), relations.by_label())
    held = [side.ids(tables[x]) if x in tables else NO_TRIPLES for x in ("valid", "test")]
    valid, test = (x[first_occurrences(x, side.graph.sizes)] for x in held)
    if opened is None:
        return GraphTask(name, side.graph, valid, test)
    train, auxiliary = _open_triples(side, read_table(require(opened, "train")))
    table = read_table(require(opened, "new_entities"), IDENTIFIER)
    new = np.unique(column_ids(table, 1, entities.labels, "known entity"))
    return GraphTask(name, train, valid, test, auxiliary, new)
