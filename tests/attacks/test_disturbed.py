"""Commands on a full disk, and commands that get a signal: all or nothing, and one clear line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


def disturb(what: str, script: Any, folder: Path, trials: int, growing: dict[str, Path]) -> Any:
    return script("disturb.py", what, folder, trials, growing["run"], growing["later"])


@pytest.mark.trials(40, 500)
def test_full_disk(
    growing: dict[str, Path], trials: int, script: Any, tally: Any, tmp_path: Path
) -> None:
    attack = tally("a full disk, at every write")
    story = disturb("full", script, tmp_path, trials, growing)
    attack.take(story)
    assert attack.clean, story["wrong"]
    assert story["codes"]["2"] > story["trials"] / 2, story


@pytest.mark.trials(20, 200)
def test_signals(
    growing: dict[str, Path], trials: int, script: Any, tally: Any, tmp_path: Path
) -> None:
    attack = tally("signals at random moments")
    story = disturb("signals", script, tmp_path, trials, growing)
    attack.take(story)
    assert attack.clean, story["wrong"]
