"""Files of questions: triples of which one part is asked for."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from decentrl.data.delimited import tsv_rows
from decentrl.data.readers import format_of, read_bytes
from decentrl.data.table import TRIPLE, Table, string_columns, unknown_label
from decentrl.data.vocabulary import Vocabulary
from decentrl.errors import InputError

ASKED = ("", "?")
"""Marks of the part that is asked for."""

Question = tuple[str | None, str | None, str | None]


def read_questions(
    path: str | PathLike[str], entities: Vocabulary, relations: Vocabulary
) -> list[Question]:
    """The rows head, relation, tail of a TSV file, with None for what is asked for.

    Exactly one part of a row is empty or ``?``; an unknown label elsewhere is an error.
    """
    file = Path(path)
    if format_of(file) != "tsv":
        raise InputError("questions must be tab-separated", file=file, remedy="give a .tsv file")
    rows = tsv_rows(read_bytes(file), file)
    place = Table(file, (), lambda row: row + 1)
    for i, row in enumerate(rows):
        if len(row) != len(TRIPLE):
            raise place.error(
                f"{len(row)} column(s), but {len(TRIPLE)} are needed",
                i,
                "give head, relation and tail, separated by a tab",
            )
        if sum(part in ASKED for part in row) != 1:
            raise place.error(
                "exactly one part of a question is asked for",
                i,
                "leave one of head, relation and tail empty, or write ? there",
            )
    table = Table(file, string_columns(zip(*rows, strict=True)), place.line_of)
    for column, name in enumerate(TRIPLE):
        known, what = (relations, "relation") if name == "relation" else (entities, "entity")
        for i, row in enumerate(rows):
            if row[column] not in ASKED and row[column] not in known:
                raise unknown_label(table, i, column, known, f"known {what}")
    return [(_part(head), _part(relation), _part(tail)) for head, relation, tail in rows]


def _part(text: str) -> str | None:
    return None if text in ASKED else text
