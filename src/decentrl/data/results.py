"""Tables of results: they print as text and in notebooks, and go to pandas, polars and Arrow."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Sequence
from functools import wraps
from importlib.util import find_spec
from typing import Any

import pyarrow as pa
from rich.cells import cell_len, set_cell_size

from decentrl.errors import MissingExtraError

SHOWN = 20
WIDEST = 48
_JOINERS = "\u200c\u200d"  # inside words of Persian and Indian languages, and emoji


class ResultTable:
    """A table of results, such as matches or predictions, around a pyarrow Table.

    >>> table = aligner.match()
    >>> print(table)                     # the first 20 rows as text
    >>> table["left"]                    # a column, pyarrow ChunkedArray
    >>> table[0]                         # a row, dict
    >>> table.to_pandas()                # also to_arrow() and to_pylist()

    Everything else that a pyarrow Table has (``num_rows``, ``filter``, ``sort_by``, …) is here
    too. Other libraries read it through the Arrow interface: ``polars.DataFrame(table)``.
    """

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    @staticmethod
    def from_rows(rows: Sequence[dict[str, Any]], schema: pa.Schema | None = None) -> ResultTable:
        """The table of rows, which may lack some values; its columns are in order of appearance."""
        if schema is not None:
            return ResultTable(pa.Table.from_pylist(list(rows), schema))
        names = dict.fromkeys(name for row in rows for name in row)
        return ResultTable(pa.table({x: [row.get(x) for row in rows] for x in names}))

    def to_arrow(self) -> pa.Table:
        """The pyarrow Table."""
        return self._table

    def to_pylist(self) -> list[dict[str, Any]]:
        """The rows as dicts."""
        rows: list[dict[str, Any]] = self._table.to_pylist()
        return rows

    def to_pandas(self) -> Any:
        """The pandas DataFrame."""
        if find_spec("pandas") is None:
            raise MissingExtraError("to_pandas()", "pandas")
        return self._table.to_pandas()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._table.__arrow_c_stream__(requested_schema)

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for batch in self._table.to_batches(max_chunksize=4096):
            yield from batch.to_pylist()

    def __getitem__(self, key: str | int | slice) -> Any:
        """A column by its name, a row by its place, or a list of rows by a slice."""
        if isinstance(key, str):
            return self._table.column(key)
        places = range(len(self))[key]
        rows = self._table.take([places] if isinstance(places, int) else list(places)).to_pylist()
        return rows[0] if isinstance(places, int) else rows

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # copying and pickling ask before there is a table
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        found = getattr(self._table, name)
        if not callable(found):
            return found

        @wraps(found)
        def call(*args: Any, **options: Any) -> Any:
            made = found(*map(_plain, args), **options)
            return ResultTable(made) if isinstance(made, pa.Table) else made

        return call

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *(x for x in dir(self._table) if x[0] != "_")})

    def __eq__(self, other: object) -> bool:
        other = _plain(other)
        return isinstance(other, pa.Table) and bool(self._table.equals(other))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        names, rows, right, rest = self._cells()
        if not rows:
            return f"no rows ({', '.join(names)})" if names else "no rows"
        widths = [max(map(cell_len, column)) for column in zip(names, *rows, strict=True)]
        lines = [
            "  ".join(
                " " * (width - cell_len(cell)) + cell if to_right else set_cell_size(cell, width)
                for cell, width, to_right in zip(row, widths, right, strict=True)
            ).rstrip()
            for row in (names, *rows)
        ]
        return "\n".join([*lines, *rest])

    def _repr_html_(self) -> str:
        names, rows, right, rest = self._cells()
        styles = [f' style="text-align:{"right" if x else "left"}"' for x in right]

        def line(cells: Iterable[str], tag: str) -> str:
            parts = zip(styles, cells, strict=True)
            inside = "".join(f"<{tag}{s}>{html.escape(c)}</{tag}>" for s, c in parts)
            return f"<tr>{inside}</tr>"

        body = "".join(line(row, "td") for row in rows)
        table = f"<table><thead>{line(names, 'th')}</thead><tbody>{body}</tbody></table>"
        return table + "".join(f"<p>{html.escape(x)}</p>" for x in rest)

    def _cells(self) -> tuple[list[str], list[list[str]], list[bool], list[str]]:
        """Names, the first rows as text, which columns are numbers, and a line on the others."""
        schema = self._table.schema
        numbers = [pa.types.is_floating(x) or pa.types.is_integer(x) for x in schema.types]
        first = self._table.slice(0, min(SHOWN, len(self))).to_pylist()
        rows = [[_text(row[name]) for name in schema.names] for row in first]
        more = len(self) - len(rows)
        return list(schema.names), rows, numbers, [f"… and {more:,} more"] if more else []


class Evaluation(ResultTable):
    """The metrics of a model on its test data: one row for each group that was measured.

    Attributes:
        rows: the rows as in ``results.json``; a row lacks the columns that do not apply to it.
        ranks: the rank of every correct answer, as the job returns them.
    """

    def __init__(self, rows: Sequence[dict[str, Any]], ranks: Any = None) -> None:
        super().__init__(ResultTable.from_rows(rows).to_arrow())
        self.rows, self.ranks = list(rows), ranks

    def to_pylist(self) -> list[dict[str, Any]]:
        """The rows as in ``results.json``."""
        return self.rows

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows)

    def __getitem__(self, key: str | int | slice) -> Any:
        return super().__getitem__(key) if isinstance(key, str) else self.rows[key]


def _text(value: Any) -> str:
    """A cell as one line of text."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4f}"
    if isinstance(value, list):
        return _text(", ".join(map(str, value)))
    text = "".join(c if c.isprintable() or c in _JOINERS else "�" for c in str(value))
    return text if cell_len(text) <= WIDEST else set_cell_size(text, WIDEST - 1) + "…"


def _plain(value: Any) -> Any:
    return value.to_arrow() if isinstance(value, ResultTable) else value
