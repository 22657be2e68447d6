"""``python -m studies`` as people run it: a process, result files, pages, and what goes wrong."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest


def command(folder: Path, *arguments: str) -> list[str]:
    places = ["-o", str(folder / "results"), "--site", str(folder / "site")]
    words = [sys.executable, "-m", "studies", *arguments]
    return words + places + ["--device", "cpu"]


def reproduce(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "DECENTRL_DATA": str(folder / "no data")}
    return subprocess.run(
        command(folder, *arguments), capture_output=True, text=True, check=False, env=environment
    )


def results(folder: Path) -> dict[str, float]:
    """When each result file was written."""
    return {path.name: path.stat().st_mtime_ns for path in (folder / "results").glob("*.json")}


def test_two_quick_targets(tmp_path: Path) -> None:
    done = reproduce(tmp_path, "layers", "datasets", "--quick", "--jobs", "2")
    assert done.returncode == 0, done.stderr
    assert "5 runs to do, 0 done before" in done.stderr
    assert "concatenation" in done.stdout
    before = results(tmp_path)
    assert len(before) == 5
    page = (tmp_path / "site" / "layers.md").read_text("utf-8")
    assert "**A quick version:**" in page
    assert "- runs: 1 done, 0 not run" in page
    assert "- hardware: cpu" in page
    layers = next(path for path in (tmp_path / "results").glob("*paper*.json"))
    found = {row["name"]: row["hits@1"] for row in json.loads(layers.read_bytes())["layers"]}
    assert f"{found['concatenation']:.3f}" in page
    assert found["input"] < found["concatenation"]

    again = reproduce(tmp_path, "layers", "datasets", "--quick")
    assert again.returncode == 0
    assert "to do" not in again.stderr
    assert results(tmp_path) == before
    listed = reproduce(tmp_path, "layers", "sizes", "--quick", "--list").stdout
    assert "layers: 1 run done, 0 missing" in listed
    assert "sizes: 1 run done, 3 missing" in listed


def test_only_the_runs_that_are_named(tmp_path: Path) -> None:
    listed = reproduce(tmp_path, "datasets", "layers", "--quick", "--only", "paper", "--list")
    missing = [line for line in listed.stdout.splitlines() if line.startswith("missing")]
    assert len(missing) == 1
    assert "paper" in missing[0]
    done = reproduce(tmp_path, "datasets", "layers", "--quick", "--only", "geonames.*data")
    assert done.returncode == 0, done.stderr
    assert results(tmp_path)
    assert all("geonames" in name and "data" in name for name in results(tmp_path))
    wrong = reproduce(tmp_path, "datasets", "--quick", "--only", "(")
    assert wrong.returncode == 2
    assert wrong.stderr.startswith("error: '(' is no regular expression")


def test_without_files_there_is_a_line_that_says_what_to_do(tmp_path: Path) -> None:
    done = reproduce(tmp_path, "datasets")
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ")
    assert "set DECENTRL_DATA" in line
    assert "--quick" in line
    laid_out = reproduce(tmp_path, "datasets", "--budget", "0")
    assert laid_out.returncode == 0
    assert "not run" in (tmp_path / "site" / "datasets.md").read_text("utf-8")


@pytest.mark.parametrize("name", ["results", "site"])
def test_nothing_is_trained_that_could_not_be_kept(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("a file in the way")
    done = reproduce(tmp_path, "datasets", "--quick")
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"error: {tmp_path / name}: cannot write there (File exists)")


@pytest.mark.slow
def test_killed_and_started_again(tmp_path: Path) -> None:
    arguments = ("datasets", "layers", "--quick", "--jobs", "1")
    process = subprocess.Popen(command(tmp_path, *arguments), stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while len(results(tmp_path)) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = results(tmp_path)
    assert before
    done = reproduce(tmp_path, *arguments)
    assert done.returncode == 0, done.stderr
    after = results(tmp_path)
    assert len(after) == 5
    assert {name: after[name] for name in before} == before
