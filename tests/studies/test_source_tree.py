"""A result names the commit of the source tree, and whether the tree differs from it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from studies import source_tree as module


@pytest.fixture
def git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A repository of one empty commit, in which the module seems to lie, not yet tracked."""
    folder = tmp_path / "studies"
    folder.mkdir()
    (folder / "source_tree.py").write_text("first", "utf-8")
    words = ["git", "-C", str(tmp_path), "-c", "user.name=x", "-c", "user.email=x@y.z"]
    try:
        subprocess.run([*words, "init", "-q"], check=True)
        subprocess.run([*words, "commit", "-q", "--allow-empty", "-m", "theirs"], check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("there is no git")
    monkeypatch.setattr(module, "__file__", str(folder / "source_tree.py"))
    return words


def test_a_checkout_of_another_project_gives_no_commit(git: list[str]) -> None:
    assert module.commit() == ""


def test_changed_tracked_files_are_marked(git: list[str], tmp_path: Path) -> None:
    outputs = [tmp_path / "docs/results/a.md", tmp_path / "results/b.json"]
    for path in outputs:
        path.parent.mkdir(parents=True)
        path.write_text("first", "utf-8")
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "ours"], check=True)
    clean = module.commit()
    assert len(clean) >= 4
    assert not clean.endswith("+")
    module.check_committed(clean)

    (tmp_path / "untracked.py").touch()
    for path in outputs:  # the studies write these themselves
        path.write_text("second", "utf-8")
    assert module.commit() == clean
    (tmp_path / "studies/source_tree.py").write_text("second", "utf-8")
    assert module.commit() == f"{clean}+"
    subprocess.run([*git, "add", "."], check=True)
    assert module.commit() == f"{clean}+"
