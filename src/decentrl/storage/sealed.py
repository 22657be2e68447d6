"""A SQLite file that does not change unseen: its state, its seal, and one transaction at a time.

Lines of a log have a CRC-32, which goes on from that of the line before; the last one is in the
state, which has one too. The state is written once more beside the folder, in the *seal*: SQLite
takes a damaged end of its write-ahead log for one that never was, and by the seal what was lost
with it is missed, as is a store that was deleted.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import zlib
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

from decentrl.errors import BundleError
from decentrl.storage.addition import CHUNK, Line
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

_WITHOUT_LOCKS = "win32-none" if os.name == "nt" else "unix-none"  # ways of SQLite to use files
_SUPER_JOURNAL = bytes.fromhex("d9d505f920a163d7")  # SQLite's mark, the last bytes of a journal
T = TypeVar("T")


class SealedFile:
    """The file of a store of the bundle with the id ``base``, and the lock of its one writer.

    ``grown_from`` is in that bundle if it was compacted: the id of the bundle before, ``base``, and
    the number of the last of the ``additions`` in it. With it a fold that was interrupted after the
    bundle was written is recognised.

    Attributes:
        stale: whether the state is still that of the bundle before.
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
                self.stale = self._read_state() != state
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

    def stamp(self) -> Hashable:
        """What changes whenever another connection has written; quick to find out.

        The files say less: they change before what is written can be seen.
        """
        if self._on_disk:
            with suppress(sqlite3.Error), self._thread:
                return tuple(self._connection.execute("PRAGMA data_version").fetchone())
        return tuple(self._files().items())

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
        if version < 1:
            raise self._damaged(f"format version {version}")
        if tables(self._connection) != our_tables(version):
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
                f"{self.file}: damaged or deleted, it held {sealed.last} additions and "
                f"{sealed.decisions} decisions or more and now ends with {state.last} and "
                f"{state.decisions}; copy the run again, or delete {self.seal} to go on "
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

    def _chain(
        self,
        table: Literal["additions", "decisions"],
        after: int,
        last: int,
        check: Callable[[Any], Line],
    ) -> list[Line]:
        """The lines of a log after a number.

        Args:
            last: the CRC-32 of the last line.
            check: a :class:`ValueError` for what no run has written.
        """
        query = f"SELECT number, line, crc FROM {table} WHERE number >= ? ORDER BY number"
        rows = self._connection.execute(query, (after,))
        before, latest = 0, after
        if after:
            found = rows.fetchone()
            if found is None or found[0] != after:
                raise BundleError(
                    f"{self.file}: {table[:-1]} {after} is not there, it was taken back; "
                    "load the run again"
                )
            before = found[2]
        lines = []
        for number, content, crc in rows:
            line = check(json.loads(self._checked(content, crc, before)))
            # Pages of a crafted file may lead round in circles.
            if line["number"] != number or number <= latest:
                raise self._damaged("a line of the log is not in its place")
            lines.append(line)
            before, latest = crc, number
        if before != last:
            raise self._damaged("the end of the log is missing")
        return lines
