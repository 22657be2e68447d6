"""What a result file says of where it comes from."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from decentrl.data.alignment_task import AlignmentTask
from studies import measure as module
from studies.run import Run


def test_the_commit_is_never_that_of_somebody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A package that is installed inside the checkout of another project is not part of it."""
    monkeypatch.setenv("DECENTRL_COMMIT", "abc1234")
    installed = tmp_path / "measure.py"
    installed.touch()
    git = ["git", "-C", str(tmp_path), "-c", "user.name=x", "-c", "user.email=x@y.z"]
    try:
        subprocess.run([*git, "init", "-q"], check=True)
        subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "theirs"], check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("there is no git")
    monkeypatch.setattr(module, "__file__", str(installed))
    assert module.commit() == "abc1234"
    subprocess.run([*git, "add", "measure.py"], check=True)
    assert module.commit() not in ("", "abc1234")


def test_a_run_reads_the_split_that_it_names() -> None:
    run = Run("alignment", "world", "quick", unseen=0.2)
    tasks = [module.read(replace(run, split=split)) for split in (0, 1, 1, 2)]
    hashes = [task.content_hash() for task in tasks]
    assert hashes[1] == hashes[2]
    assert len(set(hashes)) == 3
    new = [task.unknown for task in tasks if isinstance(task, AlignmentTask)]
    assert len({int(mask.sum()) for mask in new}) == 1  # as many, but others
    assert (new[1] != new[3]).any()
