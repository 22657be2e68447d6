"""What was acknowledged is there after kill -9, and nothing half is; readers see whole additions.

This holds for a run that adds, compacts and refreshes, and for the store alone, of which many more
kills fall into a write.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest


@pytest.mark.trials(12, 400)
def test_a_run_killed_again_and_again_while_it_grows(
    growing: dict[str, Path], trials: int, script: Any, tally: Any, tmp_path: Path
) -> None:
    attack = tally("kill -9 while a run adds, compacts or refreshes")
    story = script("kill_growing.py", "kill", growing["run"], tmp_path, trials, growing["later"])
    attack.take(story)
    assert story["trials"] == trials
    assert attack.clean, story


@pytest.mark.skipif(not shutil.which("flock"), reason="no flock, which the recipe takes")
@pytest.mark.trials(8, 100)
def test_a_run_copied_while_it_grows(
    growing: dict[str, Path], trials: int, script: Any, tally: Any, tmp_path: Path
) -> None:
    attack = tally("copies of a run while another process adds")
    story = script("kill_growing.py", "copy", growing["run"], tmp_path, trials, growing["later"])
    attack.take(story)
    assert attack.clean, story


@pytest.mark.trials(20, 250)
def test_a_store_killed_while_it_adds(trials: int, script: Any, tally: Any, tmp_path: Path) -> None:
    attack = tally("kill -9 while a store adds")
    story = script("kill_store.py", "kill", tmp_path, trials)
    attack.take(story)
    assert story["trials"] == trials
    assert story["additions"] > trials / 10, story
    assert attack.clean, story


@pytest.mark.trials(15, 250)
def test_a_store_killed_while_it_takes_decisions(
    trials: int, script: Any, tally: Any, tmp_path: Path
) -> None:
    attack = tally("kill -9 while a store takes decisions")
    story = script("kill_store.py", "decide", tmp_path, trials)
    attack.take(story)
    assert story["trials"] == trials
    assert story["decisions"] > trials / 10, story
    assert attack.clean, story


@pytest.mark.trials(10, 100)
def test_a_store_killed_while_it_folds_is_recognised_and_finished(
    trials: int, script: Any, tally: Any, tmp_path: Path
) -> None:
    attack = tally("kill -9 while a store is compacted")
    story = script("kill_store.py", "fold", tmp_path, trials)
    attack.take(story)
    assert story["trials"] == trials
    assert attack.clean, story


@pytest.mark.trials(150, 1000)
def test_readers_see_whole_additions_while_one_process_adds(
    trials: int, script: Any, tally: Any, tmp_path: Path
) -> None:
    attack = tally("reads while a store adds")
    story = script("kill_store.py", "read", tmp_path, trials)
    attack.take(story)
    assert story["code"] == 0
    assert story["trials"] > 3, story
    assert attack.clean, story
