"""Whatever is typed and whatever is in a file: one clear line, exit code 2, and no traceback."""

from __future__ import annotations

import gzip
import io
import os
import random
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.attacks.conftest import Found, Tally
from tests.conftest import PREDICT

Command = Callable[..., Any]
ROWS = [(f"person {i}", "knows", f"person {7 * i % 32}") for i in range(1, 12)]
QUICK = ("--preset", "tiny", "--set", "training.epochs=1", "--set", "model.dim=4")


@pytest.fixture
def folder(
    people_run: Path, twin_files: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A working folder with a run and the files of another one."""
    shutil.copytree(people_run, tmp_path / "run")
    for name, file in twin_files.items():
        shutil.copy(file, tmp_path / f"{name}.tsv")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def attack(decentrl: Command, found: Found, *asked: str) -> Any:
    """Run a command and count what must not happen."""
    found.trials += 1
    started = time.monotonic()
    done = decentrl(*asked)
    found.hangs += time.monotonic() - started > 30
    last = done.err.removesuffix("\n").split("\n")[-1]
    told = done.code == 0 or (
        done.code == 2 and (last.startswith("error: ") or "Error" in done.err)
    )
    if "Traceback" in done.err or "internal: " in done.err or not told:
        found.tracebacks += 1
        print(asked, done)
    return done


# What was found once


def refused(done: Any, *says: str) -> None:
    assert done.code == 2, done
    assert "internal" not in done.err
    for part in says:
        assert part in done.err
    assert done.err.count("\n") == 1 or "Usage" in done.err


MANY = "9" * 400
NUMBERS = {
    "a seed below 0": ("data", "split", "world", "-o", "x", "--seed", "-1"),
    "a long seed": ("data", "split", "world", "-o", "x", "--seed", MANY),
    "a share that is no number": ("complete", "left.tsv", "-o", "x", "--holdout", "nan"),
    "another": ("complete", "left.tsv", "-o", "x", "--set", "training.valid=1e308"),
    "many epochs": ("complete", "left.tsv", "-o", "x", "--set", f"training.epochs={MANY}"),
    "a long rate": ("complete", "left.tsv", "-o", "x", "--set", f"training.learning_rate={MANY}"),
    "longer": ("complete", "left.tsv", "-o", "x", "--set", f"model.dim={MANY * 20}"),
    "a wide model": ("complete", "left.tsv", "-o", "x", "--set", f"model.dim={10**13}"),
    "many seeds": ("complete", "left.tsv", "-o", "x", "--seeds", MANY),
    "no share": ("refit", "run", "-o", "x", "--share", "nan"),
    "a hot match": ("align", "left.tsv", "right.tsv", "--links", "links.tsv", *QUICK,
                    "--set", "matching.temperature=1e308", "-o", "x"),
    "no device": ("match", "run", "--device", "cuda:99999999999"),
    "a device without memory": ("drift", "run", "--device", "meta"),
}  # fmt: skip


@pytest.mark.parametrize("what", NUMBERS)
def test_impossible_numbers(decentrl: Command, folder: Path, what: str) -> None:
    refused(decentrl(*NUMBERS[what]))
    assert not (folder / "x").exists()


def test_names_that_are_no_utf8(decentrl: Command, folder: Path) -> None:
    name = os.fsdecode(b"caf\xe9.tsv")
    shutil.copy("left.tsv", name)
    refused(decentrl("complete", name, "-o", "x"), "name", "UTF-8; rename it")
    refused(decentrl("align", "left.tsv", "right.tsv", "--links", name, "-o", "x"), "UTF-8")
    assert not (folder / "x").exists()
    Path(name).write_text("new\tknows\tperson 1\n")
    done = decentrl("add", "run", name)
    assert (done.code, done.err) == (0, "")
    name = name.replace("tsv", "nt")
    Path(name).write_text("_:x <knows:> _:y .\n")
    assert decentrl("add", "run", name).code == 0
    name = os.fsdecode(b"r\xfcn")
    refused(decentrl("complete", "left.tsv", "-o", name), "UTF-8")
    refused(decentrl("export", "run", "-o", f"{name}.parquet"), "UTF-8")
    Path("run").rename(name)
    assert decentrl("info", name).code == 0
    refused(decentrl("refit", name, "-o", "new"), "UTF-8")


def test_a_path_with_a_nul(decentrl: Command, folder: Path) -> None:
    for asked in (
        ("complete", "a\0b.tsv", "-o", "x"), ("complete", "left.tsv", "-o", "x\0y"),
        ("add", "run", "a\0b.tsv"), ("info", "r\0n"), ("log", "r\0n"), ("drift", "r\0n"),
        ("data", "info", "a\0b"), ("export", "run", "-o", "a\0.npy"),
        ("predict", "run", "--batch", "a\0b.tsv"),
    ):  # fmt: skip
        refused(decentrl(*asked))


def test_a_run_is_resumed_from_another_folder(
    decentrl: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ("complete", "left.tsv", *PREDICT, "--set", "training.epochs=1")
    with monkeypatch.context() as patch:
        patch.setattr("decentrl.runs.run.write_results", interrupt)
        assert decentrl(*asked, "-o", "x").code == 130
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    done = decentrl("complete", "--resume", "-o", "../x")
    assert done.code == 0, done.err
    # Begun with the same files, whatever they are called from here.
    (folder / "x" / "results.json").unlink()
    assert decentrl("complete", "../left.tsv", "--resume", "-o", "../x").code == 0
    refused(decentrl("complete", "left.tsv", "--resume", "-o", "../x"))


def interrupt(*_: Any) -> None:
    raise KeyboardInterrupt


class UnforeseenError(Exception):
    """What nobody thought of."""


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (MemoryError("x"), "not enough memory"),
        (pa.ArrowMemoryError("malloc of size 1 failed"), "not enough memory"),
        (RuntimeError("[enforce fail at alloc_cpu.cpp:117] DefaultCPUAllocator: can't allocate "
                      "memory: you tried to allocate 8 bytes"), "not enough memory"),
        (RuntimeError("CUDA out of memory"), "not enough memory"),
        (UnforeseenError("of two\nlines\x1b[2J"), "internal: UnforeseenError: of two; `dec"),
        (RecursionError("too deep"), "internal: RecursionError: too deep"),
        (UnicodeEncodeError("utf-8", "a\udcff", 1, 2, "no"), "'a\\udcff' cannot be written as"),
    ],
)  # fmt: skip
def test_what_nobody_thought_of_is_one_line(
    decentrl: Command, folder: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, says: str
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr("decentrl.storage.bundle.open_bundle", fail)
    monkeypatch.setenv("DECENTRL_DEBUG", "")
    done = decentrl("log", "run")
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert done.err.startswith(f"error: {says}")
    done = decentrl("--debug", "log", "run")
    assert done.code == 2
    assert "Traceback" in done.err
    assert "\x1b" not in done.err


# Files


def _parquet() -> bytes:
    file = io.BytesIO()
    columns = dict(zip(("head", "relation", "tail"), zip(*ROWS, strict=True), strict=True))
    pq.write_table(pa.table({name: list(values) for name, values in columns.items()}), file)
    return file.getvalue()


FILES = {
    "x.tsv": "".join("\t".join(row) + "\n" for row in ROWS).encode(),
    "x.csv": b"head,relation,tail\n"
    + "".join(f'"{h}",{r},{t}\n' for h, r, t in ROWS).encode(),
    "x.nt": "".join(
        f"<http://x/{h[7:]}> <http://x/{r}> <http://x/{t[7:]}> .\n" for h, r, t in ROWS
    ).encode(),
    "x.ttl": b"@prefix : <http://x/> .\n:a :knows :b, [ :knows :c ] ; :likes 3, \"w\"@en .\n",
    "x.parquet": _parquet(),
}  # fmt: skip
FILES["x.tsv.gz"] = gzip.compress(FILES["x.tsv"], mtime=0)
ODD = [
    b"\0", b"\r", b"\n\n", b"\t", b'"', b"\xff", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"?", b",",
    b"<", b">", b"\\u0000", b"\\", b"\x1b]0;x\x07", b"#", b" ", "\u2028".encode(), b"A" * 70_000,
    b"_:b", b"<<", b'"""', b"@prefix", b"\x1f\x8b", b"PAR1", b"9" * 400, b"=1+1", b"[" * 500,
]  # fmt: skip


def mutated(data: bytes, chance: random.Random) -> bytes:
    """A few changes of some bytes: flipped, left out, told twice, or something odd put in."""
    for _ in range(chance.choice((1, 1, 1, 2, 4, 16))):
        i, n = chance.randrange(len(data) + 1), chance.choice((1, 1, 4, 40))
        how = chance.randrange(6)
        if how == 0:
            middle = bytes(byte ^ 1 << chance.randrange(8) for byte in data[i : i + n])
        elif how == 1:
            middle = chance.choice(ODD) + data[i : i + n]
        elif how == 2:
            middle = b""
        elif how == 3:
            middle = data[i : i + n] * chance.choice((2, 3, 1000))
        elif how == 4:
            middle = chance.choice(ODD)
        else:
            data, middle = data[: i + n], data[i : i + n]
        data = data[:i] + middle + data[i + n :]
    return data


@pytest.mark.trials(30, 900)
def test_mutated_files(
    decentrl: Command, folder: Path, trials: int, chance: random.Random, tally: Tally
) -> None:
    found = tally("mutated input files")
    asks: list[tuple[str, ...]] = [
        ("add", "run"), ("add", "run", "--strict"), ("predict", "run", "-o", "out.tsv", "--batch"),
        ("evaluate", "run", "--triples"), ("drift", "run", "--triples"),
        ("complete", *PREDICT, "--set", "training.epochs=0", "--holdout", "0", "-o", "out"),
        ("align", "left.tsv", "right.tsv", *QUICK, "-o", "out", "--links"),
    ]  # fmt: skip
    weights = [6, 2, 2, 2, 1, 1, 1]
    links = Path("links.tsv").read_bytes()
    for i in range(trials):
        (asked,) = chance.choices(asks, weights)
        name = chance.choice(list(FILES))
        data = FILES[name]
        if asked[-1] == "--links":
            name, data = "x.tsv", links
        if asked[-1] == "--batch":
            name, data = "x.tsv", data.replace(b"\tperson", b"\t?")
        Path(name).write_bytes(mutated(data, chance))
        done = attack(decentrl, found, *asked, name)
        assert not list(Path().glob("*.part")), i
        if done.code:
            assert not Path("out").exists(), (i, done)
            assert not Path("out.tsv").exists(), (i, done)
        shutil.rmtree("out", ignore_errors=True)
        Path("out.tsv").unlink(missing_ok=True)
        if asked[0] == "add" and done.code == 0:
            shutil.rmtree("run/store")
    assert found.clean, found


# Command lines

VALUES = [
    "", "-1", "0", "1", "0.5", "nan", "inf", "-inf", "1e308", MANY, "1" * 5000, "\udcff", "a\nb",
    "\x1b[2J", "[/x]", "=1+1", "?", "left", "right", "run", "run/bundle", "left.tsv", "links.tsv",
    ".", "absent", "/dev/null", "x.tsv", "x.parquet", "x.npy", "x.nt", "person 1", "knows", "cpu",
    "meta", "cuda", "tiny", "quick", "paper", "cosine", "csls", "sinkhorn", "mutual", "one-to-one",
    "model.dim=3", "model.dim=-1", f"model.dim={MANY}", "a=b", "a.b", "=", "..",
    "matching.temperature=1e308", "model.encoder=none", "decoder.name=conve", "loss.scale=1e308",
    "training.learning_rate=1e308", "training.valid=1", "transe", "prediction",
    "training.batch=1", "training.valid=0.9", "A" * 5000, "%s", "{x}", "é", "--", "-",
    "wn18", "word2vec", "npy", "csv",
]  # fmt: skip


def command_lines(chance: random.Random) -> Iterator[list[str]]:
    """Commands with some of their options, and any value for each."""
    from typer.main import get_command

    from decentrl.cli.commands import app

    def leaves(command: Any, names: list[str]) -> Iterator[tuple[list[str], Any]]:
        if not hasattr(command, "commands"):
            yield names, command
            return
        for name, one in command.commands.items():
            yield from leaves(one, [*names, name])

    commands = list(leaves(get_command(app), []))
    while True:
        names, command = chance.choice(commands)
        line = list(names)
        for option in chance.sample(command.params, len(command.params)):
            needed = option.required or (
                option.param_type_name == "argument" and chance.random() < 0.9
            )
            if not needed and chance.random() > 0.2:
                continue
            value = chance.choice(VALUES)
            if option.name == "run" and chance.random() < 0.8:
                value = "run"
            if option.name == "output" and chance.random() < 0.8:
                value = chance.choice(("x", "y", "y.tsv", "y.npy", "y.parquet"))
            if option.name in ("left", "right", "links", "triples") and chance.random() < 0.6:
                value = f"{option.name}.tsv".replace("triples", "left")
            if option.param_type_name == "argument":
                line.append(value)
            elif option.name not in ("seeds", "self_train"):
                line += [option.opts[0]] + [value] * (not option.is_flag)
        if names[0] in ("align", "complete"):
            line += ["--preset", "tiny" if names[0] == "align" else "quick"]
            line += ["--set", "training.epochs=1"]
        yield line


@pytest.mark.trials(30, 900)
def test_random_command_lines(
    decentrl: Command, folder: Path, trials: int, chance: random.Random, tally: Tally
) -> None:
    found = tally("random command lines")
    kept = folder.with_name("kept")
    shutil.copytree(folder, kept)
    for i, line in zip(range(trials), command_lines(chance), strict=False):
        attack(decentrl, found, *line)
        if i % 20 == 19:  # some change the run
            shutil.rmtree(folder)
            shutil.copytree(kept, folder)
            os.chdir(folder)
    assert found.clean, found
