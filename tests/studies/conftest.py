"""Made-up results, so that layouts can be tested without training anything."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from studies.run import Run
from studies.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "results")


@pytest.fixture
def keep(store: Store) -> Callable[..., None]:
    """``keep(run, [0.5, 0.6], seconds=3)``: a result a seed, each with that Hits@1 everywhere."""

    def made(run: Run, values: list[float], seconds: float = 1.0, **more: Any) -> None:
        for seed, value in enumerate(values):
            one = replace(run, seed=seed)
            row = {"hits@1": value, "hits@10": value, "mrr": value, "mr": value}
            place = {"direction": "left-right", "candidates": "test", "subset": "all"}
            rows = [{**place, "matcher": m, **row} for m in ("csls", "sinkhorn")]
            rows += [{"group": "all", "name": "all", **row}]
            result = {
                "key": one.key, "run": asdict(one), "results": rows, "device": "an abacus",
                "seconds": {"whole": seconds}, "at_once": 1, "commit": "abc1234",
                "versions": {"torch": "2"}, "command": one.command,
            }  # fmt: skip
            store.add(one, result | more)

    return made
