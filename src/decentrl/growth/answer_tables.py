"""Tables of answers in labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from decentrl.data.knowledge_graph import KnowledgeGraph
from decentrl.data.naming import add_names
from decentrl.data.questions import Question
from decentrl.data.results import ResultTable
from decentrl.graph.queries import Queries
from decentrl.scorers.completion import Answer

TRIPLE = [("head", pa.string()), ("relation", pa.string()), ("tail", pa.string())]
SCORES = [("score", pa.float32()), ("probability", pa.float32())]


def completed(graph: KnowledgeGraph, query: Question, answer: Answer | None) -> dict[str, Any]:
    """The triple with the answer in its place, and what is said of the answer."""
    labels = graph.relations if query[1] is None else graph.entities
    found = None if answer is None else labels[answer.id]
    parts = (found if part is None else part for part in query)
    triple = dict(zip(("head", "relation", "tail"), parts, strict=True))
    return triple if answer is None else triple | answer._asdict()


def answers_table(
    graph: KnowledgeGraph,
    queries: Sequence[Question],
    found: Sequence[Sequence[Answer]],
    language: str,
) -> pa.Table:
    """The answers of each question by rank, entities with their names in a language."""
    rows = [
        completed(graph, query, answer) | {"rank": place}
        for query, answers in zip(queries, found, strict=True)
        for place, answer in enumerate(answers, 1)
    ]
    said = [("rank", pa.int32()), *SCORES, ("known", pa.bool_())]
    table = ResultTable.from_rows(rows, pa.schema([*TRIPLE, *said])).to_arrow()
    return add_names(table, {"head": graph, "tail": graph}, language)


def best_answers(
    graph: KnowledgeGraph,
    asked: Queries,
    found: Sequence[Sequence[Answer]],
    unanswered: float | None,
) -> pa.Table:
    """The best answer of each question beside the truth.

    Args:
        unanswered: the probability of an answer that there is not.
    """
    rows = []
    for i, answers in enumerate(found):
        right = asked.answers[asked.indptr[i] : asked.indptr[i + 1]]
        backwards, relation = divmod(int(asked.relations[i]), asked.n_relations)
        given, kind = graph.entities[int(asked.entities[i])], graph.relations[relation]
        query = (None, kind, given) if backwards else (given, kind, None)
        best = answers[0] if answers else None
        rows.append(
            {"probability": unanswered}
            | completed(graph, query, best)
            | {
                "asked": "head" if backwards else "tail",
                "correct": best is not None and best.id in right,
                "truth": graph.entities.take(right),
                "truth_name": graph.names.shown(right),
            }
        )
    truth = [("correct", pa.bool_()), ("truth", pa.list_(pa.string()))]
    truth += [("truth_name", pa.list_(pa.string()))] * bool(graph.names)
    schema = pa.schema([*TRIPLE, ("asked", pa.string()), *SCORES, *truth])
    table = ResultTable.from_rows(rows, schema).to_arrow()
    return add_names(table, {"head": graph, "tail": graph})
