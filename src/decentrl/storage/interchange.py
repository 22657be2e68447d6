"""Writes matches in two formats that other tools exchange: SSSOM/TSV and the Alignment format."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple
from uuid import NAMESPACE_URL, uuid5
from xml.sax.saxutils import quoteattr

import pyarrow as pa
import pyarrow.compute as pc

from decentrl._version import __version__
from decentrl.data.called import UNFIT
from decentrl.data.curies import BUILT_IN, Prefixes
from decentrl.data.iris import OWN, iri_of, uri_of
from decentrl.errors import ConfigError, InputError
from decentrl.storage.files import whole_files

NO_TERM = "sssom:NoTermFound"
SIDES = ("left", "right")
_CONTROL = re.compile(rf"[\t\n{UNFIT}]")
_FORMULA = re.compile(r"^[=+\-@]")
_HEAD = """\
<?xml version="1.0" encoding="utf-8"?>
<rdf:RDF xmlns="http://knowledgeweb.semanticweb.org/heterogeneity/alignment#"
         xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">
<Alignment>
  <xml>yes</xml>
  <level>0</level>
  <type>{kind}</type>
  <onto1><Ontology rdf:about="{own}left"/></onto1>
  <onto2><Ontology rdf:about="{own}right"/></onto2>
"""
_CELL = """\
  <map><Cell>
    <entity1 rdf:resource={left}/>
    <entity2 rdf:resource={right}/>
    <relation>=</relation>
{measure}  </Cell></map>
"""
_MEASURE = """\
    <measure rdf:datatype="http://www.w3.org/2001/XMLSchema#float">{sure}</measure>
"""


class Match(NamedTuple):
    """A row of a table of matches; what is missing is None."""

    left: str | None
    right: str | None
    left_name: str | None
    right_name: str | None
    confidence: float | None
    by: str | None
    rejected: bool | None


_KINDS = [*[pa.string()] * 4, pa.float64(), pa.string(), pa.bool_()]


def write_sssom(
    matches: Any, file: str | PathLike[str], *, justification: str = "semapv:StructuralMatching"
) -> None:
    """Write matches as SSSOM/TSV, the Simple Standard for Sharing Ontology Mappings.

    A row says ``skos:exactMatch``. Where an entity has no match, the other end is
    ``sssom:NoTermFound``. Identifiers become CURIEs; of one that is no IRI, an IRI
    ``urn:decentrl:left:…`` is made, percent-encoded. IRIs are written as URIs: what is not ASCII is
    percent-encoded. Control characters of labels become spaces, and a space is put before what a
    spreadsheet would take for a formula. The same matches give the same bytes.

    Args:
        matches: a table as ``Aligner.match`` returns it, with rank 1 alone. The columns
            ``left_name`` and ``right_name``, if there, are written as labels, ``by`` as the label
            of the author; where ``rejected`` is true, the entities are no match (``Not``).
        file: appears whole or not at all.
        justification: how the matches were found, a term of SEMAPV, such as
            ``semapv:CompositeMatching`` where names were compared too.
    """
    table = _table_of(matches)
    filled, digest = set(_FIXED), hashlib.sha256()
    prefixes = Prefixes(_survey(table, filled, digest))
    set_id = uuid5(NAMESPACE_URL, digest.hexdigest())
    columns = [x for x in _COLUMNS if x in filled or x.endswith("_id")]
    with whole_files(Path(file)) as (part,), part.open("w", encoding="utf-8", newline="\n") as out:
        out.writelines(_metadata(prefixes.by_name, str(set_id)))
        out.write("\t".join(columns) + "\n")
        for match in _matches(table):
            cells = _cells(match) | _FIXED | {"mapping_justification": justification}
            for name in ("subject_id", "object_id"):
                cells[name] = prefixes.curie(cells[name]) if cells[name] else NO_TERM
            out.write("\t".join(_quoted(cells[name]) for name in columns) + "\n")


_COLUMNS = (
    *("subject_id", "subject_label", "predicate_id", "predicate_modifier"),
    *("object_id", "object_label"),
    *("mapping_justification", "author_label", "mapping_tool", "confidence"),
)
"""In the order of the specification."""


_FIXED = {
    "predicate_id": "skos:exactMatch",
    "mapping_justification": "",
    "mapping_tool": "decentRL",
}


def _survey(table: pa.Table, filled: set[str], digest: hashlib._Hash) -> Iterator[str]:
    """The URIs of all entities; notes the columns that are not empty, and a digest of the rows."""
    for match in _matches(table):
        # Matches alone have the same digest as before there were decisions.
        digest.update(json.dumps(match if match.by or match.rejected else match[:5]).encode())
        cells = _cells(match)
        filled.update(name for name, cell in cells.items() if cell)
        yield from filter(None, (cells["subject_id"], cells["object_id"]))


def _cells(match: Match) -> dict[str, str]:
    """What a row says of its match; identifiers are URIs, and empty where there is none."""
    cells = {}
    for column, side, label, name in (
        ("subject", "left", match.left, match.left_name),
        ("object", "right", match.right, match.right_name),
    ):
        uri = "" if label is None else uri_of(iri_of(label, side))
        # The last part of an IRI is no label: it may be a number.
        shown = (name or (label if uri.startswith(OWN) else "")) if label else ""
        cells[f"{column}_id"] = uri
        cells[f"{column}_label"] = _shown(shown)
    # The confidence of an entity without a match is that of the one that was refused.
    known = match.confidence is not None and None not in (match.left, match.right)
    cells["confidence"] = f"{match.confidence:.6f}" if known else ""
    cells["predicate_modifier"] = "Not" if match.rejected else ""
    cells["author_label"] = _shown(match.by or "")
    return cells


def _shown(text: str) -> str:
    """Text that is one cell, and no formula for a spreadsheet."""
    return _FORMULA.sub(r" \g<0>", _CONTROL.sub(" ", text).strip())


def _metadata(prefixes: dict[str, str], set_id: str) -> Iterator[str]:
    """The comment lines, YAML. An IRI of them is quoted, as it may end with a colon."""
    used = {name: BUILT_IN[name] for name in ("semapv", "skos", "sssom")} | prefixes
    yield "#curie_map:\n"
    for name, iri in sorted((used | {"decentrl": OWN}).items()):
        yield f'#  {name}: "{iri}"\n'
    yield f'#mapping_set_id: "urn:uuid:{set_id}"\n'
    yield '#license: "https://w3id.org/sssom/license/unspecified"\n'
    yield "#subject_source: decentrl:left\n#object_source: decentrl:right\n"
    yield f'#mapping_tool_version: "{__version__}"\n'


def _quoted(cell: str) -> str:
    return '"' + cell.replace('"', '""') + '"' if '"' in cell else cell


def write_alignment(matches: Any, file: str | PathLike[str]) -> None:
    """Write matches in the Alignment format of the OAEI, RDF/XML with a cell for each pair.

    Entities without a match are left out. A cell whose confidence is not known has no measure.
    Of an identifier that is no IRI, an IRI ``urn:decentrl:left:…`` is made, percent-encoded.

    Args:
        matches: a table as ``Aligner.match`` returns it, with rank 1 alone.
        file: appears whole or not at all.
    """
    table = _table_of(matches)
    pairs = table.filter(pc.and_(table["left"].is_valid(), table["right"].is_valid()))
    once = all(pc.count_distinct(pairs[side]).as_py() == len(pairs) for side in ("left", "right"))
    # "??": every entity is in one cell at most; "**": it may be in several.
    head = _HEAD.format(kind="??" if once else "**", own=OWN)
    with whole_files(Path(file)) as (part,), part.open("w", encoding="utf-8", newline="\n") as out:
        out.write(head)
        for match in _matches(pairs):
            ends = zip(match[:2], SIDES, strict=True)
            left, right = (quoteattr(iri_of(str(label), side)) for label, side in ends)
            sure = match.confidence
            measure = "" if sure is None else _MEASURE.format(sure=f"{sure:.6f}")
            out.write(_CELL.format(left=left, right=right, measure=measure))
        out.write("</Alignment>\n</rdf:RDF>\n")


def _table_of(matches: Any) -> pa.Table:
    """The columns of :class:`Match` of a table that speaks Arrow; what it lacks is null."""
    table = pa.table(matches)
    if missing := set(SIDES).difference(table.column_names):
        raise InputError(
            f"there is no column {min(missing)!r}", remedy="give a table as Aligner.match returns"
        )
    if "rank" in table.column_names and (pc.max(table["rank"]).as_py() or 1) > 1:
        raise ConfigError("exact matches are the best alone; match with top=1 (--top 1)")
    columns = {
        name: (table[name] if name in table.column_names else pa.nulls(len(table))).cast(kind)
        for name, kind in zip(Match._fields, _KINDS, strict=True)
    }
    sure = columns["confidence"]
    possible = pc.and_(pc.greater_equal(sure, 0), pc.less_equal(sure, 1))
    if pc.any(pc.invert(possible)).as_py():
        raise InputError("a confidence is not between 0 and 1", remedy="null is an unknown one")
    return pa.table(columns)


def _matches(table: pa.Table) -> Iterator[Match]:
    for batch in table.to_batches(max_chunksize=4096):
        yield from map(Match, *(column.to_pylist() for column in batch.columns))
