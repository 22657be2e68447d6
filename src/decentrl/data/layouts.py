"""Reads folders of datasets as the field publishes them, recognised by the names of their files.

- DBP15K: ``triples_1|2``, ``sup_pairs``, ``ref_pairs``, optional ``ent_ids_1|2``, ``rel_ids_1|2``
- OpenEA: ``rel_triples_1|2``, ``721_5fold/1/train_links``, ``valid_links``, ``test_links``
- ContEA, two graphs that grow: ``base/triples_1|2``, ``base/train_links``, ``valid_links``,
  ``test_links``, and ``batch1`` … with ``new_triples_1|2`` and ``all_test_links``; those that
  ``decentrl data make`` writes are of this kind
- one graph: ``train``, ``valid``, ``test``, optional ``entities``, ``relations``
- two graphs with the same relations (GraIL): these, and ``new_train``, ``new_valid``,
  ``new_test``
- entities that come later (FB15K-subject10): ids in ``train``, ``valid``, ``test`` and
  ``auxiliary``, labels in ``entity2id`` and ``relation2id``

each as ``name``, ``name.txt`` or ``name.tsv``, also with ``.gz`` or ``.zst``. A folder ``open``
inside holds what the open world changes. Optional are ``names_1|2`` and ``attributes_1|2`` (of one
graph ``names`` and ``attributes``), and in the DBP15K layout ``translated_names`` of both graphs;
these call entities as the triples do.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow.compute as pc

from decentrl.data.alignment_task import AlignmentTask
from decentrl.data.graph_task import GraphTask
from decentrl.data.knowledge_graph import NO_TRIPLES, KnowledgeGraph, first_occurrences, row_keys
from decentrl.data.literals import names_of
from decentrl.data.readers import read_table
from decentrl.data.table import IDENTIFIER, LINK, NAME, Table, column_ids, row_ids
from decentrl.data.unpacking import EXTENSIONS
from decentrl.data.vocabulary import Ids, Vocabulary
from decentrl.errors import InputError

Task = AlignmentTask | GraphTask
TRANSLATED = "translated_names"


def find_file(folder: Path, *names: str) -> Path | None:
    """The file of one of these names, with any of the usual extensions."""
    for parts in product(names, ("", ".txt", ".tsv"), ("", *EXTENSIONS)):
        file = folder / "".join(parts)
        if file.is_file():
            return file
    return None


def read_folder(
    folder: Path, name: str, open_world: bool = False, translated: bool = False
) -> Task:
    """The dataset in a folder of any known layout; ``translated`` names are in place of others."""
    if translated and not find_file(folder, TRANSLATED):
        raise InputError(
            "this dataset has no translated names",
            file=folder,
            remedy="leave out `--names translated`, or choose `--names ids`",
        )
    if find_file(folder, "auxiliary"):
        return _read_later(folder, name)
    if open_world and not (folder / "open").is_dir():
        raise InputError(
            "this dataset has no open-world split",
            file=folder,
            remedy="make one with: decentrl data split",
        )
    if find_file(folder, "triples_1"):
        return _read_dbp15k(folder, name, open_world, translated)
    if find_file(folder, "rel_triples_1"):
        return _read_openea(folder, name)
    if find_file(folder / "base", "triples_1"):
        return _read_contea(folder / "base", name)
    if find_file(folder, "train"):
        return _read_splits(folder, name, open_world)
    raise InputError(
        "this folder has no known layout",
        file=folder,
        remedy="name its files triples_1, triples_2, sup_pairs, ref_pairs; or rel_triples_1, "
        "rel_triples_2 with 721_5fold/; or train, valid, test",
    )


def _require(folder: Path, *names: str) -> Path:
    """The same as find_file, where the file must exist."""
    file = find_file(folder, *names)
    if file is None:
        raise InputError(
            f"the file {' or '.join(names)} is missing in this folder",
            file=folder,
            remedy="add it (.txt, .tsv or no extension, also .gz or .zst)",
        )
    return file


def _identifiers(table: Table, column: int) -> Vocabulary:
    """A column of an id file, whose order is the order of the vocabulary."""
    values = table.columns[column].to_pylist()
    first: dict[str, int] = {}
    for row, value in enumerate(values):
        if first.setdefault(value, row) != row:
            before = table.line_of(first[value])
            raise table.error(
                f"the {IDENTIFIER[column]} {value!r} occurs twice (before in line {before})",
                row,
                "give each entity and relation one line",
            )
    return Vocabulary(values)


def _vocabularies(
    tables: Collection[Table], entities: Path | None, relations: Path | None
) -> tuple[KnowledgeGraph, KnowledgeGraph]:
    """Two graphs without triples, with the tokens of id files and with the labels for these.

    Entry i of both is the same thing. Without an id file the labels in the tables are both.
    """
    found = KnowledgeGraph.of_labels(tables)
    both = [found, found]
    if entities is not None:
        table = read_table(entities, IDENTIFIER)
        both = [replace(x, entities=_identifiers(table, i)) for i, x in enumerate(both)]
    if relations is not None:
        table = read_table(relations, IDENTIFIER)
        both = [replace(x, relations=_identifiers(table, i)) for i, x in enumerate(both)]
    return both[0], both[1]


def _described(graph: KnowledgeGraph, folder: Path, suffix: str) -> KnowledgeGraph:
    """The graph with the names and attributes that are in files of the folder."""
    if file := find_file(folder, f"names{suffix}"):
        graph = graph.with_names(file)
    if file := find_file(folder, f"attributes{suffix}"):
        graph = graph.with_attributes(file)
    return graph


def _translated(graph: KnowledgeGraph, folder: Path) -> KnowledgeGraph:
    """The graph with its names among the translated ones of both graphs."""
    table = read_table(_require(folder, TRANSLATED), NAME[:2])
    own = pc.is_in(table.columns[0], value_set=graph.entities.to_arrow())
    rows = replace(table, columns=tuple(column.filter(own) for column in table.columns))
    return replace(graph, names=names_of(rows, graph.entities).names)


def _read_dbp15k(folder: Path, name: str, open_world: bool, translated: bool) -> AlignmentTask:
    graphs, labels = [], []
    for i in (1, 2):
        table = read_table(_require(folder, f"triples_{i}"))
        files = find_file(folder, f"ent_ids_{i}"), find_file(folder, f"rel_ids_{i}")
        tokens, named = _vocabularies([table], *files)
        graph = _described(tokens.holding(table), folder, f"_{i}")
        graphs.append(_translated(graph, folder) if translated else graph)
        labels.append(named)
    links = _require(folder, "sup_pairs", "sup_ent_ids")
    test_links = find_file(folder, "ref_pairs", "ref_ent_ids")
    valid_links = find_file(folder, "valid_pairs")
    task = AlignmentTask.read(graphs[0], graphs[1], links, test_links, valid_links)
    if open_world:
        task = _open_alignment(task, folder / "open")
    if translated:
        # Only these are right: the file counts all other entities in another order.
        ends = zip((task.left, task.right), task.test.T, strict=True)
        graphs = [replace(graph, names=graph.names.take(ids)) for graph, ids in ends]
        task = replace(task, left=graphs[0], right=graphs[1])
    left, right = (
        replace(graph, entities=named.entities, relations=named.relations)
        for graph, named in zip((task.left, task.right), labels, strict=True)
    )
    return replace(task, name=name, left=left, right=right)


def _open_alignment(task: AlignmentTask, opened: Path) -> AlignmentTask:
    """The task in the open world, whose new links are among the test links."""
    table = read_table(_require(opened, "new_pairs"), LINK)
    left, later_left = _open_triples(task.left, _require(opened, "triples_1"))
    right, later_right = _open_triples(task.right, _require(opened, "triples_2"))
    sizes = (len(left.entities), len(right.entities))
    test, new = row_keys(task.test, sizes), row_keys(row_ids(table, *task.link_columns), sizes)
    _check_among(table, new, test, "this new link is no test link", "add it to ref_pairs")
    later = later_left, later_right
    return replace(task, left=left, right=right, auxiliary=later, unknown=np.isin(test, new))


def _open_triples(graph: KnowledgeGraph, file: Path) -> tuple[KnowledgeGraph, Ids]:
    """The graph of the open training triples, and the conventional ones that are not in it."""
    table = read_table(file)
    rows = row_ids(table, *graph.columns)
    keys, known = row_keys(rows, graph.sizes), row_keys(graph.triples, graph.sizes)
    problem = "this open-world training triple is not among the conventional ones"
    _check_among(table, keys, known, problem, "add it to the file outside open/")
    return graph.with_triples(rows), graph.triples[~np.isin(known, keys)]


def _check_among(table: Table, keys: Ids, known: Ids, problem: str, remedy: str) -> None:
    stray = ~np.isin(keys, known)
    if stray.any():
        raise table.error(problem, int(np.argmax(stray)), f"remove it, or {remedy}")


def _read_openea(folder: Path, name: str) -> AlignmentTask:
    fold = folder / "721_5fold" / "1"
    if not fold.is_dir():
        fold = folder  # the links of some releases lie beside the triples
    left, right = (
        _described(KnowledgeGraph.read(_require(folder, f"rel_triples_{i}")), folder, f"_{i}")
        for i in (1, 2)
    )
    train, test, valid = (_require(fold, f"{part}_links") for part in ("train", "test", "valid"))
    return replace(AlignmentTask.read(left, right, train, test, valid), name=name)


def _read_contea(base: Path, name: str) -> AlignmentTask:
    left, right = (
        _described(KnowledgeGraph.read(_require(base, f"triples_{i}")), base, f"_{i}")
        for i in (1, 2)
    )
    train, test, valid = (_require(base, f"{part}_links") for part in ("train", "test", "valid"))
    return replace(AlignmentTask.read(left, right, train, test, valid), name=name)


def read_batches(folder: Path) -> list[tuple[tuple[Path, Path], Path]]:
    """What arrives in a dataset of ContEA, step by step: new triples of both graphs, test links.

    The links are all that are possible then, those of before among them.
    """
    found: list[tuple[tuple[Path, Path], Path]] = []
    while (batch := folder / f"batch{len(found) + 1}").is_dir():
        new = _require(batch, "new_triples_1"), _require(batch, "new_triples_2")
        found.append((new, _require(batch, "all_test_links")))
    return found


def _read_splits(folder: Path, name: str, open_world: bool) -> GraphTask:
    found = {part: find_file(folder, part) for part in ("train", "valid", "test")}
    tables = {part: read_table(file) for part, file in found.items() if file}
    files = find_file(folder, "entities"), find_file(folder, "relations")
    # Here the triples name entities by their labels in spite of an id file.
    graph = _vocabularies(tables.values(), *files)[1].holding(tables["train"])
    graph = _described(graph, folder, "")

    def held_out(part: str) -> Ids:
        rows = row_ids(tables[part], *graph.columns) if part in tables else NO_TRIPLES
        return rows[first_occurrences(rows, graph.sizes)]

    task = GraphTask(name, graph, held_out("valid"), held_out("test"))
    if find_file(folder, "new_train"):
        new_train, new_valid, new_test = (
            _require(folder, f"new_{part}") for part in ("train", "valid", "test")
        )
        other = GraphTask.read(new_train, new_valid, new_test)
        other = replace(other, name=f"{name}, new graph").with_relations(graph.relations)
        task = replace(task, elsewhere=other)
    if not open_world:
        return task
    train, later = _open_triples(graph, _require(folder / "open", "train"))
    table = read_table(_require(folder / "open", "new_entities"), IDENTIFIER)
    new = np.unique(column_ids(table, 1, graph.entities, "known entity"))
    return replace(task, graph=train, auxiliary=later, new_entities=new)


def _read_later(folder: Path, name: str) -> GraphTask:
    """A graph of ids to whose entities others are joined later, on which it is tested."""
    parts = ("train", "valid", "test", "auxiliary")
    tables = {part: read_table(_require(folder, part)) for part in parts}
    files = [read_table(_require(folder, x), IDENTIFIER) for x in ("entity2id", "relation2id")]
    tokens, labels = ([_identifiers(table, column) for table in files] for column in (1, 0))
    graph = KnowledgeGraph(tokens[0], tokens[1], NO_TRIPLES).holding(tables["train"])
    rows = {part: row_ids(tables[part], *graph.columns) for part in parts[1:]}
    rows = {part: some[first_occurrences(some, graph.sizes)] for part, some in rows.items()}
    new = np.setdiff1d(np.arange(len(graph.entities)), graph.triples[:, [0, 2]])
    named = replace(graph, entities=labels[0], relations=labels[1])
    return GraphTask(name, named, rows["valid"], rows["test"], rows["auxiliary"], new)
