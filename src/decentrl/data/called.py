"""How a person reads an entity, and any text, on a terminal; nothing heavy is imported here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

NAME = "_name"
"""What the column of names beside the column of an entity ends with."""
LONGEST_NAME = 100
"""Characters of a name that are shown beside its identifier."""
UNFIT = r"\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069"
"""What a terminal obeys, as a class of a regular expression: C0 and C1 without tab and line feed,
and what ends a line, or turns around the direction of the text after it."""


CELL_ENDS = re.compile("[\t\n\r]")
"""What no cell of tab-separated text can hold."""


def printable(text: str) -> str:
    """The text with what a terminal obeys spelled out: ``\\x1b``, ``\\u202e``."""
    return re.sub(f"[{UNFIT}]", _spelled, text)


def on_a_line(text: str, ends: re.Pattern[str] = CELL_ENDS) -> str:
    """The text with what ends a cell or line of a table spelled out: ``\\t``, ``\\n``."""
    return ends.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    return {"\t": r"\t", "\n": r"\n", "\r": r"\r"}.get(found[0]) or _spelled(found)


def _spelled(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def cut(name: str) -> str:
    """A name as it is shown: the end of a very long one is left out."""
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"


def called(row: Mapping[str, Any], column: str) -> Any:
    """An entity with its name, if it has another one: ``Berlin <http://example.org/64>``."""
    label, name = row[column], row.get(f"{column}{NAME}")
    return f"{cut(name)} <{label}>" if name and name != label else label
