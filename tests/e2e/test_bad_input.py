"""Whatever is wrong: one line on stderr, exit code 2, no traceback, nothing left behind."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

Command = Callable[..., Any]
GOOD = b"a\tr\tb\nb\tr\tc\nc\ts\ta\nd\tr\ta\n"
LINKS = b"a\tA\nb\tB\nc\tC\n"
FILES = {"left.tsv": GOOD, "right.tsv": GOOD.upper(), "links.tsv": LINKS, "one.tsv": b"a\tA\n"}
ALIGN = ["align", "left.tsv", "right.tsv", "--links", "links.tsv", "--preset", "tiny", "-o", "run"]


def swap(old: str, new: str) -> list[str]:
    return [new if part == old else part for part in ALIGN]


# what is wrong: files beside the good ones, the command, what it says
BAD: dict[str, tuple[dict[str, bytes], list[str], str]] = {
    "a malformed line": (
        {"bad.tsv": GOOD + b"a b c\n"},
        swap("left.tsv", "bad.tsv"),
        "bad.tsv:5: 1 column(s), but 3 are needed; give 3 columns",
    ),
    "columns too many": (
        {"bad.csv": b"a,r,b\na,r,b,c\n"},
        swap("right.tsv", "bad.csv"),
        "bad.csv:2: 4 column(s), but 3 are needed",
    ),
    "three columns of links": (
        {"bad.tsv": b"a\tsame\tA\n"},
        swap("links.tsv", "bad.tsv"),
        "bad.tsv:1: 3 column(s), but 2 are needed",
    ),
    "another encoding": (
        {"bad.tsv": GOOD + "Zürich\tr\ta\n".encode("latin-1")},
        swap("left.tsv", "bad.tsv"),
        "bad.tsv:5: invalid UTF-8",
    ),
    "an empty file": (
        {"bad.tsv": b""},
        swap("left.tsv", "bad.tsv"),
        "bad.tsv: the file is empty",
    ),
    "empty links": ({"bad.tsv": b""}, swap("links.tsv", "bad.tsv"), "bad.tsv: the file is empty"),
    "a missing file": ({}, swap("left.tsv", "no.tsv"), "no.tsv: there is no such file; check"),
    "missing links": ({}, swap("links.tsv", "no.tsv"), "no.tsv: there is no such file; check"),
    "a folder for links' names": (
        {},
        [*ALIGN, "--left-names", "."],
        ".: this is a folder, not a file; name a file inside it",
    ),
    "links to an unknown entity": (
        {"bad.tsv": LINKS + b"d\tZ\n"},
        swap("links.tsv", "bad.tsv"),
        "bad.tsv:4: 'Z' is no entity of the right graph",
    ),
    "swapped columns": (
        {"bad.tsv": b"A\ta\n"},
        swap("links.tsv", "bad.tsv"),
        "bad.tsv:1: 'A' is no entity of the left graph; the two columns are swapped",
    ),
    "a test link that is a training link": (
        {"test.tsv": b"b\tB\n"},
        [*ALIGN, "--test-links", "test.tsv"],
        "test.tsv:1: this test link is also a training link; remove it",
    ),
    "a truncated gz": (
        {"bad.tsv.gz": gzip.compress(GOOD * 1000)[:-12]},
        swap("left.tsv", "bad.tsv.gz"),
        "bad.tsv.gz: ",
    ),
    "no gz at all": (
        {"bad.tsv.gz": GOOD},
        swap("left.tsv", "bad.tsv.gz"),
        "bad.tsv.gz: this is not a gzip file in spite of its name",
    ),
    "a corrupt parquet": (
        {"bad.parquet": b"PAR1" + b"\x00" * 40 + b"PAR1"},
        swap("left.tsv", "bad.parquet"),
        "bad.parquet: ",
    ),
    "no N-Triples": (
        {"bad.nt": b"<http://a> <http://r> <http://b> .\n<http://a> <http://r> oops .\n"},
        swap("left.tsv", "bad.nt"),
        "bad.nt:2: this is not N-Triples",
    ),
    "no Turtle": (
        {"bad.ttl": b"x:a x:r x:b .\n"},
        swap("right.tsv", "bad.ttl"),
        "bad.ttl:1: this is not Turtle",
    ),
    "an unknown extension": (
        {"bad.xlsx": b"PK"},
        swap("left.tsv", "bad.xlsx"),
        "bad.xlsx: the extension .xlsx is unknown",
    ),
    "an unknown format": ({}, [*ALIGN, "--format", "xls"], "left.tsv: unknown format 'xls'"),
    "an unknown dataset": (
        {},
        ["align", "--dataset", "wrold", "-o", "run"],
        "there is no dataset or folder 'wrold'; did you mean world",
    ),
    "a dataset of one graph": (
        {},
        ["align", "--dataset", "world/cldr", "-o", "run"],
        "world/cldr is one graph, alignment needs two",
    ),
    "an unknown preset": ({}, swap("tiny", "tinny"), "no preset 'tinny'; there are: "),
    "an unknown setting": (
        {},
        [*ALIGN, "--set", "model.width=3"],
        "no setting 'model.width'; did you mean model.",
    ),
    "an unknown section": ({}, [*ALIGN, "--set", "modle.dim=3"], "no settings section 'modle'"),
    "no setting": ({}, [*ALIGN, "--set", "dim"], "cannot read the setting 'dim'; write section"),
    "an impossible number": (
        {},
        [*ALIGN, "--set", "model.dim=0"],
        "model.dim is 0; it must be at least 1",
    ),
    "an impossible share": (
        {},
        [*ALIGN, "--set", "model.dropout=1.5"],
        "model.dropout is 1.5; it must be at most 1",
    ),
    "an impossible choice": (
        {},
        [*ALIGN, "--set", "matching.matcher=best"],
        "matching.matcher is 'best'; it can be: cosine, csls, sinkhorn",
    ),
    "an impossible kind": (
        {},
        [*ALIGN, "--set", "training.epochs=ten"],
        "training.epochs is 'ten'; it must be of type int",
    ),
    "no number": ({}, [*ALIGN, "--set", "training.learning_rate=nan"], "training.learning_rate is"),
    "a negative seed": ({}, [*ALIGN, "--seed", "-1"], "the seed is -1; it must be"),
    "all links held out": ({}, [*ALIGN, "--holdout", "1"], "the share 1.0 is impossible"),
    "all links for validation": (
        {},
        [*ALIGN, "--set", "training.valid=2"],
        "the share 2.0 is impossible",
    ),
    "too few links": ({}, swap("links.tsv", "one.tsv"), "1 training link(s) are too few"),
    "no device": ({}, [*ALIGN, "--device", "cuda"], "there is no CUDA device here; use --device"),
    "an unknown device": ({}, [*ALIGN, "--device", "abacus"], "no device 'abacus'"),
    "nothing to align": ({}, ["align", "-o", "run"], "give LEFT and RIGHT, or --dataset NAME"),
    "files and a dataset": ({}, [*ALIGN, "--dataset", "world"], "give either --dataset or files"),
    "test links and a dataset": (
        {},
        ["align", "--dataset", "world", "--test-links", "links.tsv", "-o", "run"],
        "give either --dataset or files, not both",
    ),
    "a share of a dataset": (
        {},
        ["align", "--dataset", "world", "--holdout", "0.1", "-o", "run"],
        "--holdout is about files; world comes as it is",
    ),
    "the format of a dataset": (
        {},
        ["complete", "--dataset", "world/cldr", "--format", "nt", "-o", "run"],
        "--format is about files; world/cldr comes as it is",
    ),
    "an open world without links": (
        {},
        ["align", "left.tsv", "right.tsv", "--open-world", "-o", "run"],
        "--open-world makes test links new; give --links",
    ),
    "an open world of too few links": (
        {},
        [*ALIGN, "--open-world"],
        "a share of 0.2 of 1 test links is none; give a larger share or more data",
    ),
    "nothing to resume": (
        {},
        ["align", "--resume", "-o", "run"],
        "run/config.toml: not found, so there is no run to resume; leave out --resume",
    ),
    "nothing to resume, but files": (
        {},
        [*ALIGN, "--resume"],
        "run/config.toml: not found, so there is no run to resume",
    ),
    "no seeds to resume": (
        {},
        ["align", "--resume", "--seeds", "2", "-o", "run"],
        "run/seed-0/config.toml: not found",
    ),
    "an output that is a file": ({}, swap("run", "left.tsv"), "left.tsv: already exists; choose"),
    "an output inside a file": (
        {},
        swap("run", "left.tsv/run"),
        "left.tsv/run: cannot make this folder (Not a directory); choose another -o",
    ),
    "a file to resume": (
        {},
        ["align", "--resume", "-o", "left.tsv"],
        "left.tsv/config.toml: not found",
    ),
    "a training that explodes": (
        {},
        [*ALIGN, "--set", "training.learning_rate=1e30", "--set", "training.epochs=5"],
        "the loss is ",
    ),
    "several trainings that explode": (
        {},
        [*ALIGN, "--set", "training.learning_rate=1e30", "--seeds", "2"],
        "the loss is ",
    ),
    "a last step that explodes": (
        {},
        [*ALIGN, "--set", "training.learning_rate=1e30", "--set", "training.epochs=1"],
        "the trained vectors are not finite; lower training.learning_rate",
    ),
    "a last step that explodes with nothing held out": (
        {},
        [
            *ALIGN,
            "--set",
            "training.learning_rate=1e30",
            "--set",
            "training.epochs=1",
            "--set",
            "training.valid=0",
        ],
        "the trained vectors are not finite; lower training.learning_rate",
    ),
    "no run to match": ({}, ["match", "run"], "run: no such run; give the folder"),
    "no run to evaluate": ({}, ["evaluate", "run"], "run: no such run; give the folder"),
    "no run to show": ({}, ["info", "run"], "run: no finished run here; "),
}


def write(folder: Path, files: dict[str, bytes]) -> dict[str, bytes]:
    for name, content in {**FILES, **files}.items():
        (folder / name).write_bytes(content)
    return tree(folder)


def tree(folder: Path) -> dict[str, bytes]:
    """All that is there, folders too."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b"folder"
        for path in folder.rglob("*")
    }


def check(code: int, err: str, says: str) -> None:
    assert code == 2, err
    assert err.startswith(f"error: {says}")
    assert err.count("\n") == 1
    assert err.endswith("\n")


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line(
    decentrl: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    files, command, says = BAD[case]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    before = write(tmp_path, files)
    done = decentrl(*command)
    check(done.code, done.err, says)
    assert "Traceback" not in done.out
    assert tree(tmp_path) == before


def test_an_existing_folder_is_left_alone(
    decentrl: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "letters.txt").write_text("love")
    before = write(tmp_path, {})
    for more in ([], ["--overwrite"], ["--seeds", "2"]):
        done = decentrl(*ALIGN, *more)
        says = "run: is not a run" if more == ["--overwrite"] else "run: already exists; choose"
        check(done.code, done.err, says)
        assert tree(tmp_path) == before


@pytest.mark.parametrize("label", ["Albani", "albanies", "ALBANIEE", "Albanie x"])
def test_an_unknown_entity_suggests_near_ones(
    decentrl: Command, world_run: Path, label: str
) -> None:
    done = decentrl("match", world_run, label)
    check(done.code, done.err, f"the label {label!r} is unknown; did you mean 'Albanie'")


def test_a_label_with_a_line_end_is_still_one_line(decentrl: Command, world_run: Path) -> None:
    done = decentrl("match", world_run, "Alba\nnie")
    check(done.code, done.err, "the label 'Alba\\nnie' is unknown")


@pytest.mark.parametrize(
    "case", ["a malformed line", "an unknown setting", "a training that explodes"]
)
def test_the_real_command_behaves_the_same(tmp_path: Path, case: str) -> None:
    files, command, says = BAD[case]
    before = write(tmp_path, files)
    program = Path(sys.executable).with_name("decentrl")
    done = subprocess.run(
        [program, *command, "--device", "cpu"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONWARNINGS": "default"},
    )
    check(done.returncode, done.stderr, says)
    assert tree(tmp_path) == before
