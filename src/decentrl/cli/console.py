"""Printing for the commands: consoles, tables, JSON and tables of answers."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from decentrl.cli.output import tsv_rows, write_table
from decentrl.data.called import NAME, UNFIT, called, printable
from decentrl.storage.files import json_text

if TYPE_CHECKING:
    from decentrl.data.results import ResultTable

Results = Mapping[str, Any]
SHOWN = 50
"""Rows of answers that a terminal shows."""
LABELS = ("left", "right", "head", "relation", "tail", "question", "best match", "best answer",
          "truth", "entity", "neighbour", "source", "or else", "note")  # fmt: skip
"""Columns that may be wrapped."""
DIGITS = {"score": 4, "cosine": 4, "confidence": 4, "probability": 3}
"""Digits after the point of what an answer comes with."""


class _PrintableConsole(Console):
    """A console of which no text reaches a terminal as a command to it."""

    def render_str(self, text: str, **how: Any) -> Text:
        return super().render_str(printable(text), **how)


def plain_console(stderr: bool = False) -> Console:
    """A console that prints labels and paths as they are: no colours of its own, no emoji."""
    return _PrintableConsole(stderr=stderr, emoji=False, highlight=False)


def wide_console(stderr: bool = False) -> Console:
    """A console of at least 120 columns where no terminal sets a width, for wide tables."""
    console = plain_console(stderr)
    if not console.is_terminal:
        console.width = max(console.width, 120)
    return console


def print_lines(console: Console, *lines: str | Table) -> None:
    """Print lines as they are: labels and paths may contain brackets, and get copied."""
    for line in lines:
        console.print(line, soft_wrap=isinstance(line, str), markup=False)


def print_json(value: Any) -> None:
    # JSON escapes the others of these itself, and has no lone surrogates in UTF-8.
    unfit = rf"[{UNFIT}\ud800-\udfff]"
    print(re.sub(unfit, lambda found: f"\\u{ord(found[0]):04x}", json_text(value)))


def plain_table(title: str, *names: str, numbers: Sequence[str] = ()) -> Table:
    """A table with few lines and little space: nine columns fit into eighty characters."""
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    table.pad_edge, table.padding = False, (0, 1, 0, 0)
    for name in names:
        side: Literal["left", "right"] = "right" if name in numbers else "left"
        table.add_column(name, justify=side, no_wrap=name not in LABELS)
    return table


def print_answers(
    table: ResultTable,
    *,
    output: Path | None = None,
    written: str = "",
    as_json: bool = False,
    file: str = "",
    empty: str = "",
) -> None:
    """Answers as a file, as JSON, as a table in a terminal, or else as tab-separated lines.

    Args:
        written: what to report once ``output`` is there.
        file: suggested as a name where a terminal does not show all rows.
        empty: shown in a terminal where there are no rows.
    """
    if output is not None:
        write_table(table, output)
        print_lines(plain_console(stderr=True), f"{output}: {written}")
    elif as_json:
        print_json(table.to_pylist())
    elif sys.stdout.isatty():
        console = plain_console()
        console.print(_answer_table(table) if table.num_rows or not empty else empty)
        if table.num_rows > SHOWN:
            console.print(f"… and {table.num_rows - SHOWN:,} more: write them with -o {file}")
    else:
        sys.stdout.writelines(tsv_rows(table.to_pylist()))


def _answer_table(table: ResultTable) -> Table:
    rows = table.slice(0, SHOWN).to_pylist()
    names = [x for x in table.column_names if x != "known" or any(row[x] for row in rows)]
    names = [x for x in names if not x.endswith(NAME)]  # shown with its entity
    shown = plain_table("", *names, numbers=("rank", *DIGITS))
    for row in rows:
        shown.add_row(*(_answer_cell(name, called(row, name)) for name in names))
    return shown


def _answer_cell(name: str, value: Any) -> str:
    if name in DIGITS:
        return number(value, DIGITS[name])
    if name == "known":
        return "yes" if value else ""
    return "[dim]none" if value is None else escape(str(value))


def number(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"
