"""A store with other processes at work: killed while they add or fold, and read meanwhile."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


def found(what: str, folder: Path, times: int) -> dict[str, Any]:
    script = Path(__file__).with_name("kill_store.py")
    done = subprocess.run(
        [sys.executable, script, what, folder, str(times)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


@pytest.mark.slow
def test_what_was_acknowledged_survives_kills_at_random_moments(tmp_path: Path) -> None:
    story = found("kill", tmp_path, 80)
    assert story["wrong"] == []
    assert story["kills"] == 80
    assert story["additions"] > 20, story


def test_a_fold_killed_at_random_moments_is_recognised_and_finished(tmp_path: Path) -> None:
    story = found("fold", tmp_path, 10)
    assert story["wrong"] == []
    assert story["kills"] == 10


def test_readers_see_whole_additions_while_one_process_adds(tmp_path: Path) -> None:
    story = found("read", tmp_path, 150)
    assert story["wrong"] == []
    assert story["code"] == 0
    assert story["looks"] > 3, story
