"""``decentrl match``: for people, for pipes, for files."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from decentrl.aligner import Aligner

Command = Callable[..., Any]


def test_without_a_name_all_that_no_link_names_are_matched(
    decentrl: Command, world_run: Path
) -> None:
    done = decentrl("match", world_run)
    assert (done.code, done.err) == (0, "")
    rows = [line.split("\t") for line in done.out.splitlines()]
    table = pq.read_table(world_run / "matches.parquet").to_pylist()
    assert [row[:3] for row in rows] == [[x["left"], x["right"], str(x["rank"])] for x in table]
    for place, name in ((3, "score"), (4, "confidence")):
        expected = [x[name] for x in table]
        assert [float(row[place]) for row in rows] == pytest.approx(expected, abs=1e-6)


def test_json_holds_what_python_gives(decentrl: Command, world_run: Path) -> None:
    aligner = Aligner.load(world_run)
    for arguments, asked in (
        (["Albanie", "Afghanistan"], {"top": 3}),
        (["Albania"], {"top": 2, "side": "right"}),
        (["Albanie"], {"matcher": "sinkhorn"}),
        (["Albanie", "Afghanistan"], {"assign": "mutual"}),
        (["Albanie", "Afghanistan"], {"assign": "one-to-one", "side": "left"}),
        (["Albania"], {"min-confidence": "0.01", "side": "right"}),
    ):
        options = [part for name, value in asked.items() for part in (f"--{name}", value)]
        done = decentrl("match", world_run, *arguments, *options, "--json")
        if "min-confidence" in asked:
            asked = {"side": asked["side"], "min_confidence": 0.01}
        expected = aligner.match(arguments, **asked).to_pylist()  # type: ignore[arg-type]
        assert json.loads(done.out) == expected
        assert done.err == ""


def median_confidence(run: Path) -> float:
    sure = sorted(pq.read_table(run / "matches.parquet")["confidence"].to_pylist())
    assert sure[0] < sure[len(sure) // 2], "choose a run that is surer of some than of others"
    return float(sure[len(sure) // 2])


def test_json_says_null_where_there_is_no_match(decentrl: Command, world_run: Path) -> None:
    least = median_confidence(world_run)
    done = decentrl("match", world_run, "--min-confidence", least, "--json")
    rows = json.loads(done.out)
    for row, before in zip(
        rows, pq.read_table(world_run / "matches.parquet").to_pylist(), strict=True
    ):
        if before["confidence"] >= least:
            assert row == before
        else:
            assert row == {**before, "right": None, "score": None, "right_name": None}
    assert {row["right"] is None for row in rows} == {True, False}
    mutual = json.loads(decentrl("match", world_run, "--assign", "mutual", "--json").out)
    nothing = {"right": None, "rank": 1, "score": None, "confidence": None}
    lonely = [row for row in mutual if row["right"] is None]
    assert 0 < len(lonely) < len(mutual) == len(rows)
    nothing["right_name"] = None
    assert all(row == {**row, **nothing} for row in lonely)


def test_abstaining_is_for_the_confidence_that_validation_links_chose(
    decentrl: Command, world_run: Path
) -> None:
    threshold = Aligner.load(world_run).confidence()["threshold"]
    by_name = decentrl("match", world_run, "--abstain", "--json").out
    assert by_name == decentrl("match", world_run, "--min-confidence", threshold, "--json").out
    assert None in [row["right"] for row in json.loads(by_name)]


def test_pipes_get_an_empty_field_where_there_is_no_match(
    decentrl: Command, world_run: Path
) -> None:
    done = decentrl("match", world_run, "--assign", "mutual")
    rows = [line.split("\t") for line in done.out.splitlines()]
    assert {len(row) for row in rows} == {7}
    lonely = [row for row in rows if not row[1]]
    assert 0 < len(lonely) < len(rows)
    assert all([*row[1:5], row[6]] == ["", "1", "", "", ""] for row in lonely)


@pytest.mark.parametrize("name", ["m.tsv", "m.parquet", "m.nt"])
def test_files_say_how_many_have_no_match(
    decentrl: Command, world_run: Path, tmp_path: Path, name: str
) -> None:
    done = decentrl("match", world_run, "--assign", "one-to-one", "-o", tmp_path / name)
    table = Aligner.load(world_run).match(assign="one-to-one")
    none = table["right"].null_count
    assert 0 < none < 1579
    assert done.err == (
        f"{tmp_path / name}: {1579 - none:,} matches, {none:,} entities without one\n"
    )
    if name == "m.parquet":
        assert table.equals(pq.read_table(tmp_path / name))
    else:
        lines = (tmp_path / name).read_text("utf-8").splitlines()
        assert len(lines) == (1 + 1579 if name == "m.tsv" else 1579 - none)


def test_other_tools_get_sssom_and_the_alignment_format(
    decentrl: Command, world_run: Path, tmp_path: Path
) -> None:
    least = median_confidence(world_run)
    none = sum(
        x < least for x in pq.read_table(world_run / "matches.parquet")["confidence"].to_pylist()
    )
    for name in ("m.sssom.tsv", "m.rdf"):
        done = decentrl("match", world_run, "--min-confidence", least, "-o", tmp_path / name)
        found = f"{1579 - none:,} matches, {none:,} entities without one"
        assert done.err == f"{tmp_path / name}: {found}\n"
    rows = [x for x in (tmp_path / "m.sssom.tsv").read_text().splitlines() if x[0] != "#"][1:]
    assert len(rows) == 1579
    assert sum("\tsssom:NoTermFound\t" in row for row in rows) == none
    assert (tmp_path / "m.rdf").read_text().count("<Cell>") == 1579 - none
    done = decentrl("predict", world_run, "--batch", "x.tsv", "-o", tmp_path / "a.sssom.tsv")
    assert done.err.endswith("cannot write .sssom.tsv; use .tsv, .parquet\n")


def test_people_see_who_has_none(
    decentrl: Command, world_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    rows = json.loads(decentrl("match", world_run, "--assign", "mutual", "--json").out)
    lonely = next(row["left"] for row in rows if row["right"] is None)
    done = decentrl("match", world_run, lonely, "--min-confidence", "1")
    assert "confidence" in done.out
    assert lonely in done.out
    assert "none" in done.out


def test_people_see_the_first_of_many(
    decentrl: Command, world_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    done = decentrl("match", world_run)
    assert "… and 1,529 more: write them with -o matches.tsv" in done.out
    # A confidence is a share; files and JSON have it as a fraction.
    first = json.loads(decentrl("match", world_run, "--json").out)[0]
    assert re.search(rf"{first['score']:.4f} +{first['confidence']:.1%}", done.out)
    assert done.out.count("\n") < 120


@pytest.mark.parametrize("name", ["m.tsv", "m.parquet", "m.nt"])
def test_files_say_what_was_asked_for(
    decentrl: Command, world_run: Path, tmp_path: Path, name: str
) -> None:
    done = decentrl("match", world_run, "-o", tmp_path / name)
    assert (done.code, done.out) == (0, "")
    assert done.err == f"{tmp_path / name}: 1,579 matches\n"
    assert [path.name for path in tmp_path.iterdir()] == [name]
    table = pq.read_table(world_run / "matches.parquet")
    if name == "m.parquet":
        assert table.equals(pq.read_table(tmp_path / name))
    else:
        lines = (tmp_path / name).read_text("utf-8").splitlines()
        assert len(lines) == 1579 + (name == "m.tsv")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["Albani"], "the label 'Albani' is unknown; did you mean 'Albanie'"),
        (
            ["Albania"],
            "the label 'Albania' is unknown in this graph; it is in the right one: ask for",
        ),
        (["--side", "up"], "no side 'up'; there are: left, right"),
        (["--matcher", "best"], "no matcher 'best'; there are: cosine, csls, sinkhorn"),
        (["-o", "m.xlsx"], "m.xlsx: cannot write .xlsx; use .tsv, .parquet, .nt"),
        (["-o", "m"], "m: cannot write a file without an extension"),
        (["-o", "m.nt", "--top", "2"], "only the best matches can be written there; use --top 1"),
        (["-o", "absent/m.tsv"], "absent: no such folder; make it first"),
        (["-o", "folder.tsv"], "folder.tsv: this is a folder; name a file"),
        (["--device", "abacus"], "no device 'abacus'"),
        (["--assign", "best"], "no assignment 'best'; there are: nearest, mutual, one-to-one"),
        (["--assign", "mutual", "--top", "2"], "mutual assignment has one match for each; use "),
        (["--assign", "one-to-one", "--top", "2"], "one-to-one assignment has one match for each"),
        (
            ["--abstain", "--min-confidence", "0.5"],
            "give either --abstain or --min-confidence, not both",
        ),
        (["--abstain", "--matcher", "cosine"], "no confidence was learned for these matches"),
        (
            ["--min-confidence", "0.5", "--matcher", "cosine"],
            "no confidence was learned for these matches",
        ),
    ],
)
def test_mistakes_are_one_line_and_no_file(
    decentrl: Command,
    world_run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: list[str],
    says: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.tsv").mkdir()
    done = decentrl("match", world_run, *options)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"error: {says}")
    assert done.err.count("\n") == 1
    assert [path.name for path in tmp_path.rglob("*")] == ["folder.tsv"]


@pytest.mark.parametrize("least", ["-0.1", "1.5", "nan"])
def test_an_impossible_confidence_is_one_line(
    decentrl: Command, world_run: Path, least: str
) -> None:
    done = decentrl("match", world_run, "--min-confidence", least)
    assert done.err == f"error: --min-confidence is {least}; it must be between 0 and 1\n"


@pytest.mark.parametrize("least", ["-0.1", "1.5", "much"])
def test_a_confidence_that_cannot_be_is_refused(
    decentrl: Command, world_run: Path, least: str
) -> None:
    done = decentrl("match", world_run, "--min-confidence", least)
    assert (done.code, done.out) == (2, "")
    assert "--min-confidence" in done.err


def test_a_reader_that_has_enough_ends_the_command_quietly(world_run: Path) -> None:
    code = "import sys; from decentrl.cli import main; main()"
    with subprocess.Popen(
        [sys.executable, "-c", code, "match", str(world_run), "--top", "50"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode in (0, 1)
