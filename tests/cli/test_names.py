"""Names and attributes on the command line: where they come from, and that they stay."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
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
        (
            ("--names", "nonsense"),
            "no names 'nonsense'; there are: ids, none, translated, ids+translated",
        ),
        (("--names", "translated"), "--names translated is about a dataset"),
        (("--names", "ids+translated"), "--names ids+translated is about a dataset"),
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


# What a run with names answers

HTML = "<img src=x onerror=alert(1)>"
ODD = {
    0: "Zero & Sons",
    1: HTML,
    2: "مدينة \u202eabc",
    3: "👩‍👩‍👧",
    4: "red [bold]x[/bold] \x1b[31m",
    **dict.fromkeys(range(5, 12), "twin"),
}


@pytest.fixture(scope="module")
def named(twin_files: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose left graph has names, some of them odd; nobody writes to it."""
    from typer.testing import CliRunner

    from decentrl.cli.commands import app

    folder = tmp_path_factory.mktemp("named")
    names = folder / "names.tsv"
    rows = [f"{LEFT}{i}\t{ODD.get(i, f'Thing {i}')}\ten\n" for i in range(38)]
    names.write_text("".join(rows) + f"{LEFT}3\tFamille\tfr\n{LEFT}38\t\tfr\n", "utf-8")
    asked = ["align", str(twin_files["left"]), str(twin_files["right"]), *QUICK]
    asked += ["--links", str(twin_files["links"]), "--left-names", str(names)]
    done = CliRunner().invoke(app, [*asked, "-o", str(folder / "run")], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return folder / "run"


def test_an_entity_is_asked_for_by_its_name(decentrl: Command, named: Path) -> None:
    one, other = (decentrl("match", named, who, "--json") for who in ("zero & sons", f"{LEFT}0"))
    assert one.code == 0, one.err
    assert one.out == other.out
    assert json.loads(one.out)[0]["left_name"] == "Zero & Sons"
    assert "right_name" not in json.loads(one.out)[0]
    for command in ("neighbours", "explain"):
        one, other = (decentrl(command, named, who, "--json") for who in ("Famille", f"{LEFT}3"))
        assert json.loads(one.out) == json.loads(other.out)
    done = decentrl("match", named, "Twin")
    assert done.err.startswith("error: 7 entities are called 'Twin'; give an identifier: 'http://l")
    assert done.err.count("\n") == 1
    assert "did you mean 'Famille'" in decentrl("match", named, "Famile").err


def test_the_language_is_chosen(decentrl: Command, named: Path) -> None:
    for language, name in (("fr", "Famille"), ("en", ODD[3]), ("sw", ODD[3])):
        done = decentrl("match", named, "Famille", "--language", language, "--json")
        assert json.loads(done.out)[0]["left_name"] == name


def test_every_output_escapes_names(decentrl: Command, named: Path, tmp_path: Path) -> None:
    written = {}
    for ending in (".tsv", ".parquet", ".nt"):
        output = tmp_path / f"matches{ending}"
        done = decentrl("match", named, "-o", output)
        assert done.code == 0, done.err
        written[ending] = output
    rows = pq.read_table(written[".parquet"]).to_pylist()
    assert {row["left_name"] for row in rows} >= {"twin", "Thing 12"}
    lines = written[".tsv"].read_text("utf-8").splitlines()
    assert lines[0].split("\t")[-1] == "left_name"
    assert [line.split("\t")[-1] for line in lines[1:]] == [x["left_name"] or "" for x in rows]
    assert "onerror" not in written[".nt"].read_text("utf-8")
    every = decentrl("match", named, *(f"{LEFT}{i}" for i in range(6)), "--json")
    assert "\x1b" not in every.out
    assert {x["left_name"] for x in json.loads(every.out)} >= {HTML, "red [bold]x[/bold] [31m"}


def test_the_report_shows_names_and_escapes_them(
    decentrl: Command, twin_files: dict[str, Path], tmp_path: Path
) -> None:
    names = tmp_path / "names.tsv"
    names.write_text("".join(f"{LEFT}{i}\t{HTML}{i}\n" for i in range(40)), "utf-8")
    asked = (twin_files["left"], twin_files["right"], "--links", twin_files["links"], *QUICK)
    done = decentrl("align", *asked, "--left-names", names, "-o", tmp_path / "run")
    assert f"{HTML}" in done.out.replace("\n", " ") or "<img" in done.out
    page = (tmp_path / "run" / "report.html").read_text("utf-8")
    assert "<img" not in page
    assert "&lt;img src=x onerror=alert(1)&gt;" in page
    assert f'title="{LEFT}' in page


def test_a_predictor_answers_with_names(
    decentrl: Command, people_file: Path, tmp_path: Path
) -> None:
    names, run = tmp_path / "names.csv", tmp_path / "run"
    rows = [f"person {i},Person No. {i},en" for i in range(32)]
    names.write_text("entity,name,language\n" + "\n".join(rows) + "\n", "utf-8")
    few = ("--preset", "quick", "--set", "model.dim=8", "--set", "decoder.dim=8")
    done = decentrl(
        "complete", people_file, *few, "--set", "training.epochs=2", "--names", names, "-o", run
    )
    assert done.code == 0, done.err
    assert "\n32 names, 0 attribute values\n" in done.out
    asked = ("predict", run, "--head", "person no. 3", "--relation", "knows", "--json")
    answers = json.loads(decentrl(*asked).out)
    assert {(x["head"], x["head_name"]) for x in answers} == {("person 3", "Person No. 3")}
    assert any(x["tail_name"] for x in answers)
    batch = tmp_path / "q.tsv"
    batch.write_text("Person No. 3\tknows\t?\n", "utf-8")
    assert json.loads(decentrl("predict", run, "--batch", batch, "--json").out) == answers
    found = json.loads(decentrl("neighbours", run, "Person No. 3", "--json").out)
    assert "entity_name" in found[0]
    more = tmp_path / "more.tsv"
    more.write_text("person x\tknows\tperson 3\n", "utf-8")
    named = tmp_path / "more-names.tsv"
    named.write_text("person x\tXenia\n", "utf-8")
    done = decentrl("add", run, more, "--names", named)
    assert "  names: 1, attribute values: 0\n" in done.out, done.err
    assert json.loads(decentrl("neighbours", run, "Xenia", "--json").out)
    new = tmp_path / "new"
    assert decentrl("refit", run, "--share", "0.5", "-o", new).code == 0
    assert json.loads(decentrl("neighbours", new, "Xenia", "--json").out)


def test_a_terminal_shows_names_with_identifiers_and_obeys_none(
    decentrl: Command, named: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    labels = [f"{LEFT}{i}" for i in range(5)]
    done = decentrl("match", named, *labels, "--language", "fr")
    assert f"Famille <{LEFT}3>" in done.out
    assert f"red [bold]x[/bold] [31m <{LEFT}4>" in done.out
    assert "left_name" not in done.out
    assert "\x1b[31m" not in done.out
    assert "\u202e" not in done.out
