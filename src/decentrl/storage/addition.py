"""What one addition brings, and the bytes that a store keeps of it.

An addition is a line, which is JSON, and pieces: the labels of the new entities as JSON, the
triples, the ids of entities that have a row, names and attributes as JSON if there are any, known
links if it brings some, and the rows, so many to a piece. Numbers are little-endian everywhere.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from decentrl.data.alignment_task import NO_LINKS
from decentrl.data.attributes import NO_ATTRIBUTES, Attributes
from decentrl.data.literals import NO_LITERALS, Literals
from decentrl.data.names import NO_NAMES, Names
from decentrl.storage.validate import check_columns

CHUNK = 2**20
"""Bytes of rows in a piece: fewer are slower to read, more take memory."""
Line = Mapping[str, Any]


@dataclass(frozen=True)
class Addition:
    """A line of the log."""

    number: int
    time: str  # ISO 8601, UTC
    side: str  # "left", "right", or "" where there is one graph, and for links of two
    source: str  # what it came from, in words
    triples: int
    entities: int  # new ones
    facts: dict[str, Any]  # counts and examples, as JSON
    folded: bool = False  # part of the bundle by now

    @classmethod
    def of(cls, growth: Growth, number: int, source: str, facts: Mapping[str, Any]) -> Addition:
        """The line of what was added just now."""
        time = datetime.now(UTC).isoformat(timespec="milliseconds")
        sizes = len(growth.triples), len(growth.labels)
        return cls(number, time, growth.side, source, *sizes, dict(facts))

    @classmethod
    def from_line(cls, line: Line, folded: bool = False) -> Addition:
        """From what a store keeps."""
        return cls(**{name: line[name] for name in _KEPT}, folded=folded)


_TYPES = {
    "number": int, "time": str, "side": str, "source": str, "triples": int, "entities": int,
    "facts": dict, "first": int, "rows": list, "chunk": int, "pieces": list,
}  # fmt: skip


def check_line(line: Any) -> Line:
    """A line as a store holds it; a :class:`ValueError` if no run has written it."""
    if not isinstance(line, dict) or any(type(line.get(x)) is not _TYPES[x] for x in _TYPES):
        raise ValueError("a line of the log")
    numbers = [line["triples"], line["entities"], line["first"], *line["rows"], *line["pieces"]]
    if any(type(x) is not int or x < 0 for x in numbers) or len(line["rows"]) != 2:
        raise ValueError("the numbers in a line of the log")
    others = 3 + (line.get("literals") is True) + (line.get("links") is True)
    if line["chunk"] < 1 or len(line["pieces"]) != others + -(-line["rows"][0] // line["chunk"]):
        raise ValueError("a line of the log has too few or too many pieces")
    return line


_KEPT = [x.name for x in fields(Addition) if x.name != "folded"]


@dataclass(frozen=True, eq=False)
class Growth:
    """What one addition brought: triples to one side, or known links of two, and nothing else."""

    side: str
    triples: npt.NDArray[np.int64]  # [n, 3], ids of that side
    labels: list[str]  # of the new entities
    first: int  # the id of the first new entity, or of the next one to come; the others follow on
    ids: npt.NDArray[np.int64]  # [k], the entities with a row, ascending
    rows: npt.NDArray[np.float32]  # [k, width]
    literals: Literals = NO_LITERALS  # what is said of entities besides
    links: npt.NDArray[np.int64] = field(default_factory=NO_LINKS.copy)  # [m, 2], left and right

    @classmethod
    def of_links(cls, links: npt.NDArray[np.int64]) -> Growth:
        """Known links, int64[m, 2]; of no side, as they are of both."""
        none = np.empty(0, np.int64)
        return cls("", none.reshape(0, 3), [], 0, none, np.empty((0, 0), np.float32), links=links)

    def check(self, side: Sequence[int] | None) -> None:
        """That it goes on where its side ended: its next id, and the width of its rows."""
        size, width = self.rows.shape
        first, expected = side or (self.first, width)
        if (self.first, width) != (first, expected):
            raise ValueError(
                f"the next id is {first} and rows have {expected} floats, not {self.first}, {width}"
            )
        if self.triples.shape[1:] != (3,) or self.ids.shape != (size,):
            raise ValueError(f"shapes: {self.triples.shape}, {self.ids.shape}, {size} rows")
        if (np.diff(self.ids) <= 0).any():
            raise ValueError("the ids of rows must ascend")
        size, ends = self.first + len(self.labels), self.triples[:, [0, 2]]
        if any(len(ids) and not 0 <= ids.min() <= ids.max() < size for ids in (ends, self.ids)):
            raise ValueError("an id is none of an entity")
        if not np.isfinite(self.rows).all():
            raise ValueError("a row has a number that is not finite")
        if self.links.shape[1:] != (2,) or (self.links < 0).any():
            raise ValueError("links that are none")
        others = self.side or self.first or size or len(self.triples) or self.labels
        if len(self.links) and others:
            raise ValueError("links with triples")
        for part in (self.literals.names, self.literals.attributes):
            if len(part):
                check_columns(part.to_arrow(), self.first + len(self.labels))

    def pieces(self) -> Iterator[bytes]:
        """What is kept beside the line, in the order in which :meth:`from_pieces` reads it."""
        yield json.dumps(self.labels).encode()
        yield np.asarray(self.triples, "<i8").tobytes()
        yield np.asarray(self.ids, "<i8").tobytes()
        if self.literals:
            names, attributes = self.literals.names, self.literals.attributes
            yield json.dumps([x.to_arrow().to_pydict() for x in (names, attributes)]).encode()
        if len(self.links):
            yield np.asarray(self.links, "<i8").tobytes()
        rows, chunk = np.ascontiguousarray(self.rows, "<f4"), _rows_to_a_piece(self.rows.shape[1])
        for start in range(0, len(rows), chunk):
            yield rows[start : start + chunk].tobytes()

    def line(self, addition: Addition, crcs: Sequence[int]) -> dict[str, Any]:
        """What a store keeps of an addition, with the CRC-32 of each piece."""
        return {name: getattr(addition, name) for name in _KEPT} | {
            "first": self.first,
            "rows": list(self.rows.shape),
            "chunk": _rows_to_a_piece(self.rows.shape[1]),
            "pieces": list(crcs),
            **({"literals": True} if self.literals else {}),
            **({"links": True} if len(self.links) else {}),
        }

    @classmethod
    def from_pieces(cls, line: Line, pieces: Iterator[bytes]) -> Growth:
        """What an addition brought, from its line and its pieces."""
        labels = json.loads(next(pieces))
        triples, ids = (np.frombuffer(next(pieces), "<i8").astype(np.int64) for _ in range(2))
        literals = _read_literals(next(pieces)) if line.get("literals") else NO_LITERALS
        links = np.frombuffer(next(pieces) if line.get("links") is True else b"", "<i8").astype(
            np.int64
        )
        (size, width), chunk = line["rows"], line["chunk"]
        rows = np.empty((size, width), np.float32)
        for start, piece in zip(range(0, size, chunk), pieces, strict=True):
            part = rows[start : start + chunk]
            part[:] = np.frombuffer(piece, "<f4").reshape(part.shape)
        pairs = np.frombuffer(links, "<i8").astype(np.int64).reshape(-1, 2)
        rest = line["first"], ids, rows, literals, pairs
        found = cls(line["side"], triples.reshape(-1, 3), labels, *rest)
        if not isinstance(labels, list) or not all(isinstance(x, str) for x in labels):
            raise ValueError("labels that are no text")
        if [len(triples) // 3, len(labels)] != [line["triples"], line["entities"]]:
            raise ValueError("it does not have what its line says")
        found.check(None)
        return found


def _read_literals(piece: bytes) -> Literals:
    names, attributes = json.loads(piece)
    schemas = (x.to_arrow().schema for x in (NO_NAMES, NO_ATTRIBUTES))
    tables = [
        pa.Table.from_pydict(columns, schema)
        for columns, schema in zip((names, attributes), schemas, strict=True)
    ]
    return Literals(Names.from_arrow(tables[0]), Attributes.from_arrow(tables[1]))


def _rows_to_a_piece(width: int) -> int:
    return max(1, CHUNK // max(1, 4 * width))
