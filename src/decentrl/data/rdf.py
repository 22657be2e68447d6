"""Reads N-Triples and Turtle with pyoxigraph."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa

from decentrl.data.limits import Limit
from decentrl.data.names import LONGEST
from decentrl.data.table import (
    ATTRIBUTE,
    LINK,
    LITERAL,
    NAME,
    TRIPLE,
    Table,
    stem,
    string_columns,
)
from decentrl.errors import InputError, MissingExtraError

SAME_AS = "http://www.w3.org/2002/07/owl#sameAs"


def read_rdf(data: bytes, file: Path, names: tuple[str, ...], kind: str) -> Table:
    """The statements of an RDF file between two resources; for links, its owl:sameAs statements.

    A label is an IRI without brackets. The statements about literals are beside the triples; where
    names or attributes are asked for, they are all there is.
    """
    if names not in (TRIPLE, LINK, NAME, ATTRIBUTE):
        raise InputError("an RDF file cannot be used here", file=file, remedy="give a TSV file")
    rows, numbers, literals = _statements(data, file, kind)
    if names in (NAME, ATTRIBUTE):
        return Table(file, tuple(literals.columns), lambda row: None, literals)
    if not rows:
        found = len(literals)
        problem = "all objects are literals" if found else "there is no statement in the file"
        raise InputError(
            problem, file=file, remedy="give statements whose object is an IRI or a blank node"
        )
    if names == LINK:
        links = [i for i, row in enumerate(rows) if row[1] == SAME_AS]
        if not links:
            raise InputError(
                "no owl:sameAs statement",
                file=file,
                remedy=f"write links as <left> <{SAME_AS}> <right>",
            )
        rows, numbers = [rows[i][::2] for i in links], [numbers[i] for i in links]

    def line_of(row: int) -> int | None:
        """N-Triples has a statement on a line."""
        if kind != "nt":
            return None
        lines = [x.strip() for x in data.split(b"\n")]
        return [i for i, x in enumerate(lines, 1) if x and x[:1] != b"#"][numbers[row]]

    return Table(file, string_columns(zip(*rows, strict=True)), line_of, literals)


def _statements(
    data: bytes, file: Path, kind: str
) -> tuple[list[tuple[str, ...]], list[int], pa.Table]:
    """The rows (head, relation, tail), the number of each statement, and those about literals.

    Blank nodes are numbered by first appearance. The parser gives anonymous ones a random name,
    which would change the ids at each reading; and a node ``_:b0`` of one file is not that of
    another, so the label contains the file's name, and something of its content.
    """
    try:
        import pyoxigraph as ox
    except ImportError:
        raise MissingExtraError("reading RDF", "pyoxigraph", "rdf") from None
    name = os.fsencode(stem(file)).decode("utf-8", "replace")  # may be made of any bytes
    blank = f"_:{name}-{hashlib.sha256(data).hexdigest()[:6]}"
    blanks: dict[str, str] = {}

    def label(term: Any) -> str:
        if isinstance(term, ox.NamedNode):
            return str(term.value)
        if not isinstance(term, ox.BlankNode):
            raise InputError(
                f"the statement about a statement {term} has no place in a graph",
                file=file,
                remedy="remove it",
            )
        return blanks.setdefault(term.value, f"{blank}.{len(blanks)}")

    rows: list[tuple[str, ...]] = []
    numbers: list[int] = []
    literals: list[tuple[str, ...]] = []
    size = 0
    limit = Limit(file)
    form = ox.RdfFormat.N_TRIPLES if kind == "nt" else ox.RdfFormat.TURTLE
    try:
        for number, statement in enumerate(ox.parse(data.removeprefix(b"\xef\xbb\xbf"), form)):
            if isinstance(statement.object, ox.Literal):
                subject, predicate = label(statement.subject), sys.intern(statement.predicate.value)
                literals.append((subject, predicate, *_literal(statement.object)))
                size += sum(map(len, literals[-1]))
                limit.check(size)
                continue
            head = label(statement.subject)
            row = (head, statement.predicate.value, label(statement.object))
            # A short name of Turtle stands for an IRI of any length.
            size += sum(map(len, row))
            limit.check(size)
            rows.append(row)
            numbers.append(number)
    except SyntaxError as error:
        message = str(error.msg).split(": ", 1)[-1].rstrip(".")
        raise InputError(
            f"this is not {'N-Triples' if kind == 'nt' else 'Turtle'} ({message})",
            file=file,
            line=error.lineno,
            remedy="correct the line",
        ) from None
    columns = zip(*literals, strict=True) if literals else [()] * len(LITERAL)
    return rows, numbers, pa.table(string_columns(columns), names=list(LITERAL))


def _literal(literal: Any) -> tuple[str, str, str]:
    """Value, language and datatype of a literal; of a very long value what can be kept of it."""
    value = literal.value[: 10 * LONGEST]
    return value, sys.intern(literal.language or ""), sys.intern(literal.datatype.value)
