"""Reads RDF with pyoxigraph: N-Triples, Turtle, N3, RDF/XML, JSON-LD, N-Quads and TriG."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

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

_SYNTAXES = {
    "nt": ("N_TRIPLES", "N-Triples"),
    "ttl": ("TURTLE", "Turtle"),
    "n3": ("N3", "N3"),
    "rdf": ("RDF_XML", "RDF/XML"),
    "jsonld": ("JSON_LD", "JSON-LD"),
    "nq": ("N_QUADS", "N-Quads"),
    "trig": ("TRIG", "TriG"),
}
"""By format the name in pyoxigraph, and the usual one."""
_ON_LINES = ("nt", "nq")
NAME_PROPERTY = "http://www.w3.org/2000/01/rdf-schema#label"
SAME_AS = "http://www.w3.org/2002/07/owl#sameAs"


def read_rdf(
    data: bytes, file: Path, names: tuple[str, ...], kind: str, alone: bool = True
) -> Table:
    """The statements of an RDF file between two resources; for links, its owl:sameAs statements.

    A label is an IRI without brackets. The statements about literals are beside the triples; where
    names or attributes are asked for, they are all there is. The graphs of N-Quads and TriG are
    one.

    Args:
        alone: that there are no rows is an error.
    """
    if names not in (TRIPLE, LINK, NAME, ATTRIBUTE):
        raise InputError("an RDF file cannot be used here", file=file, remedy="give a TSV file")
    rows, numbers, literals = read_statements(data, file, kind)

    def line_of(row: int) -> int | None:
        """N-Triples and N-Quads have a statement on a line."""
        if kind not in _ON_LINES:
            return None
        lines = [x.strip() for x in data.split(b"\n")]
        return [i for i, x in enumerate(lines, 1) if x and x[:1] != b"#"][numbers[row]]

    return resource_table(rows, literals, names, Table(file, (), line_of), alone)


def resource_table(
    rows: list[tuple[str, ...]],
    literals: pa.Table,
    names: tuple[str, ...],
    place: Table,
    alone: bool = True,
) -> Table:
    """The table of statements between resources, with those about literals beside them.

    Args:
        rows: head, relation and tail.
        place: names their source in errors, and the line of a row.
    """
    if names in (NAME, ATTRIBUTE):
        return replace(place, columns=tuple(literals.columns), literals=literals)
    if not rows and alone:
        problem = "all objects are literals" if len(literals) else "there is no statement in it"
        raise place.error(problem, remedy="give statements whose object is an IRI or a blank node")
    if names != LINK:
        columns = zip(*rows, strict=True) if rows else [()] * len(names)
        return replace(place, columns=string_columns(columns), literals=literals)
    links = [i for i, row in enumerate(rows) if row[1] == SAME_AS]
    if not links and alone:
        remedy = f"write links as <left> <{SAME_AS}> <right>"
        raise place.error("no owl:sameAs statement", remedy=remedy)
    columns = zip(*(rows[i][::2] for i in links), strict=True) if links else [()] * len(names)
    return replace(
        place,
        columns=string_columns(columns),
        literals=literals,
        line_of=lambda row: place.line_of(links[row]),
    )


def read_statements(
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
                f"the statement about {term} has no place in a graph of resources",
                file=file,
                remedy="remove it",
            )
        return blanks.setdefault(term.value, f"{blank}.{len(blanks)}")

    rows: list[tuple[str, ...]] = []
    numbers: list[int] = []
    literals: list[tuple[str, ...]] = []
    size = 0
    limit = Limit(file)
    try:
        for number, statement in enumerate(
            _parse(ox, data.removeprefix(b"\xef\xbb\xbf"), file, kind)
        ):
            if isinstance(statement.object, ox.Literal):
                subject, predicate = (
                    label(statement.subject),
                    sys.intern(label(statement.predicate)),
                )
                literals.append((subject, predicate, *_literal(statement.object)))
                size += sum(map(len, literals[-1]))
                limit.check(size)
                continue
            head = label(statement.subject)
            row = (head, label(statement.predicate), label(statement.object))
            # A short name of Turtle stands for an IRI of any length.
            size += sum(map(len, row))
            limit.check(size)
            rows.append(row)
            numbers.append(number)
    except SyntaxError as error:
        raise _no_syntax(error, file, kind) from None
    columns = zip(*literals, strict=True) if literals else [()] * len(LITERAL)
    return rows, numbers, pa.table(string_columns(columns), names=list(LITERAL))


def _no_syntax(error: SyntaxError, file: Path, kind: str) -> InputError:
    """What to say of a file that its parser refuses."""
    message = " ".join(str(error.msg).split(": ", 1)[-1].split())[:200].rstrip(".")
    remedy = "correct the line" if error.lineno else "correct it"
    if "LoadDocumentCallback" in message:
        message = "its @context is an address"
        remedy = "write what is at that address into the file; nothing is fetched"
    problem = f"this is not {_SYNTAXES[kind][1]} ({message})"
    return InputError(problem, file=file, line=error.lineno, remedy=remedy)


def _parse(ox: Any, data: bytes, file: Path, kind: str) -> Iterator[Any]:
    """The statements of a file; those that N3 only quotes are left out."""
    form = getattr(ox.RdfFormat, _SYNTAXES[kind][0], None)
    if form is None:
        raise MissingExtraError(f"reading {_SYNTAXES[kind][1]}", "pyoxigraph>=0.5")
    # Documents name what is in them by their ends: without a base JSON-LD loses it silently.
    base = f"file:///{quote(file.name)}" if kind in ("rdf", "jsonld") else None
    for statement in ox.parse(data, form, base_iri=base):
        if kind != "n3" or isinstance(statement.graph_name, ox.DefaultGraph):
            yield statement


def _literal(literal: Any) -> tuple[str, str, str]:
    """Value, language and datatype of a literal; of a very long value what can be kept of it."""
    value = literal.value[: 10 * LONGEST]
    return value, sys.intern(literal.language or ""), sys.intern(literal.datatype.value)
