"""How a person reads an entity in a row of answers; nothing heavy is imported here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

NAME = "_name"
"""What the column of names beside the column of an entity ends with."""


def called(row: Mapping[str, Any], column: str) -> Any:
    """An entity with its name, if it has another one: ``Berlin <http://example.org/64>``."""
    label, name = row[column], row.get(f"{column}{NAME}")
    return f"{name} <{label}>" if name and name != label else label
