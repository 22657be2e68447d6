"""Reads large files of triples piece by piece: memory holds codes and distinct labels, not text.

A file that cannot be read so (quoted cells, blank nodes) is left to the readers of whole files.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from decentrl.data.coded import CodedColumns
from decentrl.data.delimited import Pieces, lines_before, plain_line_ends
from decentrl.data.headers import Reading
from decentrl.data.limits import Limit
from decentrl.data.memory import arrow_columns, arrow_places
from decentrl.data.statements import Statements
from decentrl.data.table import TRIPLE, Table
from decentrl.data.unpacking import Read, compression, decompressed
from decentrl.errors import InputError

LARGE = 64 << 20
"""Bytes of a file from which on it is read in pieces."""
_LARGE_PACKED = 8 << 20
_PIECE = 16 << 20
_ROWS = 1 << 18
_LONGEST = 256 << 20  # of a line
_GROUPS = (0, 1, 0)  # heads and tails are entities
Step = Callable[[int], None]


def read_streamed(file: Path, kind: str, names: tuple[str, ...], reading: Reading) -> Table | None:
    """The triples of a large file, or None for one that is to be read as a whole."""
    if names != TRIPLE or kind not in _READERS or not _is_large(file):
        return None
    return _READERS[kind](file, kind, reading)


def _is_large(file: Path) -> bool:
    try:
        about = file.stat()
        if not stat.S_ISREG(about.st_mode) or about.st_size < min(LARGE, _LARGE_PACKED):
            return False
        with file.open("rb") as stream:
            return about.st_size >= LARGE or compression(stream.read(4), file) is not None
    except OSError:
        return False  # the reader of whole files says why


def _read_delimited(file: Path, kind: str, reading: Reading) -> Table | None:
    while True:
        columns, pieces = CodedColumns(_GROUPS), Pieces(file, kind, reading)
        for lines, piece in _pieces(file, columns):
            found = pieces.columns_of(piece, lines)
            if found is None:
                return None
            columns.add(found)
        table = Table(file, columns.columns(), pieces.line_of)
        again = pieces.decided(table.columns)
        if again is None:
            return table
        reading = again


def _read_statements(file: Path, kind: str, reading: Reading) -> Table | None:
    columns, statements = CodedColumns(_GROUPS), Statements(file)
    for lines, piece in _pieces(file, columns):
        found = statements.columns_of(piece, lines)
        if found is None:
            return None
        columns.add(found)
    return Table(file, columns.columns(), lambda row: None, statements.literals())


def _read_parquet(file: Path, kind: str, reading: Reading) -> Table | None:
    import pyarrow.parquet as pq

    place, columns, limit = Table(file, (), lambda row: row + 1), CodedColumns(_GROUPS), Limit(file)
    size, done = file.stat().st_size, 0
    try:
        with _progress(file) as step, pq.ParquetFile(file) as source:
            schema, total = source.schema_arrow, max(1, source.metadata.num_rows)
            wanted = arrow_places(schema, TRIPLE, place, reading.columns)[1]
            arrow_columns(schema.empty_table(), TRIPLE, place, True, reading.columns)
            given = [schema.names[i] for i in wanted]
            # A label of a page may be there once and in its rows many times.
            packed = pq.ParquetFile(file, read_dictionary=schema.names)
            for batch in packed.iter_batches(_ROWS, columns=given, use_threads=False):
                limit.check(sum(map(_text_size, batch.columns)))
                rows = pa.Table.from_batches([batch])
                with lines_before(done):
                    found = [
                        arrow_columns(rows.select([name]), (name,), place, True).columns[0]
                        for name in given
                    ]
                columns.add(found)
                done += len(batch)
                limit.check(columns.nbytes)
                step(size * done // total)
    except (pa.ArrowException, OSError):
        return None  # the reader of whole files says what is wrong
    return replace(place, columns=columns.columns())


def _text_size(column: pa.Array) -> int:
    """Bytes of the labels of a column of a dictionary, one for each row."""
    kind = column.type
    if not pa.types.is_dictionary(kind) or pa.types.is_integer(kind.value_type):
        return int(column.nbytes)
    lengths = pc.binary_length(column.dictionary)
    return int(pc.sum(lengths.take(column.indices)).as_py() or 0)


_READERS = {
    "tsv": _read_delimited,
    "csv": _read_delimited,
    "nt": _read_statements,
    "parquet": _read_parquet,
}


def _pieces(file: Path, columns: CodedColumns) -> Iterator[tuple[int, bytes]]:
    """Whole lines with plain ends, many at a time, and how many lines there are before these."""
    with file.open("rb") as stream, _progress(file) as step:
        size = os.fstat(stream.fileno()).st_size
        kind = compression(stream.read(4), file)
        stream.seek(0)
        read: Read = decompressed(kind, stream, file) if kind else stream.read
        # What is not kept need not fit, but a small file must not become an endless one.
        unpacked, kept = Limit(file, size if kind else None, kept=False), Limit(file)
        done, lines, rest = 0, 0, b""
        while data := read(_PIECE):
            done += len(data)
            unpacked.check(done)
            kept.check(columns.nbytes + len(rest))
            step(stream.tell())
            rest += data
            # Blank lines at the end of the file are none.
            text = rest[: rest.rfind(b"\n") + 1].rstrip(b"\r\n")
            if not text:
                if len(rest) > _LONGEST:
                    remedy = "give a triple on each line"
                    raise InputError("a line has no end", file=file, line=lines + 1, remedy=remedy)
                continue
            end = rest.index(b"\n", len(text)) + 1
            yield lines, _plain(rest[:end], file, lines)
            lines += rest.count(b"\n", 0, end)
            rest = rest[end:]
        if rest.strip(b"\r\n"):
            yield lines, _plain(rest.rstrip(b"\r\n") + b"\n", file, lines)


def _plain(piece: bytes, file: Path, lines: int) -> bytes:
    with lines_before(lines):
        return plain_line_ends(piece, file)


@contextmanager
def _progress(file: Path) -> Iterator[Step]:
    """A bar in a terminal, over the bytes of the file."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True, markup=False, emoji=False, highlight=False)
    if not console.is_terminal:
        yield lambda done: None
        return
    columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(f"reading {file.name}", total=file.stat().st_size)
        yield lambda done: bar.update(task, completed=done)
