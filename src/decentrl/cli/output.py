"""Matches and answers as files that other tools load."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from decentrl.data.called import on_a_line
from decentrl.data.iris import iri_of
from decentrl.errors import ConfigError, InputError, warn_format
from decentrl.storage.files import whole_files

if TYPE_CHECKING:
    from decentrl.data.results import ResultTable

SSSOM = ".sssom.tsv"
SUFFIXES = (".tsv", ".parquet", ".nt", SSSOM, ".rdf")
TABLES = (".tsv", ".parquet")


def check_output(path: Path, top: int = 1, suffixes: tuple[str, ...] = SUFFIXES) -> None:
    """Raise before any work if the file cannot be written as asked."""
    suffix = _suffix(path)
    if suffix not in suffixes:
        raise InputError(
            f"cannot write {suffix or 'a file without an extension'}",
            file=path,
            remedy=f"use {', '.join(suffixes)}",
        )
    if suffix not in TABLES and top > 1:
        raise ConfigError(f"only the best matches can be written there; use --top 1 with {suffix}")
    if path.is_dir():
        raise InputError("this is a folder", file=path, remedy="name a file")
    if not path.parent.is_dir():
        raise InputError("no such folder", file=path.parent, remedy="make it first")


def _suffix(path: Path) -> str:
    return SSSOM if path.name.endswith(SSSOM) else path.suffix


def write_table(table: ResultTable, path: Path) -> None:
    """Write by the file's extension; the file appears whole or not at all.

    Only matches (left, right, …) can be in .nt, .sssom.tsv and .rdf files.
    """
    if (suffix := _suffix(path)) in (SSSOM, ".rdf"):
        from decentrl.storage.interchange import write_alignment, write_sssom

        (write_sssom if suffix == SSSOM else write_alignment)(table, path)
        return
    with whole_files(path) as (temporary,):
        if path.suffix == ".parquet":
            import pyarrow.parquet as pq

            pq.write_table(table.to_arrow(), temporary)
            return
        with temporary.open("w", encoding="utf-8", newline="\n") as file:
            if path.suffix == ".tsv":
                file.write("\t".join(table.column_names) + "\n")
            rows = table.to_pylist()
            file.writelines(map(_statement, rows) if path.suffix == ".nt" else tsv_rows(rows))


def tsv_rows(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Lines of tab-separated cells; tabs and line ends in labels are spelled out, and counted."""
    odd = 0
    for row in rows:
        odd += any(isinstance(x, str) and on_a_line(x) != x for x in row.values())
        yield tsv_row(row)
    if odd:
        warn_format(
            f"{odd:,} row(s) with a tab or line end in a label have \\t or \\n there; "
            "a .parquet file holds labels as they are"
        )


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
    return on_a_line(value) if isinstance(value, str) else str(value)


def _statement(row: Mapping[str, Any]) -> str:
    if row["left"] is None or row["right"] is None:
        return ""
    same = "<http://www.w3.org/2002/07/owl#sameAs>"
    return f"<{iri_of(row['left'], 'left')}> {same} <{iri_of(row['right'], 'right')}> .\n"
