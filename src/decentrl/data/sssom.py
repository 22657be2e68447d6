"""Reads links of SSSOM/TSV files: the Simple Standard for Sharing Ontology Mappings."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path

from decentrl.data.curies import BUILT_IN, expand
from decentrl.data.delimited import QUOTED_TSV, records
from decentrl.data.iris import label_of
from decentrl.data.limits import Limit
from decentrl.data.table import LINK, Table, named_columns, string_columns
from decentrl.errors import InputError, warn_left_out

COLUMNS = ("subject_id", "predicate_id", "object_id")
SAME = {f"{BUILT_IN['skos']}exactMatch", f"{BUILT_IN['owl']}sameAs"}
NO_TERM = f"{BUILT_IN['sssom']}NoTermFound"
_TEXT = r"""("[^"]*"|'[^']*'|[^\s"']\S*?)"""
_ENTRY = re.compile(rf"\s*{_TEXT}\s*:\s+{_TEXT}(?:\s+#.*)?")


def read_sssom(data: bytes, file: Path, names: tuple[str, ...]) -> Table:
    """The rows (subject, object) that say skos:exactMatch or owl:sameAs, without repetitions.

    Rows that say so of no term are skipped, those that say something else also counted.
    """
    if names != LINK:
        raise InputError("an SSSOM file holds links only", file=file, remedy="give a TSV file")
    lines = data.removeprefix(b"\xef\xbb\xbf").splitlines(keepends=True)
    first = next((i for i, x in enumerate(lines) if not x.startswith(b"#")), len(lines))
    prefixes = BUILT_IN | _curie_map(b"".join(lines[:first]).decode("utf-8", "replace"))
    # Blank lines in place of the comments, so that lines are counted from the top.
    blanked = b"\n" * first + b"".join(lines[first:])
    rows = islice(records(blanked, file, QUOTED_TSV), first, None)
    header = next(rows, (0, list[str]()))[1]
    places = named_columns(header, COLUMNS)
    if places is None:
        problem = f"the columns {', '.join(COLUMNS)} are not all there"
        raise InputError(problem, file=file, line=first + 1, remedy="give an SSSOM/TSV file")
    negated = named_columns(header, ("predicate_modifier",))
    pairs: dict[tuple[str, str], int] = {}
    others = size = 0
    limit = Limit(file)
    for number, row in rows:
        error = partial(InputError, file=file, line=number)
        if len(row) != len(header):
            problem = f"{len(row)} column(s), but the header has {len(header)}"
            raise error(problem, remedy="correct the line")
        iris = [_iri(row[place], prefixes, error) for place in places]
        if NO_TERM in iris:
            continue
        if iris[1] not in SAME or (negated and row[negated[0]].strip()):
            others += 1
            continue
        pair = label_of(iris[0]), label_of(iris[2])
        # A short prefix stands for an IRI of any length.
        size += sum(map(len, pair))
        limit.check(size)
        pairs.setdefault(pair, number)
    if others:
        what = "mappings that are neither skos:exactMatch nor owl:sameAs"
        warn_left_out(f"{file}: {others:,} {what} were left out")
    if not pairs:
        raise InputError(
            "no skos:exactMatch or owl:sameAs", file=file, remedy="give a file with links"
        )
    where = list(pairs.values())
    return Table(file, string_columns(zip(*pairs, strict=True)), where.__getitem__, uris=True)


def _curie_map(comments: str) -> dict[str, str]:
    """The prefixes of the metadata, which is YAML: the lines that are indented below curie_map."""
    found: dict[str, str] = {}
    outer: int | None = None
    for line in comments.split("\n"):
        text = line[1:].rstrip()
        indent = len(text) - len(text.lstrip())
        if text.strip() == "curie_map:":
            outer = indent
        elif outer is not None:
            entry = _ENTRY.fullmatch(text)
            if entry is None or indent <= outer:
                break
            found[entry[1].strip("\"'")] = entry[2].strip("\"'")
    return found


def _iri(curie: str, prefixes: dict[str, str], error: Callable[..., InputError]) -> str:
    """What a cell stands for; an IRI is no CURIE, but what else it could mean is plain."""
    iri = expand(curie, prefixes)
    if iri is not None:
        return iri
    if "://" in curie or curie.startswith("urn:"):
        return curie
    if not curie:
        raise error("an identifier is empty", remedy="fill it in or remove the line")
    raise error(
        f"the prefix of {curie!r} is not in the curie_map",
        remedy="add it to the comment lines at the top: #curie_map: and then #  prefix: IRI",
    )
