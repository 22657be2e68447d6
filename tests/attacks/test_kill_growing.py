"""What was acknowledged is there after kill -9, and nothing half is; readers see whole additions.

This holds for a run that adds, compacts and refreshes, and for the store alone, of which many more
kills fall into a write.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


@pytest.mark.trials(12, 400)
def test_a_run_killed_again_and_again_while_it_grows(
    growing: dict[str, Path], trials: int, script: Any, tally: Any, tmp_path: Path
) -> None:
    attack = tally("kill -9 while a run adds, compacts or refreshes")
    story = script("kill_growing.py", growing["run"], tmp_path, trials, growing["later"])
    attack.trials, attack.lost, attack.silent = story["kills"], story["lost"], len(story["wrong"])
    assert story["kills"] == trials
    assert attack.clean, story


@pytest.mark.trials(20, 250)
def test_a_store_killed_while_it_adds(trials: int, script: Any, tally: Any, tmp_path: Path) -> None:
    attack = tally("kill -9 while a store adds")
    story = script("kill_store.py", "kill", tmp_path, trials)
    attack.trials, attack.lost, attack.silent = story["kills"], story["lost"], len(story["wrong"])
    assert story["kills"] == trials
    assert story["additions"] > trials / 10, story
    assert attack.clean, story


@pytest.mark.trials(10, 100)
def test_a_store_killed_while_it_folds_is_recognised_and_finished(
    trials: int, script: Any, tally: Any, tmp_path: Path
) -> None:
    attack = tally("kill -9 while a store is compacted")
    story = script("kill_store.py", "fold", tmp_path, trials)
    attack.trials, attack.lost, attack.silent = story["kills"], story["lost"], len(story["wrong"])
    assert story["kills"] == trials
    assert attack.clean, story


@pytest.mark.trials(150, 1000)
def test_readers_see_whole_additions_while_one_process_adds(
    trials: int, script: Any, tally: Any, tmp_path: Path
) -> None:
    attack = tally("reads while a store adds")
    story = script("kill_store.py", "read", tmp_path, trials)
    attack.trials, attack.silent = story["looks"], len(story["wrong"])
    assert story["code"] == 0
    assert story["looks"] > 3, story
    assert attack.clean, story
