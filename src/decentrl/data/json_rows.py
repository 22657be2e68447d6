"""Reads rows of JSON: a JSON value on each line (JSON lines), or one list of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from decentrl.data.headers import Reading, plan_columns
from decentrl.data.table import MAY_BE_EMPTY, NAME, TRIPLE, Table, string_columns
from decentrl.errors import InputError

_BOM = b"\xef\xbb\xbf"


def is_linked_data(data: bytes) -> bool:
    """Whether the text of a .json file is JSON-LD, which has keys like @id and @context."""
    return b'"@' in data[: 1 << 16]


def read_json_rows(
    data: bytes, file: Path, names: tuple[str, ...], kind: str, reading: Reading
) -> Table:
    """The columns ``names`` of rows that are objects with these keys, or lists of their values.

    Keys may also be what columns are usually called, or those of ``reading.columns``.
    """
    lines: list[int | None] = []
    found: list[list[str]] = []
    keys: list[str] = []
    for line, row in _values(data, file, kind):
        error = partial(InputError, file=file, line=line)
        if not found:
            names, keys = _keys(row, names, reading, error)
        found.append(_cells(row, names, keys, error))
        lines.append(line)
    if not found:
        raise InputError("there are no rows", file=file, remedy="give at least one")
    return Table(file, string_columns(zip(*found, strict=True)), lines.__getitem__)


def _values(data: bytes, file: Path, kind: str) -> Iterator[tuple[int | None, Any]]:
    """The rows, with their lines where each has one."""
    data = data.removeprefix(_BOM)
    if kind == "json" and not (data.lstrip().startswith(b"{") and _is_lines(data)):
        value = _parsed(data, file, None, "correct it, or give JSON lines (.jsonl)")
        if not isinstance(value, list):
            remedy = "give a list of rows, JSON lines (.jsonl) or JSON-LD"
            raise InputError("this is no list of rows", file=file, remedy=remedy)
        yield from ((None, row) for row in value)
        return
    for line, text in enumerate(data.split(b"\n"), 1):
        if text.strip():
            yield line, _parsed(text, file, line, "correct the line")


def _is_lines(data: bytes) -> bool:
    """Whether the first of several lines of a text is a JSON value of its own."""
    first, _, others = data.strip().partition(b"\n")
    try:
        return bool(json.loads(first) and others)
    except (ValueError, RecursionError):
        return False


def _parsed(text: bytes, file: Path, line: int | None, remedy: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        place = line or getattr(error, "lineno", None)
        what = str(error).split(": line")[0][:100]
        raise InputError(
            f"this is not JSON ({what})", file=file, line=place, remedy=remedy
        ) from None


def _keys(
    row: Any, names: tuple[str, ...], reading: Reading, error: Any
) -> tuple[tuple[str, ...], list[str]]:
    """Which columns there are, and the keys of objects that hold them; lists have none."""
    if isinstance(row, dict):
        chosen = reading.columns if names == TRIPLE else ()
        plan = plan_columns(list(row), names, Reading(header="yes", columns=chosen), error)
        there = dict(zip(plan.roles, row, strict=True))
        return plan.names, [there[name] for name in plan.names]
    if isinstance(row, list) and names == NAME and len(row) == 2:
        names = NAME[:2]
    return names, []


def _cells(row: Any, names: tuple[str, ...], keys: list[str], error: Any) -> list[str]:
    """The labels of a row, in the order of ``names``."""
    if isinstance(row, dict) and keys:
        values = [row.get(key) for key in keys]
    elif isinstance(row, list) and not keys and len(row) == len(names):
        values = row
    else:
        form = "an object with " + ", ".join(keys) if keys else f"[{', '.join(names)}]"
        raise error(f"{str(row)[:60]!r} is no row", remedy=f"give {form}")
    cells = []
    for name, value in zip(names, values, strict=True):
        if value is None or value == "":
            if name not in MAY_BE_EMPTY:
                raise error(f"empty label in the column {name}", remedy="fill it in")
            value = ""
        elif isinstance(value, bool) or not isinstance(value, str | int | float):
            if not (isinstance(value, bool) and name == "value"):
                problem = f"the {name} {str(value)[:60]!r} is no label"
                raise error(problem, remedy="give text or a number")
            value = str(value).lower()
        cells.append(_text(value, error))
    return cells


def _text(value: Any, error: Any) -> str:
    """A value as text that can be kept."""
    text = str(value)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise error(f"{text!r} is no text", remedy="remove the lone surrogates") from None
    return text
