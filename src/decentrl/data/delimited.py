"""Reads TSV and CSV with pyarrow; where that fails, a slow reading finds the first bad line.

In TSV quoting is off: a stray ``"`` is an ordinary character of a label. CSV has standard quoting.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from decentrl.data.table import MAY_BE_EMPTY, Table, fitting, named_columns, string_columns
from decentrl.errors import InputError

_BOM = b"\xef\xbb\xbf"
# Its own limit is 128 KiB a cell, and it calls more malformed; how much a file may hold is known.
csv.field_size_limit(2**31 - 1)


def read_delimited(data: bytes, file: Path, names: tuple[str, ...], kind: str) -> Table:
    """The table in the bytes of a TSV or CSV file with exactly the columns ``names``.

    A CSV file may begin with a header of these names, in any order; a TSV file has none.
    """
    data = data.removeprefix(_BOM)
    if data.endswith((b"\n\n", b"\n\r\n")):  # else spare the copy of a large file
        data = data.rstrip(b"\r\n")
    if kind == "tsv":
        data = _plain_line_ends(data, file)
        names = fitting(names, io.BytesIO(data).readline().split(b"\t"))
        columns = _fast(data, names, "\t", 0) or _slow(data, file, names, kind)
        return Table(file, columns, lambda row: row + 1)
    quoted = b'"' in data
    if not quoted:
        data = _plain_line_ends(data, file)
    first = io.BytesIO(data).readline().removesuffix(b"\n").decode(errors="replace")
    try:
        header = next(csv.reader([first]), [])
    except csv.Error:  # reading all lines will name the error of this one
        header = []
    names = fitting(names, header)
    order = named_columns(header, names) if len(header) == len(names) else None
    skip = int(order is not None)
    # Where there are quotes, only the standard library finds the one that is never closed.
    fast = None if quoted else _fast(data, names, ",", skip)
    columns = fast or _slow(data, file, names, kind, skip)
    if order is not None:
        columns = tuple(columns[i] for i in order)
    # A quoted label may span several lines.
    return Table(
        file, columns, lambda row: next(islice(records(data, file, "csv"), row + skip, None))[0]
    )


def _fast(
    data: bytes, names: tuple[str, ...], delimiter: str, skip: int
) -> tuple[pa.ChunkedArray, ...] | None:
    """The columns, or None if anything at all is suspicious."""
    try:
        table = pyarrow.csv.read_csv(
            pa.BufferReader(data),
            read_options=pyarrow.csv.ReadOptions(column_names=list(names), skip_rows=skip),
            parse_options=pyarrow.csv.ParseOptions(
                delimiter=delimiter,
                quote_char=False,
                double_quote=False,
                escape_char=False,
                newlines_in_values=False,
                ignore_empty_lines=False,
            ),
            # "NA", "null" and their like are labels, not missing values.
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()),
                strings_can_be_null=False,
                null_values=[],
            ),
        )
    except pa.ArrowException:
        return None
    full = [x for x in names if x not in MAY_BE_EMPTY]
    suspicious = not len(table) or any(pc.any(pc.equal(table[x], "")).as_py() for x in full)
    return None if suspicious else tuple(table.columns)


def _slow(
    data: bytes, file: Path, names: tuple[str, ...], kind: str, skip: int = 0
) -> tuple[pa.ChunkedArray, ...]:
    """The columns after ``skip`` records, or an error at the first bad line."""
    rows = []
    for line, row in islice(records(data, file, kind), skip, None):
        error = partial(InputError, file=file, line=line)
        if row in ([], [""]):
            raise error("blank line", remedy="remove it")
        if len(row) != len(names):
            mark = "tab" if kind == "tsv" else "comma"
            raise error(
                f"{len(row)} column(s), but {len(names)} are needed",
                remedy=f"give {len(names)} columns separated by a {mark}: {', '.join(names)}",
            )
        for name, cell in zip(names, row, strict=True):
            if not cell and name not in MAY_BE_EMPTY:
                problem = f"empty label in the column {name}"
                raise error(problem, remedy="fill it in or remove the line")
        rows.append(row)
    if not rows:
        raise InputError("nothing after the header", file=file, remedy="give a file with content")
    return string_columns(zip(*rows, strict=True))


def tsv_rows(data: bytes, file: Path) -> list[list[str]]:
    """The cells of each line of a TSV file, unchecked."""
    data = _plain_line_ends(data.removeprefix(_BOM).rstrip(b"\r\n"), file)
    return [row for _, row in records(data, file, "tsv")]


def records(data: bytes, file: Path, kind: str) -> Iterator[tuple[int, list[str]]]:
    """The first line, counted from 1, and the cells of each record, unchecked.

    ``kind`` is tsv, csv or quoted, which is TSV with the quotes of CSV.
    """
    text = _decode(data, file)
    if kind == "tsv":
        # Not splitlines(): U+0085 and U+2028 are characters of a label like any other.
        for line, row in enumerate(text.removesuffix("\n").split("\n"), 1):
            yield line, row.split("\t")
        return
    mark = "," if kind == "csv" else "\t"
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=mark, strict=True)
    line = 1
    try:
        for cells in reader:
            yield line, cells
            line = reader.line_num + 1
    except csv.Error as error:
        raise InputError(
            f"malformed {'CSV' if kind == 'csv' else 'TSV'} ({error})",
            file=file,
            line=line,
            remedy="check the quotes",
        ) from None


def _decode(data: bytes, file: Path) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"invalid UTF-8 (byte 0x{data[error.start]:02x})",
            file=file,
            line=data.count(b"\n", 0, error.start) + 1,
            remedy="save the file as UTF-8",
        ) from None


def _plain_line_ends(data: bytes, file: Path) -> bytes:
    if b"\r" not in data:
        return data
    data = data.replace(b"\r\n", b"\n").removesuffix(b"\r")
    place = data.find(b"\r")
    if place >= 0:
        raise InputError(
            "carriage return inside a line",
            file=file,
            line=data.count(b"\n", 0, place) + 1,
            remedy="end lines with LF or CR LF",
        )
    return data
