"""The page of two graphs that grow in five steps: what `benchmarks/contea.py` has measured."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from studies.figures import draw
from studies.layout import Figure, Metric, Panel, Series, Value
from studies.site import write
from studies.store import Stat, Store

LABELS = {
    "added": "additions only",
    "refit": "trained again after each batch",
    "scratch": "trained from scratch on all",
    "propagation": "seed propagation, additions only",
    "mean": "mean of neighbours, additions only",
}
BATCHES = range(6)
TICKS = ("base", *(f"batch {k}" for k in BATCHES[1:]))
COMMAND = "python benchmarks/contea.py --variants added refit scratch propagation mean"
ABOUT = """Two graphs, Chinese and English, that grow in five steps (ContEA, ZH-EN): 3,623 links
are known before the first, none is afterwards. After every step all entities without a known link
are matched, left to right, and what is claimed is compared with all links that are possible then.
Every claim counts, also of entities without a counterpart. A newcomer has a median of one triple,
and nine of ten have no counterpart. Precision / recall / F1 at the threshold that was fitted for
F1 on validation links before anything had arrived; "with a new end": links, and claims, of an
entity that came after the base. Preset `quick`, seed 0. Test links have chosen nothing.
"""
Result = Mapping[str, Any]


class Snapshots(Store):
    """The measured snapshots, by variant and batch; a figure's cells name these."""

    def __init__(self, folder: Path) -> None:
        found = (json.loads(path.read_bytes()) for path in sorted(folder.glob("*.json")))
        self.found: dict[tuple[str, int], Result] = {
            (x["variant"], x["batch"]): x
            for x in found
            if x["seed"] == 0 and x["preset"] in ("quick", "propagate")
        }

    def row(self, variant: str, batch: int, subset: str, threshold: str = "fitted") -> Result:
        """Metrics of a subset; empty if there are none."""
        rows = self.found.get((variant, batch), {}).get(threshold, ())
        return next((row for row in rows if row["subset"] == subset), {})

    def stat(self, value: Value) -> Stat | None:
        """The F1 that a cell of the figure names."""
        (_, variant), (_, batch), (_, subset) = value.metric.where
        row = self.row(variant, int(batch), subset)
        return Stat.of([row["f1"]]) if row else None


def cell(row: Result) -> str:
    """Precision / recall / F1."""
    names = "precision", "recall", "f1"
    return " / ".join(f"{row[name]:.3f}".lstrip("0") for name in names) if row else "–"


def tables(store: Snapshots) -> list[tuple[str, list[list[str]]]]:
    """Titles and rows of cells, the first row of each with the names of columns."""
    variants = [name for name in LABELS if any(x == name for x, _ in store.found)]
    columns = ["method", *TICKS]
    made = []
    for title, subset, threshold in (
        ("All links", "all", "fitted"),
        ("Links with a new end", "unknown", "fitted"),
        ("Links with a new end, by `match --abstain`", "unknown", "abstain"),
    ):
        rows = [
            [LABELS[v], *(cell(store.row(v, k, subset, threshold)) for k in BATCHES)]
            for v in variants
        ]
        made.append((title, [columns, *rows]))
    rows = []
    for name, key in (("adding", "add"), ("training", "train"), ("matching", "match")):
        for v in variants:
            spent = [store.found.get((v, k), {}).get("seconds", {}).get(key) for k in BATCHES]
            if any(spent):
                cells = (f"{x['wall']:.0f} ({x['cpu']:.0f})" if x else "–" for x in spent)
                rows.append([f"{name}, {LABELS[v]}", *cells])
    made.append(("Seconds (of processor)", [columns, *rows]))
    errors = [
        [LABELS[v], *(_error(store.found.get((v, k), {})) for k in BATCHES)] for v in variants
    ]
    made.append(("Calibration error of matches with a new end, 15 bins", [columns, *errors]))
    return made


def _error(result: Result) -> str:
    found = result.get("calibration error", {})
    return f"{found['unknown']:.3f}" if "unknown" in found else "–"


def markdown(rows: list[list[str]]) -> str:
    """A table of cells."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    rule = f"| --- |{' ---: |' * (len(rows[0]) - 1)}"
    return "\n".join((lines[0], rule, *lines[1:])) + "\n"


def print_tables(folder: Path) -> None:
    """Print what is there."""
    for title, rows in tables(Snapshots(folder)):
        print(f"**{title}**\n\n{markdown(rows)}", flush=True)


def figure() -> Figure:
    """F1 after each batch, in all and for links with a new end."""

    def values(variant: str, subset: str) -> list[Value]:
        where = (("variant", variant), ("batch", ""), ("subset", subset))
        return [Value(None, Metric("f1", (where[0], ("batch", str(k)), where[2]))) for k in BATCHES]

    panels = [
        Panel(title, TICKS, [Series(LABELS[v], values(v, subset)) for v in LABELS], y="F1")
        for title, subset in (("all links", "all"), ("links with a new end", "unknown"))
    ]
    return Figure("lines", "Two graphs that grow (ContEA, ZH-EN)", panels)


def write_page(folder: Path, page: Path) -> None:
    """Write the page, its figure and the same cells as CSV."""
    store, made = Snapshots(folder), ""
    if draw(figure(), store, page.with_suffix("")):
        made = f"![F1 after each batch]({page.stem}.svg)\n"
    every = tables(store)
    commits = ", ".join(sorted({x["commit"] for x in store.found.values()}))
    threads = ", ".join(sorted({str(x["threads"]) for x in store.found.values()}))
    left_out = [
        f"{LABELS[v]}: {', '.join(TICKS[k] for k in missing)}"
        for v in LABELS
        if (missing := [k for k in BATCHES if (v, k) not in store.found])
    ]
    parts = [
        "# Two graphs that grow in five steps\n",
        "*Made by `python benchmarks/contea.py --page` from the result files; do not edit.*\n",
        ABOUT,
        made,
        *(f"## {title}\n\n{markdown(rows)}" for title, rows in every),
        "## How it was made\n",
        f"- command: `{COMMAND}`\n- commit: {commits}\n- threads: {threads}\n"
        + (f"- not run: {'; '.join(left_out)}\n" if left_out else ""),
        f"The same cells as [CSV]({page.stem}.csv). [All results](index.md).\n",
    ]
    write(page, "\n".join(part for part in parts if part))
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(("table", *every[0][1][0]))
    lines.writerows((title, *row) for title, rows in every for row in rows[1:])
    write(page.with_suffix(".csv"), text.getvalue())
