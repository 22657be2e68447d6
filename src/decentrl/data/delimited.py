"""Reads TSV and CSV with pyarrow; where that fails, a slow reading finds the first bad line.

In TSV quoting is off: a stray ``"`` is an ordinary character of a label. CSV has standard quoting.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from decentrl.data.headers import AS_IT_IS, Plan, Reading, confirmed, doubt, plan_columns
from decentrl.data.table import MAY_BE_EMPTY, NAME, TRIPLE, Table, fitting, string_columns
from decentrl.errors import InputError, warn_format


@dataclass(frozen=True)
class Marks:
    """What separates two columns, whether cells may be quoted, and what to say of it."""

    mark: str
    quoted: bool
    note: str = ""


TAB = "\t"
TSV, CSV, QUOTED_TSV = Marks(TAB, False), Marks(",", True), Marks(TAB, True)
_SPELLED = {TAB: "tab", ",": "comma", ";": "semicolon", " ": "space"}
_SHOWING = 1 << 16  # bytes at the beginning that show what separates columns
_BOM = b"\xef\xbb\xbf"
# Its own limit is 128 KiB a cell, and it calls more malformed; how much a file may hold is known.
csv.field_size_limit(2**31 - 1)


def read_delimited(
    data: bytes, file: Path, names: tuple[str, ...], kind: str, reading: Reading = AS_IT_IS
) -> Table:
    """The table in the bytes of a TSV or CSV file, of the columns ``names``.

    The file has exactly these, or a first line that names them, see :mod:`decentrl.data.headers`.
    """
    data = data.removeprefix(_BOM)
    if data.endswith((b"\n\n", b"\n\r\n")):  # else spare the copy of a large file
        data = data.rstrip(b"\r\n")
    marks = _marks(data, file, names, kind, reading)
    quoted = marks.quoted and b'"' in data
    if not quoted:
        data = plain_line_ends(data, file)
    first = _first_cells(data, marks)

    def error(problem: str, remedy: str = "") -> InputError:
        return InputError(problem, file=file, line=1, remedy=remedy or None)

    def columns_of(plan: Plan) -> tuple[pa.ChunkedArray, ...]:
        # Where there are quotes, only the standard library finds the one that is never closed.
        fast = None if quoted else _fast(data, plan.roles, marks.mark, plan.skip)
        found = fast or _slow(data, file, plan.roles, marks, plan.skip)
        return tuple(found[[x for x in plan.roles if x].index(name)] for name in plan.names)

    if len(first) < len(fitting(names, first)):
        _slow(data, file, names, marks)  # names the line and the columns
    plan = plan_columns(first, names, reading, error, certain=marks.mark == ",")
    columns = columns_of(plan)
    if plan.guess and not confirmed(plan, first, columns):
        plan = plan_columns(first, names, replace(reading, header="no"), error)
        columns = columns_of(plan)
    elif reading.header == "auto" and not plan.skip and names == TRIPLE:
        plan = replace(plan, note=doubt(columns))
    for note in filter(None, (marks.note, plan.note)):
        warn_format(f"{file}: {note}")
    if not quoted:
        return Table(file, columns, lambda row: row + 1 + plan.skip)

    def line_of(row: int) -> int:
        """A quoted label may span several lines."""
        return next(islice(records(data, file, marks), row + plan.skip, None))[0]

    return Table(file, columns, line_of)


class Pieces:
    """A file without quoted cells, read piece by piece; what the first one shows is true of all."""

    def __init__(self, file: Path, kind: str, reading: Reading) -> None:
        self.file, self._kind, self._reading = file, kind, reading

    def columns_of(self, data: bytes, lines: int) -> tuple[pa.ChunkedArray, ...] | None:
        """The columns of whole lines, which come after so many others; None if cells are quoted."""
        if not lines:
            data = data.removeprefix(_BOM)
            self._begin(data)
        if self._marks.quoted and b'"' in data:
            return None
        plan, skip = self._plan, 0 if lines else self._plan.skip
        with lines_before(lines):
            found = _fast(data, plan.roles, self._marks.mark, skip)
            found = found or _slow(data, self.file, plan.roles, self._marks, skip)
        return tuple(found[[x for x in plan.roles if x].index(name)] for name in plan.names)

    def _begin(self, data: bytes) -> None:
        self._marks = _marks(data, self.file, TRIPLE, self._kind, self._reading)
        self._first = _first_cells(data, self._marks)
        if len(self._first) < len(TRIPLE):
            _slow(data, self.file, TRIPLE, self._marks)  # names the line and the columns

        def error(problem: str, remedy: str = "") -> InputError:
            return InputError(problem, file=self.file, line=1, remedy=remedy or None)

        certain = self._marks.mark == ","
        self._plan = plan_columns(self._first, TRIPLE, self._reading, error, certain=certain)

    def decided(self, columns: tuple[pa.ChunkedArray, ...]) -> Reading | None:
        """How to read the file again, given its columns, if its first line is no header after all.

        Otherwise None, and notes are written.
        """
        plan = self._plan
        if plan.guess and not confirmed(plan, self._first, columns):
            return replace(self._reading, header="no")
        if self._reading.header == "auto" and not plan.skip:
            plan = replace(plan, note=doubt(columns))
        for note in filter(None, (self._marks.note, plan.note)):
            warn_format(f"{self.file}: {note}")
        return None

    def line_of(self, row: int) -> int:
        return row + 1 + self._plan.skip


@contextmanager
def lines_before(lines: int) -> Iterator[None]:
    """Errors about a piece name the line in the file."""
    try:
        yield
    except InputError as error:
        if error.line is None:
            raise
        where = error.line + lines
        raise InputError(error.problem, file=error.file, line=where, remedy=error.remedy) from None


def _marks(data: bytes, file: Path, names: tuple[str, ...], kind: str, reading: Reading) -> Marks:
    """What separates columns: as asked for, as usual, or what all of the first lines show."""
    usual = TSV if kind == "tsv" else CSV
    if reading.mark:
        return TSV if reading.mark == "\t" and kind == "tsv" else Marks(reading.mark, True)
    lines = data[:_SHOWING].replace(b"\r\n", b"\n").split(b"\n")
    lines = lines[: -1 if len(data) > _SHOWING else None][:100]
    needed = len(names) - (names == NAME)
    if not lines or len(_first_cells(lines[0], usual)) >= needed:
        return usual
    for mark in "\t,;|":
        widths = {len(_first_cells(line, Marks(mark, True))) for line in lines if line}
        if mark != usual.mark and len(widths) == 1 and widths.pop() >= needed:
            note = f"columns are separated by {_SPELLED.get(mark, mark)}, as the lines show"
            return Marks(mark, True, note)
    return usual


def _first_cells(data: bytes, marks: Marks) -> list[str]:
    """The cells of the first record, as far as they can be made out."""
    if not marks.quoted:
        line = io.BytesIO(data).readline().rstrip(b"\r\n").decode(errors="replace")
        return line.split(marks.mark)
    text = io.TextIOWrapper(io.BytesIO(data), "utf-8", "replace", newline="")
    try:
        return next(csv.reader(text, delimiter=marks.mark), [])
    except csv.Error:  # reading all lines will name the error of this one
        return []


def _fast(
    data: bytes, names: tuple[str, ...], delimiter: str, skip: int
) -> tuple[pa.ChunkedArray, ...] | None:
    """The columns that have a name, or None if anything at all is suspicious."""
    places = [name or f"column {i}" for i, name in enumerate(names)]
    names = tuple(filter(None, names))
    try:
        table = pyarrow.csv.read_csv(
            pa.BufferReader(data),
            read_options=pyarrow.csv.ReadOptions(column_names=places, skip_rows=skip),
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
                include_columns=list(names),
            ),
        )
    except pa.ArrowException:
        return None
    full = [x for x in names if x not in MAY_BE_EMPTY]
    suspicious = not len(table) or any(pc.any(pc.equal(table[x], "")).as_py() for x in full)
    return None if suspicious else tuple(table.columns)


def _slow(
    data: bytes, file: Path, names: tuple[str, ...], marks: Marks, skip: int = 0
) -> tuple[pa.ChunkedArray, ...]:
    """The columns that have a name after ``skip`` records, or an error at the first bad line."""
    rows = []
    wanted = [i for i, name in enumerate(names) if name]
    for line, row in islice(records(data, file, marks), skip, None):
        error = partial(InputError, file=file, line=line)
        if row in ([], [""]):
            raise error("blank line", remedy="remove it")
        if len(row) != len(names):
            mark = _SPELLED.get(marks.mark, repr(marks.mark))
            called = ": " + ", ".join(names) if all(names) else ""
            raise error(
                f"{len(row)} column(s), but {len(names)} are needed",
                remedy=f"give {len(names)} columns separated by a {mark}{called}",
            )
        for i in wanted:
            if not row[i] and names[i] not in MAY_BE_EMPTY:
                problem = f"empty label in the column {names[i]}"
                raise error(problem, remedy="fill it in or remove the line")
        rows.append([row[i] for i in wanted])
    if not rows:
        raise InputError("nothing after the header", file=file, remedy="give a file with content")
    return string_columns(zip(*rows, strict=True))


def tsv_rows(data: bytes, file: Path) -> list[list[str]]:
    """The cells of each line of a TSV file, unchecked."""
    data = plain_line_ends(data.removeprefix(_BOM).rstrip(b"\r\n"), file)
    return [row for _, row in records(data, file, TSV)]


def records(data: bytes, file: Path, marks: Marks) -> Iterator[tuple[int, list[str]]]:
    """The first line, counted from 1, and the cells of each record, unchecked."""
    text = _decode(data, file)
    if not marks.quoted:
        # Not splitlines(): U+0085 and U+2028 are characters of a label like any other.
        for line, row in enumerate(text.removesuffix("\n").split("\n"), 1):
            yield line, row.split(marks.mark)
        return
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=marks.mark, strict=True)
    line = 1
    try:
        for cells in reader:
            yield line, cells
            line = reader.line_num + 1
    except csv.Error as error:
        raise InputError(
            f"malformed {'TSV' if marks.mark == TAB else 'CSV'} ({error})",
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


def plain_line_ends(data: bytes, file: Path) -> bytes:
    """The same with LF at the end of each line; another CR is an error."""
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
