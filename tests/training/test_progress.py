"""A bar in a terminal and in a notebook, and nothing elsewhere."""

from __future__ import annotations

import io
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from decentrl.training.progress import describe, progress_bar

ROWS: list[dict[str, Any]] = [
    {"epoch": 1, "loss": 2.5, "seconds": 0.1},
    {"epoch": 2, "loss": 1.25, "valid_mrr": 0.75, "seconds": 0.1},
    {"epoch": 3, "loss": 1.0, "seconds": 0.1},
]


class Screen(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        return True


def run(progress: bool | None = None) -> list[dict[str, Any]]:
    seen: list[dict[str, Any]] = []
    with progress_bar(3, progress, seen.append) as on_epoch:
        for row in ROWS:
            on_epoch(row)
    return seen


def test_a_terminal_shows_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", screen := Screen())
    assert run() == ROWS
    assert "training" in screen.getvalue()
    assert "3/3" in screen.getvalue()
    assert "loss 1  valid mrr 0.750" in screen.getvalue()
    screen.truncate(0)
    assert run(progress=False) == ROWS
    assert screen.getvalue() == ""


def test_elsewhere_it_is_silent(capsys: pytest.CaptureFixture[str]) -> None:
    assert run() == ROWS
    assert capsys.readouterr() == ("", "")


def test_a_notebook_updates_one_display(monkeypatch: pytest.MonkeyPatch) -> None:
    pages: list[str] = []
    display = SimpleNamespace(
        HTML=str, display=lambda page, display_id: pages.append(page) or handle
    )
    handle = SimpleNamespace(update=pages.append)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(display=display))
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    assert Console().is_jupyter
    assert run() == ROWS
    assert [page.partition("</progress>")[2].strip() for page in pages] == [
        "0/3",
        "1/3  loss 2.5",
        "2/3  loss 1.25  valid mrr 0.750",
        "3/3  loss 1  valid mrr 0.750",
    ]
    assert 'value="3" max="3"' in pages[-1]


def test_epochs_are_described_by_what_they_have() -> None:
    assert [describe(row) for row in ({}, *ROWS)] == [
        "",
        "loss 2.5",
        "loss 1.25  valid mrr 0.750",
        "loss 1",
    ]
