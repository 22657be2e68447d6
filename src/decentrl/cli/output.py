"""Matches and answers as files that other tools load."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from decentrl.errors import ConfigError, InputError
from decentrl.storage.files import whole_files

if TYPE_CHECKING:
    from decentrl.data.results import ResultTable

SUFFIXES = (".tsv", ".parquet", ".nt")
TABLES = (".tsv", ".parquet")
# RFC 3987, without IP literals and private characters: an RDF reader refuses a whole file for one
# IRI that is none.
_PLANES = "".join(f"{chr(i << 16)}-{chr((i << 16) + 0xFFFD)}" for i in range(1, 14))
_PLAIN = rf"A-Za-z0-9\-._~!$&'()*+,;=\u00a0-\ud7ff\uf900-\ufdcf\ufdf0-\uffef{_PLANES}"
_HOST, _PATH, _QUERY = (f"(?:[{_PLAIN}{also}]|%[0-9A-Fa-f]{{2}})*" for also in ("", ":@/", ":@/?"))
_IRI = re.compile(
    rf"[A-Za-z][A-Za-z0-9+.-]*:(?=.)(?://(?:{_HOST}@)?{_HOST}(?::[0-9]*)?(?:/{_PATH})?|(?!//){_PATH})"
    rf"(?:\?{_QUERY})?(?:#{_QUERY})?"
)


def check_output(path: Path, top: int = 1, suffixes: tuple[str, ...] = SUFFIXES) -> None:
    """Raise before any work if the file cannot be written as asked."""
    if path.suffix not in suffixes:
        raise InputError(
            f"cannot write {path.suffix or 'a file without an extension'}",
            file=path,
            remedy=f"use {', '.join(suffixes)}",
        )
    if path.suffix == ".nt" and top > 1:
        raise ConfigError("owl:sameAs is for the best match alone; use --top 1 with .nt")
    if path.is_dir():
        raise InputError("this is a folder", file=path, remedy="name a file")
    if not path.parent.is_dir():
        raise InputError("no such folder", file=path.parent, remedy="make it first")


def write_table(table: ResultTable, path: Path) -> None:
    """Write by the file's extension; the file appears whole or not at all.

    Only matches (left, right, …) can be statements of an .nt file.
    """
    with whole_files(path) as (temporary,):
        if path.suffix == ".parquet":
            import pyarrow.parquet as pq

            pq.write_table(table.to_arrow(), temporary)
            return
        line = _statement if path.suffix == ".nt" else tsv_row
        with temporary.open("w", encoding="utf-8", newline="\n") as file:
            if path.suffix == ".tsv":
                file.write("\t".join(table.column_names) + "\n")
            file.writelines(map(line, table.to_pylist()))


def tsv_row(row: Mapping[str, Any]) -> str:
    """One line; what is not there is empty."""
    return "\t".join(map(_cell, row.values())) + "\n"


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.6f}"
    if isinstance(value, str) and any(c in value for c in "\t\n\r"):
        raise InputError(
            f"the label {value!r} contains a tab or a line end",
            remedy="write a .parquet file, which can hold it",
        )
    return str(value)


def _statement(row: Mapping[str, Any]) -> str:
    if row["left"] is None or row["right"] is None:
        return ""
    same = "<http://www.w3.org/2002/07/owl#sameAs>"
    return f"{_iri(row['left'], 'left')} {same} {_iri(row['right'], 'right')} .\n"


def _iri(label: str, side: str) -> str:
    """The label if it is an IRI, otherwise one made of it."""
    known = _IRI.fullmatch(label)
    return f"<{label}>" if known else f"<urn:decentrl:{side}:{quote(label, safe='')}>"
