"""A store keeps whole additions in order, gives them back bit for bit, and notices damage."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decentrl.data.literals import NO_LITERALS, Literals
from decentrl.data.names import Names
from decentrl.errors import BundleError, InputError
from decentrl.storage.addition import Addition, Growth
from decentrl.storage.additions import Store
from decentrl.storage.decision import Decision
from decentrl.storage.store_file import FILE, VERSION

WIDTH = {"left": 3, "right": 700}  # a row of the right does not fit into a page


def growth(
    side: str = "left", first: int = 100, new: int = 2, again: tuple[int, ...] = (), seed: int = 0
) -> Growth:
    """``new`` entities and others whose rows are made again, with random contents."""
    rng = np.random.default_rng((seed, first, new, *again))
    ids = np.array(sorted({*again, *range(first, first + new)}), np.int64)
    return Growth(
        side,
        rng.integers(0, first + new, (rng.integers(5), 3)),
        [f"{side} é\n{first + i}" for i in range(new)],
        first,
        ids,
        rng.standard_normal((len(ids), WIDTH[side]), np.float32),
        Literals(Names.of_rows(ids[:1], [f"name <{seed}>"], ["he"])) if new % 2 else NO_LITERALS,
    )


def plain(found: Growth) -> dict[str, Any]:
    """A growth as something that can be compared."""
    assert found.triples.dtype == found.ids.dtype == np.int64
    assert found.rows.dtype == np.float32
    assert found.rows.shape[0] == len(found.ids)
    return {
        "side": found.side,
        "triples": found.triples.tolist(),
        "labels": found.labels,
        "first": found.first,
        "names": found.literals.names.to_arrow().to_pylist(),
        "rows": {i: row.tobytes() for i, row in zip(found.ids.tolist(), found.rows, strict=True)},
    }


def contents(store: Store) -> dict[str, Any]:
    """All that can be read of a store."""
    return {
        "last": store.last,
        "log": store.log(),
        "since": [(addition, plain(x)) for addition, x in store.since(0)],
        "decisions": store.decisions(),
    }


NONE, ROWS = np.zeros((0, 3), np.int64), np.zeros((2, WIDTH["left"]), np.float32)
EMPTY: dict[str, Any] = {"last": 0, "log": [], "since": [], "decisions": []}


def decision(number: int, verdict: str = "accept") -> Decision:
    return Decision.now(number, verdict, [(f"é\n{number}", "b"), ("c", "")], "Ada", "why\t")


# What one store does


def test_an_addition_comes_back(tmp_path: Path) -> None:
    with Store(tmp_path, "bundle", write=True) as store:
        added = store.add(growth(again=(7,)), "news.tsv", {"ignored": 3})
        assert (added.number, added.side, added.source) == (1, "left", "news.tsv")
        assert (added.triples, added.entities) == (len(growth(again=(7,)).triples), 2)
        assert (added.facts, added.folded) == ({"ignored": 3}, False)
        assert added.time.endswith("+00:00")
        assert len(added.time) == len("2026-01-01T00:00:00.000+00:00")
    with Store(tmp_path, "bundle") as store:
        assert store.log() == [added]
        ((line, found),) = store.since(0)
        assert (line, plain(found)) == (added, plain(growth(again=(7,))))
        found.rows[:] = 0  # what was read is the reader's own


def test_undo_takes_back_the_last_addition_and_leaves_the_one_before(tmp_path: Path) -> None:
    with Store(tmp_path, "bundle", write=True) as store:
        store.add(growth(), "a", {})
        before = contents(store)
        store.add(growth(first=102, new=0, again=(100, 101), seed=1), "b", {})
        assert contents(store) != before
        assert store.undo().source == "b"
        assert contents(store) == before


def test_numbers_are_not_given_twice_so_that_a_reader_notices_what_was_taken_back(
    tmp_path: Path,
) -> None:
    with Store(tmp_path, "b", write=True) as store, Store(tmp_path, "b") as reader:
        store.add(growth(), "a", {})
        seen = reader.last
        store.undo()
        assert store.add(growth(), "b", {}).number == 2
        with pytest.raises(BundleError, match=r"addition 1 is not there.*load the run again"):
            reader.since(seen)


def test_rows_in_several_pieces(tmp_path: Path) -> None:
    many = growth("right", new=1000)
    with Store(tmp_path, "b", write=True) as store:
        store.add(many, "a", {})
        more = growth("right", 1100, 1, again=tuple(range(100, 700)))
        store.add(more, "b", {})
        assert [plain(found) for _, found in store.since(0)] == [plain(many), plain(more)]


OPERATION = st.one_of(
    st.tuples(
        st.just("add"),
        st.sampled_from(["left", "right"]),
        st.integers(0, 3),
        st.sets(st.integers(95, 110), max_size=4),
    ),
    st.tuples(
        st.sampled_from(["undo", "undo", "fold", "fold, but for the store", "reopen", "decide"])
    ),
)


@settings(deadline=None, max_examples=40)
@given(st.lists(OPERATION, max_size=12))
def test_whatever_is_done_a_store_is_a_list_of_additions(operations: list[Any]) -> None:
    log: list[Addition] = []
    decided: list[Decision] = []
    kept: list[Growth] = []  # of the last additions, those that no bundle holds
    next_id, bundle = {"left": 100, "right": 100}, 0
    grown_from: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary, "store")
        store = Store(folder, "0", write=True)
        for step, (what, *how) in enumerate(operations):
            if what == "add":
                side, new, again = how
                again = tuple(i for i in again if i < next_id[side])
                kept.append(growth(side, next_id[side], new, again, step))
                log.append(store.add(kept[-1], f"step {step}", {"step": step}))
                next_id[side] += new
            elif what == "decide":
                decided += [decision(len(decided) + 1), decision(len(decided) + 2, "undo")]
                store.decide(decided[-2:])
            elif what == "undo" and kept:
                assert store.undo() == log.pop()
                next_id[kept[-1].side] -= len(kept.pop().labels)
            elif what == "undo":
                with pytest.raises(InputError, match="no addition to take back"):
                    store.undo()
            elif what.startswith("fold"):
                grown_from = {"base": str(bundle), "additions": store.last}
                bundle += 1
                if what == "fold":
                    store.fold(str(bundle))
                log, kept = [replace(line, folded=True) for line in log], []
            expected = {
                "last": log[-1].number if log else 0,
                "log": log,
                "since": [
                    (line, plain(x)) for line, x in zip(log[-len(kept) :], kept, strict=False)
                ],
                "decisions": decided,
            }
            if what in ("reopen", "fold, but for the store"):
                store.close()
                with Store(folder, str(bundle), grown_from=grown_from) as reader:
                    assert contents(reader) == expected
                store = Store(folder, str(bundle), write=True, grown_from=grown_from)
            assert contents(store) == expected
        store.close()


@pytest.mark.parametrize(
    "wrong",
    [
        growth(first=103),
        growth("right", first=102),
        Growth("left", np.zeros((1, 2), np.int64), [], 102, np.zeros(0, np.int64), ROWS[:0]),
        Growth("left", NONE, [], 102, np.array([5]), ROWS),
        Growth("left", NONE, [], 102, np.array([6, 5]), ROWS),
        Growth("left", NONE, [], 102, np.array([5, 5]), ROWS),
    ],
    ids=["another first id", "wider", "two columns", "an id missing", "not ascending", "twice"],
)
def test_an_addition_that_does_not_fit_is_refused(tmp_path: Path, wrong: Growth) -> None:
    with Store(tmp_path, "b", write=True) as store:
        store.add(growth(), "a", {})
        before = contents(store)
        with pytest.raises(ValueError):
            store.add(replace(wrong, side="left"), "b", {})
        assert contents(store) == before


def test_facts_that_are_no_json_leave_nothing_of_the_addition(tmp_path: Path) -> None:
    with Store(tmp_path, "b", write=True) as store:
        with pytest.raises(TypeError):
            store.add(growth(), "a", {"a": object()})
        assert contents(store) == EMPTY
        store.add(growth(), "a", {})


def test_a_closed_store_does_not_open_again(tmp_path: Path) -> None:
    with Store(tmp_path, "b", write=True) as store, Store(tmp_path, "b") as reader:
        reader.close()
        store.add(growth(), "a", {})
    for closed in (store, reader):
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            closed.log()


def test_a_full_disk_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with Store(tmp_path, "b", write=True) as store:
        with monkeypatch.context() as patch:
            patch.setattr(Path, "replace", full)
            with pytest.raises(BundleError, match=rf"{FILE}: .*No space left.*disk is not full"):
                store.add(growth(), "a", {})
        store.add(growth(), "a", {})
        before = contents(store)
        pages = store._connection.execute("PRAGMA page_count").fetchone()[0]
        store._connection.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(BundleError, match=rf"{FILE}: .*full"):
            store.add(growth("right", new=100), "a", {})
        assert contents(store) == before


# Its bundle


def test_a_store_of_another_bundle_is_refused(tmp_path: Path) -> None:
    with Store(tmp_path, "old", write=True) as store:
        store.add(growth(), "a", {})
        store.add(growth(first=102), "b", {})
    for grown_from in (None, {"base": "other", "additions": 2}, {"base": "old", "additions": 1}):
        for write in (False, True):
            with pytest.raises(BundleError, match=rf"{FILE}: .*another bundle.*restore"):
                Store(tmp_path, "new", write=write, grown_from=grown_from)
    with Store(tmp_path, "old") as store:
        assert store.last == 2


def test_an_empty_store_fits_any_bundle(tmp_path: Path) -> None:
    with Store(tmp_path, "old", write=True) as store:
        store.add(growth(), "a", {})
        store.undo()
    with Store(tmp_path, "new") as store:
        assert contents(store) == EMPTY
    with Store(tmp_path, "new", write=True) as store:
        store.add(growth("right", first=7), "b", {})
    with Store(tmp_path, "new") as store:
        assert store.last == 2


def test_a_reader_of_the_bundle_before_a_fold_is_told_to_load_again(tmp_path: Path) -> None:
    with Store(tmp_path, "old", write=True) as store, Store(tmp_path, "old") as reader:
        store.add(growth(), "a", {})
        assert reader.last == 1
        store.fold("new")
        with pytest.raises(BundleError, match="load the run again"):
            reader.since(0)
        assert store.log()[0].folded


def test_a_fold_gives_back_the_space(tmp_path: Path) -> None:
    with Store(tmp_path, "old", write=True) as store:
        store.add(growth("right", new=1000), "a", {})
    assert (tmp_path / FILE).stat().st_size > 2_800_000
    with Store(tmp_path, "old", write=True) as store:
        store.fold("new")
    assert (tmp_path / FILE).stat().st_size < 50_000


# Several at a time


def test_a_reader_before_the_first_addition_makes_no_file_and_sees_it_later(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "store"
    with Store(folder, "b") as reader:
        assert contents(reader) == EMPTY
        assert not folder.exists()
        with Store(folder, "b", write=True) as store:
            assert contents(store) == EMPTY
            assert [path.name for path in folder.iterdir()] == ["lock"]
            store.add(growth(), "a", {})
        assert reader.last == 1
        with pytest.raises(ValueError, match="write=True"):
            reader.undo()


SECOND = """
import sys
from pathlib import Path
from decentrl.errors import BundleError
from decentrl.storage.additions import Store
try:
    Store(Path(sys.argv[1]), "b", write=True).close()
except BundleError as error:
    print(error)
"""


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    def second() -> str:
        command = [sys.executable, "-c", SECOND, tmp_path]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    with Store(tmp_path, "b", write=True) as store:
        assert "another process is adding to this run; wait" in second()
        with pytest.raises(BundleError, match="another process is adding"):
            Store(tmp_path, "b", write=True)
        store.add(growth(), "a", {})
    assert second() == ""


def test_threads_share_a_store(tmp_path: Path) -> None:
    with Store(tmp_path, "b", write=True) as store:

        def add() -> None:
            for _ in range(10):
                store.add(growth(new=0, again=(5, 6)), "a", {})
                store.since(0)

        threads = [threading.Thread(target=add) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [line.number for line in store.log()] == list(range(1, 41))


@pytest.fixture
def elsewhere() -> Iterator[Path]:
    """A folder that any user may enter."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "store")
        folder.parent.chmod(0o755)
        folder.mkdir()
        yield folder
        folder.chmod(0o755)


@contextmanager
def forbidden(folder: Path) -> Iterator[None]:
    """Nobody may write to a folder, not even root."""
    folder.chmod(0o555)
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)
        folder.chmod(0o755)


def test_a_folder_that_cannot_be_written_can_be_read(elsewhere: Path) -> None:
    with Store(elsewhere, "b", write=True) as store:
        store.add(growth(), "a", {})
        expected = contents(store)
    files = sorted(path.name for path in elsewhere.iterdir())
    assert files == ["lock", FILE]
    with forbidden(elsewhere):
        with Store(elsewhere, "b") as store:
            assert contents(store) == expected
        with pytest.raises(BundleError, match="cannot be written"):
            Store(elsewhere, "b", write=True)
    assert sorted(path.name for path in elsewhere.iterdir()) == files


def test_what_waits_in_a_log_is_not_passed_over_where_nothing_can_be_written(
    elsewhere: Path,
) -> None:
    with Store(elsewhere, "b", write=True) as store:
        store.add(growth(), "a", {})
        copy = elsewhere / "copy"
        copy.mkdir()
        for name in (FILE, f"{FILE}-wal"):
            shutil.copy(elsewhere / name, copy)
    with forbidden(copy), Store(copy, "b") as store:
        assert store.last == 1
    with Store(copy, "b") as store:
        assert store.last == 1


# Damage


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes, dict[str, Any]]:
    """A store in one file in which all has happened: its folder, its bytes, its contents."""
    folder = tmp_path_factory.mktemp("whole")
    with Store(folder, "old", write=True) as store:
        store.add(growth(), "a", {})
        store.fold("new")
        store.add(growth(first=102), "b", {"x": 1})
        store.add(growth("right", new=1), "c", {})
        store.undo()
        for i in range(3):
            store.add(growth("right", 100 + i, 1, again=(99,), seed=i), "long words " * 30, {})
        store.decide([decision(1), decision(2, "reject")])
        store.decide([decision(3, "undo")])
        expected = contents(store)
    assert sorted(path.name for path in folder.iterdir()) == ["lock", FILE]
    return folder, (folder / FILE).read_bytes(), expected


def check_damaged(whole: tuple[Path, bytes, dict[str, Any]], damaged: bytes) -> None:
    """It reads as before, or it is an error that names the file."""
    folder, _, expected = whole
    for path in folder.glob(f"{FILE}*"):
        path.unlink()
    (folder / FILE).write_bytes(damaged)
    try:
        with Store(folder, "new") as store:
            found = contents(store)
    except BundleError as error:
        assert str(error).startswith(f"{folder / FILE}: ")  # noqa: PT017 (either is right)
        assert str(error).isprintable()  # noqa: PT017
    else:
        assert found == expected


@settings(deadline=None, max_examples=300)
@given(st.data())
def test_no_byte_changes_unseen(
    whole: tuple[Path, bytes, dict[str, Any]], data: st.DataObject
) -> None:
    damaged = bytearray(whole[1])
    # The first page, with the header and the tables' names, is more interesting than its share.
    page = st.integers(0, 99) | st.integers(3600, 4095)
    place = data.draw(page | st.integers(0, len(damaged) - 1))
    damaged[place] ^= data.draw(st.integers(1, 255))
    check_damaged(whole, bytes(damaged))


@settings(deadline=None, max_examples=50)
@given(st.data())
def test_no_end_is_lost_unseen(
    whole: tuple[Path, bytes, dict[str, Any]], data: st.DataObject
) -> None:
    check_damaged(whole, whole[1][: data.draw(st.integers(1, len(whole[1]) - 1))])


@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM state",
        "DELETE FROM pieces WHERE key = (SELECT max(key) FROM pieces)",
        "DELETE FROM additions WHERE number = 2",
        "DELETE FROM additions WHERE number = (SELECT max(number) FROM additions)",
        "UPDATE additions SET line = (SELECT line FROM additions WHERE number = 1)",
        "UPDATE pieces SET content = NULL",
        "UPDATE additions SET crc = 'x'",
        "DROP TABLE pieces",
        "DELETE FROM decisions WHERE number = 2",
        "DELETE FROM decisions WHERE number = 3",
        "UPDATE decisions SET line = (SELECT line FROM decisions WHERE number = 1)",
        "DROP TABLE decisions",
        "PRAGMA user_version = 0",
    ],
)
def test_nothing_goes_missing_unseen(
    whole: tuple[Path, bytes, dict[str, Any]], tmp_path: Path, change: str
) -> None:
    (tmp_path / FILE).write_bytes(whole[1])
    with closing(sqlite3.connect(tmp_path / FILE)) as connection, connection:
        connection.execute(change)
    with (
        pytest.raises(BundleError, match=rf"{FILE}: damaged .*; copy the run again"),
        Store(tmp_path, "new") as store,
    ):
        contents(store)


def test_a_newer_format_asks_for_an_upgrade(
    whole: tuple[Path, bytes, dict[str, Any]], tmp_path: Path
) -> None:
    (tmp_path / FILE).write_bytes(whole[1])
    with closing(sqlite3.connect(tmp_path / FILE)) as connection:
        connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    with pytest.raises(BundleError, match=rf"version {VERSION + 1}, .*; upgrade decentrl"):
        Store(tmp_path, "new")


def test_opening_a_store_needs_no_torch() -> None:
    code = "import sys, decentrl.storage.additions; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
