"""Tables and figures as data: cells that name the runs and the metric they come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from studies.run import Run

DEGREES = ((1, 2), (3, 4), (5, 9), (10, 14), (15, 19), (20, None))
"""First and last degree of the buckets that entities are put in."""
DEGREE_NAMES = tuple(f"{first}–{last}" if last else f"{first} or more" for first, last in DEGREES)


@dataclass(frozen=True)
class Metric:
    """A number in a result file: ``name`` in the row of the list ``part`` that ``where`` names."""

    name: str
    where: tuple[tuple[str, str], ...] = ()
    part: str = "results"
    lower: bool = False  # less is better
    judged: bool = True  # one value is better than another
    digits: int = 3

    def of(self, result: Mapping[str, Any]) -> float | None:
        for row in result.get(self.part, ()):
            if all(row.get(key) == value for key, value in self.where):
                value = row.get(self.name)
                return None if value is None else float(value)
        return None


@dataclass(frozen=True)
class Value:
    """One cell: a metric over seeds of a run, beside the paper's number; either may be missing."""

    run: Run | None
    metric: Metric
    seeds: int = 1
    paper: float | None = None

    def runs(self) -> list[Run]:
        """The runs to be done for it; none if its preset is not there."""
        if self.run is None or not self.run.possible:
            return []
        if self.run.job == "data":
            return [self.run]
        return [replace(self.run, seed=seed) for seed in range(self.seeds)]


@dataclass(frozen=True)
class Row:
    label: str
    values: Sequence[Value]


@dataclass(frozen=True)
class Table:
    """Columns are named by a group (a dataset) and by what is in them (a metric)."""

    title: str
    columns: Sequence[tuple[str, str]]
    rows: Sequence[Row]
    first: str = "method"


@dataclass(frozen=True)
class Series:
    """A line, or the bars of one colour; ``above`` are values that a dotted bar reaches up to."""

    label: str
    values: Sequence[Value]
    above: Sequence[Value] = ()


@dataclass(frozen=True)
class Panel:
    title: str
    ticks: Sequence[str]
    series: Sequence[Series]
    x: str = ""
    y: str = ""
    log: bool = False  # tenfold steps upwards


@dataclass(frozen=True)
class Figure:
    kind: Literal["bars", "lines"]
    title: str
    panels: Sequence[Panel]
    note: str = ""


@dataclass(frozen=True)
class Target:
    """A table or figure of the paper."""

    name: str
    title: str
    about: str  # what is compared, and how it was measured
    tables: Sequence[Table]
    figures: Sequence[Figure] = ()

    def values(self) -> list[Value]:
        cells = [value for table in self.tables for row in table.rows for value in row.values]
        for series in (s for f in self.figures for panel in f.panels for s in panel.series):
            cells += [*series.values, *series.above]
        return cells

    def runs(self) -> list[Run]:
        """Every run that a cell needs, once, in the order of the cells."""
        return list(dict.fromkeys(run for value in self.values() for run in value.runs()))

    def unavailable(self) -> list[str]:
        """Presets that cells name but that are not there."""
        runs = (value.run for value in self.values() if value.run is not None)
        return sorted({run.preset for run in runs if not run.possible})
