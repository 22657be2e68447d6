"""Which runs are missing, in which order they are done, and how long they may take."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from decentrl.errors import ConfigError
from studies.layout import Target
from studies.run import Run
from studies.scale import OURS, SLOW
from studies.store import Result, Store

LARGE = ("fb15k", "wn18")


@dataclass(frozen=True)
class Plan:
    """Runs that are done and runs that are missing, the first to be done first."""

    done: Sequence[Run]
    missing: Sequence[Run]
    unavailable: Sequence[str]  # presets that are not there

    @classmethod
    def of(cls, targets: Iterable[Target], store: Store) -> Plan:
        targets = list(targets)
        runs = list({run.key: run for target in targets for run in target.runs()}.values())
        missing = [run for run in runs if not store.has(run)]
        return cls(
            [run for run in runs if store.has(run)],
            sorted(missing, key=_rank),
            sorted({name for target in targets for name in target.unavailable()}),
        )

    def only(self, pattern: str) -> Plan:
        """Of the missing runs those that have the regular expression in their name."""
        try:
            found = re.compile(pattern).search
        except re.error as error:
            raise ConfigError(f"{pattern!r} is no regular expression ({error})") from error
        return replace(self, missing=[run for run in self.missing if found(run.name)])


def _rank(run: Run) -> tuple[bool, int, bool, int]:
    """Ours first, then cheap baselines, then slow ones, seed by seed; the largest graphs after the
    others. Runs that need the device for themselves come last, when no other waits."""
    tier = 0 if run.job == "data" or run.preset in OURS else 2 if run.preset in SLOW else 1
    return run.alone, tier, run.dataset in LARGE, run.seed


def expected_seconds(run: Run, results: Iterable[Result]) -> float:
    """The mean time of the runs most similar to it; 0 where there is none.

    Most similar is the same training with another seed, then the same preset on the same data, then
    the same preset, then the same job.
    """
    best, times = 0, list[float]()
    for result in results:
        other, alike = result["run"], 0
        if other["job"] != run.job:
            continue
        alike = 1
        if other["preset"] == run.preset:
            alike = 2
            if other["dataset"] == run.dataset:
                alike = 3
                if tuple(other["settings"]) == run.settings and other["unseen"] == run.unseen:
                    alike = 4
        if alike > best:
            best, times = alike, []
        if alike == best:
            times.append(result["seconds"]["whole"])
    return fmean(times) if times else 0.0
