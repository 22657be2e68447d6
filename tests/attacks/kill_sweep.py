"""Kills a run at one moment after the other and resumes it; prints what became of each.

A script of its own, because it forks: the child is killed by SIGKILL in front of its n-th
operation on the run folder, where an audit hook counts the operations; once each has had its turn,
after a random time. Usage:

    python kill_sweep.py FOLDER HOW_MANY ARGUMENT...

runs ``decentrl align ARGUMENT...``; the JSON on stdout has the number of operations, how many
rounds of self-training were best and, for every moment tried, what differs from the uninterrupted
run (nothing, if all is well).
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import torch

import decentrl.cli.course
import decentrl.runs.run  # noqa: F401 (imported once, before the forks)
from decentrl.cli import main

EVENTS = {"open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.chmod", "shutil.rmtree"}


def command(
    arguments: list[str], run: Path, kill_at: int = 0, tear: int = 0, after: float = 0
) -> tuple[int, int]:
    """The exit status of ``decentrl align`` in a child, and how many operations it did.

    ``kill_at`` kills it in front of an operation, ``tear`` in the middle of writing a checkpoint,
    ``after`` after so many seconds.
    """
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read_end)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        count = 0

        def hook(event: str, about: tuple[Any, ...]) -> None:
            nonlocal count
            if event in EVENTS and str(about[0]).startswith(str(run)):
                count += 1
                if count == kill_at:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(hook)
        if tear:
            _tear_checkpoint(tear)
        sys.argv = ["decentrl", "align", *arguments, "-o", str(run)]
        code = 1
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
        finally:
            os.write(write_end, str(count).encode())
            os._exit(code)
    os.close(write_end)
    if after:
        time.sleep(after)
        os.kill(child, signal.SIGKILL)
    with os.fdopen(read_end, "rb") as pipe:
        count = int(pipe.read() or 0)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), count


def _tear_checkpoint(number: int) -> None:
    original, calls = os.fsync, []

    def fsync(file: int) -> None:
        calls.append(file)
        if len(calls) == number:
            os.ftruncate(file, os.fstat(file).st_size // 2)
            os.kill(os.getpid(), signal.SIGKILL)
        original(file)

    os.fsync = fsync


def state(run: Path) -> dict[str, Any]:
    """All that two equal runs have in common."""
    metrics = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    for row in metrics:
        del row["seconds"]
    results = json.loads((run / "results.json").read_bytes())
    return {
        "files": sorted(str(path.relative_to(run)) for path in run.rglob("*")),
        "metrics": metrics,
        **{name: results[name] for name in ("results", "self_training", "confidence")},
        "matches": pq.read_table(run / "matches.parquet").to_pylist(),
        **{
            name: (run / "bundle" / f"{name}.safetensors").read_bytes().hex()
            for name in ("weights", "vectors", "graphs", "matching")
        },
    }


def try_moment(arguments: list[str], run: Path, expected: dict[str, Any], **kill: Any) -> str:
    shutil.rmtree(run, ignore_errors=True)
    code, _ = command(arguments, run, **kill)
    if code != -signal.SIGKILL and not (code == 0 and "after" in kill):
        return f"it was not killed but ended with {code}"
    # Killed before its settings were written down, a run has to be started, not resumed.
    again = ["--resume", "--device", "cpu"] if (run / "config.toml").exists() else arguments
    if (run / "results.json").exists():
        again = []
    elif (code := command(again, run)[0]) != 0:
        return f"{again[:1]} ended with {code}"
    found = state(run)
    return ", ".join(name for name, value in expected.items() if found[name] != value)


def sweep(folder: Path, how_many: int, arguments: list[str]) -> dict[str, Any]:
    torch.optim.Adam([torch.zeros(1)])  # this imports half of torch: once, not in every child
    started = time.perf_counter()
    code, operations = command(arguments, folder / "whole")
    assert code == 0
    seconds, chance = time.perf_counter() - started, random.Random(os.environ["DECENTRL_SEED"])
    expected, run = state(folder / "whole"), folder / "run"
    moments = sorted({1 + round(i * (operations - 1) / how_many) for i in range(how_many)})
    outcomes = {f"operation {n}": try_moment(arguments, run, expected, kill_at=n) for n in moments}
    for _ in range(how_many - len(moments)):
        after = chance.uniform(0.01, seconds)
        outcomes[f"{after:.4f} s"] = try_moment(arguments, run, expected, after=after)
    for n in (1, 3):
        outcomes[f"checkpoint {n}"] = try_moment(arguments, run, expected, tear=n)
    return {
        "operations": operations,
        "outcomes": outcomes,
        "rounds": expected["self_training"]["rounds"],
    }


if __name__ == "__main__":
    print(json.dumps(sweep(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])))
