"""Files of questions: triples of which one part is asked for."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from decentrl.data.delimited import tsv_rows
from decentrl.data.readers import format_of, read_bytes
from decentrl.data.table import TRIPLE, Table
from decentrl.data.vocabulary import Vocabulary, did_you_mean
from decentrl.errors import UnknownLabelError

ASKED = ("", "?")
"""Marks of the part that is asked for."""

Question = tuple[str | None, str | None, str | None]


def read_questions(
    path: str | PathLike[str], entities: Vocabulary, relations: Vocabulary
) -> list[Question]:
    """The rows head, relation, tail of a TSV file, with None for what is asked for.

    Exactly one part of a row is empty or ``?``; an unknown label elsewhere is an error.
    """
    place = Table(Path(path), (), lambda row: row + 1)
    if format_of(place.file) != "tsv":
        raise place.error("questions must be tab-separated", remedy="give a .tsv file")
    questions: list[Question] = []
    for i, row in enumerate(tsv_rows(read_bytes(place.file), place.file)):
        if len(row) != len(TRIPLE):
            raise place.error(
                f"{len(row)} column(s), but {len(TRIPLE)} are needed",
                i,
                "give head, relation and tail, separated by a tab",
            )
        head, relation, tail = (None if part in ASKED else part for part in row)
        if [head, relation, tail].count(None) != 1:
            raise place.error(
                "exactly one part of a question is asked for",
                i,
                "leave one of head, relation and tail empty, or write ? there",
            )
        for label, known in ((head, entities), (relation, relations), (tail, entities)):
            if label is not None and label not in known:
                problem = f"{label!r} is no known {'entity' if known is entities else 'relation'}"
                raise place.error(problem, i, did_you_mean(label, known), UnknownLabelError)
        questions.append((head, relation, tail))
    return questions
