"""``info`` shows what a run has written, or says that it was changed."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.attacks.conftest import Tally
from tests.attacks.mutators import ODD, damage


@pytest.mark.trials(40, 200)
def test_a_changed_file_behind_info_is_named(
    trials: int, world_run: Path, tmp_path: Path, chance: random.Random, tally: Tally,
    decentrl: Callable[..., Any],
) -> None:  # fmt: skip
    found = tally("files behind info")
    run = shutil.copytree(world_run, tmp_path / "run")
    whole = decentrl("info", run)
    assert whole.code == 0
    for _ in range(trials):
        file = run / chance.choice(("results.json", "bundle/README.md"))
        before = file.read_bytes()
        file.write_bytes(damage(chance, before))
        said = decentrl("info", run)
        file.write_bytes(before)
        found.trials += 1
        if said.code == 0:
            found.silent += said.out != whole.out
        else:
            found.tracebacks += said.code != 2 or file.name not in said.err
    assert found.clean


@pytest.mark.trials(40, 200)
def test_odd_results_are_an_error(
    trials: int, world_run: Path, tmp_path: Path, chance: random.Random, tally: Tally,
    decentrl: Callable[..., Any],
) -> None:  # fmt: skip
    found, run = tally("odd results"), shutil.copytree(world_run, tmp_path / "run")
    whole = (run / "results.json").read_text("utf-8")
    for _ in range(trials):
        values = json.loads(whole)
        values.pop("sha256", None)
        place = chance.choice([values, values["seconds"], *values["results"]])
        place[chance.choice(sorted(place))] = chance.choice(ODD)
        (run / "results.json").write_text(json.dumps(values), "utf-8")
        found.trials += 1
        found.tracebacks += decentrl("info", run).code not in (0, 2)
    assert found.clean
