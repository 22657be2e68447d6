"""Reads TSV and CSV with pyarrow; where that fails, a slow reading finds the first bad line.

In TSV quoting is off: a stray ``"`` is an ordinary character of a label. CSV has standard quoting.
"""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from decentrl.data.table import Table, named_columns, string_columns
from decentrl.errors import InputError

_BOM = b"\xef\xbb\xbf"


def read_delimited(data: bytes, file: Path, names: tuple[str, ...], kind: str) -> Table:
    """The table in the bytes of a TSV or CSV file with exactly the columns ``names``.

    A CSV file may begin with a header of these names, in any order; a TSV file has none.
    """
    data = data.removeprefix(_BOM)
    if data.endswith((b"\n\n", b"\n\r\n")):  # else spare the copy of a large file
        data = data.rstrip(b"\r\n")
    quoted = kind == "csv" and b'"' in data
    if not quoted:
        data = _plain_line_ends(data, file)
    if kind == "tsv":
        columns = _fast(data, len(names), "\t", 0) or _slow_tsv(data, file, names)
        return Table(file, columns, lambda row: row + 1)
    order = _csv_header(data, file, names)
    skip = int(order is not None)
    # Where there are quotes, only the standard library finds the one that is never closed.
    fast = None if quoted else _fast(data, len(names), ",", skip)
    columns = fast or _slow_csv(data, file, names, skip)
    if order is not None:
        columns = tuple(columns[i] for i in order)
    return Table(file, columns, lambda row: _csv_line(data, row + skip))


def _fast(data: bytes, width: int, delimiter: str, skip: int) -> tuple[pa.ChunkedArray, ...] | None:
    """The columns, or None if anything at all is suspicious."""
    names = [str(i) for i in range(width)]
    try:
        table = pyarrow.csv.read_csv(
            pa.BufferReader(data),
            read_options=pyarrow.csv.ReadOptions(column_names=names, skip_rows=skip),
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
    columns = tuple(table.columns)
    suspicious = not len(table) or any(pc.any(pc.equal(c, "")).as_py() for c in columns)
    return None if suspicious else columns


def _slow_tsv(data: bytes, file: Path, names: tuple[str, ...]) -> tuple[pa.ChunkedArray, ...]:
    rows = _split_tsv(data, file)
    for number, row in enumerate(rows, 1):
        _check_row(row, number, file, names, "tab")
    return string_columns(zip(*rows, strict=True))


def _slow_csv(
    data: bytes, file: Path, names: tuple[str, ...], skip: int
) -> tuple[pa.ChunkedArray, ...]:
    rows = []
    reader = csv.reader(io.StringIO(_decode(data, file), newline=""), strict=True)
    line = 1
    try:
        for number, row in enumerate(reader):
            if number >= skip:
                _check_row(row, line, file, names, "comma")
                rows.append(row)
            line = reader.line_num + 1
    except csv.Error as error:
        raise InputError(
            f"malformed CSV ({error})", file=file, line=line, remedy="check the quotes"
        ) from None
    if not rows:
        raise InputError("nothing after the header", file=file, remedy="give a file with content")
    return string_columns(zip(*rows, strict=True))


def tsv_rows(data: bytes, file: Path) -> list[list[str]]:
    """The cells of each line of a TSV file, unchecked."""
    return _split_tsv(_plain_line_ends(data.removeprefix(_BOM).rstrip(b"\r\n"), file), file)


def _split_tsv(data: bytes, file: Path) -> list[list[str]]:
    # Not splitlines(): U+0085 and U+2028 are characters of a label like any other.
    return [line.split("\t") for line in _decode(data, file).removesuffix("\n").split("\n")]


def _check_row(row: list[str], line: int, file: Path, names: tuple[str, ...], mark: str) -> None:
    need = f"{len(names)} columns separated by a {mark}: {', '.join(names)}"
    if row in ([], [""]):
        raise InputError("blank line", file=file, line=line, remedy="remove it")
    if len(row) != len(names):
        problem = f"{len(row)} column(s), but {len(names)} are needed"
        raise InputError(problem, file=file, line=line, remedy=f"give {need}")
    for label, name in zip(row, names, strict=True):
        if not label:
            problem = f"empty label in the column {name}"
            raise InputError(problem, file=file, line=line, remedy="fill it in or remove the line")


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


def _csv_header(data: bytes, file: Path, names: tuple[str, ...]) -> list[int] | None:
    """Where the columns ``names`` stand, if the first line is a header of just these."""
    end = data.find(b"\n")
    first = _decode(data[: end if end >= 0 else len(data)], file)
    try:
        header = next(csv.reader([first]), [])
    except csv.Error:  # reading all lines will name the error of this one
        return None
    if len(header) != len(names):
        return None
    return named_columns(header, names)


def _csv_line(data: bytes, record: int) -> int:
    """The line on which a CSV record starts: quoted labels may span several."""
    reader = csv.reader(io.StringIO(data.decode(), newline=""))
    for _ in range(record):
        next(reader)
    return reader.line_num + 1
