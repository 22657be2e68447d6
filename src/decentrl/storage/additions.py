"""What was added to a run after training, in one SQLite file beside the bundle.

A store knows ids, labels, triples and opaque rows of floats; it knows nothing of models. Each
addition is one transaction and adds only: a line to the log and pieces (labels, triples, rows of
floats). An entity's row is that of the last addition that made one, so taking an addition back is
deleting what it wrote. Numbers are never given twice, so that a reader notices what was taken back.

Nothing in the file changes unseen. A line of the log has the CRC-32 of its pieces and its own one,
which goes on from that of the line before; the last one is in the state, which has one too. The
state is written once more beside the store's folder, in the *seal*: SQLite takes a damaged end of
its write-ahead log for one that never was, and by the seal additions lost with it are missed, as
are those of a store that was deleted.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Self, TypeVar

from decentrl.errors import BundleError, InputError
from decentrl.storage.addition import CHUNK, Addition, Growth, Line, check_line
from decentrl.storage.files import sync_folder, whole_files, write_text
from decentrl.storage.store_file import (
    CIRCUMSTANCES,
    FILE,
    UNWRITABLE,
    VERSION,
    State,
    connect,
    empty,
    locked,
    our_tables,
    refuse_links,
    tables,
)

_PIECES = 20  # bits of a piece's key that count within its addition
_WITHOUT_LOCKS = "win32-none" if os.name == "nt" else "unix-none"  # ways of SQLite to use files
_SUPER_JOURNAL = bytes.fromhex("d9d505f920a163d7")  # SQLite's mark, the last bytes of a journal
T = TypeVar("T")


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
        self.file, self.seal = folder / FILE, folder.with_name(f"{folder.name}.seal")
        refuse_links(folder, self.file, self.seal)
        self.base, self._grown_from = base, dict(grown_from or {})
        self._writes, self._lock = write, locked(folder) if write else ExitStack()
        self._thread, self._on_disk = threading.RLock(), False
        self._connection = empty(":memory:", base)
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

    def reader(self) -> Store:
        """The same store, opened for reading."""
        return Store(self.file.parent, self.base, grown_from=self._grown_from)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Reading

    @property
    def last(self) -> int:
        """The number of the last addition; 0 if there is none."""
        return self._read(lambda state: state.last)

    def log(self) -> list[Addition]:
        """Every addition, in order."""
        return self._read(
            lambda state: [
                Addition.from_line(line, line["number"] <= state.folded)
                for line in self._lines(state, 0)
            ]
        )

    def since(self, number: int) -> list[tuple[Addition, Growth]]:
        """What was added after an addition and is not part of the bundle, in order.

        A :class:`BundleError` if that addition was taken back meanwhile.
        """
        return self._read(
            lambda state: [
                (Addition.from_line(line), Growth.from_pieces(line, self._pieces(line)))
                for line in self._lines(state, max(number, state.folded))
            ]
        )

    def _read(self, ask: Callable[[State], T]) -> T:
        """What ``ask`` finds at one moment of the store.

        Where nothing can be locked a writer may come between; then it is asked again.
        """
        for left in reversed(range(5)):
            seen = self._files()
            try:
                with self._transaction() as state:
                    try:
                        return ask(state)
                    except (ValueError, TypeError, LookupError, RecursionError) as error:
                        raise self._damaged(f"not what a run writes: {error}") from error
            except BundleError:
                if not left or seen == self._files():
                    raise
        raise AssertionError

    def _files(self) -> dict[str, tuple[int, int]]:
        """Size and time of the store's file and of the log beside it, as far as they are there."""
        found = {}
        for path in (self.file, self._beside("-wal")):
            with suppress(OSError):
                about = path.stat()
                found[path.name] = about.st_size, about.st_mtime_ns
        return found

    def _beside(self, ending: str) -> Path:
        """A file that SQLite has beside the store."""
        return self.file.with_name(FILE + ending)

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

    def _change(self, state: State, **changes: Any) -> None:
        row = replace(state, **changes).row()
        self._connection.execute("UPDATE state SET content = ?, crc = ?", row)

    # One transaction

    @contextmanager
    def _transaction(self, write: bool = False, create: bool = False) -> Iterator[State]:
        """The connection stays at one moment of the store; gives the state then."""
        if write and not self._writes:
            raise ValueError("this store was opened for reading; open it with write=True")
        try:
            with self._thread:
                if create and not self._on_disk:
                    self._create()
                sealed = self._sealed()  # before the store, which a writer changes first
                if not self._on_disk and self.file.exists():
                    self._connect()
                self._connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
                try:
                    state = self._read_state()
                    self._check_seal(state, sealed)
                    yield self._standing(state)
                    if write:
                        state = self._read_state()
                    self._connection.execute("COMMIT")
                finally:
                    if self._connection.in_transaction:
                        self._connection.execute("ROLLBACK")
                if write:
                    content, crc = state.row()
                    with suppress(OSError):  # an older seal misses less
                        write_text(self.seal, f"{crc:08x} {content.decode()}\n")
        except sqlite3.ProgrammingError:  # as of a store that was closed
            raise
        except UnicodeDecodeError as error:  # of a message of SQLite that quotes what is damaged
            raise self._damaged("not the tables that a run writes") from error
        except (sqlite3.Error, OSError) as error:
            # Extended codes have the general one in their last byte.
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            if code not in CIRCUMSTANCES and not isinstance(error, OSError):
                raise self._damaged(str(error)) from error
            raise BundleError(
                f"{self.file}: cannot be used ({error}); see that nothing else holds it, "
                "that its folder may be written and that the disk is not full"
            ) from error

    def _connect(self) -> None:
        for ending in ("-journal", "-wal", "-shm"):
            refuse_links(self._beside(ending))
        with suppress(FileNotFoundError), self._beside("-journal").open("rb") as journal:
            # It would name a file elsewhere, which SQLite then deletes. No run has one.
            if journal.read()[-8:] == _SUPER_JOURNAL:
                raise self._damaged("its journal names another file")

        def version_in(mode: str) -> int:
            self._connection.close()
            self._connection = connect(f"{self.file.resolve().as_uri()}?{mode}")
            if _WITHOUT_LOCKS in mode:  # then SQLite needs no file to share with others
                self._connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            return int(self._connection.execute("PRAGMA user_version").fetchone()[0])

        shared = True
        try:
            version = version_in("mode=rw" if self._writes else "mode=ro")
        except sqlite3.OperationalError as error:
            # Readers share a file beside the store, which a folder may forbid to make, or a full
            # disk. They can do without, see _read.
            if error.sqlite_errorcode & 0xFF not in UNWRITABLE or self._writes:
                raise
            log, shared = self._beside("-wal"), False
            waiting = log.exists() and log.stat().st_size
            version = version_in(f"mode=ro&vfs={_WITHOUT_LOCKS}" if waiting else "immutable=1")
        if version > VERSION:
            known = f"this decentrl reads {VERSION}; upgrade decentrl"
            raise BundleError(f"{self.file}: format version {version}, but {known}")
        if version != VERSION:
            raise self._damaged(f"format version {version}")
        if tables(self._connection) != our_tables():
            raise self._damaged("not the tables that a run writes")
        if self._writes:
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = FULL")
            # What one large addition took is not kept as a log for the small ones.
            self._connection.execute(f"PRAGMA journal_size_limit = {16 * CHUNK}")
        self._on_disk = shared  # or it is opened anew for each question

    def _create(self) -> None:
        """An empty store; it appears whole, so that no reader finds half of one."""
        with whole_files(self.file) as (part,):
            for rest in (part, part.with_name(f"{part.name}-journal")):
                rest.unlink(missing_ok=True)
            empty(str(part), self.base).close()
        sync_folder(self.file.parent)

    def _sealed(self) -> State | None:
        """The state that was kept beside the store, if there is one for the bundle."""
        try:
            crc, _, content = self.seal.read_bytes().partition(b" ")
        except FileNotFoundError:
            return None
        try:
            if f"{zlib.crc32(content.strip()):08x}".encode() != crc:
                raise ValueError("its checksum differs")
            state = State(**json.loads(content))
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise BundleError(
                f"{self.seal}: damaged ({error}); copy the run again, or delete this file to go on "
                "with the additions that are there"
            ) from error
        return state if state.base in (self.base, self._grown_from.get("base")) else None

    def _check_seal(self, state: State, sealed: State | None) -> None:
        """That nothing is missing of what the seal, or the bundle, says was kept here."""
        if sealed is not None and not state.follows(sealed):
            raise BundleError(
                f"{self.file}: damaged or deleted, it held {sealed.last} additions or more and "
                f"now ends with {state.last}; copy the run again, or delete {self.seal} to go on "
                "without what is missing"
            )
        if state.next <= self._grown_from.get("additions", 0):
            raise BundleError(
                f"{self.file}: missing or of another run, the log of the additions in the bundle "
                f"is not there; copy the run again with its folder {self.file.parent.name}, or "
                "give its folder bundle alone"
            )

    def _damaged(self, why: str) -> BundleError:
        why = "".join(c if c.isprintable() else "?" for c in why[:80])
        return BundleError(f"{self.file}: damaged ({why}); copy the run again")

    # Contents and their checksums

    def _checked(self, content: object, crc: object, start: object = 0) -> bytes:
        if not isinstance(content, bytes) or not isinstance(start, int):
            raise self._damaged("a value is missing")
        if zlib.crc32(content, start) != crc:
            raise self._damaged("a checksum differs")
        return content

    def _read_state(self) -> State:
        found = self._connection.execute("SELECT content, crc FROM state").fetchone()
        (last,) = self._connection.execute("SELECT max(number) FROM additions").fetchone()
        content = self._checked(*(found or (None, None)))
        try:
            state = State(**json.loads(content))
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise self._damaged(f"its state is not what a run writes: {error}") from error
        if (last or 0) != state.last:
            raise self._damaged("an addition is missing")
        return state

    def _standing(self, state: State) -> State:
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

    def _lines(self, state: State, after: int) -> list[Line]:
        """The lines of the log after a number."""
        query = "SELECT number, line, crc FROM additions WHERE number >= ? ORDER BY number"
        rows = self._connection.execute(query, (after,))
        before, latest = 0, after
        if after:
            found = rows.fetchone()
            if found is None or found[0] != after:
                raise BundleError(
                    f"{self.file}: addition {after} is not there, it was taken back; "
                    "load the run again"
                )
            before = found[2]
        lines = []
        for number, content, crc in rows:
            line = check_line(json.loads(self._checked(content, crc, before)))
            # Pages of a crafted file may lead round in circles.
            if line["number"] != number or number <= latest:
                raise self._damaged("a line of the log is not in its place")
            lines.append(line)
            before, latest = crc, number
        if before != state.crc:
            raise self._damaged("the end of the log is missing")
        return lines

    def _pieces(self, line: Line) -> Iterator[bytes]:
        """What is kept beside a line."""
        if 4 * line["rows"][0] * line["rows"][1] > sum(size for size, _ in self._files().values()):
            raise self._damaged("rows are missing")
        for place, crc in enumerate(line["pieces"]):
            key = line["number"] << _PIECES | place
            found = self._connection.execute("SELECT content FROM pieces WHERE key = ?", (key,))
            yield self._checked((found.fetchone() or [None])[0], crc)
