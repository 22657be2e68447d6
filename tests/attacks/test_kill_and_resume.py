"""A run killed at any moment and resumed equals the uninterrupted one, bit for bit."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch

from decentrl.aligner import Aligner
from decentrl.data.alignment_task import AlignmentTask
from decentrl.training.loop import Row

# Batches smaller than all links, validation and early stopping: all that a resumed run must find.
SETTINGS = (
    "training.batch=7",
    "training.valid=0.3",
    "training.validate_every=1",
    "training.patience=3",
    "training.checkpoint_every=0",
)

# The default preset in small: links found by itself, and once again with the links held out.
# So few links are left to learn from that a round with found ones helps; after it every held-out
# link is right, so that the next round is no better: of two rounds one is chosen.
STRONG = (
    "model.dim=4",
    "propagation.dim=8",
    "propagation.relation_dim=2",
    "propagation.weight=0.3",
    "training.epochs=2",
    "training.batch=7",
    "training.valid=0.84",
    "training.checkpoint_every=0",
    "self_training.rounds=2",
    "self_training.epochs=1",
    "self_training.mass=0.1",
)
STAGES = ["", "train-1", "train-2", "refit-0", "refit-1"]


class Killed(BaseException):
    """Not one of ours, as a kill is not."""


def without_seconds(rows: list[Row]) -> list[Row]:
    return [{name: value for name, value in row.items() if name != "seconds"} for row in rows]


def read_metrics(run: Path) -> list[Row]:
    lines = (run / "metrics.jsonl").read_text("utf-8").splitlines()
    return without_seconds([json.loads(line) for line in lines])


# In this process, after every epoch


@pytest.fixture(scope="module")
def task(twin_files: dict[str, Path]) -> AlignmentTask:
    return AlignmentTask.read(*(twin_files[name] for name in ("left", "right", "links", "test")))


def make() -> Aligner:
    few = ("model.dim=8", "training.epochs=30")
    return Aligner.from_preset("tiny", *few, *SETTINGS, device="cpu")


@pytest.fixture(scope="module")
def whole(task: AlignmentTask) -> Aligner:
    aligner = make().fit(task)
    assert 4 <= len(aligner.history) < 30, "choose settings in which it stops early"
    return aligner


def test_stopped_after_any_epoch_and_resumed(
    task: AlignmentTask, whole: Aligner, tmp_path: Path
) -> None:
    for epoch in range(len(whole.history)):

        def stop(row: Row, last: int = epoch) -> None:
            if row["epoch"] > last:
                raise Killed

        run = tmp_path / str(epoch)
        with pytest.raises(Killed):
            make().fit(task, run=run, on_epoch=stop)
        torch.manual_seed(123)  # where a new process would be
        resumed = make().fit(task, run=run, resume=True)
        for side in ("left", "right"):
            assert torch.equal(resumed.learned.vectors[side], whole.learned.vectors[side])
        assert all(
            torch.equal(resumed.learned.weights[name], t)
            for name, t in whole.learned.weights.items()
        )
        assert without_seconds(resumed.history) == without_seconds(whole.history)
        assert read_metrics(run) == without_seconds(whole.history)


def test_stopped_after_any_epoch_of_any_stage_and_resumed(
    task: AlignmentTask, tmp_path: Path
) -> None:
    def small() -> Aligner:
        return Aligner.from_preset("strong", *STRONG, device="cpu")

    whole = small().fit(task)
    assert list(dict.fromkeys(row.get("stage", "") for row in whole.history)) == STAGES
    assert whole.chosen_rounds == 1
    for place in range(len(whole.history)):
        calls = []

        def stop(row: Row, calls: list[Row] = calls, last: int = place) -> None:
            calls.append(row)
            if len(calls) > last:
                raise Killed

        run = tmp_path / str(place)
        with pytest.raises(Killed):
            small().fit(task, run=run, on_epoch=stop)
        torch.manual_seed(123)  # where a new process would be
        resumed = small().fit(task, run=run, resume=True)
        for side in ("left", "right"):
            assert torch.equal(resumed.learned.vectors[side], whole.learned.vectors[side])
        assert all(
            torch.equal(resumed.learned.weights[name], t)
            for name, t in whole.learned.weights.items()
        )
        assert (resumed.rounds, resumed.chosen_rounds) == (whole.rounds, whole.chosen_rounds)
        assert resumed.learned.found.tolist() == whole.learned.found.tolist()
        assert resumed.confidence() == whole.confidence()
        assert without_seconds(resumed.history) == without_seconds(whole.history)
        assert read_metrics(run) == without_seconds(whole.history)


# With kill -9, in front of one operation on the disk after the other


@pytest.mark.slow
@pytest.mark.trials(4, 60)
@pytest.mark.parametrize(
    ("preset", "chosen", "rounds"),
    [("tiny", (*SETTINGS, "model.dim=8", "training.epochs=4"), 0), ("strong", STRONG, 1)],
    ids=["tiny", "strong"],
)
def test_killed_between_any_two_operations_on_the_disk(
    twin_files: dict[str, Path], tmp_path: Path, preset: str, chosen: tuple[str, ...], rounds: int,
    trials: int, script: Any, tally: Any,
) -> None:  # fmt: skip
    files = [str(twin_files[name]) for name in ("left", "right", "links", "test")]
    settings = [part for x in chosen for part in ("--set", x)]
    attack = tally("kill -9 of a training, then --resume")
    found = script(
        "kill_sweep.py", tmp_path, trials, files[0], files[1], "--links", files[2],
        "--test-links", files[3], "--preset", preset, "--device", "cpu", *settings,
    )  # fmt: skip
    wrong = {moment: says for moment, says in found["outcomes"].items() if says}
    attack.trials, attack.silent = len(found["outcomes"]), len(wrong)
    assert found["operations"] > 30
    assert found["rounds"] == rounds
    assert len(found["outcomes"]) == trials + 2
    assert wrong == {}


# With kill -9, at random moments of the real command


def start(run: Path, *arguments: str) -> subprocess.Popen[str]:
    program = Path(sys.executable).with_name("decentrl")
    return subprocess.Popen(
        [program, "align", *arguments, "--device", "cpu", "-o", run],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def lines(file: Path) -> int:
    return file.read_bytes().count(b"\n") if file.exists() else 0


def finish(process: subprocess.Popen[str]) -> int:
    _, said = process.communicate(timeout=120)
    assert said == ""
    return process.returncode


def state(run: Path) -> dict[str, Any]:
    results = json.loads((run / "results.json").read_bytes())
    return {
        "files": sorted(str(path.relative_to(run)) for path in run.rglob("*")),
        "metrics": read_metrics(run),
        **{name: results[name] for name in ("results", "self_training", "confidence")},
        "matches": pq.read_table(run / "matches.parquet").to_pylist(),
        **{
            name: (run / "bundle" / f"{name}.safetensors").read_bytes()
            for name in ("weights", "vectors", "matching")
        },
    }


@pytest.mark.slow
def test_killed_at_random_moments_and_resumed(tmp_path: Path) -> None:
    chance = random.Random()
    epochs, run = 10, tmp_path / "run"
    arguments = ["--dataset", "world", "--preset", "tiny", "--set", f"training.epochs={epochs}"]
    for setting in (
        "training.batch=150",
        "model.dim=16",
        "training.patience=0",
        *SETTINGS[2:3],
        SETTINGS[4],
    ):
        arguments += ["--set", setting]
    assert finish(start(tmp_path / "whole", *arguments)) == 0

    process, story = start(run, *arguments), []
    # Twice in the midst of training, once near its end or while the results are written.
    for target in (chance.randint(1, 4), chance.randint(5, 9), epochs):
        wait = chance.uniform(0, 0.2)
        while lines(run / "metrics.jsonl") < target and process.poll() is None:
            time.sleep(0.002)
        time.sleep(wait)
        process.kill()
        process.communicate()
        story.append((target, wait, process.returncode, lines(run / "metrics.jsonl")))
        if (run / "results.json").exists():
            break
        process = start(run, "--resume")
    if not (run / "results.json").exists():
        assert finish(process) == 0, story
    assert story[0][2] == -9, story

    expected, found = state(tmp_path / "whole"), state(run)
    assert [name for name in expected if found[name] != expected[name]] == [], story


@pytest.mark.slow
def test_killed_in_several_stages_and_resumed(twin_files: dict[str, Path], tmp_path: Path) -> None:
    files = [str(twin_files[name]) for name in ("left", "right", "links", "test")]
    arguments = [files[0], files[1], "--links", files[2], "--test-links", files[3]]
    # The default preset; so many epochs that every stage lasts longer than a look at the file.
    for setting in (*STRONG, "training.epochs=20", "self_training.epochs=20"):
        arguments += ["--set", setting]
    whole = start(tmp_path / "whole", *arguments)
    run = tmp_path / "run"
    process, killed_in = start(run, *arguments), []
    for stage in ("train-1", "refit-0"):
        while process.poll() is None:
            rows = (run / "metrics.jsonl").read_bytes() if (run / "metrics.jsonl").exists() else b""
            if f'"stage": "{stage}"'.encode() in rows:
                break
            time.sleep(0.001)
        process.kill()
        process.communicate()
        assert process.returncode == -9
        last = (run / "metrics.jsonl").read_text("utf-8").rpartition("\n")[0].splitlines()[-1]
        killed_in.append(json.loads(last).get("stage", ""))
        process = start(run, "--resume")
    assert finish(process) == 0
    assert killed_in == ["train-1", "refit-0"]
    assert finish(whole) == 0
    expected, resumed = state(tmp_path / "whole"), state(run)
    found = list(dict.fromkeys(row.get("stage", "") for row in expected["metrics"]))
    assert found[:4] == STAGES[:4]
    assert [name for name in expected if resumed[name] != expected[name]] == []
