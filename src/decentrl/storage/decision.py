"""A decision about matches, as a store keeps it: a line of JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from typing import Any, Literal, get_args

Pair = tuple[str, str]
Verdict = Literal["accept", "reject", "skip"]
VERDICTS: tuple[str, ...] = get_args(Verdict)
UNDO = "undo"
"""The verdict of a line that takes back the last decision which still stood."""


@dataclass(frozen=True)
class Decision:
    """One decision about one pair of entities, or the same one about several.

    Attributes:
        number: from 1, in the order of the log; one that takes back another has one of its own.
        pairs: labels of a left and a right entity each.
        by: who has decided, in words.
        learned: whether a training has learned from it; then it is not taken back.
    """

    number: int
    time: str  # ISO 8601, UTC
    verdict: str
    pairs: tuple[Pair, ...]
    by: str = ""
    note: str = ""
    learned: bool = False

    @classmethod
    def now(
        cls, number: int, verdict: str, pairs: Sequence[Pair], by: str = "", note: str = ""
    ) -> Decision:
        """One that was made just now."""
        time = datetime.now(UTC).isoformat(timespec="milliseconds")
        return cls(number, time, verdict, tuple(pairs), by, note)

    def line(self) -> dict[str, Any]:
        """What a store keeps of it."""
        return asdict(self) | {"pairs": [list(pair) for pair in self.pairs]}

    @classmethod
    def from_line(cls, line: Mapping[str, Any]) -> Decision:
        """From what a store keeps."""
        pairs = tuple((left, right) for left, right in line["pairs"])
        return cls(**{**{name: line[name] for name in _TYPES}, "pairs": pairs})


_TYPES = {
    "number": int, "time": str, "verdict": str, "pairs": list, "by": str, "note": str,
    "learned": bool,
}  # fmt: skip
assert set(_TYPES) == {field.name for field in fields(Decision)}


def check_decision(line: Any) -> Mapping[str, Any]:
    """A line as a store holds it; a :class:`ValueError` if no run has written it."""
    if not isinstance(line, dict) or any(type(line.get(x)) is not _TYPES[x] for x in _TYPES):
        raise ValueError("a line of the log of decisions")
    if line["verdict"] not in (*VERDICTS, UNDO):
        raise ValueError("an unknown decision")
    for pair in line["pairs"]:
        if not isinstance(pair, list) or [type(end) for end in pair] != [str, str]:
            raise ValueError("a decision about something else than pairs")
    return line
