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
_IRI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\x00-\x20<>\"{}|^`\\]+")


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
    if not path.parent.is_dir():
        raise InputError("no such folder", file=path.parent, remedy="make it first")


def write_matches(table: pa.Table, path: Path) -> None:
    """Write matches by the file's extension; the file appears whole or not at all."""
    temporary = path.with_name(path.name + ".part")
    if path.suffix == ".parquet":
        import pyarrow.parquet as pq

        pq.write_table(table, temporary)
    else:
        line = _statement if path.suffix == ".nt" else _row
        rows = (line(*row.values()) for row in table.to_pylist())
        with temporary.open("w", encoding="utf-8", newline="\n") as file:
            if path.suffix == ".tsv":
                file.write("left\tright\trank\tscore\n")
            file.writelines(rows)
    temporary.replace(path)


def _row(left: str, right: str, rank: int, score: float) -> str:
    return f"{left}\t{right}\t{rank}\t{score:.6f}\n"


def _statement(left: str, right: str, rank: int, score: float) -> str:
    same = "<http://www.w3.org/2002/07/owl#sameAs>"
    return f"{_iri(left, 'left')} {same} {_iri(right, 'right')} .\n"


def _iri(label: str, side: str) -> str:
    """The label if it is an IRI, otherwise one made of it."""
    known = _IRI.fullmatch(label) and not label.startswith("_:")
    return f"<{label}>" if known else f"<urn:decentrl:{side}:{quote(label, safe='')}>"
