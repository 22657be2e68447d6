"""Writes tasks to folders of the layouts that :mod:`decentrl.data.layouts` reads.

The same task always gives the same bytes. A folder appears complete or not at all.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from decentrl.data.alignment_task import AlignmentTask
from decentrl.data.graph_task import GraphTask
from decentrl.data.knowledge_graph import KnowledgeGraph
from decentrl.data.scratch import scratch_folder
from decentrl.data.vocabulary import Ids
from decentrl.errors import InputError


def write_alignment_folder(task: AlignmentTask, folder: str | PathLike[str]) -> None:
    """Write the DBP15K layout. As there, the ids of the two graphs are disjoint."""
    entities, relations = len(task.left.entities), len(task.left.relations)
    later = task.auxiliary or (None, None)
    with new_folder(folder) as target:
        for i, graph, arriving, shift in (
            (1, task.left, later[0], np.array((0, 0, 0))),
            (2, task.right, later[1], np.array((entities, relations, entities))),
        ):
            _write(target / f"ent_ids_{i}", enumerate(graph.entities, shift[0]))
            _write(target / f"rel_ids_{i}", enumerate(graph.relations, shift[1]))
            _write(target / f"triples_{i}", (_all_triples(graph, arriving) + shift).tolist())
            _write_described(target, f"_{i}", graph, shift[0])
            if arriving is not None:
                _write(target / "open" / f"triples_{i}", (graph.triples + shift).tolist())
        links = {"sup_pairs": task.train, "valid_pairs": task.valid, "ref_pairs": task.test}
        if task.unknown is not None:
            links["open/ref_pairs"] = task.test[~task.unknown]
            links["open/new_pairs"] = task.test[task.unknown]
        for name, pairs in links.items():
            _write(target / name, (pairs + np.array((0, entities))).tolist())


def write_graph_folder(task: GraphTask, folder: str | PathLike[str]) -> None:
    """Write ``train``, ``valid``, ``test`` by label, and id files for the order of the labels."""
    graph = task.graph
    with new_folder(folder) as target:
        _write(target / "entities", enumerate(graph.entities))
        _write(target / "relations", enumerate(graph.relations))
        _write_described(target, "", graph)
        _write_triples(target / "train", graph, _all_triples(graph, task.auxiliary))
        _write_triples(target / "valid", graph, task.valid)
        _write_triples(target / "test", graph, task.test)
        if task.auxiliary is not None:
            _write_triples(target / "open" / "train", graph, graph.triples)
        if task.new_entities is not None:
            new = task.new_entities.tolist()
            _write(
                target / "open" / "new_entities", zip(new, graph.entities.take(new), strict=True)
            )


def _all_triples(graph: KnowledgeGraph, auxiliary: Ids | None) -> Ids:
    if auxiliary is None:
        return graph.triples
    return graph.with_triples(np.concatenate([graph.triples, auxiliary])).triples


def _write_described(
    folder: Path, suffix: str, graph: KnowledgeGraph, shift: int | None = None
) -> None:
    """The names and attributes of a graph, if there are any, about ids or, without, labels."""

    def called(ids: Ids) -> list[Any]:
        return graph.entities.take(ids) if shift is None else (ids + shift).tolist()

    if names := graph.names:
        columns = called(names.entities), names.texts.to_pylist(), names.languages.to_pylist()
        _write(folder / f"names{suffix}", zip(*columns, strict=True))
    if said := graph.attributes:
        columns = called(said.entities), said.attributes.to_pylist(), said.values.to_pylist()
        _write(folder / f"attributes{suffix}", zip(*columns, strict=True))


def _write_triples(file: Path, graph: KnowledgeGraph, triples: Ids) -> None:
    labels = replace(graph, triples=triples).to_arrow()
    _write(file, zip(*labels.to_pydict().values(), strict=True))


def _write(file: Path, rows: Iterable[Iterable[object]]) -> None:
    """Write ``file``.tsv.gz; an empty table has no file, as an empty file is an error to read."""
    lines = []
    for row in rows:
        cells = list(map(str, row))
        for label in cells:
            if any(c in label for c in "\t\n\r"):
                raise InputError(
                    f"the label {label!r} contains a tab or a line end",
                    remedy="replace it: the text formats cannot hold it",
                )
        lines.append("\t".join(cells) + "\n")
    if lines:
        file.parent.mkdir(exist_ok=True)
        packed = gzip.compress("".join(lines).encode(), mtime=0)
        file.with_name(file.name + ".tsv.gz").write_bytes(packed)


@contextmanager
def new_folder(folder: str | PathLike[str]) -> Iterator[Path]:
    """A temporary folder beside ``folder`` that is renamed to it at the end; removed on errors."""
    target = Path(folder)
    if target.exists():
        raise InputError(
            "this folder exists already", file=target, remedy="give a new one, or remove it first"
        )
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with scratch_folder(target) as scratch:
            yield scratch
            scratch.rename(target)
    except OSError as error:
        raise InputError(
            f"cannot write there ({error.strerror})", file=target, remedy="give another folder"
        ) from None
