"""A training that diverges ends in one line and leaves nothing; no file or line holds NaN."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from tests.attacks.conftest import Tally

RATES = ("0.1", "1e3", "1e6", "1e10", "1e15", "1e19", "1e25", "1e30", "3e38")
COMPLETE = ("transe", "distmult", "complex", "rotate", "tucker", "conve")
ALIGN = ("tiny", "strong", "paper")


def strict(text: str) -> Any:
    """JSON as its standard has it, without Python's NaN and Infinity."""

    def refuse(word: str) -> Any:
        raise AssertionError(f"{word} in JSON")

    return json.loads(text, parse_constant=refuse)


def check_run(run: Path) -> None:
    """Raise if anything in a finished run is not finite."""
    for file in run.rglob("*.json"):
        strict(file.read_text("utf-8"))
    for line in (run / "metrics.jsonl").read_text("utf-8").splitlines():
        strict(line)
    for name in ("weights", "vectors", "memory"):
        for key, tensor in load_file(run / "bundle" / f"{name}.safetensors").items():
            assert tensor.isfinite().all(), f"{name} {key} is not finite"


@pytest.mark.trials(5, 300)
def test_a_training_that_diverges(
    trials: int,
    chance: random.Random,
    tally: Tally,
    decentrl: Callable[..., Any],
    people_file: Path,
    twin_files: dict[str, Path],
    tmp_path: Path,
) -> None:
    found = tally("trainings that diverge")
    for number in range(trials):
        run = tmp_path / str(number)
        if number % 4 < 3:  # prediction has more ways to diverge
            decoder, dim = chance.choice(COMPLETE), 16
            task = ["complete", people_file, "--decoder", decoder]
            task += ["--preset", chance.choice(["paper", "strong", "quick"])]
        else:
            task = ["align", twin_files["left"], twin_files["right"], "--links"]
            task += [twin_files["links"], "--preset", chance.choice(ALIGN)]
            dim = 8
        epochs, batch = chance.choice([1, 2]), chance.choice([0, 0, 64])
        settings = {
            "model.dim": dim, "training.epochs": epochs, "training.batch": batch,
            "training.learning_rate": chance.choice(RATES),
            "training.valid": chance.choice([0, 0.1]),
        }  # fmt: skip
        asked = [part for name, x in settings.items() for part in ("--set", f"{name}={x}")]
        done = decentrl(*task, *asked, "--device", "cpu", "--json", "-o", run)
        found.trials += 1
        if done.code == 0:
            strict(done.out)
            try:
                check_run(run)
            except AssertionError as error:
                found.silent += 1
                print(task, settings, error)
        else:
            lines = done.err.splitlines()
            assert (done.code, done.out) == (2, "")
            assert lines[-1].startswith("error: "), done.err
            assert not run.exists(), list(run.rglob("*"))
    assert found.clean, found
