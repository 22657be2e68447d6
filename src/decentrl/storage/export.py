"""Vectors of a run as files that other tools load.

``parquet`` has a column of labels and one of vectors, and holds any label. ``npy`` is a matrix for
NumPy with a text file of labels beside it. ``word2vec`` is text for Gensim and its like.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import numpy as np
import numpy.typing as npt

from decentrl.data.called import on_a_line
from decentrl.errors import ConfigError, InputError, warn_format
from decentrl.storage.files import whole_files
from decentrl.storage.index.exact import Vectors

Matrix = npt.NDArray[np.float32]
Block = tuple["Part", list[str], Matrix]

BLOCK = 4 << 20
"""Bytes of vectors that are in memory at once."""

# What str.splitlines ends a line at, so that any way of reading lines finds the same labels.
_LINE_ENDS = re.compile(r"[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_BREAKS_WORDS = re.compile(r"[\s%]")


@dataclass(frozen=True, eq=False)
class Part:
    """Labels and their vectors, float32[n, d], in the same order.

    Args:
        side: ``left`` or ``right`` where both have entities.
    """

    labels: Iterable[str]
    vectors: Vectors | Matrix
    side: str | None = None


class Exported(NamedTuple):
    """The files, how many vectors are in them, and how many entities had none (only zeros)."""

    files: tuple[Path, ...]
    written: int
    without: int


def export_vectors(parts: Sequence[Part], path: str | PathLike[str], format: str) -> Exported:
    """Write vectors in blocks; the files appear whole or not at all.

    Entities without a vector (only zeros) are left out.

    - ``parquet``: columns entity, vector (a list of d float32), and side where the parts have one.
    - ``npy``: a float32 matrix in PATH.npy, which ``np.load(..., mmap_mode="r")`` opens, and a
      label a line in PATH.labels.txt. Line ends in them are spelled out.
    - ``word2vec``: text; the first line is "n d", then a label and its numbers a line. They are
      read back as the same float32 numbers. In labels, white space and ``%`` are written as in a
      URL (``New%20York``), so ``urllib.parse.unquote`` gives the label.

    Args:
        parts: one, or one for each side (``parquet`` only).
    """
    if format not in FORMATS:
        raise ConfigError(f"no format {format!r}; there are: {', '.join(FORMATS)}")
    if len(parts) != 1 and format != "parquet":
        raise ConfigError(
            f"{format} holds one graph; add --side left or --side right, or write parquet"
        )
    path = Path(path)
    # The labels first, so that a matrix that is there has its labels.
    names = [f"{path.name.removesuffix('.npy')}.{end}" for end in ("labels.txt", "npy")]
    files = tuple(map(path.with_name, names)) if format == "npy" else (path,)
    for file in files:
        if file.is_dir():
            raise InputError("this is a folder", file=file, remedy="name a file")
    if not path.parent.is_dir():
        raise InputError("no such folder", file=path.parent, remedy="make it first")
    dims = {int(part.vectors.shape[1]) for part in parts}
    if len(dims) != 1:
        raise InputError(f"vectors of {sorted(dims)} numbers", remedy="give those of one run")
    entities = sum(len(part.vectors) for part in parts)
    written = sum(int(some.any(axis=1).sum()) for part in parts for some in matrices(part))
    with whole_files(*files) as temporary:
        FORMATS[format](parts, (written, dims.pop()), temporary)
    return Exported(files, written, entities - written)


def matrices(part: Part) -> Iterator[Matrix]:
    """The vectors of a part in blocks that fit ``BLOCK``."""
    n, dim = part.vectors.shape
    size = max(1, BLOCK // (4 * max(1, dim)))
    for start in range(0, n, size):
        some = part.vectors[start : min(start + size, n)]
        yield some if isinstance(some, np.ndarray) else some.detach().cpu().numpy()


def blocks(parts: Sequence[Part]) -> Iterator[Block]:
    """Labels and vectors, [k, d], of those that have one."""
    for part in parts:
        labels = iter(part.labels)
        for matrix in matrices(part):
            names = list(islice(labels, len(matrix)))
            if len(names) != len(matrix):
                raise InputError("fewer labels than vectors", remedy="give each vector a label")
            has = np.flatnonzero(matrix.any(axis=1))
            yield part, [names[i] for i in has.tolist()], matrix[has]
        if next(labels, None) is not None:
            raise InputError("more labels than vectors", remedy="give each label a vector")


def _write_parquet(parts: Sequence[Part], shape: tuple[int, int], files: Sequence[Path]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    vector = pa.list_(pa.float32(), shape[1])
    schema = pa.schema({"entity": pa.string(), "side": pa.string(), "vector": vector})
    sided = any(part.side is not None for part in parts)
    if not sided:
        schema = schema.remove(1)
    # Vectors hardly repeat: a dictionary of their numbers only costs time.
    with pq.ParquetWriter(files[0], schema, use_dictionary=["side"] if sided else False) as writer:
        for part, labels, matrix in blocks(parts):
            numbers = pa.array(np.ascontiguousarray(matrix).reshape(-1), pa.float32())
            vectors = pa.FixedSizeListArray.from_arrays(numbers, shape[1])
            columns = {"entity": labels, "side": [part.side] * len(labels), "vector": vectors}
            writer.write_batch(pa.RecordBatch.from_pydict(columns, schema))


def _write_npy(parts: Sequence[Part], shape: tuple[int, int], files: Sequence[Path]) -> None:
    with files[0].open("w", encoding="utf-8", newline="\n") as names, files[1].open("wb") as matrix:
        header = {"descr": "<f4", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(matrix, header)
        odd = 0
        for _, labels, vectors in blocks(parts):
            for label in labels:
                line = on_a_line(label, _LINE_ENDS)
                odd += line != label
                names.write(line + "\n")
            matrix.write(vectors.astype("<f4", copy=False).tobytes())
    if odd:
        warn_format(f"{odd:,} label(s) with a line end are written with \\n; parquet holds them")


def _write_word2vec(parts: Sequence[Part], shape: tuple[int, int], files: Sequence[Path]) -> None:
    with files[0].open("wb") as file:
        file.write(f"{shape[0]} {shape[1]}\n".encode())
        for _, labels, matrix in blocks(parts):
            for label, numbers in zip(labels, _digits(matrix), strict=True):
                if not label:
                    raise InputError("a label is empty", remedy="use parquet, which can hold it")
                word = _BREAKS_WORDS.sub(lambda found: quote(found[0], safe=""), label)
                file.write(word.encode() + b" " + numbers)


def _digits(matrix: Matrix) -> list[bytes]:
    """A line for each row: as few digits as give the same float32 again, at most nine."""
    import pyarrow as pa
    from pyarrow import csv

    if not matrix.size:
        return [b"\n"] * len(matrix)
    columns = np.ascontiguousarray(matrix.T)
    table = pa.table({str(i): column for i, column in enumerate(columns)})
    # Takes half the time of "%.9g".
    sink = pa.BufferOutputStream()
    options = csv.WriteOptions(include_header=False, delimiter=" ", quoting_style="none")
    csv.write_csv(table, sink, options)
    return bytes(sink.getvalue()).splitlines(keepends=True)


FORMATS: dict[str, Callable[[Sequence[Part], tuple[int, int], Sequence[Path]], None]] = {
    "npy": _write_npy,
    "parquet": _write_parquet,
    "word2vec": _write_word2vec,
}
