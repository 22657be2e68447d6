"""Triples and links that are in memory: rows, arrays, data frames, Arrow tables and graphs.

Data frames are read through the Arrow PyCapsule interface, which pandas has since 2.2, so that
neither pandas nor polars is imported.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from decentrl.data.foreign import graph_table
from decentrl.data.headers import Reading, plan_columns, role_columns
from decentrl.data.table import (
    ATTRIBUTE,
    LINK,
    MAY_BE_EMPTY,
    NAME,
    TRIPLE,
    Table,
    fitting,
    string_columns,
)
from decentrl.errors import InputError


class ArrowStream(Protocol):
    """A table of any library that can export itself to Arrow."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...


Source = str | PathLike[str] | Iterable[Sequence[str]] | ArrowStream | Table
"""Triples or links in labels: a file, rows, a numpy array, a data frame or an Arrow table.

Or a graph of rdflib or networkx, a TriplesFactory of PyKEEN, or what was read of one already.
"""


_ROWS = {LINK: "links", NAME: "names", ATTRIBUTE: "attributes"}


def read_memory(source: Any, names: tuple[str, ...] = TRIPLE) -> Table:
    """The columns ``names`` of a source in memory; it may have no rows."""
    what = _ROWS.get(names, "triples")
    place = Table(Path(), (), lambda row: row, memory=what)
    if (table := graph_table(source, names, place)) is not None:
        return table
    if hasattr(source, "__arrow_c_stream__") or hasattr(source, "__arrow_c_array__"):
        try:
            frame = pa.table(source)
        except (pa.ArrowException, TypeError, ValueError, NotImplementedError) as error:
            raise place.error(
                f"this {type(source).__name__} is no table of text ({first_line(error)})",
                remedy="convert its labels to text, for example with astype(str)",
            ) from None
        return arrow_columns(frame, names, place)
    if not isinstance(source, Iterable) or isinstance(source, bytes):
        raise InputError(
            f"{type(source).__name__} is no source of {what}",
            remedy=f"give a file, rows ({', '.join(names)}), an array or a data frame",
        )
    rows = list(source)
    if rows and isinstance(rows[0], Sequence | np.ndarray):
        names = fitting(names, range(len(rows[0])))
    for i, row in enumerate(rows):
        whole = type(row) in (tuple, list) or (
            isinstance(row, Sequence | np.ndarray) and not isinstance(row, str | bytes)
        )
        if not whole or len(row) != len(names):
            raise place.error(f"{row!r} is none of the {what}", i, f"give ({', '.join(names)})")
    columns = list(zip(*rows, strict=True)) or [()] * len(names)
    for column, name in zip(columns, names, strict=True):
        empty = name in MAY_BE_EMPTY
        if not all(_is_text(x, empty) for x in column):
            i, label = next((i, x) for i, x in enumerate(column) if not _is_text(x, empty))
            problem = f"the {name} {label!r} is no text"
            raise place.error(problem, i, "give non-empty strings; convert others with str()")
    return replace(place, columns=string_columns(columns))


def _is_text(label: object, empty: bool = False) -> bool:
    """Whether a label can be kept: not empty, and without lone surrogates, which UTF-8 lacks."""
    try:
        return isinstance(label, str) and (bool(label.encode()) or empty)
    except UnicodeEncodeError:
        return False


def arrow_columns(
    table: pa.Table,
    names: tuple[str, ...],
    place: Table,
    integers: bool = False,
    chosen: tuple[str, ...] = (),
) -> Table:
    """The columns ``names`` of an Arrow table: those of these names, or all if the number fits.

    Args:
        place: names the source in errors.
        integers: integers are labels too.
        chosen: the columns to read instead, by name or number from 1.
    """
    names, places = arrow_places(table.schema, names, place, chosen)
    columns = [table.column(i) for i in places]
    checked = (_text_column(c, n, place, integers) for c, n in zip(columns, names, strict=True))
    return replace(place, columns=tuple(checked))


def arrow_places(
    schema: pa.Schema, names: tuple[str, ...], place: Table, chosen: tuple[str, ...] = ()
) -> tuple[tuple[str, ...], list[int]]:
    """The columns ``names`` as far as a table has them, and where they are in it."""
    described = schema.pandas_metadata or {}
    index = [x for x in described.get("index_columns", ()) if isinstance(x, str)]
    own = [i for i, x in enumerate(schema.names) if x in names or x in chosen or x not in index]
    found = [schema.names[i] for i in own]

    def error(problem: str, remedy: str = "") -> InputError:
        return place.error(problem, remedy=remedy)

    if not chosen:
        names = fitting(names, found)
        if role_columns(found, names) is None and len(found) != len(names):
            there = ", ".join(found[:20])
            more = "" if place.memory or names != TRIPLE else ", or choose three by --columns"
            raise error(
                f"{len(found)} column(s), but {len(names)} are needed",
                remedy=f"give the columns {', '.join(names)}{more} (there are: {there})",
            )
    reading = Reading(header="yes", columns=chosen)
    plan = plan_columns(found, names, reading, error)
    return plan.names, [own[plan.roles.index(name)] for name in plan.names]


def _text_column(column: Any, name: str, place: Table, integers: bool) -> pa.ChunkedArray:
    """An Arrow column as strings without null or empty values."""
    types = pa.types
    kind = column.type
    if types.is_dictionary(kind):
        kind = kind.value_type
        column = column.cast(kind)
    text = [types.is_string, types.is_large_string, types.is_string_view, types.is_null]
    if not any(test(kind) for test in text) and not (integers and types.is_integer(kind)):
        raise place.error(
            f"the column {name} holds {kind}, not labels",
            remedy="store labels as strings" if integers else "convert it with astype(str)",
        )
    column = column.cast(pa.string())
    if name in MAY_BE_EMPTY:
        return column.fill_null("")
    bad = pc.fill_null(pc.equal(column, ""), True)
    if pc.any(bad).as_py():
        row = pc.index(bad, True).as_py()
        raise place.error(f"empty label in the column {name}", row, "fill it in")
    return column


def first_line(error: BaseException) -> str:
    """The first line of an error's message, or its type."""
    return str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__
