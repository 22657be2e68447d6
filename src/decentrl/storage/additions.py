"""What was added to a run after training, in one SQLite file beside the bundle.

A store knows ids, labels, triples and opaque rows of floats; it knows nothing of models. Each
addition is one transaction and adds only: a line to the log and pieces (labels, triples, rows of
floats). An entity's row is that of the last addition that made one, so taking an addition back is
deleting what it wrote. Numbers are never given twice, so that a reader notices what was taken back.

Nothing in the file changes unseen. A line of the log has the CRC-32 of its pieces and its own one,
which goes on from that of the line before; the last one is in the state, which has one too.
"""

from __future__ import annotations

import json
import sqlite3
import threading
import zlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from decentrl.errors import BundleError, InputError
from decentrl.storage.addition import CHUNK, Addition, Growth, Line
from decentrl.storage.files import sync_folder, whole_files
from decentrl.storage.lock import locked_file

__all__ = ["FILE", "LOCK", "VERSION", "Addition", "Growth", "Store"]

FILE, LOCK, VERSION = "store.sqlite", "lock", 1
_PIECES = 20  # bits of a piece's key that count within its addition
_SCHEMA = f"""
    CREATE TABLE state (content BLOB, crc INTEGER);
    CREATE TABLE additions (number INTEGER PRIMARY KEY, line BLOB, crc INTEGER);
    CREATE TABLE pieces (key INTEGER PRIMARY KEY, content BLOB);
    PRAGMA user_version = {VERSION};
"""
_FORBIDDEN = {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM}
# What the disk or another process does; every other error of SQLite means a damaged file.
_CIRCUMSTANCES = _FORBIDDEN | {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL}


@dataclass(frozen=True)
class _State:
    """What changes in place."""

    base: str  # the bundle that was added to
    last: int = 0  # number of the last addition
    next: int = 1  # the number of the next one
    folded: int = 0  # additions up to this number are part of the bundle
    crc: int = 0  # of the last line
    sides: dict[str, list[int]] = field(default_factory=dict)  # the next id, the width of rows

    def row(self) -> tuple[bytes, int]:
        content = json.dumps(asdict(self)).encode()
        return content, zlib.crc32(content)


class Store:
    """The additions to the bundle with the id ``base``. Readers see whole additions only.

    ``grown_from`` is in that bundle if it was compacted: the id of the bundle before, ``base``, and
    the number of the last of the ``additions`` in it. With it a fold that was interrupted after the
    bundle was written is recognised, and finished by a writer.

    There is one writer at a time. A reader may come before the first addition: it leaves no file,
    and sees that addition when it is there.
    """

    def __init__(
        self,
        folder: Path,
        base: str,
        *,
        write: bool = False,
        grown_from: Mapping[str, Any] | None = None,
    ) -> None:
        self.file = folder / FILE
        self.base, self._grown_from = base, dict(grown_from or {})
        self._writes, self._lock = write, _locked(folder) if write else ExitStack()
        self._thread = threading.RLock()
        self._connection = _empty(":memory:", base)
        self._on_disk = False
        try:
            with self._transaction() as state:
                stale = self._read_state() != state
            if write and stale:
                self.fold(base)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        with self._thread:
            self._connection.close()
            self._on_disk = True  # nothing is to connect again
            self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Reading

    @property
    def last(self) -> int:
        """The number of the last addition; 0 if there is none."""
        with self._transaction() as state:
            return state.last

    def log(self) -> list[Addition]:
        """Every addition, in order."""
        with self._transaction() as state:
            lines = self._lines(state, 0)
        return [Addition.from_line(line, line["number"] <= state.folded) for line in lines]

    def since(self, number: int) -> list[tuple[Addition, Growth]]:
        """What was added after an addition and is not part of the bundle, in order.

        A :class:`BundleError` if that addition was taken back meanwhile.
        """
        with self._transaction() as state:
            return [
                (Addition.from_line(line), Growth.from_pieces(line, self._pieces(line)))
                for line in self._lines(state, max(number, state.folded))
            ]

    # Writing

    def add(self, growth: Growth, source: str, facts: Mapping[str, Any]) -> Addition:
        """Write one addition; it survives whatever happens once this has returned."""
        with self._transaction(write=True, create=True) as state:
            growth.check(state.sides.get(growth.side))
            crcs = []
            for place, piece in enumerate(growth.pieces()):
                crcs.append(zlib.crc32(piece))
                key = state.next << _PIECES | place
                self._connection.execute("INSERT INTO pieces VALUES (?, ?)", (key, piece))
            addition = Addition.of(growth, state.next, source, facts)
            content = json.dumps(growth.line(addition, crcs)).encode()
            crc = zlib.crc32(content, state.crc)
            row = state.next, content, crc
            self._connection.execute("INSERT INTO additions VALUES (?, ?, ?)", row)
            side = [growth.first + len(growth.labels), growth.rows.shape[1]]
            sides = {**state.sides, growth.side: side}
            self._change(state, last=state.next, next=state.next + 1, crc=crc, sides=sides)
        return addition

    def undo(self) -> Addition:
        """Take back the last addition, unless it is part of the bundle."""
        with self._transaction(write=True) as state:
            if state.last == state.folded:
                remedy = "what was compacted is part of the bundle" if state.last else None
                raise InputError("there is no addition to take back", file=self.file, remedy=remedy)
            query = "SELECT number, crc FROM additions WHERE number < ? ORDER BY number DESC"
            before, crc = self._connection.execute(query, (state.last,)).fetchone() or (0, 0)
            (line,) = self._lines(state, before)
            keys = state.last << _PIECES, (state.last + 1) << _PIECES
            self._connection.execute("DELETE FROM pieces WHERE key >= ? AND key < ?", keys)
            self._connection.execute("DELETE FROM additions WHERE number = ?", (state.last,))
            sides = {**state.sides, line["side"]: [line["first"], line["rows"][1]]}
            self._change(state, last=before, crc=crc, sides=sides)
        return Addition.from_line(line)

    def fold(self, base: str) -> None:
        """The bundle ``base`` now holds all that was added: keep only the log of it."""
        with self._transaction(write=True) as state:
            self._connection.execute("DELETE FROM pieces")
            self._change(state, base=base, folded=state.last, sides={})
        self.base, self._grown_from = base, {}
        with suppress(sqlite3.OperationalError), self._thread:  # only gives back the space
            self._connection.execute("VACUUM")

    def _change(self, state: _State, **changes: Any) -> None:
        row = replace(state, **changes).row()
        self._connection.execute("UPDATE state SET content = ?, crc = ?", row)

    # One transaction

    @contextmanager
    def _transaction(self, write: bool = False, create: bool = False) -> Iterator[_State]:
        """The connection stays at one moment of the store; gives the state then."""
        if write and not self._writes:
            raise ValueError("this store was opened for reading; open it with write=True")
        try:
            with self._thread:
                if create and not self._on_disk:
                    self._create()
                if not self._on_disk and self.file.exists():
                    self._connect()
                self._connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
                try:
                    yield self._standing(self._read_state())
                    self._connection.execute("COMMIT")
                finally:
                    if self._connection.in_transaction:
                        self._connection.execute("ROLLBACK")
        except sqlite3.ProgrammingError:  # as of a store that was closed
            raise
        except UnicodeDecodeError as error:  # of a message of SQLite that quotes what is damaged
            raise self._damaged("not the tables that a run writes") from error
        except (sqlite3.Error, OSError) as error:
            # Extended codes have the general one in their last byte.
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            if code not in _CIRCUMSTANCES and not isinstance(error, OSError):
                text = "".join(c if c.isprintable() else "?" for c in str(error)[:80])
                raise self._damaged(text) from error
            raise BundleError(
                f"{self.file}: cannot be used ({error}); see that nothing else holds it, "
                "that its folder may be written and that the disk is not full"
            ) from error

    def _connect(self) -> None:
        def version_in(mode: str) -> int:
            self._connection.close()
            self._connection = _connection(f"{self.file.resolve().as_uri()}?{mode}")
            return int(self._connection.execute("PRAGMA user_version").fetchone()[0])

        try:
            version = version_in("mode=rw" if self._writes else "mode=ro")
        except sqlite3.OperationalError as error:
            # Readers share a file beside the store, which a folder may forbid to make. They can do
            # without where nothing waits in the log to be moved into the store.
            log = self.file.with_name(f"{FILE}-wal")
            waiting = log.exists() and log.stat().st_size
            if error.sqlite_errorcode & 0xFF not in _FORBIDDEN or self._writes or waiting:
                raise
            version = version_in("immutable=1")
        if version > VERSION:
            known = f"this decentrl reads {VERSION}; upgrade decentrl"
            raise BundleError(f"{self.file}: format version {version}, but {known}")
        if version != VERSION:
            raise self._damaged(f"format version {version}")
        if self._writes:
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = FULL")
            # What one large addition took is not kept as a log for the small ones.
            self._connection.execute(f"PRAGMA journal_size_limit = {16 * CHUNK}")
        self._on_disk = True

    def _create(self) -> None:
        """An empty store; it appears whole, so that no reader finds half of one."""
        with whole_files(self.file) as (part,):
            for rest in (part, part.with_name(f"{part.name}-journal")):
                rest.unlink(missing_ok=True)
            _empty(str(part), self.base).close()
        sync_folder(self.file.parent)

    def _damaged(self, why: str) -> BundleError:
        return BundleError(f"{self.file}: damaged ({why}); copy the run again")

    # Contents and their checksums

    def _checked(self, content: object, crc: object, start: object = 0) -> bytes:
        if not isinstance(content, bytes) or not isinstance(start, int):
            raise self._damaged("a value is missing")
        if zlib.crc32(content, start) != crc:
            raise self._damaged("a checksum differs")
        return content

    def _read_state(self) -> _State:
        found = self._connection.execute("SELECT content, crc FROM state").fetchone()
        (last,) = self._connection.execute("SELECT max(number) FROM additions").fetchone()
        state = _State(**json.loads(self._checked(*(found or (None, None)))))
        if (last or 0) != state.last:
            raise self._damaged("an addition is missing")
        return state

    def _standing(self, state: _State) -> _State:
        """The state as seen from the bundle."""
        if state.base == self.base:
            return state
        if state.last == 0:  # nothing that would depend on a bundle
            return replace(state, base=self.base, sides={})
        grown_from = self._grown_from.get("base"), self._grown_from.get("additions")
        if grown_from == (state.base, state.last):
            return replace(state, base=self.base, folded=state.last, sides={})
        raise BundleError(
            f"{self.file}: these additions were made to another bundle than the one beside them; "
            "load the run again if it was compacted just now, else restore its bundle"
        )

    def _lines(self, state: _State, after: int) -> list[Line]:
        """The lines of the log after a number."""
        query = "SELECT number, line, crc FROM additions WHERE number >= ? ORDER BY number"
        rows = self._connection.execute(query, (after,)).fetchall()
        before = 0
        if after:
            if not rows or rows[0][0] != after:
                raise BundleError(
                    f"{self.file}: addition {after} is not there, it was taken back; "
                    "load the run again"
                )
            before = rows.pop(0)[2]
        lines = []
        for number, content, crc in rows:
            line = json.loads(self._checked(content, crc, before))
            if line["number"] != number:
                raise self._damaged("a line of the log is not in its place")
            lines.append(line)
            before = crc
        if before != state.crc:
            raise self._damaged("the end of the log is missing")
        return lines

    def _pieces(self, line: Line) -> Iterator[bytes]:
        """What is kept beside a line."""
        for place, crc in enumerate(line["pieces"]):
            key = line["number"] << _PIECES | place
            found = self._connection.execute("SELECT content FROM pieces WHERE key = ?", (key,))
            yield self._checked((found.fetchone() or [None])[0], crc)


def _connection(address: str) -> sqlite3.Connection:
    # Every transaction is written out, and taken by one thread at a time.
    connection = sqlite3.connect(
        address, timeout=30, isolation_level=None, check_same_thread=False, uri=True
    )
    connection.execute("PRAGMA cell_size_check = ON")
    connection.execute("PRAGMA trusted_schema = OFF")
    return connection


def _empty(place: str, base: str) -> sqlite3.Connection:
    connection = _connection(place)
    connection.executescript(_SCHEMA)
    connection.execute("INSERT INTO state VALUES (?, ?)", _State(base).row())
    return connection


def _locked(folder: Path) -> ExitStack:
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
