"""Names of entities: in columns, several for an entity, each with its language."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from decentrl.data.vocabulary import Ids, Vocabulary

if TYPE_CHECKING:
    from hashlib import _Hash

LONGEST = 1000
"""Characters that are kept of a name or of an attribute's value."""
# White space, control characters, and what turns the direction of text around beyond its end.
_BLANK = r"[\pZ\p{Cc}\x{202A}-\x{202E}\x{2066}-\x{2069}]+"
_INVISIBLE = r"^[\p{Cf} ]*$"  # marks of direction, joiners, a byte order mark
LAST = r"(?s)^(?:.*?/(?:resource|wiki)/(.+?)|.*[/#]([^/#]+))[/#]*$"
"""What is a name in an IRI, as a regular expression with two groups, one of which is found."""
_TAG = r"^[a-z]{1,8}(-[a-z0-9]{1,8})*$"


@dataclass(frozen=True, eq=False)
class Names:
    """Names of entities, as columns of equal length.

    Rows are distinct, and their order depends on nothing but them: by entity; main names before
    aliases; those without a language, then English, then the other languages by their tags; by
    text. An entity has one main name in a language, the first one. Make them with :meth:`of_rows`.

    Attributes:
        entities: int64[n], ids, ascending.
        texts: string[n], without control characters and line breaks, at most 1,000 characters.
        languages: string[n], tags like ``en`` or ``zh-hant`` in lower case, "" where unknown.
        aliases: bool[n], whether it is a further name in this language and not the main one.
    """

    entities: Ids
    texts: pa.Array
    languages: pa.Array
    aliases: pa.Array

    @classmethod
    def of_rows(
        cls,
        entities: Ids,
        texts: pa.Array | Iterable[str],
        languages: pa.Array | Iterable[str] | None = None,
        aliases: pa.Array | Iterable[bool] | None = None,
    ) -> Names:
        """Names from columns in any order, cleaned: see :func:`clean` and :func:`clean_tags`."""
        n = len(entities)
        columns = {
            "entity": pa.array(entities, pa.int64()),
            "text": clean(strings(texts)),
            "language": strings([""] * n) if languages is None else clean_tags(strings(languages)),
            "alias": pa.array([False] * n if aliases is None else aliases, pa.bool_()),
        }
        return cls._arranged(pa.table(columns).filter(visible(columns["text"])))

    @classmethod
    def _arranged(cls, table: pa.Table) -> Names:
        if not len(table):
            return NO_NAMES
        # The same name as a main one and as an alias is a main one.
        keys = ["entity", "text", "language"]
        table = table.group_by(keys, use_threads=False).aggregate([("alias", "min")])
        table = table.rename_columns([*keys, "alias"])
        english = pc.match_substring_regex(table["language"], "^en(-|$)")
        tag = pc.binary_join_element_wise(pc.if_else(english, "!", ""), table["language"], "")
        table = table.append_column("tag", tag)
        table = _sorted(table, "entity", "tag", "alias", "text")
        # Of several main names in one language the first stays one.
        entities, tags = np.asarray(table["entity"]), table["tag"]
        same = np.asarray(pc.equal(tags[1:], tags[:-1])) & (entities[1:] == entities[:-1])
        alias = np.asarray(table["alias"]) | np.concatenate([[False], same])
        table = table.set_column(table.column_names.index("alias"), "alias", pa.array(alias))
        return cls.from_arrow(_sorted(table, "entity", "alias", "tag", "text"))

    @classmethod
    def from_arrow(cls, table: pa.Table) -> Names:
        """Names from the table that :meth:`to_arrow` made."""
        columns = (table[name].combine_chunks() for name in ("entity", "text", "language", "alias"))
        entities, *others = columns
        return cls(np.asarray(entities, np.int64), *others)

    def to_arrow(self) -> pa.Table:
        """The columns entity, text, language and alias."""
        columns = [pa.array(self.entities), self.texts, self.languages, self.aliases]
        return pa.table(columns, names=["entity", "text", "language", "alias"])

    def __len__(self) -> int:
        return len(self.entities)

    def __repr__(self) -> str:
        return f"Names({len(self):,} of {len(np.unique(self.entities)):,} entities)"

    def of(self, entity: int) -> list[tuple[str, str]]:
        """The names of an entity and their languages, the preferred one first."""
        rows = slice(*np.searchsorted(self.entities, [entity, entity + 1]).tolist())
        texts, languages = self.texts[rows].to_pylist(), self.languages[rows].to_pylist()
        return list(zip(texts, languages, strict=True))

    def shown(self, ids: Ids | Iterable[int], language: str = "") -> list[str]:
        """The name to show for each id: in that language if there is one, else the first.

        "" where there is none. ``en`` is also found where only ``en-gb`` is there.
        """
        ids = np.fromiter(ids, np.int64)
        rows = self._first(ids, np.arange(len(self)))
        if tag := clean_tags(strings([language]))[0].as_py():
            for test in (pc.starts_with(self.languages, f"{tag}-"), pc.equal(self.languages, tag)):
                found = self._first(ids, np.flatnonzero(np.asarray(test)))
                rows = np.where(found >= 0, found, rows)
        missing = pa.array(rows < 0)
        texts = self.texts.take(pc.if_else(missing, None, pa.array(rows)))
        return list(pc.fill_null(texts, "").to_pylist())

    def _first(self, ids: Ids, among: Ids) -> Ids:
        """The first of these rows that is about each id, -1 where there is none."""
        if not len(among):
            return np.full(len(ids), -1)
        entities = self.entities[among]
        places = np.minimum(np.searchsorted(entities, ids), len(among) - 1)
        return np.where(entities[places] == ids, among[places], -1)

    def find(self, text: str) -> Ids:
        """The ids of the entities of exactly this name; without any, of this name in any case."""
        sought = clean(strings([text]))[0].as_py()
        found = np.flatnonzero(np.asarray(pc.equal(self.texts, sought)))
        if not len(found):
            found = np.flatnonzero(np.asarray(pc.equal(self._folded, sought.casefold())))
        return np.unique(self.entities[found])

    @cached_property
    def _folded(self) -> pa.Array:
        return strings([text.casefold() for text in self.texts.to_pylist()])

    def take(self, ids: Ids | Iterable[int]) -> Names:
        """The names of these entities alone; they keep their ids."""
        kept = np.isin(self.entities, np.fromiter(ids, np.int64))
        return Names.from_arrow(self.to_arrow().filter(pa.array(kept)))

    def moved(self, places: Ids) -> Names:
        """The same names where entity i has the id places[i]; those of -1 are left out."""
        return Names._arranged(moved(self.to_arrow(), places))

    def concat(self, *others: Names) -> Names:
        """All these names together; in which order they are given does not matter."""
        parts = [x for x in (self, *others) if len(x)]
        if len(parts) < 2:
            return parts[0] if parts else self
        # Only entities that have names in another part are arranged again.
        first, later = parts[0], pa.concat_tables([x.to_arrow() for x in parts[1:]])
        again = pa.array(np.isin(first.entities, np.asarray(later["entity"])))
        table = first.to_arrow()
        made = Names._arranged(pa.concat_tables([table.filter(again), later])).to_arrow()
        whole = pa.concat_tables([table.filter(pc.invert(again)), made])
        return Names.from_arrow(whole.take(np.argsort(whole["entity"], kind="stable")))

    def update_hash(self, digest: _Hash) -> None:
        """Feed the names to a hash."""
        update_hash(digest, self.to_arrow())


def _sorted(table: pa.Table, *by: str) -> pa.Table:
    return table.take(pc.sort_indices(table, [(name, "ascending") for name in by]))


def names_from_ids(entities: Vocabulary) -> Names:
    """A name for each entity, made of its identifier.

    Of an IRI it is what follows the last ``/`` or ``#``, or ``/resource/`` or ``/wiki/``,
    percent-decoded; any other identifier is its own name. Underscores are spaces. Blank nodes have
    none.
    """
    labels = entities.to_arrow()
    known = np.flatnonzero(~np.asarray(pc.starts_with(labels, "_:")))
    labels = labels.take(pa.array(known))
    whole = pc.match_substring(labels, "://")
    # Titles of DBpedia and Wikipedia contain slashes: AC/DC.
    last = pc.replace_substring_regex(labels, LAST, r"\1\2")
    texts = pc.if_else(whole, last, labels)
    coded = pc.and_(whole, pc.match_substring(texts, "%"))
    decoded = [unquote(text) for text in texts.filter(coded).to_pylist()]
    texts = pc.replace_with_mask(texts, coded, strings(decoded))
    return Names.of_rows(known, pc.replace_substring(texts, "_", " "))


def clean(texts: pa.Array) -> pa.Array:
    """Texts in one line each: white space and control characters become one space.

    So do those that make a terminal write backwards; marks of direction stay. At most 1,000
    characters of each are kept.
    """
    texts = pc.replace_substring_regex(texts, _BLANK, " ")
    texts = pc.utf8_slice_codeunits(pc.utf8_trim_whitespace(texts), 0, LONGEST)
    return pc.utf8_trim_whitespace(texts)


def visible(texts: pa.Array) -> pa.Array:
    """Which clean texts have a character that can be seen; the others are no names."""
    return pc.invert(pc.match_substring_regex(texts, _INVISIBLE))


def clean_tags(languages: pa.Array) -> pa.Array:
    """Language tags in lower case; what is none is ""."""
    tags = pc.replace_substring(pc.utf8_lower(pc.utf8_trim_whitespace(languages)), "_", "-")
    good = pc.and_(pc.match_substring_regex(tags, _TAG), pc.less_equal(pc.utf8_length(tags), 35))
    return pc.if_else(good, tags, "")


def moved(table: pa.Table, places: Ids) -> pa.Table:
    """The rows of a table whose entities have a place, with this in the column ``entity``."""
    ids = places[np.asarray(table["entity"])]
    table = table.set_column(table.column_names.index("entity"), "entity", pa.array(ids))
    return table.filter(pa.array(ids >= 0))


def update_hash(digest: _Hash, table: pa.Table) -> None:
    """Feed the columns of a table to a hash, so that no two tables look the same."""
    for name, column in zip(table.column_names, table.columns, strict=True):
        if pa.types.is_string(column.type):
            lengths = np.asarray(pc.binary_length(column), "<i8")
            digest.update(f"{name} {len(column)} ".encode() + lengths.tobytes())
            digest.update("".join(column.to_pylist()).encode())
        else:
            digest.update(np.asarray(column, "<i8").tobytes())


def strings(texts: Any) -> pa.Array:
    if isinstance(texts, pa.ChunkedArray):
        return texts.combine_chunks()
    return texts if isinstance(texts, pa.Array) else pa.array(texts, pa.string())


NO_NAMES = Names(np.empty(0, np.int64), strings([]), strings([]), pa.array([], pa.bool_()))
