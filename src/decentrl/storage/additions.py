"""What was added to a run after training, in one SQLite file beside the bundle.

A store knows ids, labels, triples and opaque rows of floats; it knows nothing of models. Each
addition is one transaction and adds only: a line to the log and pieces (labels, triples, rows of
floats). An entity's row is that of the last addition that made one, so taking an addition back is

Decisions about matches are a second log beside it, which only grows: to take one back is a line,
too. They name entities by their labels, so they are the same whatever bundle they stand beside.
What keeps both from changing unseen is in :mod:`decentrl.storage.sealed`.
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from decentrl.errors import InputError
from decentrl.storage.addition import Addition, Growth, Line, check_line
from decentrl.storage.decision import Decision, check_decision
from decentrl.storage.sealed import SealedFile
from decentrl.storage.store_file import ADD_DECISIONS, State

_PIECES = 20  # bits of a piece's key that count within its addition


class Store(SealedFile):
    """The additions to the bundle with the id ``base``, and decisions about its matches.

    Readers see whole additions only. There is one writer at a time, who also finishes a fold that
    was interrupted. A reader may come before the first addition: it leaves no file, and sees that
    addition when it is there.
    """

    def __init__(
        self,
        folder: Path,
        base: str,
        *,
        write: bool = False,
        grown_from: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(folder, base, write=write, grown_from=grown_from)
        try:
            if write and self.stale:
                self.fold(base)
        except BaseException:
            self.close()
            raise

    def reader(self) -> Store:
        """The same store, opened for reading."""
        return Store(self.file.parent, self.base, grown_from=self._grown_from)

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

    def decisions(self, after: int = 0) -> list[Decision]:
        """What was decided after a decision, in order."""
        return self._read(
            lambda state: [
                Decision.from_line(line)
                for line in (
                    self._chain("decisions", after, state.decisions_crc, check_decision)
                    if state.decisions
                    else ()
                )
            ]
        )

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

    def decide(self, decisions: Sequence[Decision]) -> None:
        """Write decisions, all or none, numbered from the one after the last."""
        with self._transaction(write=True, create=True) as state:
            for step in ADD_DECISIONS:
                self._connection.execute(step)
            number, crc = state.decisions, state.decisions_crc
            for decision in decisions:
                number += 1
                if decision.number != number:
                    raise ValueError(f"the next decision is {number}, not {decision.number}")
                content = json.dumps(check_decision(decision.line())).encode()
                crc = zlib.crc32(content, crc)
                row = number, content, crc
                self._connection.execute("INSERT INTO decisions VALUES (?, ?, ?)", row)
            self._change(state, decisions=number, decisions_crc=crc)

    # Contents

    def _lines(self, state: State, after: int) -> list[Line]:
        """The lines of the log of additions after a number."""
        return self._chain("additions", after, state.crc, check_line)

    def _pieces(self, line: Line) -> Iterator[bytes]:
        """What is kept beside a line."""
        if 4 * line["rows"][0] * line["rows"][1] > sum(size for size, _ in self._files().values()):
            raise self._damaged("rows are missing")
        for place, crc in enumerate(line["pieces"]):
            key = line["number"] << _PIECES | place
            found = self._connection.execute("SELECT content FROM pieces WHERE key = ?", (key,))
            yield self._checked((found.fetchone() or [None])[0], crc)
