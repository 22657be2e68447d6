"""What a large alignment will take is said before training, and a disk too small is an error."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from decentrl.cli import course
from decentrl.config import Config
from decentrl.config.memory import VARIABLE
from decentrl.data.registry import load_dataset
from decentrl.errors import InputError


def said(folder: Path) -> str:
    console = Console(file=io.StringIO(), width=200)
    course._announce_needs(console, Config.from_preset("quick"), load_dataset("world"), folder)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_little_is_not_worth_a_line(tmp_path: Path) -> None:
    assert said(tmp_path / "run") == ""


def test_much_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(course, "WORTH_SAYING", 0)
    monkeypatch.setenv(VARIABLE, "8")
    assert said(tmp_path / "a" / "run").startswith("this takes about 0.")
    assert "may fail" not in said(tmp_path / "run")
    monkeypatch.setenv(VARIABLE, "0.1")
    assert "0.1 GB of memory may be used, so it may fail" in said(tmp_path / "run")


def test_a_full_disk_is_an_error_before_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(course, "WORTH_SAYING", 0)
    monkeypatch.setattr(course, "disk_usage", lambda place: SimpleNamespace(free=1000))
    with pytest.raises(InputError, match=r"the run takes about .* GB, and 0.0 GB are free"):
        said(tmp_path / "run")
