"""Files of questions: triples of which one part is asked for."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

import pyarrow as pa

from decentrl.data.readers import format_of, read_bytes
from decentrl.data.table import TRIPLE, Table, unknown_label
from decentrl.data.vocabulary import Vocabulary
from decentrl.errors import InputError

ASKED = ("", "?")
"""How a file marks the part that is asked for."""

Question = tuple[str | None, str | None, str | None]


def read_questions(
    path: str | PathLike[str], entities: Vocabulary, relations: Vocabulary
) -> list[Question]:
    """The rows head, relation, tail of a TSV file, with None for what is asked for.

    Exactly one part of a row is empty or ``?``; the others must be known, so that whatever is wrong
    is told with its line.
    """
    file = Path(path)
    if format_of(file) != "tsv":
        raise InputError("questions must be tab-separated", file=file, remedy="give a .tsv file")
    rows = _rows(read_bytes(file), file)
    columns = tuple(pa.chunked_array([pa.array(x, pa.string())]) for x in zip(*rows, strict=True))
    table = Table(file, columns, lambda row: row + 1)
    for column, words, what in (
        (0, entities, "known entity"),
        (1, relations, "known relation"),
        (2, entities, "known entity"),
    ):
        for i, row in enumerate(rows):
            if row[column] not in ASKED and row[column] not in words:
                raise unknown_label(table, i, column, words, what)
    return [(_part(head), _part(relation), _part(tail)) for head, relation, tail in rows]


def _part(text: str) -> str | None:
    return None if text in ASKED else text


def _rows(data: bytes, file: Path) -> list[list[str]]:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(
            "invalid UTF-8", file=file, line=line, remedy="save the file as UTF-8"
        ) from None
    lines = text.replace("\r\n", "\n").rstrip("\n").split("\n")
    rows = [line.split("\t") for line in lines]
    for number, row in enumerate(rows, 1):
        if len(row) != len(TRIPLE):
            raise InputError(
                f"{len(row)} column(s), but {len(TRIPLE)} are needed",
                file=file,
                line=number,
                remedy="give head, relation and tail, separated by a tab",
            )
        if sum(part in ASKED for part in row) != 1:
            raise InputError(
                "exactly one part of a question is asked for",
                file=file,
                line=number,
                remedy="leave one of head, relation and tail empty, or write ? there",
            )
    return rows
