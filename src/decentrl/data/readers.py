"""Files to columns of labels: TSV, CSV, Parquet, N-Triples, Turtle, each also gzipped.

Whatever is wrong with a file ends here, as one line with the file, the line and the remedy.
"""

from __future__ import annotations

import gzip
import zlib
from os import PathLike
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from decentrl.data.delimited import read_delimited
from decentrl.data.rdf import read_rdf
from decentrl.data.table import FORMATS, TRIPLE, Table, named_columns, stem
from decentrl.errors import InputError


def read_table(
    path: str | PathLike[str], names: tuple[str, ...] = TRIPLE, format: str | None = None
) -> Table:
    """Read the columns ``names`` of a file. ``format`` overrides the extension."""
    file = Path(path)
    kind = format_of(file, format)
    data = read_bytes(file)
    if kind in ("tsv", "csv"):
        table = read_delimited(data, file, names, kind)
    elif kind == "parquet":
        table = _read_parquet(data, file, names)
    else:
        table = read_rdf(data, file, names, kind)
    return table


def format_of(file: Path, format: str | None = None) -> str:
    """One of tsv, csv, parquet, nt, ttl: as given, else by the extension."""
    names = [x for x in FORMATS if x]
    if format is not None:
        if format.lower().lstrip(".") not in FORMATS or not format:
            raise InputError(
                f"unknown format {format!r}", file=file, remedy=f"use one of {', '.join(names)}"
            )
        return FORMATS[format.lower().lstrip(".")]
    extension = Path(stem(file, extension=True)).suffix.lower().lstrip(".")
    if extension not in FORMATS:
        raise InputError(
            f"the extension .{extension} is unknown",
            file=file,
            remedy=f"name the format, or use one of .{', .'.join(names)} (each also with .gz)",
        )
    return FORMATS[extension]


def read_bytes(file: Path) -> bytes:
    """The content of a file, decompressed if it is gzip."""
    try:
        data = file.read_bytes()
    except FileNotFoundError:
        raise InputError("there is no such file", file=file, remedy="check the path") from None
    except IsADirectoryError:
        raise InputError(
            "this is a folder, not a file", file=file, remedy="name a file inside it"
        ) from None
    except OSError as error:
        raise InputError(
            f"cannot be read ({error.strerror or error})", file=file, remedy="check the file"
        ) from None
    # Some servers decompress or rename on the way, so the content decides, not the name.
    if data[:2] == b"\x1f\x8b":
        data = _gunzip(data, file)
    elif file.name.lower().endswith(".gz") and data:
        raise InputError(
            "this is not a gzip file in spite of its name",
            file=file,
            remedy="remove the .gz from its name, or fetch the file again",
        )
    if not data or data.isspace():
        raise InputError("the file is empty", file=file, remedy="give a file with content")
    return data


def _gunzip(data: bytes, file: Path) -> bytes:
    try:
        return gzip.decompress(data)
    except EOFError:
        problem = "the gzip file is truncated"
    except (OSError, zlib.error) as error:
        problem = f"the gzip file is damaged ({error})"
    raise InputError(problem, file=file, remedy="copy or download it again")


def _read_parquet(data: bytes, file: Path, names: tuple[str, ...]) -> Table:
    import pyarrow.parquet as pq

    try:
        table = pq.ParquetFile(pa.BufferReader(data)).read()  # leaves no thread behind
    except (pa.ArrowException, OSError) as error:
        raise InputError(
            f"this is no readable Parquet file ({_first_line(error)})",
            file=file,
            remedy="write or copy it again",
        ) from None
    order = named_columns(table.column_names, names)
    if order is None and table.num_columns != len(names):
        raise InputError(
            f"{table.num_columns} column(s), but {len(names)} are needed",
            file=file,
            remedy=f"give the columns {', '.join(names)}",
        )
    if not len(table):
        raise InputError("the file has no rows", file=file, remedy="give a file with content")
    columns = [table.column(i) for i in order or range(len(names))]
    checked = tuple(_text_column(c, n, file) for c, n in zip(columns, names, strict=True))
    return Table(file, checked, lambda row: row + 1)


def _text_column(column: Any, name: str, file: Path) -> pa.ChunkedArray:
    """A Parquet column as strings without null or empty values."""
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    if not (is_text or pa.types.is_integer(kind) or pa.types.is_string_view(kind)):
        raise InputError(
            f"the column {name} holds {kind}, not labels",
            file=file,
            remedy="store labels as strings",
        )
    if pa.types.is_dictionary(column.type):
        column = column.cast(kind)
    column = column.cast(pa.string())
    bad = pc.fill_null(pc.equal(column, ""), True)
    if pc.any(bad).as_py():
        row = pc.index(bad, True).as_py()
        raise InputError(
            f"empty label in the column {name}", file=file, line=row + 1, remedy="fill it in"
        )
    return column


def _first_line(error: BaseException) -> str:
    return str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__
