"""Graphs of rdflib, networkx and PyKEEN as triples, links and literals; none is imported here."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from decentrl.data.headers import relation_key
from decentrl.data.rdf import NAME_PROPERTY, resource_table
from decentrl.data.table import LINK, LITERAL, TRIPLE, Table, string_columns

_XSD = "http://www.w3.org/2001/XMLSchema#"
_NAME_KEYS = ("name", "label", "title")
Rows = tuple[list[tuple[str, ...]], list[tuple[str, ...]]]


def graph_table(source: Any, names: tuple[str, ...], place: Table) -> Table | None:
    """The columns ``names`` of a graph of one of these libraries; None if it is no such graph."""
    rdflib, networkx = sys.modules.get("rdflib"), sys.modules.get("networkx")
    pykeen = sys.modules.get("pykeen.triples")
    if rdflib is not None and isinstance(source, rdflib.Graph):
        rows, literals = _of_rdflib(source, rdflib, place)
    elif networkx is not None and isinstance(source, networkx.Graph):
        rows, literals = _of_networkx(source, names, place)
        if names == LINK:
            return Table(place.file, _columns(rows, names), place.line_of, memory=place.memory)
    elif pykeen is not None and isinstance(source, pykeen.CoreTriplesFactory):
        rows, literals = _of_pykeen(source, pykeen, names, place), []
    else:
        return None
    found = pa.table(_columns(literals, LITERAL), names=list(LITERAL))
    return resource_table(rows, found, names, place)


def _columns(rows: list[tuple[str, ...]], names: tuple[str, ...]) -> tuple[pa.ChunkedArray, ...]:
    return string_columns(zip(*rows, strict=True) if rows else [()] * len(names))


def _of_rdflib(source: Any, rdflib: Any, place: Table) -> Rows:
    """Statements between resources, and those with a literal object."""

    def label(term: Any) -> str:
        if isinstance(term, rdflib.URIRef):
            return str(term)
        if isinstance(term, rdflib.BNode):
            return f"_:{term}"
        raise place.error(f"the statement about {term!r} has no place in a graph of resources")

    rows: list[tuple[str, ...]] = []
    literals: list[tuple[str, ...]] = []
    all_of_them = source.quads if isinstance(source, rdflib.Dataset) else source.triples
    for subject, predicate, value, *_ in all_of_them((None, None, None)):
        first = label(subject), label(predicate)
        if isinstance(value, rdflib.Literal):
            kind = value.datatype or (_XSD + "string")
            literals.append((*first, str(value), str(value.language or ""), str(kind)))
        else:
            rows.append((*first, label(value)))
    return sorted(set(rows)), sorted(set(literals))


def _of_networkx(source: Any, names: tuple[str, ...], place: Table) -> Rows:
    """The edges, and the attributes of nodes that have one: name, label and title are names."""
    rows = list(_edges(source, names, place))
    ends = {end for row in rows for end in (row[0], row[-1])}
    literals: list[tuple[str, ...]] = []
    for node, values in source.nodes(data=True):
        if (label := str(node)) not in ends:
            continue
        for key, value in values.items():
            if value is None or isinstance(value, list | dict | set | tuple):
                continue
            if key in _NAME_KEYS:
                literals.append((label, NAME_PROPERTY, str(value), "", _XSD + "string"))
            else:
                literals.append((label, str(key), *_typed(value)))
    return rows, literals


def _of_pykeen(
    source: Any, pykeen: Any, names: tuple[str, ...], place: Table
) -> list[tuple[str, ...]]:
    """The labelled triples of a factory; inverse triples, which it only promises, are in none."""
    if names != TRIPLE:
        raise place.error("triples of PyKEEN are no links or names", remedy="give a table of them")
    if not isinstance(source, pykeen.TriplesFactory):
        raise place.error("these triples of PyKEEN have no labels", remedy="use a TriplesFactory")
    rows = source.label_triples(source.mapped_triples)
    return [tuple(map(str, row)) for row in rows.tolist()]


def _typed(value: Any) -> tuple[str, str, str]:
    """Value, language and datatype of an attribute."""
    for kind, name in ((bool, "boolean"), (int, "integer"), (float, "double")):
        if isinstance(value, kind):
            return str(value).lower(), "", _XSD + name
    return str(value), "", _XSD + "string"


def _edges(source: Any, names: tuple[str, ...], place: Table) -> Iterator[tuple[str, ...]]:
    """Head, relation and tail of each edge; without the relation of links.

    The relation is the attribute called so (``relation``, ``type``, ``label``, …), or the key of an
    edge of a multigraph.
    """
    many = source.is_multigraph()
    edges = source.edges(keys=True, data=True) if many else source.edges(data=True)
    for number, (head, tail, *key, values) in enumerate(edges):
        ends = [str(end) if isinstance(end, str | int) else "" for end in (head, tail)]
        if not all(ends):
            problem = f"the edge {(head, tail)!r} joins no labels"
            raise place.error(problem, number, "name nodes by text or integers")
        if names == LINK:
            yield ends[0], ends[1]
            continue
        relation = values.get(relation_key(values), key[0] if key else None)
        if not isinstance(relation, str) or not relation:
            problem = f"the edge {(head, tail)!r} has no relation"
            raise place.error(problem, number, "give it the attribute `relation`, a text")
        yield ends[0], relation, ends[1]
