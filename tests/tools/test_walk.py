"""The pages that a newcomer walks through print what they show."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tools.walk import alike, missing, steps

ROOT = Path(__file__).parents[2]
NEW = "New Land\tborders\tFrance\nNew Land\tborders\tBelgium\n"


def walk(page: str, decentrl: Callable[..., Any]) -> None:
    """Run all commands of a page in the working folder, in this process."""
    for step in steps((ROOT / "docs" / page).read_text("utf-8")):
        program, *arguments = step.words
        if program == "python":
            runpy.run_path(str(ROOT / arguments[0]), run_name="__main__")
            continue
        assert program == "decentrl"
        done = decentrl(*arguments)
        assert done.code == 0, done.err
        assert missing(step.shown, done.err + done.out) == [], (step.words, done.out)


def has_review() -> bool:
    from decentrl.cli.commands import app

    return any(x.callback and x.callback.__name__ == "review" for x in app.registered_commands)


@pytest.mark.slow
def test_the_first_hour(
    decentrl: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_review():
        pytest.skip("this version has no `decentrl review`")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["catalogues.py"])
    walk("first-hour.md", decentrl)


def test_the_first_hour_fits_on_a_page() -> None:
    assert len((ROOT / "docs/first-hour.md").read_text("utf-8").splitlines()) <= 60


@pytest.mark.slow
def test_the_tutorial_of_completion(
    decentrl: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert f"```tsv\n{NEW}```" in (ROOT / "docs/tutorial-completion.md").read_text("utf-8")
    (tmp_path / "new.tsv").write_text(NEW)
    walk("tutorial-completion.md", decentrl)


def test_what_a_page_shows_is_compared() -> None:
    first_block = '```\n$ decentrl x "y z"\none 2 of 0.50\n…\n$ decentrl b\nwhole\n```\n'
    page = f"a\n{first_block}```tsv\n$ no\n```\n"
    first, second = steps(page)
    assert (first.words, first.shown) == (["decentrl", "x", "y z"], ["one 2 of 0.50", "…"])
    assert missing(first.shown, "more\none  2 of 0.57\n") == []
    assert missing(first.shown, "one 3 of 0.50") == ["one 2 of 0.50"]
    assert missing(first.shown, "one 2 of 0.70") == ["one 2 of 0.50"]
    assert missing(second.shown, "whole\nand more\n") == ["not on the page: and more"]
    assert missing(["a", "a", "…"], "a\n") == ["a"]
    assert alike("x … z", "x 1 and 2.5 z")
    assert not alike("x … z", "x 1")
