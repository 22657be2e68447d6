"""Reads N-Triples and Turtle with pyoxigraph."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from decentrl.data.table import LINK, Table, stem, string_columns
from decentrl.errors import InputError, MissingExtraError

SAME_AS = "http://www.w3.org/2002/07/owl#sameAs"


def read_rdf(data: bytes, file: Path, names: tuple[str, ...], kind: str) -> Table:
    """The statements of an RDF file between two resources; for links, its owl:sameAs statements.

    A label is an IRI without brackets. A statement about a literal is set aside and counted.
    """
    rows, numbers, literals = _statements(data, file, kind)
    if not rows:
        problem = "all objects are literals" if literals else "there is no statement in the file"
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
        rows = [(rows[i][0], rows[i][2]) for i in links]
        numbers = [numbers[i] for i in links]
    elif len(names) != 3:
        raise InputError("an RDF file cannot be used here", file=file, remedy="give a TSV file")

    def line_of(row: int) -> int | None:
        return _ntriples_line(data, numbers[row]) if kind == "nt" else None

    return Table(file, string_columns(zip(*rows, strict=True)), line_of, literals)


def _statements(data: bytes, file: Path, kind: str) -> tuple[list[Any], list[int], int]:
    """The rows (head, relation, tail), the number of each statement, and how many had literals."""
    ox = _pyoxigraph()
    name = _Namer(ox, f"{stem(file)}-{hashlib.sha256(data).hexdigest()[:6]}", file)
    rows: list[tuple[str, str, str]] = []
    numbers: list[int] = []
    literals = 0
    form = ox.RdfFormat.N_TRIPLES if kind == "nt" else ox.RdfFormat.TURTLE
    try:
        for number, statement in enumerate(ox.parse(data.removeprefix(b"\xef\xbb\xbf"), form)):
            if isinstance(statement.object, ox.Literal):
                literals += 1
                continue
            head = name(statement.subject)
            rows.append((head, statement.predicate.value, name(statement.object)))
            numbers.append(number)
    except SyntaxError as error:
        message = str(error.msg).split(": ", 1)[-1].rstrip(".")
        raise InputError(
            f"this is not {'N-Triples' if kind == 'nt' else 'Turtle'} ({message})",
            file=file,
            line=error.lineno,
            remedy="correct the line",
        ) from None
    return rows, numbers, literals


class _Namer:
    """Terms to labels. Blank nodes are numbered by first appearance.

    The parser gives anonymous ones a random name, which would change the ids at each reading; and
    a node ``_:b0`` of one file is not that of another, so the name contains the file's, and
    something of its content.
    """

    def __init__(self, ox: Any, file_stem: str, file: Path) -> None:
        self._iri, self._blank = ox.NamedNode, ox.BlankNode
        self._stem, self._file = file_stem, file
        self._names: dict[str, str] = {}

    def __call__(self, term: Any) -> str:
        if isinstance(term, self._iri):
            return str(term.value)
        if not isinstance(term, self._blank):
            raise InputError(
                f"the statement about a statement {term} has no place in a graph",
                file=self._file,
                remedy="remove it",
            )
        return self._names.setdefault(term.value, f"_:{self._stem}.{len(self._names)}")


def _ntriples_line(data: bytes, number: int) -> int | None:
    """The line of the statement ``number``, counted from 0: N-Triples has one on a line."""
    for line, text in enumerate(data.split(b"\n"), 1):
        if text.strip() and not text.lstrip().startswith(b"#"):
            if number == 0:
                return line
            number -= 1
    return None


def _pyoxigraph() -> Any:
    try:
        import pyoxigraph
    except ImportError:
        raise MissingExtraError("reading RDF", "pyoxigraph", "rdf") from None
    return pyoxigraph
