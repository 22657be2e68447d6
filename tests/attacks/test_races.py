"""Two commands about one run that start at the same instant: nothing is mixed, nothing is lost."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from decentrl.runs.run import read_settings
from decentrl.storage.bundle import read_bundle
from tests.attacks.conftest import Forked, Tally

TINY = ("--preset", "tiny", "--set", "model.dim=8", "--set", "training.epochs=3",
        "--set", "training.checkpoint_every=0", "--device", "cpu")  # fmt: skip
REFUSALS = (
    "another process is training this run",
    "another process is adding to this run",
    "already exists",
    "is not finished",  # asked for while it is replaced
    "was replaced just now",
    "before-overwrite",
)


@pytest.fixture(scope="module")
def align(twin_files: dict[str, Path]) -> list[str]:
    left, right, links = (str(twin_files[name]) for name in ("left", "right", "links"))
    return ["align", left, right, "--links", links, *TINY]


@pytest.fixture(scope="module")
def old_run(align: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    from typer.testing import CliRunner

    from decentrl.cli.commands import app

    run = tmp_path_factory.mktemp("old") / "run"
    CliRunner().invoke(app, [*align, "-o", str(run)], catch_exceptions=False)
    return run


def check_one_run(run: Path) -> None:
    """Everything in a finished run is of one training."""
    (seed,) = {
        json.loads((run / "results.json").read_bytes())["seed"],
        read_settings(run)[1].seed,
        read_bundle(run).config.seed,
    }
    rows = (run / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(row)["epoch"] for row in rows] == [1, 2, 3], f"seed {seed}"
    assert sorted(path.name for path in run.iterdir() if path.name != "store") == [
        "bundle", "checkpoint", "config.toml", "matches.parquet", "metrics.jsonl", "report.html",
        "results.json",
    ]  # fmt: skip


@pytest.mark.trials(5, 100)
def test_pairs_of_commands_that_start_at_the_same_instant(
    trials: int,
    chance: random.Random,
    tally: Tally,
    forked: Forked,
    align: list[str],
    old_run: Path,
    tmp_path: Path,
) -> None:
    kinds = ("train, train", "overwrite, overwrite", "add, add", "add, compact", "refit, add")
    orders: list[dict[str, Any]] = []
    for i in range(trials):
        kind, place = kinds[i % len(kinds)], tmp_path / str(i)
        run, new = place / "run", place / "new"
        place.mkdir()
        if kind != "train, train":
            shutil.copytree(old_run, run)
        adds = []
        for n in "ab":
            file = place / f"{n}.tsv"
            file.write_text(f"new {n}\thttp://left.org/r0\thttp://left.org/3\n", "utf-8")
            adds.append(["add", run, file, "--side", "left", "--device", "cpu"])
        trains = [[*align, "--seed", str(seed), "-o", run] for seed in (1, 2)]
        pairs = {
            "train, train": trains,
            "overwrite, overwrite": [[*train, "--overwrite"] for train in trains],
            "add, add": adds,
            "add, compact": [adds[0], ["compact", run, "--device", "cpu"]],
            "refit, add": [["refit", run, "-o", new, "--device", "cpu"], adds[0]],
        }
        late = chance.choice([0, 0, chance.random() * 0.02, chance.random() * 0.4])
        order = {"commands": pairs[kind], "delays": chance.sample([0, late], 2)}
        if i % 10 < 5:  # as if the system let the other one run at the worst moment
            order |= {"delays": [0, 0], "watch": str(place), "pause_at": "config.toml.part"}
        orders.append(order)
    found = tally("races")
    for i, outcomes in enumerate(forked(orders)):
        kind, place = kinds[i % len(kinds)], tmp_path / str(i)
        run, about = place / "run", f"{kind} {orders[i]['delays']} {outcomes}"
        found.trials += 1
        done = sum(code == 0 for code, _, _ in outcomes)
        assert done >= 1, about
        for code, said, _ in outcomes:
            found.tracebacks += "Traceback" in said
            assert code in (0, 2), about
            assert code == 0 or any(words in said for words in REFUSALS), about
        if kind in ("train, train", "overwrite, overwrite"):
            assert done == 1 or kind[0] == "o", about  # one may start after the other's end
            check_one_run(run)
            assert {path.name for path in place.iterdir()} == {"run", "a.tsv", "b.tsv"}, about
            continue
        added = [
            code == 0 and order[0] == "add"
            for order, (code, _, _) in zip(orders[i]["commands"], outcomes, strict=True)
        ]
        from decentrl.aligner import Aligner

        with Aligner.load(run, "cpu") as aligner:
            found.lost += sum(added) - len(aligner.growing.log())
            there = [name in aligner.growing.sides["left"].entities for name in ("new a", "new b")]
        assert sum(there) == sum(added), about
        if kind == "refit, add" and outcomes[0][0] == 0:
            Aligner.load(place / "new", "cpu")
    assert found.clean, found
