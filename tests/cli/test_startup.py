"""Help comes at once: nothing heavy is imported for it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from decentrl import __version__

HEAVY = ("torch", "pyarrow", "numpy", "safetensors", "pyoxigraph")

CODE = """
import sys
from decentrl.cli import main
sys.argv = ["decentrl", *sys.argv[1:]]
try:
    main()
except SystemExit as end:
    loaded = sorted({name.partition(".")[0] for name in sys.modules} & set(%r))
    print("LOADED", loaded, file=sys.stderr)
    raise
"""


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["--help"], 0, "align"),
        (["--version"], 0, "decentrl 0."),
        ([], 2, "Usage"),
        (["align", "--help"], 0, "--links"),
        (["match", "--help"], 0, "ENTITY"),
        (["complete", "--help"], 0, "TRIPLES"),
        (["predict", "--help"], 0, "--batch"),
        (["add", "--help"], 0, "--side"),
        (["refit", "--help"], 0, "--share"),
        (["export", "--help"], 0, "word2vec"),
        (["refit", "-o", "x"], 2, ""),
        (["settings", "paper", "--task", "prediction"], 0, "decoder.name"),
        (["settings", "tiny"], 0, "training.epochs"),
        (["align", "--preset", "tinny", "-o", "x"], 2, ""),
        (["align", "--nonsense"], 2, ""),
    ],
)
def test_light_commands_import_nothing_heavy(arguments: list[str], code: int, says: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE % (HEAVY,), *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "120"},
    )
    assert done.stderr.splitlines()[-1] == "LOADED []"
    assert done.returncode == code
    assert says in done.stdout


def test_the_package_is_a_command_too() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "decentrl", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"decentrl {__version__}\n"


def test_nothing_that_happens_at_the_end_changes_the_exit_code() -> None:
    """A thread pool that a library takes down may abort the process: here that is certain."""
    code = (
        "import atexit, os, sys; atexit.register(os.abort); sys.argv[0] = 'decentrl'; "
        "from decentrl.cli import {}; {}()"
    )
    for name, ends in (("main", -6), ("entry", 2)):
        done = subprocess.run(
            [sys.executable, "-c", code.format(name, name), "align", "-o", "x", "--preset", "y"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == ends
        assert "error: no preset 'y'" in done.stderr


COMPLETE = "import sys; sys.argv[0] = 'decentrl'\nfrom decentrl.cli import entry\nentry()"


def complete(*arguments: str, **variables: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", COMPLETE, *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **variables},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_shell_completes_commands_and_options() -> None:
    words = {"_DECENTRL_COMPLETE": "complete_bash", "COMP_CWORD": "1"}
    assert complete(COMP_WORDS="decentrl exp", **words).split() == ["explain", "export"]
    words["COMP_CWORD"] = "2"
    found = complete(COMP_WORDS="decentrl align --left", **words).split()
    assert found == ["--left-names", "--left-attributes"]
