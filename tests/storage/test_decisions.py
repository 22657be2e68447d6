"""A store keeps every decision in order, beside its additions, and misses none that is lost."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from decentrl.errors import BundleError
from decentrl.storage.additions import Store
from decentrl.storage.decision import Decision, check_decision
from decentrl.storage.store_file import FILE, VERSION

PAIRS = [("Köln\t", "Cologne"), ("", "\N{RIGHT-TO-LEFT OVERRIDE}")]


def decisions(first: int, *verdicts: str) -> list[Decision]:
    return [Decision.now(first + i, x, PAIRS, "Ada", "note") for i, x in enumerate(verdicts)]


def test_decisions_come_back_and_a_reader_sees_those_after_the_last_it_knows(
    tmp_path: Path,
) -> None:
    made = decisions(1, "accept", "reject", "undo")
    with Store(tmp_path, "b") as reader, Store(tmp_path, "b", write=True) as store:
        assert reader.decisions() == []
        store.decide(made[:1])
        assert reader.decisions() == made[:1]
        store.decide(made[1:])
        assert reader.decisions(1) == made[1:]
        assert reader.decisions(3) == []
        assert (reader.last, reader.log()) == (0, [])
    with Store(tmp_path, "another bundle") as store:  # they name labels, so they fit any
        assert store.decisions() == made


def test_decisions_are_numbered_one_after_the_other(tmp_path: Path) -> None:
    with Store(tmp_path, "b", write=True) as store:
        store.decide(decisions(1, "skip"))
        for wrong in (1, 3):
            with pytest.raises(ValueError, match="the next decision is 2"):
                store.decide(decisions(wrong, "skip"))
        with pytest.raises(ValueError, match="unknown decision"):
            store.decide(decisions(2, "accept", "perhaps"))
        assert [x.number for x in store.decisions()] == [1]


def test_a_fold_leaves_decisions(tmp_path: Path) -> None:
    with Store(tmp_path, "old", write=True) as store:
        store.decide(decisions(1, "accept"))
        store.fold("new")
        store.decide(decisions(2, "reject"))
    with Store(tmp_path, "new") as store:
        assert [x.verdict for x in store.decisions()] == ["accept", "reject"]


def test_decisions_that_are_lost_with_the_file_are_missed(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    with Store(folder, "b", write=True) as store:
        store.decide(decisions(1, "accept"))
    before = (folder / FILE).read_bytes()
    with Store(folder, "b", write=True) as store:
        store.decide(decisions(2, "reject"))
    (folder / FILE).write_bytes(before)
    with pytest.raises(BundleError, match=r"0 additions and 2 decisions or more.*0 and 1"):
        Store(folder, "b")
    shutil.rmtree(folder)
    with pytest.raises(BundleError, match="damaged or deleted"):
        Store(folder, "b")


def test_another_decision_in_place_of_one_is_missed(tmp_path: Path) -> None:
    folder, other = tmp_path / "store", tmp_path / "other"
    for at, verdict in ((folder, "accept"), (other, "reject")):
        with Store(at, "b", write=True) as store:
            store.decide(decisions(1, verdict))
    shutil.copy(other / FILE, folder / FILE)
    with pytest.raises(BundleError, match="damaged or deleted"):
        Store(folder, "b")


def test_a_store_of_before_there_were_decisions_is_read_and_can_have_some(tmp_path: Path) -> None:
    with Store(tmp_path, "b", write=True) as store:
        store.decide([])  # makes the file
    with closing(sqlite3.connect(tmp_path / FILE)) as connection, connection:
        connection.execute("DROP TABLE decisions")
        connection.execute("PRAGMA user_version = 1")
    with Store(tmp_path, "b") as reader:
        assert reader.decisions() == []
        with Store(tmp_path, "b", write=True) as store:
            store.decide(decisions(1, "accept"))
        assert len(reader.decisions()) == 1
    with closing(sqlite3.connect(tmp_path / FILE)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (VERSION,)
    with Store(tmp_path, "b") as store:
        assert len(store.decisions()) == 1


LINE = decisions(1, "accept")[0].line()


@pytest.mark.parametrize(
    "wrong",
    [
        [],
        {},
        LINE | {"number": "1"},
        LINE | {"verdict": "perhaps"},
        LINE | {"pairs": [["a"]]},
        LINE | {"pairs": [["a", 1]]},
        LINE | {"pairs": ["ab"]},
        LINE | {"by": None},
        LINE | {"learned": 0},
    ],
)
def test_a_line_that_no_run_has_written_is_refused(wrong: Any) -> None:
    assert check_decision(LINE) == LINE
    with pytest.raises(ValueError, match="decision"):
        check_decision(wrong)
