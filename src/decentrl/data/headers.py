"""Which columns of a file are read, and whether its first line names them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from decentrl.data.table import (
    ATTRIBUTE,
    LINK,
    NAME,
    TRIPLE,
    fitting,
    named_columns,
)
from decentrl.errors import ConfigError

_MANY = 10
HEADERS = ("auto", "yes", "no")
_SEPARATORS = {"tab": "\t", "\\t": "\t", "space": " ", "comma": ",", "semicolon": ";", "pipe": "|"}


@dataclass(frozen=True)
class Reading:
    """How files of columns are read, where it is not to be found out from the file.

    Args:
        format: in place of what the extension means.
        header: whether the first line names the columns: yes, no, or auto (by what it says).
        columns: those to read, by name or by number from 1, in the order head, relation, tail.
        separator: what is between two columns: one character, or ``tab`` or ``space``.
    """

    format: str | None = None
    header: str = "auto"
    columns: tuple[str, ...] = ()
    separator: str = ""

    def __post_init__(self) -> None:
        if self.header not in HEADERS:
            raise ConfigError(f"no header {self.header!r}; there are: {', '.join(HEADERS)}")
        if len(self.mark) > 1 or self.mark in ('"', "\n", "\r"):
            known = ", ".join(x for x in _SEPARATORS if x.isalpha())
            raise ConfigError(
                f"{self.separator!r} separates no columns; give one character, or one of: {known}"
            )

    @classmethod
    def of(
        cls, format: str | None = None, header: str = "", columns: str = "", separator: str = ""
    ) -> Reading:
        """From options of the command line; ``columns`` are separated by commas."""
        named = tuple(x.strip() for x in columns.split(",")) if columns else ()
        return cls(format or None, header or "auto", named, separator)

    @property
    def mark(self) -> str:
        """The character between two columns; "" if the file decides."""
        return _SEPARATORS.get(self.separator.lower(), self.separator)


AS_IT_IS = Reading()


def as_reading(format: str | Reading | None) -> Reading:
    """How files are read, of a format alone or of all that there is to say."""
    return format if isinstance(format, Reading) else Reading(format)


# What columns are called in the wild, by what they are; compared without case and punctuation.
_START = """
    head h subject s subj source src from origin start head_id subject_id source_id from_id start_id
    head_entity start_node source_node node1 node_1 entity1 entity_1 ent1 e1 id1"""
_END = """
    tail t object o obj target tgt dst dest destination to end tail_id object_id target_id to_id
    end_id tail_entity end_node target_node node2 node_2 entity2 entity_2 ent2 e2 id2"""
_STRONG = """
    relation relations predicate predicates relationship rel relation_type rel_type edge_type
    relation_id predicate_id relation_name rel_id relationship_type predicate_label"""
_ENTITY = "entity id uri iri identifier entity_id subject node item qid key url resource"


def _words(*texts: str) -> set[str]:
    return set(" ".join(texts).split())


_WORDS: dict[tuple[str, ...], tuple[set[str], ...]] = {
    TRIPLE: (
        _words(_START),
        _words(_STRONG, "r p pred property prop type edge edge_label label interaction"),
        _words(_END),
    ),
    LINK: (
        _words(_START, "left left_id left_entity id_left uri1 iri1 kg1 kb1") - {*"hs"},
        _words(_END, "right right_id right_entity id_right uri2 iri2 kg2 kb2") - {*"to"},
    ),
    NAME: (
        _words(_ENTITY),
        _words("name label title names preflabel text description"),
        _words("language lang tag locale"),
    ),
    ATTRIBUTE: (
        _words(_ENTITY),
        _words("attribute property predicate attr prop attribute_name"),
        _words("value object literal attribute_value val"),
    ),
}
_WORDS[NAME[:2]] = _WORDS[NAME][:2]
_RELATION_WORDS = _words(_STRONG)


def plain_word(cell: str) -> str:
    """A name of a column as it is compared: ``:START_ID(Person)``, ``?s`` and ``Head`` → words."""
    word = re.sub(r"\(.*\)$", "", cell.strip().strip("\"'")).strip().casefold()
    return re.sub(r"[\s\-.]+", "_", word.strip(":?#~$ "))


def role_columns(header: Sequence[object], names: tuple[str, ...]) -> list[int] | None:
    """The places of the columns ``names`` in a header by what columns are usually called.

    None if one is missing, or could be two of the columns.
    """
    cells = [str(cell) for cell in header]
    if (exact := named_columns(cells, names)) is not None:
        return exact
    words = [plain_word(cell) for cell in cells]
    found = [[i for i, x in enumerate(words) if x in known] for known in _WORDS.get(names, ())]
    if not found or any(len(places) != 1 for places in found):
        return None
    places = [place for (place,) in found]
    return places if len(set(places)) == len(places) else None


def relation_key(keys: Iterable[object]) -> object:
    """The first of the keys that usually says what the relation is; None if there is none."""
    words = _WORDS[TRIPLE][1] - {*"rp"}
    return next((key for key in keys if plain_word(str(key)) in words), None)


@dataclass(frozen=True)
class Plan:
    """What is read of a file of columns.

    Args:
        roles: for each column of the file what it is read as, "" if it is not read.
        skip: 1 if the first line names the columns.
        guess: the rows have to show that it does, as nothing but its words says so.
        note: what was found out, for the user; "" if the file says it itself.
    """

    names: tuple[str, ...]
    roles: tuple[str, ...]
    skip: int = 0
    guess: bool = False
    note: str = ""


def plan_columns(
    first: list[str],
    names: tuple[str, ...],
    reading: Reading,
    error: Callable[..., Exception],
    certain: bool = False,
) -> Plan:
    """What to read of a file with this first line, which may be a header.

    Args:
        error: makes an error about the first line, of the problem and the remedy.
        certain: a line of exactly the documented names is a header, whatever comes after it.
    """
    named = [x for x in (NAME, NAME[:2]) if names == NAME and role_columns(first, x)]
    names = named[0] if named and reading.header != "no" else fitting(names, first)
    width = len(first)
    identity = list(range(width)) if width == len(names) else None
    if reading.columns and names == TRIPLE:  # such a choice is about triples
        return _chosen(first, names, reading, error)
    places = None if reading.header == "no" else role_columns(first, names)
    quoted = ", ".join(repr(cell[:40]) for cell in first[:8]) + ", …" * (width > 8)
    note = f"the first line is taken for names of columns ({quoted}); --header no reads it as data"
    if reading.header == "yes" and (places or identity):
        return Plan(names, _roles(places or identity or [], names, width), 1)
    if places is not None:
        exact = certain and named_columns(first, names) is not None
        return Plan(
            names, _roles(places, names, width), 1, bool(identity) and not exact,
            "" if exact else note,
        )  # fmt: skip
    if identity is None:
        raise _other_width(first, names, error)
    guess = reading.header == "auto" and names == TRIPLE and _likely(first)
    return Plan(names, names, int(guess), guess, note if guess else "")


def _likely(first: list[str]) -> bool:
    """Whether the line above triples says "relation", or "source" and "target"."""
    head, relation, tail = map(plain_word, first)
    heads, _, tails = _WORDS[TRIPLE]
    return relation in _RELATION_WORDS or (head in heads and tail in tails)


def _roles(places: list[int], names: tuple[str, ...], width: int) -> tuple[str, ...]:
    """For each column of the file its name among ``names``, or "" if it is none of them."""
    roles = [""] * width
    for place, name in zip(places, names, strict=True):
        roles[place] = name
    return tuple(roles)


def _chosen(
    first: list[str], names: tuple[str, ...], reading: Reading, error: Callable[..., Exception]
) -> Plan:
    """The columns that were asked for by ``--columns``."""
    asked, width = reading.columns, len(first)
    remedy = f"give {len(names)} of them by --columns {','.join(names).upper()}"
    if len(asked) != len(names) or len(set(asked)) != len(asked):
        raise error(f"--columns names {len(set(asked))} column(s)", remedy=remedy)
    if all(x.isdecimal() for x in asked):
        places = [int(x) - 1 for x in asked]
        if not all(0 <= place < width for place in places):
            raise error(f"there are {width} columns, not {max(map(int, asked))}", remedy=remedy)
        # These cells decide whether they are a header, as they would alone in a file.
        cells = [first[place] for place in places]
        plan = plan_columns(cells, names, Reading(header=reading.header), error)
        return replace(plan, roles=_roles(places, names, width))
    if reading.header == "no":
        raise error("columns have no names with --header no", remedy="give their numbers from 1")
    words = [cell.strip() for cell in first]
    if missing := [x for x in asked if x not in words]:
        there = ", ".join(words[:20])
        raise error(f"no column {missing[0]!r} in the first line ({there})", remedy=remedy)
    return Plan(names, _roles([words.index(x) for x in asked], names, width), 1)


def _other_width(
    first: list[str], names: tuple[str, ...], error: Callable[..., Exception]
) -> Exception:
    """The error of a first line with too many columns."""
    problem = f"{len(first)} column(s), but {len(names)} are needed"
    if names != TRIPLE:
        return error(
            problem, remedy=f"keep these, or name them in a first line: {', '.join(names)}"
        )
    index = first[0].strip() in ("", "0", "1", "Unnamed: 0") and len(first) == len(names) + 1
    if index:
        cells = [x.strip() for x in first[1:]]
        by_name = not first[0].strip() and all(cells) and not any("," in x for x in cells)
        choice = ",".join(cells if by_name else ("2", "3", "4"))
        problem += " (the first one looks like row numbers, as pandas writes them)"
        return error(problem, remedy=f"say which by --columns {choice}")
    there = ", ".join(f"{i} {x[:30]!r}" for i, x in enumerate(first[:9], 1))
    return error(
        f"{problem} ({there})", remedy="say which by --columns HEAD,RELATION,TAIL, by number"
    )


def confirmed(plan: Plan, first: list[str], columns: Sequence[pa.ChunkedArray]) -> bool:
    """Whether what the first line says occurs nowhere below it, as it is with names of columns.

    A real first triple shares its relation with others, or its entities; and where there is but
    one line more, nothing is shown.
    """
    cells = dict(zip(plan.roles, first, strict=True))
    return len(columns[0]) > 1 and _alone([cells[name] for name in plan.names], columns)


def doubt(columns: Sequence[pa.ChunkedArray]) -> str:
    """A note where the first of many triples shares nothing with the others; else ""."""
    if len(columns) != len(TRIPLE) or len(columns[0]) < _MANY:
        return ""
    first = [column[0].as_py() for column in columns]
    # A header is in words, not in addresses.
    if not all(re.fullmatch(r"[^\W\d][\w .\-]{0,40}", cell) for cell in first):
        return ""
    if not _alone(first, [column.slice(1) for column in columns]):
        return ""
    said = ", ".join(map(repr, first))
    return (
        f"the first line ({said}) shares nothing with the others and is read as a triple; "
        "if it names the columns, give --header yes"
    )


def _alone(cells: list[str], columns: Sequence[pa.ChunkedArray]) -> bool:
    """Whether no cell occurs in its column, nor an end of a triple at the other end."""
    places = [(i, i) for i in range(len(cells))]
    places += [(0, 2), (2, 0)] if len(cells) == len(TRIPLE) else []
    return not any(_occurs(cells[i], columns[j]) for i, j in places)


def _occurs(cell: str, column: pa.ChunkedArray) -> bool:
    """Whether a label is in a column, which may be one of codes."""
    if not pa.types.is_dictionary(column.type):
        return bool(pc.any(pc.equal(column, cell)).as_py())
    for chunk in column.chunks:
        code = pa.scalar(pc.index(chunk.dictionary, cell).as_py(), chunk.indices.type)
        if code.as_py() >= 0 and pc.index(chunk.indices, code).as_py() >= 0:
            return True
    return False
