"""Attributes of entities: values that are no entities, such as dates, numbers and texts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from decentrl.data.names import clean, moved, strings, update_hash
from decentrl.data.vocabulary import Ids

if TYPE_CHECKING:
    from hashlib import _Hash

KINDS = ("string", "number", "date", "boolean")
_XSD = "http://www.w3.org/2001/XMLSchema#"
_TEXT = (_XSD + "string", "http://www.w3.org/1999/02/22-rdf-syntax-ns#langString")
_FORMS = {
    "number": r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,2})?$",
    "date": r"^[+-]?[0-9]{4,6}(-[0-9]{2}(-[0-9]{2}([T ][0-9:.]+)?)?)?(Z|[+-][0-9]{2}:[0-9]{2})?$",
    "boolean": "^(true|false|0|1)$",
}
# Where nothing says what a value is: a number with leading zeros is a code, like that of a post
# office, and a year is a number.
_GUESSED = {
    "number": r"^[+-]?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]{1,2})?$",
    "date": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9:.]+(Z|[+-][0-9]{2}:[0-9]{2})?)?$",
    "boolean": "^(?i)(true|false)$",
}
_DATATYPES = {
    _XSD + name: kind
    for kind, names in {
        "number": "decimal integer double float int long short byte nonNegativeInteger "
        "positiveInteger nonPositiveInteger negativeInteger unsignedInt unsignedLong "
        "unsignedShort unsignedByte",
        "date": "date dateTime dateTimeStamp gYear gYearMonth",
        "boolean": "boolean",
    }.items()
    for name in names.split()
}


@dataclass(frozen=True, eq=False)
class Attributes:
    """Attributes of entities, as columns of equal length, distinct and in the order of all columns.

    Make them with :meth:`of_rows`.

    Attributes:
        entities: int64[n], ids, ascending.
        attributes: string[n], what is said: ``population``, or an IRI.
        values: string[n], as written, cleaned as names are.
        kinds: string[n], each of ``string``, ``number``, ``date``, ``boolean``.
    """

    entities: Ids
    attributes: pa.Array
    values: pa.Array
    kinds: pa.Array

    @classmethod
    def of_rows(
        cls,
        entities: Ids,
        attributes: pa.Array | Iterable[str],
        values: pa.Array | Iterable[str],
        datatypes: pa.Array | Iterable[str] | None = None,
    ) -> Attributes:
        """Attributes from columns in any order.

        Args:
            datatypes: IRIs as RDF has them; None where nothing is known but the values.
        """
        values = clean(strings(values))
        known = None if datatypes is None else strings(datatypes)
        columns = [pa.array(entities, pa.int64()), strings(attributes), values]
        table = pa.table([*columns, _kinds(values, known)], names=list(_COLUMNS))
        return cls._arranged(table.filter(pc.not_equal(values, "")))

    @classmethod
    def _arranged(cls, table: pa.Table) -> Attributes:
        if not len(table):
            return NO_ATTRIBUTES
        table = table.group_by(list(_COLUMNS), use_threads=False).aggregate([])
        return cls.from_arrow(table.sort_by([(name, "ascending") for name in _COLUMNS]))

    @classmethod
    def from_arrow(cls, table: pa.Table) -> Attributes:
        """Attributes from the table that :meth:`to_arrow` made."""
        entities, *others = (table[name].combine_chunks() for name in _COLUMNS)
        return cls(np.asarray(entities, np.int64), *others)

    def to_arrow(self) -> pa.Table:
        """The columns entity, attribute, value and kind."""
        columns = [pa.array(self.entities), self.attributes, self.values, self.kinds]
        return pa.table(columns, names=list(_COLUMNS))

    def __len__(self) -> int:
        return len(self.entities)

    def __repr__(self) -> str:
        return f"Attributes({len(self):,} of {len(np.unique(self.entities)):,} entities)"

    def of(self, entity: int) -> list[tuple[str, str, str]]:
        """What is said of an entity: attribute, value, kind."""
        rows = slice(*np.searchsorted(self.entities, [entity, entity + 1]).tolist())
        columns = (x[rows].to_pylist() for x in (self.attributes, self.values, self.kinds))
        return list(zip(*columns, strict=True))

    def take(self, ids: Ids) -> Attributes:
        """The attributes of these entities alone; they keep their ids."""
        kept = np.isin(self.entities, ids)
        return Attributes.from_arrow(self.to_arrow().filter(pa.array(kept)))

    def moved(self, places: Ids) -> Attributes:
        """The same attributes where entity i has the id places[i]; those of -1 are left out."""
        return Attributes._arranged(moved(self.to_arrow(), places))

    def concat(self, *others: Attributes) -> Attributes:
        """All these attributes together; in which order they are given does not matter."""
        parts = [x for x in (self, *others) if len(x)]
        if len(parts) < 2:
            return parts[0] if parts else self
        return Attributes._arranged(pa.concat_tables([x.to_arrow() for x in parts]))

    def update_hash(self, digest: _Hash) -> None:
        """Feed the attributes to a hash."""
        update_hash(digest, self.to_arrow())


def _kinds(values: pa.Array, datatypes: pa.Array | None) -> pa.Array:
    """What each value is, by its datatype; a value that does not look like it is a string.

    Without a datatype, or with one that only its makers know, it is what it looks like.
    """
    kinds = _looks_like(values, _GUESSED)
    if datatypes is None:
        return kinds
    known = strings([*_DATATYPES, *_TEXT])
    named = strings([*_DATATYPES.values(), *["string"] * len(_TEXT)])
    wanted = named.take(pc.index_in(datatypes, known))
    typed = strings(["string"] * len(values))
    for kind, form in _FORMS.items():
        fits = pc.and_(pc.equal(wanted, kind), pc.match_substring_regex(values, form))
        typed = pc.if_else(pc.fill_null(fits, False), kind, typed)
    return pc.if_else(pc.is_null(wanted), kinds, typed)


def _looks_like(values: pa.Array, forms: dict[str, str]) -> pa.Array:
    kinds = strings(["string"] * len(values))
    for kind, form in forms.items():
        kinds = pc.if_else(pc.match_substring_regex(values, form), kind, kinds)
    return kinds


_COLUMNS = ("entity", "attribute", "value", "kind")
NO_ATTRIBUTES = Attributes(np.empty(0, np.int64), strings([]), strings([]), strings([]))
