"""Labels, file names and phrases of servers that are commands to a terminal, or Markdown."""

from __future__ import annotations

import json
import re
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import PREDICT

Command = Callable[..., Any]

CLIPBOARD, CLEAR, TITLE = "\x1b]52;c;ZXZpbA==\x07", "\x1b[2J", "\x9b2J\x7f\x08"
BACKWARDS = "\u202egnp.exe\u2066\u2028"
EVIL = [f"{CLIPBOARD}{CLEAR}{TITLE}{BACKWARDS}{i}[bold]" for i in range(3)]


def harmless(*texts: str) -> None:
    """Nothing but tabs, line ends, and what tables and progress bars are made of."""
    for text in texts:
        rest = re.sub(r"\x1b\[([0-9;]*m|\?25[hl]|2K|1A)|\r", "", text)
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]", rest), (
            ascii(rest)
        )


@pytest.fixture(scope="module")
def evil_run(people_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from typer.testing import CliRunner

    from decentrl.cli.commands import app

    run = shutil.copytree(people_run, tmp_path_factory.mktemp("runs") / f"run{CLEAR}")
    file = run.parent / f"{EVIL[0]}.tsv"
    rows = [(one, "knows", f"person {i}") for i, one in enumerate(EVIL)]
    rows += [("person 3", f"{CLIPBOARD}knows", "person 4")]
    file.write_text("".join("\t".join(row) + "\n" for row in rows), "utf-8")
    with warnings.catch_warnings(action="ignore"):  # the command does so
        done = CliRunner().invoke(app, ["add", str(run), str(file)], catch_exceptions=False)
    assert done.exit_code == 0
    harmless(done.output)
    return run


COMMANDS: dict[str, tuple[int, list[str]]] = {
    "predict": (0, ["predict", "RUN", "--head", EVIL[0], "--relation", "knows", "--known"]),
    "neighbours": (0, ["neighbours", "RUN", EVIL[0]]),
    "explain": (0, ["explain", "RUN", EVIL[0]]),
    "log": (0, ["log", "RUN"]),
    "info": (0, ["info", "RUN"]),
    "drift": (0, ["drift", "RUN"]),
    "unknown label": (2, ["neighbours", "RUN", CLIPBOARD]),
    "no run": (2, ["log", f"RUN{CLIPBOARD}"]),
    "no file": (2, ["add", "RUN", f"{CLIPBOARD}.tsv"]),
    "no option": (2, ["log", "RUN", f"--{CLIPBOARD}"]),
    "no command": (2, [CLIPBOARD]),
    "no number": (2, ["neighbours", "RUN", "x", "--top", CLIPBOARD]),
    "no dataset": (2, ["data", "info", CLIPBOARD]),
    "no server": (2, ["data", "fetch", "wn18", "--base-url", f"http://{CLIPBOARD}"]),
    "no setting": (2, ["align", "-o", "x", "--set", CLIPBOARD]),
}


@pytest.mark.parametrize("what", COMMANDS)
def test_no_label_is_a_command_to_the_terminal(
    decentrl: Command, evil_run: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("DECENTRL_DATA", str(evil_run.parent))  # where nothing was fetched
    code, asked = COMMANDS[what]
    done = decentrl(*(word.replace("RUN", str(evil_run)) for word in asked))
    assert done.code == code, done
    assert "internal" not in done.err
    harmless(done.out, done.err)


def test_json_keeps_the_labels_and_has_no_control_character(
    decentrl: Command, evil_run: Path
) -> None:
    asked = ("predict", evil_run, "--head", EVIL[0], "--relation", "knows", "--json", "--top", "1")
    done = decentrl(*asked)
    harmless(done.out)
    assert json.loads(done.out)[0]["head"] == EVIL[0]


def test_phrases_of_servers_are_harmless(decentrl: Command, tmp_path: Path) -> None:
    import socket
    import threading

    def answer() -> None:
        with server.accept()[0] as connection:
            connection.recv(4096)
            connection.sendall(f"HTTP/1.0 404 {CLIPBOARD}{CLEAR}\r\n\r\n".encode("latin-1"))

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=answer)
        thread.start()
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("DECENTRL_DATA", str(tmp_path))
            done = decentrl("data", "fetch", "wn18", "--base-url", address)
        thread.join()
    assert done.code == 2
    assert done.err.strip().splitlines()[0].startswith("error: WN18")
    assert "404 \\x1b]52;c;" in done.err
    harmless(done.err)


def test_the_name_of_a_file_is_no_markdown(
    decentrl: Command, people_file: Path, tmp_path: Path
) -> None:
    name = "![x](http:x)<img src=x>`a`|\n# b\x1b[2J _c_ d_e"
    file = Path(shutil.copy(people_file, tmp_path / f"{name}.tsv"))
    done = decentrl("complete", file, *PREDICT, "--set", "training.epochs=1", "-o", tmp_path / "r")
    assert done.code == 0, done.err
    harmless(done.out, done.err)
    title, empty, *_ = (tmp_path / "r" / "bundle" / "README.md").read_text("utf-8").split("\n")
    assert title == (r"# !\[x\](http:x)\<img src=x\>'a'\| # b�\[2J \_c\_ d_e: entity prediction")
    assert empty == ""
