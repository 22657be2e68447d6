"""Names and attributes on the command line: where they come from, and that they stay."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from decentrl.runs.run import read_settings

Command = Callable[..., Any]
QUICK = ("--preset", "tiny", "--set", "model.dim=8", "--set", "training.epochs=2")
LEFT, RIGHT = "http://left.org/", "http://right.org/e/"


@pytest.fixture
def files(twin_files: dict[str, Path]) -> tuple[object, ...]:
    return (twin_files["left"], twin_files["right"], "--links", twin_files["links"], *QUICK)


@pytest.fixture
def names(tmp_path: Path) -> Path:
    file = tmp_path / "names.tsv"
    rows = [f"{LEFT}{i}\tThing {i}\ten\n{LEFT}{i}\tDing {i}\tde\n" for i in range(30)]
    file.write_text("".join(rows) + f"{LEFT}elsewhere\tElse\n".replace("\n", "\t\n"), "utf-8")
    return file


def test_names_and_attributes_of_files_are_read_and_counted(
    decentrl: Command, files: tuple[object, ...], names: Path, tmp_path: Path
) -> None:
    said = tmp_path / "said.csv"
    said.write_text(f"entity,attribute,value\n{RIGHT}1,age,7\n", "utf-8")
    run = tmp_path / "run"
    given = ("--left-names", names, "--right-names", "ids", "--right-attributes", said)
    done = decentrl("align", *files, *given, "-o", run)
    assert (done.code, done.err) == (0, "")
    counts = "left: 60 names, 0 attribute values; 1 of what is in no triple left out\n"
    assert f"\n{counts}right: 40 names, 1 attribute value\n" in done.out
    sources, _ = read_settings(run)
    assert (sources.left_names, sources.right_names) == (str(names), "ids")
    done = decentrl("align", *files, "--left-names", names, "--resume", "-o", run)
    assert done.err.startswith("error:")
    assert "this run is finished" in done.err


def test_an_interrupted_run_goes_on_with_its_names(
    decentrl: Command,
    files: tuple[object, ...],
    names: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = tmp_path / "run"
    monkeypatch.chdir(tmp_path)
    done = decentrl("align", *files, "--left-names", names.name, "--names", "ids", "-o", run)
    assert done.code == 0
    (run / "results.json").unlink()
    shutil.rmtree(run / "bundle")
    monkeypatch.chdir("/")
    done = decentrl("align", "--names", "none", "--resume", "-o", run)
    assert "was not begun with --names none" in done.err
    done = decentrl("align", "--resume", "-o", run)
    assert done.code == 0, done.err
    assert "left: 60 names, 0 attribute values; 1 of" in done.out
    names.write_text(f"{LEFT}1\tchanged\n", "utf-8")
    (run / "results.json").unlink()
    done = decentrl("align", "--resume", "-o", run)
    assert "the input has changed since this run began" in done.err


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (("--names", "nonsense"), "no names 'nonsense'; there are: ids, none, translated"),
        (("--names", "translated"), "--names translated is about a dataset"),
        (("--left-names", "nowhere.tsv"), "nowhere.tsv: there is no such file"),
    ],
)
def test_what_is_no_names_is_one_line(
    decentrl: Command, files: tuple[object, ...], tmp_path: Path, given: tuple[str, ...], says: str
) -> None:
    done = decentrl("align", *files, *given, "-o", tmp_path / "run")
    assert done.code == 2
    assert says in done.err
    assert done.err.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_world_has_no_translated_names(decentrl: Command, tmp_path: Path) -> None:
    asked = ("--dataset", "world", "--names", "translated", *QUICK)
    done = decentrl("align", *asked, "-o", tmp_path / "run")
    assert "this dataset has no translated names; leave out `--names translated`" in done.err
