"""Corrupted and malicious runs: an answer or one clear line, in a moment, and nothing else."""

from __future__ import annotations

import ast
import random
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save

import decentrl as package
from decentrl.aligner import Aligner
from decentrl.predictor import Predictor
from tests.attacks.conftest import Found, Tally
from tests.attacks.mutators import MALICE, Forgery, damage, damage_one

GOLDEN = Path(__file__).parents[1] / "golden"
ASKED = {
    "aligner": [("match", "--top", "2"), ("neighbours", "l/e00", "--ann"), ("explain", "l/e00")],
    "predictor": [
        ("predict", "--head", "e00", "--relation", "next"),
        ("neighbours", "e00"),
        ("export", "-o", "out.npy"),
    ],
}
Ask = Callable[..., Any]


class Slow(BaseException):
    """A command took too long."""


@contextmanager
def at_most(seconds: int) -> Iterator[None]:
    def stop(*_: object) -> None:
        raise Slow

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def ask(found: Found, what: str, capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """What a command said; counts a traceback, a hang, or an error that is not one line."""
    from decentrl.cli import main

    sys.argv = ["decentrl", *map(str, arguments)]
    code: object = None
    try:
        with at_most(30):
            main()
    except SystemExit as ended:
        code = ended.code
    except Slow:
        found.hangs += 1
        print("HANG", what)
    except BaseException as error:
        found.tracebacks += 1
        print("TRACEBACK", what, arguments[0], repr(error)[:300])
    out, err = capsys.readouterr()
    # torch warns of much, and others say it again; an error is a line.
    if code not in (0, None) and (
        code != 2 or not err.strip().splitlines()[-1].startswith("error: ")
    ):
        found.tracebacks += 1
        with capsys.disabled():
            print("UNCLEAR", what, arguments[0], code, err[-300:])
    if "TRACEBACK" in out or "HANG" in out:
        with capsys.disabled():
            print(out[-400:])
    return out if code in (0, None) else f"error {err}"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "argv", [])
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("kind", ASKED)
@pytest.mark.trials(50, 500)
def test_a_malicious_bundle_is_an_answer_or_an_error(
    kind: str,
    trials: int,
    here: Path,
    chance: random.Random,
    tally: Tally,
    capsys: pytest.CaptureFixture[str],
) -> None:
    found, original = tally("malicious bundles"), GOLDEN / f"{kind}-v3" / "bundle"
    for trial in range(trials):
        forgery = Forgery(original)
        what = chance.choice(MALICE)(chance, forgery)
        run = here / str(trial)
        forgery.write(run / "bundle")
        found.trials += 1
        before = sorted(path.name for path in here.iterdir())
        for command, *rest in ASKED[kind]:
            ask(found, what, capsys, command, run, *rest)
        found.outside += (
            sorted(p.name for p in here.iterdir() if not p.name.startswith("out.")) != before
        )
        for path in here.glob("out.*"):
            path.unlink()
        shutil.rmtree(run)
    assert found.clean


@pytest.mark.parametrize("kind", ASKED)
@pytest.mark.trials(30, 400)
def test_a_corrupted_bundle_is_the_same_answer_or_an_error(
    kind: str,
    trials: int,
    here: Path,
    chance: random.Random,
    tally: Tally,
    capsys: pytest.CaptureFixture[str],
) -> None:
    found, original = tally("corrupted files"), GOLDEN / f"{kind}-v3" / "bundle"
    command, *rest = ASKED[kind][0]
    whole = here / "whole"
    shutil.copytree(original, whole / "bundle")
    answer = ask(found, "whole", capsys, command, whole, *rest)
    assert answer
    for trial in range(trials):
        run = here / str(trial)
        shutil.copytree(original, run / "bundle")
        what = damage_one(chance, run / "bundle")
        found.trials += 1
        said = ask(found, what, capsys, command, run, *rest)
        if not said.startswith("error ") and said != answer:
            found.silent += 1
        shutil.rmtree(run)
    assert found.clean


@pytest.mark.parametrize("kind", ASKED)
def test_bytes_changed_in_place_after_a_load_change_nothing(kind: str, tmp_path: Path) -> None:
    run = shutil.copytree(GOLDEN / f"{kind}-v3", tmp_path / "run")
    model: Any = (Aligner if kind == "aligner" else Predictor).load(run, "cpu")
    before = {side: model.vectors(side).clone() for side in model.growing.sides}
    vectors = run / "bundle" / "vectors.safetensors"
    with vectors.open("r+b") as file:
        file.seek(-64, 2)
        file.write(b"\x41" * 64)
    for side, rows in before.items():
        assert torch.equal(model.vectors(side), rows)
    vectors.write_bytes(b"")  # memory that is mapped would be gone
    for side, rows in before.items():
        assert torch.equal(model.vectors(side), rows)


# Search indexes


@pytest.fixture
def indexed(tmp_path: Path) -> Path:
    pytest.importorskip("faiss")
    run = shutil.copytree(GOLDEN / "predictor-v3", tmp_path / "run")
    Predictor.load(run, "cpu").neighbours("e00", ann=True)
    assert [path.name for path in (run / "store").iterdir()] == ["index.safetensors"]
    return run


@pytest.mark.trials(40, 200)
def test_a_crafted_index_is_built_again(
    trials: int, indexed: Path, chance: random.Random, tally: Tally
) -> None:
    found, file = tally("malicious indexes"), indexed / "store" / "index.safetensors"
    whole = file.read_bytes()
    answer = Predictor.load(indexed, "cpu").neighbours("e00", ann=True)
    crafted = [b"", b"{", (2**63).to_bytes(8, "little"), b"\x08" + bytes(7) + b"[" * 8,
               save({"centres": torch.full((2, 4), torch.nan), "lists": torch.zeros(13)}),
               save({"centres": torch.zeros(2, 9), "lists": torch.full((13,), 10**6)})]  # fmt: skip
    for trial in range(trials):
        found.trials += 1
        file.write_bytes(crafted[trial] if trial < len(crafted) else damage(chance, whole))
        again = Predictor.load(indexed, "cpu").neighbours("e00", ann=True)
        found.silent += not again.equals(answer)
    assert found.clean


def test_an_index_of_faiss_itself_is_never_read(indexed: Path, monkeypatch: Any) -> None:
    """One with lists on disk names files, which reading it would change."""
    import faiss

    thesis = indexed.parent / "thesis"
    thesis.write_text("years of work")
    quantizer = faiss.IndexFlatL2(4)  # FAISS does not keep it alive
    index = faiss.IndexIVFFlat(quantizer, 4, 2)
    index.train(np.eye(4, dtype=np.float32))
    lists = faiss.OnDiskInvertedLists(2, index.code_size, str(indexed / "lists"))
    index.replace_invlists(lists)
    answer = Predictor.load(indexed, "cpu").neighbours("e00", ann=True)
    for name in ("index-.faiss", "index.faiss", "index-left.faiss", "index.safetensors"):
        faiss.write_index(index, str(indexed / "store" / name))
        content = (indexed / "store" / name).read_bytes()
        path = str(indexed / "lists").encode()
        other = str(thesis).encode().ljust(len(path), b"\0")
        (indexed / "store" / name).write_bytes(content.replace(path, other[: len(path)]))
    monkeypatch.setattr(faiss, "read_index", None)
    again = Predictor.load(indexed, "cpu").neighbours("e00", ann=True)
    assert again.equals(answer)
    assert thesis.read_text() == "years of work"


def test_nothing_in_the_package_lets_faiss_read_a_file() -> None:
    for file in sorted(Path(package.__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
            assert not name.startswith(("read_index", "deserialize_index")), f"{file}:{name}"
