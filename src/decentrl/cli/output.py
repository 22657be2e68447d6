"""Matches as files that other tools load."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from decentrl.errors import ConfigError, InputError

if TYPE_CHECKING:
    import pyarrow as pa

SUFFIXES = (".tsv", ".parquet", ".nt")
# RFC 3987, without IP literals and private characters: an RDF reader refuses a whole file for one
# IRI that is none.
_PLANES = "".join(f"{chr(i << 16)}-{chr((i << 16) + 0xFFFD)}" for i in range(1, 14))
_PLAIN = rf"A-Za-z0-9\-._~!$&'()*+,;=\u00a0-\ud7ff\uf900-\ufdcf\ufdf0-\uffef{_PLANES}"
_HOST, _PATH, _QUERY = (f"(?:[{_PLAIN}{also}]|%[0-9A-Fa-f]{{2}})*" for also in ("", ":@/", ":@/?"))
_IRI = re.compile(
    rf"[A-Za-z][A-Za-z0-9+.-]*:(?=.)(?://(?:{_HOST}@)?{_HOST}(?::[0-9]*)?(?:/{_PATH})?|(?!//){_PATH})"
    rf"(?:\?{_QUERY})?(?:#{_QUERY})?"
)


def check_output(path: Path, top: int) -> None:
    """Raise before any work if the file cannot be written as asked."""
    if path.suffix not in SUFFIXES:
        raise InputError(
            f"cannot write {path.suffix or 'a file without an extension'}",
            file=path,
            remedy=f"use {', '.join(SUFFIXES)}",
        )
    if path.suffix == ".nt" and top > 1:
        raise ConfigError("owl:sameAs is for the best match alone; use --top 1 with .nt")
    if path.is_dir():
        raise InputError("this is a folder", file=path, remedy="name a file")
    if not path.parent.is_dir():
        raise InputError("no such folder", file=path.parent, remedy="make it first")


def write_matches(table: pa.Table, path: Path) -> None:
    """Write matches by the file's extension; the file appears whole or not at all."""
    temporary = path.with_name(path.name + ".part")
    try:
        if path.suffix == ".parquet":
            import pyarrow.parquet as pq

            pq.write_table(table, temporary)
        else:
            line = _statement if path.suffix == ".nt" else tsv_row
            rows = (line(**row) for row in table.to_pylist())
            with temporary.open("w", encoding="utf-8", newline="\n") as file:
                if path.suffix == ".tsv":
                    file.write("left\tright\trank\tscore\tconfidence\n")
                file.writelines(rows)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def tsv_row(
    left: str | None,
    right: str | None,
    rank: int,
    score: float | None,
    confidence: float | None,
) -> str:
    """One line; what is not there is empty."""
    for label in (left, right):
        if label is not None and any(c in label for c in "\t\n\r"):
            raise InputError(
                f"the label {label!r} contains a tab or a line end",
                remedy="write a .parquet file, which can hold it",
            )
    numbers = ("" if number is None else f"{number:.6f}" for number in (score, confidence))
    return "\t".join((left or "", right or "", str(rank), *numbers)) + "\n"


def _statement(left: str | None, right: str | None, **_: object) -> str:
    if left is None or right is None:
        return ""
    same = "<http://www.w3.org/2002/07/owl#sameAs>"
    return f"{_iri(left, 'left')} {same} {_iri(right, 'right')} .\n"


def _iri(label: str, side: str) -> str:
    """The label if it is an IRI, otherwise one made of it."""
    known = _IRI.fullmatch(label)
    return f"<{label}>" if known else f"<urn:decentrl:{side}:{quote(label, safe='')}>"
