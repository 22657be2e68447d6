"""The command refuses to train what it could not keep."""

from __future__ import annotations

from pathlib import Path

import pytest

from decentrl.errors import InputError
from studies import __main__ as module
from studies import execute, source_tree


@pytest.fixture(autouse=True)
def uncommitted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tree with uncommitted changes, all data files, and workers that must not be started."""

    def started(*_: object) -> None:
        raise AssertionError("a worker was started")

    monkeypatch.setattr(source_tree, "commit", lambda: "abc1234+")
    monkeypatch.setattr(module, "_check_data", lambda runs: None)
    monkeypatch.setattr(execute, "Worker", started)


def test_an_uncommitted_tree_trains_nothing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="only from a committed tree"):
        module.reproduce(["datasets"], output=tmp_path / "results", site=tmp_path / "site")
    assert not list(tmp_path.iterdir())


def test_quick_results_do_not_go_among_those_that_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RESULTS", tmp_path / "kept")
    with pytest.raises(InputError, match="only from a committed tree"):
        module.reproduce(["datasets"], quick=True, output=tmp_path / "kept", site=tmp_path / "site")
    with pytest.raises(AssertionError, match="a worker was started"):
        module.reproduce(["datasets"], quick=True, output=tmp_path / "q", site=tmp_path / "site")


def test_pages_are_made_from_any_tree(tmp_path: Path) -> None:
    module.reproduce(["datasets"], budget=0, output=tmp_path / "results", site=tmp_path / "site")
    assert "not run" in (tmp_path / "site/datasets.md").read_text("utf-8")
