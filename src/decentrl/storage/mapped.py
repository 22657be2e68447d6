"""Files that are memory-mapped, and verified block by block as they are read; small ones at once.

Opening a large file costs nothing. No byte of it is given out before the checksum of its block has
been compared; that happens once, and on the mapped bytes themselves.
"""

from __future__ import annotations

import hashlib
import json
import math
import mmap
import os
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from decentrl.data.vocabulary import Ids
from decentrl.errors import BundleError

if TYPE_CHECKING:
    from torch import Tensor

BLOCK = 4 * 2**20
"""Bytes to a block of what is written; a file of one block has no checksums of blocks."""
_DTYPES = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16",
    "I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8", "U8": "uint8", "BOOL": "bool",
}  # fmt: skip


def fingerprint(path: Path) -> dict[str, Any]:
    """Size and SHA-256 of a file; if it is large, the CRC-32 of each block too, in one pass."""
    whole, blocks = hashlib.sha256(), []
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            whole.update(block)
            blocks.append(f"{zlib.crc32(block):08x}")
        found: dict[str, Any] = {"bytes": file.tell(), "sha256": whole.hexdigest()}
        if len(blocks) > 1:
            found |= {"block_bytes": BLOCK, "block_crc32": "".join(blocks)}
    return found


class CheckedFile:
    """A memory-mapped file that gives out nothing unverified.

    Args:
        path: an error about the file begins with it.
        expected: its :func:`fingerprint` when it was written.
        whole: read all of it into memory and verify it at once; what has no checksums of blocks is
            verified at once anyway.
    """

    def __init__(self, path: Path, expected: Mapping[str, Any], whole: bool = False) -> None:
        self.path, self._expected = path, expected
        if not path.is_file():
            raise BundleError(f"{path}: this file of the bundle is missing; copy the run again")
        try:
            with path.open("rb") as file:
                self.size = os.fstat(file.fileno()).st_size
                self.buffer: mmap.mmap | bytearray
                if whole or not self.size:  # what happens to the file later changes nothing
                    self.buffer = bytearray(min(self.size, expected["bytes"]))
                    file.readinto(self.buffer)
                else:
                    # Copy on write: writing to a tensor over a read-only buffer would crash.
                    self.buffer = mmap.mmap(file.fileno(), self.size, access=mmap.ACCESS_COPY)
        except OSError as error:
            raise BundleError(f"{path}: cannot be read ({error}); check its permissions") from error
        if self.size != expected["bytes"]:
            raise self._changed()
        self._block = expected.get("block_bytes", max(1, self.size))
        self._verified = np.zeros(-(-self.size // self._block), bool)
        if whole or "block_crc32" not in expected:
            if hashlib.sha256(self.buffer).hexdigest() != expected["sha256"]:
                raise self._changed()
            self._verified[:] = True

    def verify(self, starts: Ids, stops: Ids) -> None:
        """Verify all blocks of the bytes ``starts[i]`` to ``stops[i]``, if that was not done yet.

        Both are int64[n].
        """
        if self._verified.all():
            return
        n, some = len(self._verified), starts < stops
        first, behind = starts[some] // self._block, (stops[some] - 1) // self._block + 1
        steps = np.bincount(first, minlength=n + 1) - np.bincount(behind, minlength=n + 1)
        for block in np.flatnonzero((steps.cumsum()[:n] > 0) & ~self._verified):
            self._verify_block(int(block))

    def content(self) -> memoryview:
        """All bytes, verified."""
        self.verify(np.array([0]), np.array([self.size]))
        return memoryview(self.buffer)

    def header(self) -> memoryview:
        """The header of a file of tensors, verified; the first 8 bytes are its length."""
        stop = 0
        for _ in range(2):  # first its length, then all of it
            stop = min(8 + int.from_bytes(self.buffer[:stop], "little"), self.size)
            self.verify(np.array([0]), np.array([stop]))
        return memoryview(self.buffer)[:stop]

    def damaged(self, problem: object) -> BundleError:
        """The error for what cannot be understood although every checksum is right."""
        return BundleError(f"{self.path}: damaged ({problem}); copy the run again")

    def _verify_block(self, block: int) -> None:
        start = block * self._block
        found = zlib.crc32(memoryview(self.buffer)[start : start + self._block])
        if f"{found:08x}" != self._expected["block_crc32"][8 * block : 8 * block + 8]:
            raise self._changed()
        self._verified[block] = True

    def _changed(self) -> BundleError:
        return BundleError(
            f"{self.path}: this file is not what the run wrote (size or checksum differs); "
            "copy the run again"
        )


class MappedRows:
    """The rows of a matrix [n, ...] that may lie in a file; each is verified before it is seen.

    Args:
        tensor: the matrix, over the mapped bytes of ``file`` from ``start`` on; or one in memory.
        gaps: NaN stands for what is unknown; otherwise all numbers of a file must be finite.
    """

    def __init__(
        self, tensor: Tensor, file: CheckedFile | None = None, start: int = 0, gaps: bool = False
    ) -> None:
        self._looked_at, self._gaps = False, gaps
        self._tensor, self._file, self._start = tensor, file, start
        self.shape, self.dtype = tuple(tensor.shape), tensor.dtype
        self._row_bytes = math.prod(self.shape[1:]) * tensor.itemsize

    def __len__(self) -> int:
        return self.shape[0]

    def take(self, ids: Ids | Tensor) -> Tensor:
        """A copy of the rows with these ids, int64[k]: [k, ...]."""
        import torch

        ids = torch.as_tensor(ids).cpu()
        places = ids.numpy()
        if len(places) and (places.min() < 0 or places.max() >= len(self)):
            raise IndexError(f"there are {len(self)} rows, asked for one that is not among them")
        self._verify(places, places + 1)
        return self._finite(self._tensor.index_select(0, ids))

    def all(self) -> Tensor:
        """Every row, without copying: [n, ...]."""
        self._verify(np.array([0]), np.array([len(self) if self.shape else 1]))
        if not self._looked_at:
            self._finite(self._tensor)
            self._looked_at = True
        return self._tensor

    def _finite(self, rows: Tensor) -> Tensor:
        """The same rows; an error if a number in them is not finite, as a run writes none."""
        if self._file is not None and not self._gaps and rows.is_floating_point() and rows.numel():
            ends = (end.item() for end in rows.aminmax())
            if not all(map(math.isfinite, ends)):
                raise self._file.damaged("a number in it is not finite")
        return rows

    def _verify(self, first: Ids, behind: Ids) -> None:
        """Verify rows ``first[i]`` to ``behind[i]``."""
        if self._file is not None:
            starts, stops = first * self._row_bytes, behind * self._row_bytes
            self._file.verify(self._start + starts, self._start + stops)


class MappedTensors(Mapping[str, "Tensor"]):
    """The tensors of a safetensors file; each is verified when it is first asked for."""

    def __init__(self, file: CheckedFile) -> None:
        header = file.header()
        try:
            entries = json.loads(bytes(header[8:]))
            entries.pop("__metadata__", None)
            self._rows = {
                name: _mapped(file, entries[name], len(header), name.startswith("potential."))
                for name in sorted(entries)
            }
        except (
            ValueError, KeyError, TypeError, AttributeError, RuntimeError, OverflowError,
        ) as error:  # fmt: skip
            raise file.damaged(f"no file of tensors: {error}") from error

    def __getitem__(self, name: str) -> Tensor:
        return self._rows[name].all()

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def rows(self) -> dict[str, MappedRows]:
        """The same tensors, to be read row by row."""
        return self._rows


def mapped_rows(tensors: Mapping[str, Tensor]) -> dict[str, MappedRows]:
    """Tensors by their rows, be they in memory or in a file."""
    if isinstance(tensors, MappedTensors):
        return tensors.rows()
    return {name: MappedRows(tensor) for name, tensor in tensors.items()}


def _mapped(
    file: CheckedFile, entry: Mapping[str, Any], header: int, gaps: bool = False
) -> MappedRows:
    """A tensor over the bytes of a file.

    ``entry`` is what the header, of so many bytes, has on it: dtype, shape and place behind it.
    """
    import torch

    dtype: torch.dtype = getattr(torch, _DTYPES[entry["dtype"]])
    shape, (start, stop) = entry["shape"], entry["data_offsets"]
    if any(type(number) is not int or not 0 <= number < 2**62 for number in (*shape, start, stop)):
        raise ValueError("a size in its header is impossible")
    size = math.prod(shape)
    if not 0 <= start <= stop <= file.size - header or stop - start != size * dtype.itemsize:
        raise ValueError("a tensor is not where its header places it")
    start += header
    if not size:  # torch makes no tensor of nothing
        return MappedRows(torch.empty(shape, dtype=dtype))
    tensor = torch.frombuffer(file.buffer, dtype=dtype, count=size, offset=start)
    return MappedRows(tensor.view(shape), file, start, gaps)
