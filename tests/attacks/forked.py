"""Runs commands in forks of a process that has imported everything; a script of its own.

    python forked.py < ORDERS

ORDERS are JSON, a list of trials. Each is ``{"commands": [[argument, …], …], "delays": [seconds,
…]}``, whose commands start at the same instant but for their delays. With ``"watch": FOLDER`` and
``"kill_at": N`` a command is killed in front of its N-th operation on that folder, and with
``"pause_at": NAME`` it waits a moment in front of opening a file of that name there. On stdout is,
for each trial, a list of ``[exit status, stderr, operations]``, one for each command.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import time
from typing import Any

import torch

import decentrl.cli.course
import decentrl.runs.run  # noqa: F401 (imported once, before the forks)
from decentrl.cli import main

EVENTS = {"open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.chmod", "shutil.rmtree"}


def command(arguments: list[str], trial: dict[str, Any], delay: float, gate: int, told: int) -> int:
    """In a fork: what ``decentrl`` ends with."""
    count = 0

    def hook(event: str, about: tuple[Any, ...]) -> None:
        nonlocal count
        if event in EVENTS and str(about[0]).startswith(trial["watch"]):
            count += 1
            if count == trial.get("kill_at"):
                os.kill(os.getpid(), signal.SIGKILL)
            if event == "open" and str(about[0]).endswith(trial.get("pause_at", "\0")):
                time.sleep(0.2)

    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(told, 2)
    os.read(gate, 1)  # the gate is closed for all at once
    time.sleep(delay)
    if "watch" in trial:
        sys.addaudithook(hook)
    sys.argv = ["decentrl", *arguments]
    try:
        main()
    except SystemExit as end:
        code = int(end.code or 0)
    else:
        code = 0
    sys.stderr.flush()
    os.write(told, f"\0{count}".encode())
    return code


def run(trial: dict[str, Any]) -> list[tuple[int, str, int]]:
    """The commands of one trial."""
    gate, hold = os.pipe()
    started, delays = [], trial.get("delays") or [0.0] * len(trial["commands"])
    for arguments, delay in zip(trial["commands"], delays, strict=True):
        told = tempfile.TemporaryFile()  # noqa: SIM115 (read when the fork has ended)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                os.close(hold)
                code = command(arguments, trial, delay, gate, told.fileno())
            except BaseException:
                import traceback

                traceback.print_exc()
            finally:
                os._exit(code)
        started.append((child, told))
    os.close(gate)
    os.close(hold)
    found = []
    for child, told in started:
        _, status = os.waitpid(child, 0)
        told.seek(0)
        said, _, count = told.read().decode("utf-8", "replace").partition("\0")
        found.append((os.waitstatus_to_exitcode(status), said, int(count or 0)))
        told.close()
    return found


if __name__ == "__main__":
    torch.optim.Adam([torch.zeros(1)])  # this imports half of torch: once, not in every fork
    print(json.dumps([run(trial) for trial in json.load(sys.stdin)]))
