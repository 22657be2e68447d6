"""Files of questions: triples of which one part is asked for."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from decentrl.data.delimited import tsv_rows
from decentrl.data.knowledge_graph import KnowledgeGraph
from decentrl.data.naming import entity_ids
from decentrl.data.readers import format_of, read_bytes
from decentrl.data.table import TRIPLE, Table
from decentrl.data.vocabulary import did_you_mean
from decentrl.errors import InputError, UnknownLabelError

ASKED = ("", "?")
"""Marks of the part that is asked for."""

Question = tuple[str | None, str | None, str | None]


def identified(graph: KnowledgeGraph, question: Question) -> Question:
    """A question with identifiers of entities, which may be called by their names."""
    head, relation, tail = question
    first, last = (
        x if x is None else graph.entities[int(entity_ids(graph, [x])[0])] for x in (head, tail)
    )
    return first, relation, last


def read_questions(path: str | PathLike[str], graph: KnowledgeGraph) -> list[Question]:
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
        if relation is not None and relation not in graph.relations:
            remedy = did_you_mean(relation, graph.relations)
            raise place.error(f"{relation!r} is no known relation", i, remedy, UnknownLabelError)
        for label in (head, tail):
            try:
                _ = label is None or entity_ids(graph, [label])
            except UnknownLabelError as error:
                problem = f"{label!r} is no known entity"
                raise place.error(problem, i, error.remedy, UnknownLabelError) from None
            except InputError as error:
                raise place.error(error.problem, i, error.remedy) from None
        questions.append((head, relation, tail))
    return questions
