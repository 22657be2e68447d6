"""Links whose ends are entities of the two graphs; what to do about the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from decentrl.data.table import Columns, Table, row_ids, unknown_cells
from decentrl.data.vocabulary import Ids
from decentrl.errors import ConfigError, UnknownLabelError, warn_format

UnknownLinks = Literal["error", "skip"]
SHOWN = 5
"""How many stray links are shown."""


def known_links(table: Table, columns: Columns, unknown: str = "", header: str = "auto") -> Table:
    """The links of a table whose ends are known entities.

    Args:
        unknown: what a link with another end is: ``error``, or ``skip`` to leave it out and say
            so; "" is an error where there is no such choice.
        header: ``auto`` if the first line may be a header that names no entity of either graph.
    """
    if unknown not in ("", "error", "skip"):
        raise ConfigError(f"no choice {unknown!r} for unknown links; there are: error, skip")
    cells = unknown_cells(table, *columns)
    stray = np.asarray(cells.any(axis=1))
    if not stray.any():
        return table
    if header == "auto" and _is_header(table, cells):
        said = ", ".join(repr(column[0].as_py()) for column in table.columns)
        warn_format(
            f"{table.file}: the first line ({said}) names no entity of either graph and is taken "
            "for names of columns; --header no reads it as data"
        )
        stray[0] = False
        table, stray = _kept(table, np.arange(1, len(table))), stray[1:]
    rows = np.flatnonzero(stray)
    if not len(rows):
        return table
    if unknown != "skip":
        raise _error(table, columns, rows, choice=bool(unknown))
    place = f"the {table.memory}" if table.memory else str(table.file)
    warn_format(
        f"{place}: {len(rows):,} of {len(table):,} links name unknown entities and are left out: "
        + _some(table, rows)
    )
    if len(rows) == len(table):
        raise table.error(
            "no link is between entities of both graphs",
            remedy="name entities as the triples do",
            kind=UnknownLabelError,
        )
    return _kept(table, np.flatnonzero(~stray))


def _is_header(table: Table, cells: npt.NDArray[np.bool_]) -> bool:
    """Whether only the first line of a table of columns names no entity at all."""
    alone = cells[0].all() and len(cells) > 1 and not cells[1:].all(axis=1).any()
    in_file = not table.memory and table.literals is None and not table.uris
    return bool(alone and in_file and table.line_of(0) == 1)


def _kept(table: Table, rows: Ids) -> Table:
    """Some rows of a table, which still know their lines."""
    columns = tuple(column.take(pa.array(rows)) for column in table.columns)
    file_of = table.file_of
    return replace(
        table,
        columns=columns,
        line_of=lambda row: table.line_of(int(rows[row])),
        file_of=file_of and (lambda row: file_of(int(rows[row]))),
    )


def _error(table: Table, columns: Columns, rows: Ids, choice: bool) -> UnknownLabelError:
    """The error of the first stray link, with how many others there are and where."""
    try:
        row_ids(table, *columns)
    except UnknownLabelError as error:
        skip = "--unknown-links skip leaves"
        if len(rows) == 1:
            hint = f" ({skip} such links out)" if choice else ""
        else:
            skip = f"; {skip} them out" if choice else ""
            hint = f" ({len(rows):,} links are such: {_some(table, rows)}{skip})"
        error.args, error.remedy = (f"{error}{hint}",), f"{error.remedy}{hint}"
        return error
    raise AssertionError("no link is stray")


def _some(table: Table, rows: Ids) -> str:
    """The first stray links, with their lines."""
    shown = []
    for row in rows[:SHOWN].tolist():
        left, right = (str(column[row].as_py())[:60] for column in table.columns)
        line = table.line_of(row)
        shown.append(f"{left!r} – {right!r}" + ("" if line is None else f" ({_at(table)} {line})"))
    return ", ".join(shown) + ", …" * (len(rows) > SHOWN)


def _at(table: Table) -> str:
    return "row" if table.memory else "line"


def several(links: Ids, labels: Sequence[str]) -> tuple[int, str]:
    """How many entities in the first column of links have several counterparts, and one of them."""
    ids, counts = np.unique(links[:, 0], return_counts=True)
    many = ids[counts > 1]
    return len(many), labels[int(many[0])] if len(many) else ""
