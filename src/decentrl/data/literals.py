"""Names and attributes of the entities of a graph, read from RDF literals and from tables."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from decentrl.data.attributes import NO_ATTRIBUTES, Attributes
from decentrl.data.memory import Source
from decentrl.data.names import NO_NAMES, Names, clean, clean_tags, strings, visible
from decentrl.data.readers import read_table
from decentrl.data.table import ATTRIBUTE, NAME, Table
from decentrl.data.vocabulary import Ids, Vocabulary
from decentrl.errors import UnknownLabelError, warn_left_out

_DBPEDIA, _WIKIDATA = "http://dbpedia.org/property/", "http://www.wikidata.org/prop/direct/"
_GEONAMES, _SKOS = "http://www.geonames.org/ontology#", "http://www.w3.org/2004/02/skos/core#"
NAME_PROPERTIES = (
    "http://www.w3.org/2000/01/rdf-schema#label",
    _SKOS + "prefLabel",
    "http://schema.org/name",
    "https://schema.org/name",
    "http://xmlns.com/foaf/0.1/name",
    "http://purl.org/dc/elements/1.1/title",
    "http://purl.org/dc/terms/title",
    _DBPEDIA + "name",
    _WIKIDATA + "P1448",  # official name
    _WIKIDATA + "P1476",  # title
    _WIKIDATA + "P1705",  # native label
    _GEONAMES + "name",
)
"""Properties of RDF whose values are main names of their subjects."""
ALIAS_PROPERTIES = (
    _SKOS + "altLabel",
    "http://schema.org/alternateName",
    "https://schema.org/alternateName",
    "http://xmlns.com/foaf/0.1/nick",
    "http://purl.org/dc/terms/alternative",
    "http://dbpedia.org/ontology/alias",
    _DBPEDIA + "alias",
    _GEONAMES + "alternateName",
    _GEONAMES + "officialName",
)
"""Properties of RDF whose values are further names."""


@dataclass(frozen=True)
class Literals:
    """What literals say of the entities of a graph, and how many are about others."""

    names: Names = NO_NAMES
    attributes: Attributes = NO_ATTRIBUTES
    left_out: int = 0

    def __bool__(self) -> bool:
        return bool(self.names or self.attributes)

    @classmethod
    def merged(cls, parts: Sequence[Literals]) -> Literals:
        """All of them together, in any order."""
        first, *others = parts
        names = first.names.concat(*(x.names for x in others))
        attributes = first.attributes.concat(*(x.attributes for x in others))
        return cls(names, attributes, sum(x.left_out for x in parts))

    @property
    def entities(self) -> Ids:
        """The entities that something is said of, increasing."""
        return np.union1d(self.names.entities, self.attributes.entities)

    def take(self, ids: Ids) -> Literals:
        """What is said of these entities."""
        return Literals(self.names.take(ids), self.attributes.take(ids))

    def placed(self, entities: Ids) -> Literals:
        """The same where the entity entities[i] has the id i; ``entities`` are increasing."""
        names, attributes = self.names, self.attributes
        return Literals(
            replace(names, entities=np.searchsorted(entities, names.entities)),
            replace(attributes, entities=np.searchsorted(entities, attributes.entities)),
        )


NO_LITERALS = Literals()


def of_literals(
    tables: Sequence[pa.Table], entities: Vocabulary, name_properties: Collection[str] = ()
) -> Literals:
    """Names and attributes from statements with a literal object, those of table.LITERAL.

    Args:
        name_properties: further properties whose values are main names.
    """
    if not tables:
        return Literals()
    table = pa.concat_tables(tables).combine_chunks()
    ids, known = _known(table["subject"], entities)
    table = table.filter(pa.array(known))
    mains = strings([*NAME_PROPERTIES, *name_properties])
    main, alias = (pc.is_in(table["property"], x) for x in (mains, strings(ALIAS_PROPERTIES)))
    named = pc.or_(main, alias)
    own, others = np.asarray(named), table.filter(pc.invert(named))
    of_names = table.filter(named)
    return Literals(
        Names.of_rows(
            ids[own], of_names["value"], of_names["language"], pc.invert(main.filter(named))
        ),
        Attributes.of_rows(ids[~own], others["property"], others["value"], others["datatype"]),
        int((~known).sum()),
    )


def read_names(
    source: Source,
    entities: Vocabulary,
    name_properties: Collection[str] = (),
    *,
    none: bool = False,
) -> Literals:
    """Names of entities from a file or memory, see :meth:`KnowledgeGraph.with_names`.

    Args:
        none: it is no error, and no warning is given, where there are no names of the entities.
    """
    table = read_table(source, NAME)
    if table.literals is not None:
        found = of_literals([table.literals], entities, name_properties)
        found = replace(found, attributes=NO_ATTRIBUTES)
    else:
        found = names_of(table, entities)
    if not none:
        _report(table, "names", found.left_out, len(found.names))
    return found


def names_of(table: Table, entities: Vocabulary) -> Literals:
    """Names of entities from the rows of a table: entity, name and perhaps language."""
    ids, known = _known(table.columns[0], entities)
    left_out = int((~known).sum())
    texts, *languages = (strings(x.filter(pa.array(known))) for x in table.columns[1:])
    tags = clean_tags(languages[0]) if languages else strings([""] * len(ids))
    full = visible(clean(texts))
    ids, texts, tags = ids[np.asarray(full)], texts.filter(full), tags.filter(full)
    # The first line of an entity and language is its main name.
    keys = pa.table(
        [pa.array(ids), tags, pa.array(np.arange(len(ids)))], names=["id", "tag", "row"]
    )
    first = keys.group_by(["id", "tag"], use_threads=False).aggregate([("row", "min")])
    aliases = np.ones(len(ids), bool)
    aliases[np.asarray(first["row_min"])] = False
    return Literals(Names.of_rows(ids, texts, tags, pa.array(aliases)), left_out=left_out)


def read_attributes(source: Source, entities: Vocabulary) -> Literals:
    """Attributes from a file or memory, see :meth:`KnowledgeGraph.with_attributes`."""
    table = read_table(source, ATTRIBUTE)
    if table.literals is not None:
        found = of_literals([table.literals], entities)
        _report(table, "attributes", found.left_out, len(found.attributes))
        return replace(found, names=NO_NAMES)
    ids, known = _known(table.columns[0], entities)
    left_out = int((~known).sum())
    _report(table, "attributes", left_out, len(ids))
    attributes, values = (column.filter(pa.array(known)) for column in table.columns[1:])
    return Literals(attributes=Attributes.of_rows(ids, attributes, values), left_out=left_out)


def _known(labels: pa.ChunkedArray, entities: Vocabulary) -> tuple[Ids, npt.NDArray[np.bool_]]:
    """The ids of the labels that are entities, and which these are."""
    if len(labels) < len(entities) // 8:  # of an addition: spare what costs as much as the graph
        found = entities.find_all(labels.to_pylist())
    else:
        found = np.asarray(pc.fill_null(pc.index_in(labels, value_set=entities.to_arrow()), -1))
    known = found >= 0
    return found[known].astype(np.int64), known


def _report(table: Table, what: str, left_out: int, kept: int) -> None:
    """An error where nothing is about the graph, a warning where something is about others."""
    if not kept:
        raise table.error(
            f"no entity of the graph has {what} here",
            remedy="name entities as the triples do",
            kind=UnknownLabelError,
        )
    if left_out:
        place = f"the {table.memory}" if table.memory else f"{table.file}"
        warn_left_out(f"{place}: {left_out:,} {what} of entities that are not in the graph")
