"""Commands on a full disk, and commands that get a signal: all or nothing, and one clear line."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from decentrl.aligner import Aligner


def disturb(what: str, script: Any, folder: Path, trials: int, growing: dict[str, Path]) -> Any:
    return script("disturb.py", what, folder, trials, growing["run"], growing["later"])


@pytest.mark.trials(13, 600)
def test_full_disk(
    growing: dict[str, Path], trials: int, script: Any, tally: Any, tmp_path: Path
) -> None:
    attack = tally("a full disk, at every write")
    story = disturb("full", script, tmp_path, trials, growing)
    attack.take(story)
    assert attack.clean, story["wrong"]
    assert story["codes"]["2"] > story["trials"] / 2, story


@pytest.mark.trials(7, 208)
def test_signals(
    growing: dict[str, Path], trials: int, script: Any, tally: Any, tmp_path: Path
) -> None:
    attack = tally("signals at random moments")
    story = disturb("signals", script, tmp_path, trials, growing)
    attack.take(story)
    assert attack.clean, story["wrong"]


@pytest.mark.trials(20, 200)
def test_interrupted_at_any_line_of_the_shell(
    growing: dict[str, Path], trials: int, script: Any, tally: Any
) -> None:
    attack = tally("SIGINT at any line of the shell")
    story = script("interrupt_sweep.py", trials, "log", growing["run"], "--json")
    attack.take(story)
    assert story["lines"] > 100
    assert attack.clean, story["wrong"]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
@pytest.mark.trials(1, 30)
def test_the_real_command_interrupted_while_it_starts_or_works(
    growing: dict[str, Path], trials: int, chance: random.Random, tally: Any, tmp_path: Path
) -> None:
    attack, run = tally("SIGINT to real processes"), tmp_path / "run"
    command = [Path(sys.executable).with_name("decentrl"), "add", run, *[growing["later"]] * 5]
    for _ in range(trials):
        shutil.copytree(growing["run"], run, dirs_exist_ok=True)
        shutil.rmtree(run / "store", ignore_errors=True)
        (run / "store.seal").unlink(missing_ok=True)
        process = subprocess.Popen(
            [*command, "--side", "left"],
            stdout=-1,
            stderr=-1,
            text=True,
            cwd=tmp_path,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # as from a terminal
        )
        # Not before Python itself has started.
        while b"arrow" not in Path(f"/proc/{process.pid}/maps").read_bytes():
            time.sleep(0.01)
        time.sleep(chance.uniform(0, 3))
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
        acknowledged, there = out.count(": addition "), len(Aligner.load(run).log())
        attack.trials += 1
        attack.tracebacks += "Traceback" in err
        attack.lost += max(0, acknowledged - there)
        attack.silent += process.returncode not in ({0, 130} if acknowledged == 5 else {130})
        assert attack.clean, (process.returncode, out, err)
