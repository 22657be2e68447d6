"""``decentrl match``: for people, for pipes, for files."""

from __future__ import annotations

import json
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
    assert [float(row[3]) for row in rows] == pytest.approx([x["score"] for x in table], abs=1e-6)


def test_json_holds_what_python_gives(decentrl: Command, world_run: Path) -> None:
    aligner = Aligner.load(world_run)
    for arguments, asked in (
        (["Albanie", "Afghanistan"], {"top": 3}),
        (["Albania"], {"top": 2, "side": "right"}),
        (["Albanie"], {"matcher": "sinkhorn"}),
    ):
        options = [part for name, value in asked.items() for part in (f"--{name}", value)]
        done = decentrl("match", world_run, *arguments, *options, "--json")
        expected = aligner.match(arguments, **asked).to_pylist()  # type: ignore[arg-type]
        assert json.loads(done.out) == [
            {**row, "score": pytest.approx(row["score"])} for row in expected
        ]
        assert done.err == ""


def test_people_see_the_first_of_many(
    decentrl: Command, world_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    done = decentrl("match", world_run)
    assert "… and 1,529 more: write them with -o matches.tsv" in done.out
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
        assert pq.read_table(tmp_path / name).equals(table)
    else:
        lines = (tmp_path / name).read_text("utf-8").splitlines()
        assert len(lines) == 1579 + (name == "m.tsv")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["Albani"], "the label 'Albani' is unknown; did you mean 'Albanie'"),
        (["Albania"], "the label 'Albania' is unknown; did you mean 'Albanie'"),
        (["--side", "up"], "no side 'up'; there are: left, right"),
        (["--matcher", "best"], "no matcher 'best'; there are: cosine, csls, sinkhorn"),
        (["-o", "m.xlsx"], "m.xlsx: cannot write .xlsx; use .tsv, .parquet, .nt"),
        (["-o", "m"], "m: cannot write a file without an extension"),
        (["-o", "m.nt", "--top", "2"], "owl:sameAs is for the best match alone; use --top 1"),
        (["-o", "absent/m.tsv"], "absent: no such folder; make it first"),
        (["-o", "folder.tsv"], "folder.tsv: this is a folder; name a file"),
        (["--device", "abacus"], "no device 'abacus'"),
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
