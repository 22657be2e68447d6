"""No addition that was acknowledged vanishes unseen: what is lost is said, whatever happened."""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import zlib
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from decentrl.errors import BundleError
from decentrl.predictor import Predictor
from decentrl.storage.addition import Growth
from decentrl.storage.additions import Store
from decentrl.storage.store_file import FILE
from tests.attacks.conftest import Tally
from tests.attacks.mutators import damage

GOLDEN = Path(__file__).parents[1] / "golden"
KEPT = 6


def growth(number: int) -> Growth:
    ids = np.array([100 + number], np.int64)
    rows = np.full((1, 4), number, np.float32)
    return Growth("", np.array([[100 + number, 0, 3]]), [f"new {number}"], 100 + number, ids, rows)


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run whose writer was killed: its log was never moved into the store."""
    place = tmp_path_factory.mktemp("killed")
    with Store(place / "store", "b", write=True) as store:
        for number in range(KEPT):
            store.add(growth(number), "news", {})
        shutil.copytree(place, place / "copy" / "run", ignore=lambda *_: {"copy"})
    return place / "copy" / "run"


def read(run: Path) -> list[str]:
    """The labels that a reader finds."""
    with Store(run / "store", "b") as store:
        assert [line.number for line in store.log()] == list(range(1, store.last + 1))
        return [label for _, found in store.since(0) for label in found.labels]


@pytest.mark.trials(60, 600)
def test_a_damaged_log_after_a_kill_is_noticed(
    trials: int, killed: Path, tmp_path: Path, chance: random.Random, tally: Tally
) -> None:
    found, whole = tally("damaged write-ahead logs"), [f"new {i}" for i in range(KEPT)]
    assert read(shutil.copytree(killed, tmp_path / "whole")) == whole
    for trial in range(trials):
        run = shutil.copytree(killed, tmp_path / str(trial))
        log = run / "store" / f"{FILE}-wal"
        log.write_bytes(damage(chance, log.read_bytes()))
        found.trials += 1
        try:
            found.lost += read(run) != whole
        except BundleError as error:
            assert str(run) in str(error)  # noqa: PT017 (either is right)
        shutil.rmtree(run)
    assert found.clean


@pytest.mark.parametrize("write", [False, True])
@pytest.mark.parametrize("gone", ["store", f"store/{FILE}", f"store/{FILE}-wal"])
def test_a_deleted_store_is_missed(killed: Path, tmp_path: Path, gone: str, write: bool) -> None:
    run = shutil.copytree(killed, tmp_path / "run")
    if (run / gone).is_dir():
        shutil.rmtree(run / gone)
    else:
        (run / gone).unlink()
    with pytest.raises(BundleError, match=rf"{FILE}: .*copy the run again"):
        Store(run / "store", "b", write=write)
    # Who knows better can go on.
    (run / "store.seal").unlink()
    with Store(run / "store", "b", write=write) as store:
        assert store.last == 0


def test_a_deleted_store_of_a_compacted_run_is_missed(tmp_path: Path) -> None:
    run = shutil.copytree(GOLDEN / "predictor-v3", tmp_path / "run")
    with Predictor.load(run, "cpu", durable=True) as predictor:
        predictor.add([("newest", "next", "e00")])
        predictor.compact()
    shutil.rmtree(run / "store")
    (run / "store.seal").unlink()
    with pytest.raises(BundleError, match="log of the additions in the bundle is not there"):
        Predictor.load(run, "cpu")
    assert Predictor.load(run / "bundle", "cpu").embed(["newest"]).any()


def test_an_older_copy_of_a_store_is_noticed(killed: Path, tmp_path: Path) -> None:
    run = shutil.copytree(killed, tmp_path / "run")
    with Store(run / "store", "b", write=True) as store:
        store.add(growth(KEPT), "news", {})
    shutil.copytree(killed / "store", run / "store", dirs_exist_ok=True)
    with pytest.raises(BundleError, match=f"held {KEPT + 1} additions and 0 decisions or more"):
        read(run)


def test_a_seal_behind_its_store_is_no_loss(killed: Path, tmp_path: Path) -> None:
    """A writer was killed after the addition was kept and before it was sealed."""
    run = shutil.copytree(killed, tmp_path / "run")
    with Store(run / "store", "b", write=True) as store:
        store.add(growth(KEPT), "news", {})
    shutil.copy(killed / "store.seal", run)
    assert len(read(run)) == KEPT + 1


def test_a_damaged_seal_is_named(killed: Path, tmp_path: Path, chance: random.Random) -> None:
    run = shutil.copytree(killed, tmp_path / "run")
    seal = run / "store.seal"
    whole = seal.read_bytes()
    for _ in range(50):
        seal.write_bytes(damage(chance, whole))
        try:
            assert len(read(run)) == KEPT
        except BundleError as error:
            assert str(error).startswith(f"{seal}: damaged")  # noqa: PT017 (either is right)
            assert "delete this file" in str(error)  # noqa: PT017


# Stores that somebody made


def forge(run: Path, *statements: str, **state: Any) -> None:
    """Change a store and give its state the right checksum."""
    (run / "store.seal").unlink(missing_ok=True)
    with closing(sqlite3.connect(run / "store" / FILE)) as connection, connection:
        (content,) = connection.execute("SELECT content FROM state").fetchone()
        content = json.dumps(json.loads(content) | state).encode()
        row = content, zlib.crc32(content)
        connection.execute("UPDATE state SET content = ?, crc = ?", row)
        connection.executescript(";".join(statements))


ENDLESS = "WITH RECURSIVE x(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM x) SELECT"
DEEP = "zeroblob(0) || replace(hex(zeroblob(100000)), '00', '[')"


@pytest.mark.parametrize(
    "statements",
    [
        ("ALTER TABLE state RENAME TO s",
         f"CREATE VIEW state AS {ENDLESS} n content, n crc FROM x"),
        ("ALTER TABLE additions RENAME TO a",
         f"CREATE VIEW additions AS {ENDLESS} n number, n line, n crc FROM x"),
        ("CREATE TRIGGER t AFTER INSERT ON additions BEGIN DELETE FROM pieces; END",),
        ("CREATE TABLE more (x)",),
        ("DROP TABLE pieces", "CREATE TABLE pieces (key INTEGER PRIMARY KEY, content BLOB, x)"),
    ],
)  # fmt: skip
def test_only_the_tables_of_a_run_are_read(
    killed: Path, tmp_path: Path, statements: tuple[str, ...]
) -> None:
    run = shutil.copytree(killed, tmp_path / "run")
    forge(run, *statements)
    with pytest.raises(BundleError, match="not the tables that a run writes"):
        read(run)


@pytest.mark.parametrize(
    "state",
    [
        {"last": 10**30}, {"last": -1}, {"next": 2**62}, {"next": 1}, {"folded": 99}, {"base": 7},
        {"sides": []}, {"sides": {"": ["x", 1]}}, {"sides": {"": [-1, 1]}}, {"crc": None},
        {"more": 1}, {"last": True}, {"last": 6.0},
    ],
)  # fmt: skip
def test_an_impossible_state_is_an_error(
    killed: Path, tmp_path: Path, state: dict[str, Any]
) -> None:
    run = shutil.copytree(killed, tmp_path / "run")
    forge(run, **state)
    with pytest.raises(BundleError, match=rf"{FILE}: damaged"):
        read(run)


ODD = [None, True, -1, 10**12, 2**70, 0.5, "x", [], [[]], {}, float("nan"), [10**12, 4], [1, -4]]


def forged_line(run: Path, chance: random.Random) -> str:
    """Change a line of a store, or a piece, and give everything the right checksums."""
    (run / "store.seal").unlink(missing_ok=True)
    with closing(sqlite3.connect(run / "store" / FILE)) as connection, connection:
        rows = connection.execute("SELECT number, line FROM additions ORDER BY number").fetchall()
        lines = [json.loads(line) for _, line in rows]
        line = chance.choice(lines)
        if chance.random() < 0.6:
            key = chance.choice(sorted(line))
            line[key] = odd = chance.choice(ODD)
            what = f"{key} = {odd!r}"
        else:
            place = chance.randrange(len(line["pieces"]))
            piece = chance.choice(
                (b"", b"[" * 100_000, b"[1]", b'["a", "a"]', b"{}", b'["new 0"]', b"\xff" * 24,
                 np.array([10**6, 0, 3]).tobytes(), np.array([5, 10**6, 3]).tobytes(),
                 np.array([-1, 0, 3]).tobytes(), np.full(4, np.nan, np.float32).tobytes(),
                 np.array([-5]).tobytes(), b"x" * 23)
            )  # fmt: skip
            key = line["number"] << 20 | place
            connection.execute("UPDATE pieces SET content = ? WHERE key = ?", (piece, key))
            line["pieces"][place] = zlib.crc32(piece)
            what = f"piece {place} = {piece[:24]!r}"
        crc = 0
        for (number, _), kept in zip(rows, lines, strict=True):
            content = json.dumps(kept).encode()
            crc = zlib.crc32(content, crc)
            values = content, crc, number
            connection.execute("UPDATE additions SET line = ?, crc = ? WHERE number = ?", values)
    forge(run, crc=crc)
    return what


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with additions in its store."""
    run = shutil.copytree(GOLDEN / "predictor-v3", tmp_path_factory.mktemp("grown") / "run")
    with Predictor.load(run, "cpu", durable=True) as predictor:
        for number in range(3):
            predictor.add([(f"n{number}", "next", "e00"), (f"n{number}", "over", "e01")])
    return run


@pytest.mark.trials(60, 300)
def test_a_store_with_right_checksums_and_impossible_contents_is_an_error(
    trials: int, grown: Path, tmp_path: Path, chance: random.Random, tally: Tally
) -> None:
    found = tally("malicious stores")
    for trial in range(trials):
        run = shutil.copytree(grown, tmp_path / str(trial))
        what = forged_line(run, chance)
        found.trials += 1
        try:
            with Predictor.load(run, "cpu") as predictor:
                predictor.predict(head="e00", relation="next", top=3)
                predictor.neighbours("e00")
                predictor.log()
        except BundleError as error:
            assert f"{FILE}: " in str(error)  # noqa: PT017 (either is right)
            assert "\n" not in str(error)  # noqa: PT017
        except Exception as error:
            found.tracebacks += 1
            print(what, repr(error))
        shutil.rmtree(run)
    assert found.clean


@pytest.mark.parametrize(
    "name", ["store", f"store/{FILE}", "store/lock", "store.seal", f"store/{FILE}-wal"]
)
@pytest.mark.parametrize("write", [False, True])
def test_nothing_is_written_through_a_link(
    killed: Path, tmp_path: Path, name: str, write: bool
) -> None:
    run, elsewhere = shutil.copytree(killed, tmp_path / "run"), tmp_path / "elsewhere"
    (run / name).rename(elsewhere)
    (run / name).symlink_to(elsewhere)
    before = {p: p.read_bytes() for p in [elsewhere, *elsewhere.rglob("*")] if p.is_file()}
    with pytest.raises(BundleError, match="is a link"):
        Store(run / "store", "b", write=write)
    assert {p: p.read_bytes() for p in before} == before


def test_a_journal_that_names_another_file_deletes_nothing(killed: Path, tmp_path: Path) -> None:
    """SQLite deletes the file that a journal of several databases names."""
    run, thesis = shutil.copytree(killed, tmp_path / "run"), tmp_path / "thesis"
    thesis.write_text("years of work")
    name = str(thesis).encode()
    page = 4096
    journal = b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + b"\xff\xff\xff\xff" + bytes(4)
    store = (run / "store" / FILE).read_bytes()
    journal += (len(store) // page).to_bytes(4, "big") + (512).to_bytes(4, "big")
    journal += page.to_bytes(4, "big")
    journal = journal.ljust(512, b"\0") + (2**30 // page + 1).to_bytes(4, "big") + name
    journal += len(name).to_bytes(4, "big") + sum(name).to_bytes(4, "big")
    journal += b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"
    (run / "store" / f"{FILE}-journal").write_bytes(journal)
    for write in (False, True):
        with pytest.raises(BundleError):
            Store(run / "store", "b", write=write)
    assert thesis.read_text() == "years of work"


# Readers

READER = """
import os, resource, signal, sys
from pathlib import Path
how, folder = sys.argv[1], Path(sys.argv[2])
from decentrl.storage.additions import Store
if how == "full":
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
elif os.geteuid() == 0:
    os.setuid(65534)
with Store(folder, "b") as store:
    print(store.last, flush=True)
    sys.stdin.readline()
    store.since(0)
    print(store.last, flush=True)
"""


@pytest.fixture
def public(tmp_path: Path) -> Path:
    """A folder that anybody may enter."""
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_mode & 0o005 != 0o005:  # those that pytest has made
            folder.chmod(0o755)
    return tmp_path


@pytest.mark.parametrize("left", ["closed", "killed"])
@pytest.mark.parametrize("how", ["full", "no right"])
def test_a_reader_sees_what_comes_where_it_cannot_write(
    killed: Path, public: Path, how: str, left: str
) -> None:
    """On a full disk, or in a folder it has no right to write to; later, too."""
    run = shutil.copytree(killed, public / "run")
    if left == "closed":
        Store(run / "store", "b", write=True).close()
        assert not (run / "store" / f"{FILE}-wal").exists()
    for path in (run, *run.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    command = [sys.executable, "-c", READER, how, run / "store"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as reader:
        assert reader.stdin
        assert reader.stdout
        assert reader.stderr
        assert reader.stdout.readline() == f"{KEPT}\n", reader.stderr.read()
        with Store(run / "store", "b", write=True) as store:
            store.add(growth(KEPT), "news", {})
        reader.stdin.write("\n")
        reader.stdin.flush()
        assert reader.stdout.readline() == f"{KEPT + 1}\n", reader.stderr.read()
    assert reader.returncode == 0


assert os.name == "posix", "attacks on files are those of Linux"
