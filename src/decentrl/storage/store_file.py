"""The SQLite file of a store: its tables, the state in it, and the lock beside it."""

from __future__ import annotations

import json
import os
import sqlite3
import zlib
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path

from decentrl.errors import BundleError
from decentrl.storage.files import sync_folder
from decentrl.storage.lock import locked_file

FILE, LOCK, VERSION = "store.sqlite", "lock", 2
_DECISIONS = "decisions (number INTEGER PRIMARY KEY, line BLOB, crc INTEGER)"
_SCHEMA = f"""
    CREATE TABLE state (content BLOB, crc INTEGER);
    CREATE TABLE additions (number INTEGER PRIMARY KEY, line BLOB, crc INTEGER);
    CREATE TABLE pieces (key INTEGER PRIMARY KEY, content BLOB);
    CREATE TABLE {_DECISIONS};
    PRAGMA user_version = {VERSION};
"""
ADD_DECISIONS = f"CREATE TABLE IF NOT EXISTS {_DECISIONS}", f"PRAGMA user_version = {VERSION}"
"""What makes a file of version 1, which has no decisions, one of this version."""
UNWRITABLE = {
    sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL,
}  # fmt: skip
# What the disk or another process does; every other error of SQLite means a damaged file.
CIRCUMSTANCES = UNWRITABLE | {sqlite3.SQLITE_BUSY}


@dataclass(frozen=True)
class State:
    """What changes in place."""

    base: str  # the bundle that was added to
    last: int = 0  # number of the last addition
    next: int = 1  # the number of the next one
    folded: int = 0  # additions up to this number are part of the bundle
    crc: int = 0  # of the last line
    sides: dict[str, list[int]] = field(default_factory=dict)  # the next id, the width of rows
    decisions: int = 0  # how many there are
    decisions_crc: int = 0  # of the last one

    def __post_init__(self) -> None:
        numbers = self.folded, self.last, self.next, self.crc, self.decisions, self.decisions_crc
        if not isinstance(self.base, str) or any(type(x) is not int for x in numbers):
            raise ValueError("not the state of a store")
        if not 0 <= self.folded <= self.last < self.next < 2**42 or self.decisions < 0:
            raise ValueError("the numbers of additions are impossible")
        for size, width in self.sides.values():
            if (type(size), type(width)) != (int, int) or min(size, width) < 0:
                raise ValueError("the sizes of sides are impossible")

    def row(self) -> tuple[bytes, int]:
        content = json.dumps(asdict(self)).encode()
        return content, zlib.crc32(content)

    def follows(self, other: State) -> bool:
        """Whether this may be a later state, or the same: numbers are never given twice."""
        mine, others = ((x.next, -x.last) for x in (self, other))
        more = self.decisions > other.decisions
        kept = (self.decisions, self.decisions_crc) == (other.decisions, other.decisions_crc)
        return (more or kept) and (mine > others or (mine == others and self.crc == other.crc))


def connect(address: str) -> sqlite3.Connection:
    # Every transaction is written out, and taken by one thread at a time.
    connection = sqlite3.connect(
        address, timeout=30, isolation_level=None, check_same_thread=False, uri=True
    )
    connection.execute("PRAGMA cell_size_check = ON")
    connection.execute("PRAGMA trusted_schema = OFF")
    return connection


def tables(connection: sqlite3.Connection) -> list[tuple[str, ...]]:
    """All that a file declares, as far as it is not more than it may be: no views, no triggers."""
    rows = connection.execute("SELECT type, name, sql FROM sqlite_master ORDER BY name")
    return rows.fetchmany(8)


@cache
def our_tables(version: int = VERSION) -> list[tuple[str, ...]]:
    with closing(empty(":memory:", "")) as connection:
        if version == 1:
            connection.execute("DROP TABLE decisions")
        return tables(connection)


def refuse_links(folder: Path, *files: Path) -> None:
    """Refuse links, through which writing to a run from a stranger would change other files."""
    for file in (folder, folder / LOCK, *files):
        if os.path.islink(file):  # of one that may not be looked at nothing is said here
            raise BundleError(f"{file}: is a link; put what it leads to in its place")


def empty(place: str, base: str) -> sqlite3.Connection:
    connection = connect(place)
    connection.executescript(_SCHEMA)
    connection.execute("INSERT INTO state VALUES (?, ?)", State(base).row())
    return connection


def locked(folder: Path) -> ExitStack:
    """Become the only writer, until what this returns is closed."""
    with ExitStack() as stack:
        try:
            new = not folder.exists()
            folder.mkdir(parents=True, exist_ok=True)
            if new:
                sync_folder(folder.parent)  # or a power cut could take all that is kept in it
            free = stack.enter_context(locked_file(folder / LOCK))
        except OSError as error:
            raise BundleError(
                f"{folder}: cannot be written ({error.strerror}); copy the run to where it can"
            ) from error
        if not free:
            raise BundleError(
                f"{folder}: another process is adding to this run; wait until it has finished"
            )
        return stack.pop_all()
