"""Outputs that close, fill up or speak another encoding: the work is done all the same."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Command = Callable[..., Any]


@pytest.fixture
def run(people_run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(people_run, tmp_path / "run"))


def _stream(how: str) -> Any:
    """An output that nobody reads, that is full, or that is not there."""
    if how == "missing":
        return None
    if how == "full":
        return open("/dev/full", "w", encoding="utf-8")
    reading, writing = os.pipe()
    os.close(reading)
    return os.fdopen(writing, "w", encoding="utf-8")


@pytest.fixture
def into(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """The exit code of a command in this process with such outputs."""
    from decentrl.cli import main

    def run(*arguments: object, stdout: str, stderr: str) -> int:
        monkeypatch.setattr("sys.argv", ["decentrl", *map(str, arguments)])
        streams = _stream(stdout), _stream(stderr)
        with monkeypatch.context() as patch:
            patch.setattr("sys.stdout", streams[0])
            patch.setattr("sys.stderr", streams[1])
            with pytest.raises(SystemExit) as ended:
                main()
        for stream in filter(None, streams):
            with open(os.devnull, "w") as nothing:  # takes what could not be written
                os.dup2(nothing.fileno(), stream.fileno())
            stream.close()
        return int(ended.value.code or 0)

    return run


def new_files(run: Path) -> list[Path]:
    files = [run.parent / f"{name}.tsv" for name in ("a", "é", "東", "d")]
    for file in files:
        file.write_text(f"new {file.stem}\tknows\tperson 1\n", "utf-8")
    return files


def kept(decentrl: Command, run: Path) -> list[str]:
    return [addition["source"] for addition in json.loads(decentrl("log", run, "--json").out)]


@pytest.mark.parametrize(
    ("stdout", "stderr", "code"),
    [("nobody", "nobody", 1), ("full", "full", 2), ("missing", "missing", 0)],
)
def test_all_work_is_done_whatever_happens_to_the_output(
    decentrl: Command, into: Callable[..., int], run: Path, stdout: str, stderr: str, code: int
) -> None:
    files = new_files(run)
    assert into("add", run, *files, stdout=stdout, stderr=stderr) == code
    assert kept(decentrl, run) == [file.name for file in files]
    questions, answers = run.parent / "q.tsv", run.parent / "answers.tsv"
    questions.write_text("person 1\tknows\t?\n?\tknows\tperson 2\n", "utf-8")
    asked = ("predict", run, "--batch", questions, "-o", answers)
    assert into(*asked, stdout=stdout, stderr=stderr) == 0
    assert answers.read_text("utf-8").count("\n") == 21
    vectors = run.parent / "vectors.npy"
    assert into("export", run, "-o", vectors, stdout=stdout, stderr=stderr) == 0
    assert vectors.is_file()
    assert not list(run.parent.glob("*.part"))


def test_matches_are_written_whatever_happens_to_the_output(
    into: Callable[..., int], world_run: Path, tmp_path: Path
) -> None:
    file = tmp_path / "matches.nt"
    assert into("match", world_run, "-o", file, stdout="full", stderr="full") == 0
    assert file.is_file()


def shell(script: str, *arguments: object, **environment: str) -> tuple[int, bytes, str]:
    """What a line of shell does, in which ``decentrl`` is the command with these arguments."""
    done = subprocess.run(
        ["/bin/bash", "-c", f'set -o pipefail; decentrl() {{ "$@"; }}; {script}', "sh",
         sys.executable, "-m", "decentrl", *map(str, arguments)],
        capture_output=True, check=False, timeout=60, env={**os.environ, **environment},
    )  # fmt: skip
    assert b"Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout, done.stderr.decode("utf-8")


def test_what_is_read_no_further_is_done(decentrl: Command, run: Path) -> None:
    files = new_files(run)
    code, out, err = shell('decentrl "$@" | head -1', "add", run, *files)
    assert (code, out, err) == (1, b"a.tsv: addition 1\n", "")
    assert kept(decentrl, run) == [file.name for file in files]


def test_a_full_output_is_told(run: Path) -> None:
    code, _, err = shell('decentrl "$@" >/dev/full', "log", run)
    assert code == 2
    assert err.startswith("error: the output could not be written (No space left")
    assert err.count("\n") == 1


def test_answers_in_another_encoding_are_whole(decentrl: Command, run: Path) -> None:
    files = new_files(run)
    latin = {"PYTHONIOENCODING": "latin-1:strict", "PYTHONUTF8": "0"}
    assert shell('decentrl "$@"', "add", run, *files, **latin)[0] == 0
    assert kept(decentrl, run) == [file.name for file in files]
    asked = ("predict", run, "--head", "new 東", "--relation", "knows", "--top", "1")
    code, out, _ = shell('decentrl "$@"', *asked, **latin)
    assert (code, out.decode("utf-8").startswith("new 東\t")) == (0, True)


def test_a_closed_output_is_no_file_of_the_run(tmp_path: Path) -> None:
    """A file that is opened in its place would take what is meant for the output."""
    code = (
        "import os; from decentrl import cli; "
        "cli.main = lambda: os._exit(min(os.open('x', os.O_CREAT | os.O_RDWR), 3)); cli.entry()"
    )
    line = 'exec "$0" -c "$1" >&- 2>&- <&-'
    done = subprocess.run(["/bin/sh", "-c", line, sys.executable, code], check=False, cwd=tmp_path)
    assert done.returncode == 3
