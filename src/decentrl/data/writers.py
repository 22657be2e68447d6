"""Writes tasks to folders of the layouts that :mod:`decentrl.data.layouts` reads.

The same task always gives the same bytes. A folder appears complete or not at all.
"""

from __future__ import annotations

import gzip
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path

import numpy as np

from decentrl.data.alignment_task import AlignmentTask
from decentrl.data.graph_task import GraphTask
from decentrl.data.knowledge_graph import KnowledgeGraph
from decentrl.data.vocabulary import Ids, Vocabulary
from decentrl.errors import InputError


def write_alignment_folder(task: AlignmentTask, folder: str | PathLike[str]) -> None:
    """Write the DBP15K layout. As there, the ids of the two graphs are disjoint."""
    graphs = (task.left, task.right)
    entity_offsets = (0, len(task.left.entities))
    relation_offsets = (0, len(task.left.relations))
    shift = np.array(entity_offsets)
    with _new_folder(folder) as target:
        for side, graph in enumerate(graphs):
            entity, relation, i = entity_offsets[side], relation_offsets[side], side + 1
            offsets = np.array([entity, relation, entity])
            _write_names(target / f"ent_ids_{i}", graph.entities, entity)
            _write_names(target / f"rel_ids_{i}", graph.relations, relation)
            later = None if task.auxiliary is None else task.auxiliary[side]
            _write_ids(target / f"triples_{i}", _all_triples(graph, later) + offsets)
            if later is not None:
                _write_ids(target / "open" / f"triples_{i}", graph.triples + offsets)
        for name, links in (("sup", task.train), ("valid", task.valid), ("ref", task.test)):
            _write_ids(target / f"{name}_pairs", links + shift)
        if task.unknown is not None:
            _write_ids(target / "open" / "ref_pairs", task.test[~task.unknown] + shift)
            _write_ids(target / "open" / "new_pairs", task.test[task.unknown] + shift)


def write_graph_folder(task: GraphTask, folder: str | PathLike[str]) -> None:
    """Write ``train``, ``valid``, ``test`` by label, and id files for the order of the labels."""
    graph = task.graph
    with _new_folder(folder) as target:
        _write_names(target / "entities", graph.entities)
        _write_names(target / "relations", graph.relations)
        _write_triples(target / "train", graph, _all_triples(graph, task.auxiliary))
        _write_triples(target / "valid", graph, task.valid)
        _write_triples(target / "test", graph, task.test)
        if task.auxiliary is not None:
            _write_triples(target / "open" / "train", graph, graph.triples)
        if task.new_entities is not None:
            new = task.new_entities.tolist()
            labels = graph.entities.take(new)
            _write(target / "open" / "new_entities", zip(map(str, new), labels, strict=True))


def _all_triples(graph: KnowledgeGraph, auxiliary: Ids | None) -> Ids:
    if auxiliary is None:
        return graph.triples
    return graph.distinct(np.concatenate([graph.triples, auxiliary]))


def _write_names(file: Path, names: Vocabulary, offset: int = 0) -> None:
    _write(file, ((str(i), label) for i, label in enumerate(names, offset)))


def _write_triples(file: Path, graph: KnowledgeGraph, triples: Ids) -> None:
    heads, relations, tails = triples.T
    columns = (
        graph.entities.take(heads),
        graph.relations.take(relations),
        graph.entities.take(tails),
    )
    _write(file, zip(*columns, strict=True))


def _write_ids(file: Path, rows: Ids) -> None:
    _write(file, (map(str, row) for row in rows.tolist()))


def _write(file: Path, rows: Iterable[Iterable[str]]) -> None:
    """Write ``file``.tsv.gz; an empty table has no file, as an empty file is an error to read."""
    lines = []
    for row in rows:
        cells = list(row)
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
def _new_folder(folder: str | PathLike[str]) -> Iterator[Path]:
    """A temporary folder beside ``folder`` that is renamed to it at the end; removed on errors."""
    target = Path(folder)
    if target.exists():
        raise InputError(
            "this folder exists already", file=target, remedy="give a new one, or remove it first"
        )
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    except OSError as error:
        raise InputError(
            f"cannot write there ({error.strerror})", file=target, remedy="give another folder"
        ) from None
    try:
        yield scratch
        scratch.chmod(0o755)  # mkdtemp makes it private
        scratch.rename(target)
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise
