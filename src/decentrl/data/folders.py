"""Reads a folder of files of triples or links as one table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa

from decentrl.data.limits import Limit
from decentrl.data.table import FORMATS, LINK, TRIPLE, Table, stem
from decentrl.errors import InputError, warn_format

DATASET_FILES = ("triples_1", "rel_triples_1", "train")
"""What the files of datasets are called; all of such a folder would be their test triples, too."""


def is_dataset(folder: Path) -> bool:
    """Whether a folder has the files of a dataset, which are not all to be trained on."""
    folders = [x for x in (folder, folder / "base") if x.is_dir()]  # the latter of ContEA
    files = (file for x in folders for file in x.iterdir() if file.is_file())
    return any(stem(file) in DATASET_FILES for file in files)


def read_files(
    folder: Path, names: tuple[str, ...], format: str | None, read: Callable[[Path], Table]
) -> Table:
    """The rows of all files of a folder whose extension is known, in the order of their names.

    Args:
        format: of all its files; without it those without an extension are left out.
        read: reads one file, which may have no rows but literals.
    """
    if names not in (TRIPLE, LINK):
        raise InputError(
            "this is a folder, not a file", file=folder, remedy="name a file inside it"
        )
    if is_dataset(folder):
        raise InputError(
            "this is the folder of a dataset", file=folder, remedy=f"give it by --dataset {folder}"
        )
    there = sorted(x for x in folder.iterdir() if x.is_file() and not x.name.startswith("."))
    files = [file for file in there if format or _known(file)]
    if not files:
        raise InputError(
            "no file in this folder has a known extension",
            file=folder,
            remedy="name a file inside it, or give the --format of all",
        )
    limit, size, tables = Limit(folder), 0, []
    for file in files:
        tables.append(read(file))
        size += sum(column.nbytes for column in tables[-1].columns)
        limit.check(size)
    rest = f", {len(there) - len(files):,} others left out" if len(files) < len(there) else ""
    warn_format(f"{folder}: {len(files):,} file(s) read{rest}")
    return _joined(folder, tables)


def _known(file: Path) -> bool:
    extension = Path(stem(file, extension=True)).suffix.lower().lstrip(".")
    return extension in FORMATS and extension not in ("", "txt")


def _joined(folder: Path, tables: list[Table]) -> Table:
    """The rows of all tables; errors still name the file of a row, and its line."""
    ends = np.cumsum([len(table) for table in tables])

    def place(row: int) -> tuple[Table, int]:
        i = int(np.searchsorted(ends, row, "right"))
        return tables[i], row - int(ends[i - 1] if i else 0)

    def line_of(row: int) -> int | None:
        table, own = place(row)
        return table.line_of(own)

    columns = [pa.chunked_array([chunk for part in parts for chunk in part.chunks], pa.string())
               for parts in zip(*(table.columns for table in tables), strict=True)]  # fmt: skip
    literals = [table.literals for table in tables if table.literals is not None]
    return Table(
        folder,
        tuple(columns),
        line_of,
        pa.concat_tables(literals) if literals else None,
        uris=any(table.uris for table in tables),
        file_of=lambda row: place(row)[0].file,
    )
