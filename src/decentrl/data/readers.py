"""Files, and what is in memory, to columns of labels.

Files are TSV, CSV, Parquet, JSON lines, RDF of any syntax or SSSOM, each also compressed, or a
folder of them. An error names the file, the line and what to do.
"""

from __future__ import annotations

import io
import logging
import os
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any

import pyarrow as pa

from decentrl.data.delimited import read_delimited
from decentrl.data.folders import read_files
from decentrl.data.headers import Reading, as_reading
from decentrl.data.json_rows import is_linked_data, read_json_rows
from decentrl.data.limits import Limit
from decentrl.data.memory import Source, arrow_columns, arrow_places, first_line, read_memory
from decentrl.data.rdf import read_rdf
from decentrl.data.sssom import read_sssom
from decentrl.data.streamed import read_streamed
from decentrl.data.table import FORMATS, TRIPLE, Table, stem
from decentrl.data.unpacking import compression, decompressed
from decentrl.errors import InputError

logger = logging.getLogger(__name__)


def read_table(
    source: Source, names: tuple[str, ...] = TRIPLE, format: str | Reading | None = None
) -> Table:
    """Read the columns ``names`` of a file or of what is in memory, at least one row.

    ``format`` overrides the extension of a file, or says more of how it is read.
    """
    if isinstance(source, Table):
        return source
    if isinstance(source, str | PathLike):
        table = _read_file(Path(source), names, as_reading(format))
        logger.info("%s: %d rows read", table.file, len(table))
    else:
        table = read_memory(source, names)
    if not len(table):
        raise table.error("there are no rows", remedy="give at least one")
    return table


def as_table(source: Source) -> Table:
    """Triples in labels; in memory there may be none."""
    given = isinstance(source, str | PathLike | Table)
    return read_table(source) if given else read_memory(source)


def source_name(source: object, otherwise: str) -> str:
    """The name of a file without its extensions; ``otherwise`` for what is in memory."""
    return stem(Path(source)) if isinstance(source, str | PathLike) else otherwise


def _read_file(file: Path, names: tuple[str, ...], reading: Reading, alone: bool = True) -> Table:
    """The columns of a file or a folder of files; a file that is not ``alone`` may have no rows."""
    if alone and file.is_dir():
        return read_files(
            file, names, reading.format, lambda one: _read_file(one, names, reading, alone=False)
        )
    kind = format_of(file, reading.format)
    if (table := read_streamed(file, kind, names, reading)) is not None:
        return table
    data = read_bytes(file)
    if kind in ("tsv", "csv"):
        return read_delimited(data, file, names, kind, reading)
    if kind == "sssom":
        return read_sssom(data, file, names)
    if kind == "parquet":
        return _read_parquet(data, file, names, reading)
    if kind == "jsonl" or (kind == "json" and not is_linked_data(data)):
        return read_json_rows(data, file, names, kind, reading)
    return read_rdf(data, file, names, "jsonld" if kind == "json" else kind, alone)


def format_of(file: Path, format: str | None = None) -> str:
    """One of the values of FORMATS: as given, else by the extension; sssom for .sssom.tsv."""
    if format is None:
        if stem(file, extension=True).lower().endswith(".sssom.tsv"):
            return "sssom"
        name = Path(stem(file, extension=True)).suffix.lower().lstrip(".")
        problem, remedy = f"the extension .{name} is unknown", "name the format, or use one of"
    else:
        name = format.lower().lstrip(".") or "?"
        problem, remedy = f"unknown format {format!r}", "use one of"
    if name not in FORMATS:
        known = ", ".join(f".{x}" if format is None else x for x in FORMATS if x)
        raise InputError(
            problem, file=file, remedy=f"{remedy} {known} (files also with .gz or .zst)"
        )
    return FORMATS[name]


def read_bytes(file: Path) -> bytes:
    """The content of a file, decompressed if it is gzip or Zstandard."""
    try:
        with file.open("rb") as stream:
            data = Limit(file).read(stream.read, os.fstat(stream.fileno()).st_size)
    except OSError as error:
        problem, remedy = {
            FileNotFoundError: ("there is no such file", "check the path"),
            IsADirectoryError: ("this is a folder, not a file", "name a file inside it"),
        }.get(type(error), (f"cannot be read ({error.strerror or error})", "check the file"))
        raise InputError(problem, file=file, remedy=remedy) from None
    if kind := compression(data, file):
        packed = decompressed(kind, io.BytesIO(data), file)
        data = Limit(file, len(data)).read(packed)
    if not data or data.isspace():
        raise InputError("the file is empty", file=file, remedy="give a file with content")
    return data


def _read_parquet(data: bytes, file: Path, names: tuple[str, ...], reading: Reading) -> Table:
    place = Table(file, (), lambda row: row + 1)
    chosen = reading.columns if names == TRIPLE else ()
    try:
        table = _parquet_table(data, names, place, chosen)
    except (pa.ArrowException, OSError) as error:
        problem = f"this is no readable Parquet file ({first_line(error)})"
        raise place.error(problem, remedy="write or copy it again") from None
    return arrow_columns(table, names, place, True, chosen)


def _parquet_table(
    data: bytes, names: tuple[str, ...], place: Table, chosen: tuple[str, ...]
) -> pa.Table:
    """The columns that will be needed, unless they take too much memory."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    def size(column: Any, rows: int | None = None) -> int:
        """Bytes of the labels of a column, or at most of so many rows with its labels."""
        if not pa.types.is_dictionary(column.type):
            return 0  # nothing of it is in the file once and here many times
        lengths = pc.binary_length(column.dictionary)
        found = pc.sum(lengths.take(column.indices)) if rows is None else pc.max(lengths)
        return int(found.as_py() or 0) * (1 if rows is None else rows)

    limit = Limit(place.file)
    source = pa.BufferReader(data)
    plain = pq.ParquetFile(source)
    schema, about = plain.schema_arrow, plain.metadata
    # What does not fit is an error before anything is read.
    places = arrow_places(schema, names, place, chosen)[1]
    arrow_columns(schema.empty_table(), names, place, True, chosen)
    columns = [schema.names[i] for i in places]
    groups = [about.row_group(i) for i in range(about.num_row_groups)]
    unpacked = sum(group.total_byte_size for group in groups)
    limit.check(max(unpacked, 4 * about.num_rows * len(names)))
    # Equal labels are in the file once, and in a column of dictionaries too.
    packed = pq.ParquetFile(source, read_dictionary=schema.names)
    for i, group in enumerate(groups):
        first = packed.iter_batches(1, [i], columns, use_threads=False)
        unpacked += sum(size(x, group.num_rows) for batch in islice(first, 1) for x in batch)
    if unpacked <= limit.bytes:
        return plain.read(columns)  # leaves no thread behind
    table = packed.read(columns)
    limit.check(sum(size(part) for column in table.columns for part in column.chunks))
    return table
