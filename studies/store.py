"""Result files: one small JSON file per run, in one folder."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from decentrl.errors import InputError
from studies.layout import Value
from studies.run import Run
from studies.source_tree import UNCOMMITTED, check_committed

Result = Mapping[str, Any]


@dataclass(frozen=True)
class Stat:
    """Mean and standard deviation of one metric over the seeds of a run."""

    mean: float
    spread: float  # standard deviation; 0 for one seed
    n: int
    uncommitted: bool = False  # a result was made from a tree with uncommitted changes

    @classmethod
    def of(cls, values: list[float]) -> Stat:
        return cls(fmean(values), stdev(values) if len(values) > 1 else 0.0, len(values))


class Store:
    """The results in a folder; files that are damaged or not of this kind are errors."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._results: dict[str, Result] = {}
        for path in sorted(folder.glob("*.json")):
            try:
                result = json.loads(path.read_bytes())
                self._results[result["key"]] = result
            except (ValueError, KeyError, TypeError) as error:
                raise InputError(
                    f"this is not a result file ({error})",
                    file=path,
                    remedy="delete it; the run is then done again",
                ) from error

    def get(self, run: Run) -> Result | None:
        return self._results.get(run.key) if run.possible else None

    def has(self, run: Run) -> bool:
        return self.get(run) is not None

    def results(self, runs: Iterable[Run]) -> list[Result]:
        """Those of the runs that are done."""
        return [result for run in runs if (result := self.get(run)) is not None]

    def all(self) -> list[Result]:
        return list(self._results.values())

    def stat(self, value: Value) -> Stat | None:
        """Mean and spread of a cell over its seeds; None if no seed is done."""
        if value.run is None:
            return None
        results = [x for x in self.results(value.runs()) if value.metric.of(x) is not None]
        if not results:
            return None
        found = [number for x in results if (number := value.metric.of(x)) is not None]
        return replace(Stat.of(found), uncommitted=any(map(uncommitted, results)))

    def add(self, run: Run, result: Result) -> None:
        """Keep a result and write its file atomically."""
        self._results[run.key] = result
        write_result(self.folder, run, result)

    def reload(self, run: Run) -> None:
        """Take in the file that another process has written."""
        self._results[run.key] = json.loads((self.folder / run.file).read_bytes())


def uncommitted(result: Result) -> bool:
    """Whether a result was made from a tree with uncommitted changes."""
    return str(result.get("commit") or "").endswith(UNCOMMITTED)


def write_result(folder: Path, run: Run, result: Result, *, trial: bool = False) -> None:
    """Write a result file atomically: one line per part, keys sorted, so that files can be diffed.

    Two commands may do the same run at the same time, so the temporary file has the process id.

    Args:
        trial: the result may come from a tree with uncommitted changes (``--quick`` and tests);
            otherwise that is an error.
    """
    if not trial:
        check_committed(result.get("commit") or "")
    parts = (f"{json.dumps(name)}: {json.dumps(result[name], sort_keys=True, ensure_ascii=False)}"
             for name in sorted(result))  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    temporary = folder / f"{run.file}.{os.getpid()}.part"
    temporary.write_text("{\n" + ",\n".join(parts) + "\n}\n", "utf-8")
    temporary.replace(folder / run.file)
