"""The Parquet files of a bundle: labels, names and attributes, checked when they are read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from decentrl.data.attributes import NO_ATTRIBUTES, Attributes
from decentrl.data.knowledge_graph import KnowledgeGraph
from decentrl.data.names import NO_NAMES, Names
from decentrl.data.vocabulary import Vocabulary
from decentrl.storage.mapped import CheckedFile
from decentrl.storage.validate import check_described, check_labels

LABELS, NAMES, ATTRIBUTES = "labels.parquet", "names.parquet", "attributes.parquet"


def write_labels(vocabularies: Mapping[str, Vocabulary], path: Path) -> None:
    names = [pa.repeat(name, len(words)) for name, words in vocabularies.items()]
    labels = [words.to_arrow() for words in vocabularies.values()]
    columns = {"vocabulary": names, "label": labels}
    table = {name: pa.chunked_array(parts, pa.string()) for name, parts in columns.items()}
    pq.write_table(pa.table(table), path)


def read_labels(
    file: CheckedFile, names: tuple[str, ...], total: int, distinct: bool
) -> dict[str, Vocabulary]:
    """The vocabularies in a file of a bundle of so many bytes: each entity has some in others.

    Args:
        distinct: labels are compared now; else when one is first looked up.
    """

    def check(table: pa.Table) -> None:
        check_labels(table, names)
        if len(table) > total:
            raise ValueError("more labels than there is anything about")

    table = _read(file, 64 * total, check, ["vocabulary"])
    parts = _by_vocabulary(table, names)
    for name, labels in parts.items() if distinct else ():
        if len(labels.unique()) != len(labels):
            raise file.damaged(f"a label of {name} occurs twice")
    found = {name: labels.combine_chunks() for name, labels in parts.items()}
    return {name: Vocabulary.from_arrow(x, str(file.path)) for name, x in found.items()}


def _by_vocabulary(table: pa.Table, names: Sequence[str]) -> dict[str, pa.ChunkedArray]:
    """The labels of each vocabulary; not copied where they stand together, as a run writes them."""
    chunks = table["vocabulary"].chunks
    known = chunks[0].dictionary.to_pylist() if chunks else []
    codes = np.concatenate([np.empty(0, np.int32), *(np.asarray(x.indices) for x in chunks)])
    found = {}
    for name in names:
        own = codes == (known.index(name) if name in known else -1)
        first, count = int(own.argmax()) if len(own) else 0, int(np.count_nonzero(own))
        together = bool(own[first : first + count].all())
        labels = table["label"]
        found[name] = labels.slice(first, count) if together else labels.filter(pa.array(own))
    return found


def write_described(graphs: Mapping[str, KnowledgeGraph], folder: Path) -> None:
    """The names and the attributes of all graphs in a file each, where there are any."""
    for file, part in ((NAMES, "names"), (ATTRIBUTES, "attributes")):
        tables = {name: getattr(graph, part).to_arrow() for name, graph in graphs.items()}
        rows = [
            table.add_column(0, "graph", pa.repeat(name, len(table)))
            for name, table in tables.items()
            if len(table)
        ]
        if rows:
            pq.write_table(pa.concat_tables(rows), folder / file)


def read_described(
    files: Mapping[str, CheckedFile], entities: Mapping[str, int], total: int
) -> dict[str, dict[str, Any]]:
    """The fields ``names`` and ``attributes`` of every graph.

    Args:
        entities: how many each graph has.
        total: bytes of the bundle.
    """
    found: dict[str, dict[str, Any]] = {name: {} for name in entities}
    for file, empty in ((NAMES, NO_NAMES), (ATTRIBUTES, NO_ATTRIBUTES)):
        if file not in files:
            continue
        kind: type[Names] | type[Attributes] = type(empty)
        check = partial(check_described, schema=empty.to_arrow().schema, entities=entities)
        table = _read(files[file], 1024 * total, check)
        for name in entities:
            rows = table.filter(pc.equal(table["graph"], name)).drop_columns(["graph"])
            found[name][file.partition(".")[0]] = kind.from_arrow(rows)
    return found


def _read(
    file: CheckedFile, most: int, check: Callable[[pa.Table], None], coded: Sequence[str] = ()
) -> pa.Table:
    """The table in a file if it is not larger than so many bytes and passes a check.

    Args:
        coded: columns of few values, each of which is kept once.
    """
    try:
        parquet = pq.ParquetFile(pa.BufferReader(file.content()), read_dictionary=list(coded))
        parts, size = [], 0
        for part in parquet.iter_batches(2**16):  # few bytes may stand for many
            parts.append(part)
            size += part.nbytes
            if size > most:
                raise ValueError("far more rows than there is anything about")
        table = pa.Table.from_batches(parts, parquet.schema_arrow).unify_dictionaries()
        check(table)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise file.damaged(error) from error
    return table
