"""Tables as Markdown, as CSV, and in colour on a terminal."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

from studies.layout import Row, Table, Value
from studies.store import Stat, Store

if TYPE_CHECKING:
    from rich.table import Table as RichTable

NOT_RUN = "not run"
MARK = "†"
UNCOMMITTED_NOTE = f"{MARK} made from an uncommitted tree."
LEGEND = (
    "In brackets the published number; ▲ ours is better by so much, ▼ worse, = the same. ± is the "
    "standard deviation over seeds; without it there was one seed. Bold: the best method of a "
    "column among those run."
)


def markdown(table: Table, store: Store) -> str:
    """A table as Markdown; below our number stand the difference and the paper's number."""
    best = _best(table, store)
    heads = [f"{group}<br>{name}" if group else name for group, name in table.columns]
    lines = [f"| {table.first} | {' | '.join(heads)} |", "| --- |" + " ---: |" * len(heads)]
    for row in table.rows:
        cells = []
        for i, value in enumerate(row.values):
            own, paper, mark = _parts(value, store.stat(value))
            own = f"**{own}**" if own and (row.label, i) in best else own
            below = " ".join(x for x in (mark, f"({paper})" if paper else "") if x)
            cells.append("<br>".join(x for x in (own, below) if x))
        lines.append(f"| {row.label} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def comma_separated(table: Table, store: Store) -> str:
    """A table as CSV, one line per cell, with everything that is known of it."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(
        ["table", "row", "group", "column", "mean", "spread", "seeds", "uncommitted", "paper",
         "difference", "dataset", "unseen", "preset", "settings"]
    )  # fmt: skip
    for row, (group, name), value in _cells(table):
        stat, run = store.stat(value), value.run
        known = [stat.mean, stat.spread, stat.n, int(stat.uncommitted)] if stat else ["", "", 0, ""]
        paper = value.paper
        both = "" if stat is None or paper is None else stat.mean - paper
        about = [run.dataset, run.unseen, run.preset, " ".join(run.settings)] if run else [""] * 4
        numbers = [
            f"{x:.6g}" if isinstance(x, float) else x
            for x in (*known, "" if paper is None else paper, both)
        ]
        writer.writerow([table.title, row.label, group, name, *numbers, *about])
    return text.getvalue()


def has_uncommitted(table: Table, store: Store) -> bool:
    """Whether a cell comes from a tree with uncommitted changes."""
    stats = (store.stat(value) for *_, value in _cells(table))
    return any(stat is not None and stat.uncommitted for stat in stats)


def terminal(table: Table, store: Store, title: str) -> RichTable:
    """A table for a terminal: green where ours is better than the paper's, red where worse."""
    from rich import box
    from rich.table import Table as RichTable

    shown = RichTable(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    shown.pad_edge, shown.padding = False, (0, 1, 0, 0)
    shown.add_column(table.first)
    for group, name in table.columns:
        shown.add_column(f"{group}\n{name}", justify="right", no_wrap=True)
    for row in table.rows:
        cells = []
        for value in row.values:
            own, paper, mark = _parts(value, store.stat(value))
            colour = {"▲": "green", "▼": "red"}.get(mark[:1], "dim")
            lines = [f"[dim]{own}[/]" if own == NOT_RUN else own]
            lines.append(f"[{colour}]{mark}[/]" if mark else "")
            lines.append(f"[dim]({paper})[/]" if paper else "")
            cells.append("\n".join(line for line in lines if line))
        shown.add_row(row.label, *cells)
    return shown


def by_group(table: Table) -> list[Table]:
    """A table for each group of columns, for where the whole is too wide."""
    groups = dict.fromkeys(group for group, _ in table.columns)
    return [_part(table, [i for i, x in enumerate(table.columns) if x[0] == g]) for g in groups]


def _part(table: Table, chosen: list[int]) -> Table:
    rows = [Row(row.label, [row.values[i] for i in chosen]) for row in table.rows]
    return Table(table.title, [table.columns[i] for i in chosen], rows, table.first)


def _cells(table: Table) -> list[tuple[Row, tuple[str, str], Value]]:
    return [
        (row, column, value)
        for row in table.rows
        for column, value in zip(table.columns, row.values, strict=True)
    ]


def _parts(value: Value, stat: Stat | None) -> tuple[str, str, str]:
    """Our number, the paper's, and their difference; each may be empty."""
    digits = value.metric.digits
    paper = "" if value.paper is None else f"{value.paper:,.{digits}f}"
    if stat is None:
        return "" if value.run is None else NOT_RUN, paper, ""
    own = f"{stat.mean:,.{digits}f}"
    if stat.n > 1:
        own += f" ± {stat.spread:,.{digits}f}"
    own += f" {MARK}" * stat.uncommitted
    if value.paper is None:
        return own, paper, ""
    gap = stat.mean - value.paper
    if not round(gap, digits):
        return own, paper, "="
    return own, paper, f"{'▲' if (gap > 0) != value.metric.lower else '▼'} {gap:+,.{digits}f}"


def _best(table: Table, store: Store) -> set[tuple[str, int]]:
    """Row and column of the best number of every column, where rows are methods."""
    found: set[tuple[str, int]] = set()
    if not table.first.startswith("method"):
        return found
    for i in range(len(table.columns)):
        cells = [(row.label, row.values[i]) for row in table.rows if row.values[i].metric.judged]
        known = [(label, v, s.mean) for label, v in cells if (s := store.stat(v)) is not None]
        if len(known) > 1:
            sign = -1 if known[0][1].metric.lower else 1
            top = max(sign * mean for *_, mean in known)
            found |= {(label, i) for label, _, mean in known if sign * mean == top}
    return found
