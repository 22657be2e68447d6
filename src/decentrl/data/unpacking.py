"""Files that are compressed, found by their first bytes: gzip and Zstandard."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from decentrl.errors import InputError

EXTENSIONS = (".gz", ".zst")
_BEGINNINGS = {"gzip": b"\x1f\x8b", "Zstandard": b"\x28\xb5\x2f\xfd"}
_CALLED = dict(zip(EXTENSIONS, _BEGINNINGS, strict=True))
Read = Callable[[int], bytes]


def compression(beginning: bytes, file: Path) -> str | None:
    """How a file is compressed, or None if it is not.

    Some servers decompress or rename on the way, so the content decides, not the name.
    """
    for kind, magic in _BEGINNINGS.items():
        if beginning.startswith(magic):
            return kind
    claimed = _CALLED.get(file.suffix.lower())
    if claimed and beginning:
        raise InputError(
            f"this is not a {claimed} file in spite of its name",
            file=file,
            remedy=f"remove the {file.suffix} from its name, or fetch the file again",
        )
    return None


def decompressed(kind: str, stream: IO[bytes], file: Path) -> Read:
    """What reads the content of a compressed file; a damaged one is an error."""
    packed: Any
    if kind == "gzip":
        packed = gzip.GzipFile(fileobj=stream)
    else:
        packed = pa.CompressedInputStream(pa.PythonFile(stream, mode="r"), "zstd")

    def read(size: int) -> bytes:
        try:
            return bytes(packed.read(size))
        except (EOFError, OSError, zlib.error, pa.ArrowException) as error:
            how = "truncated" if isinstance(error, EOFError) else f"damaged ({error})"
            raise InputError(
                f"the {kind} file is {how}", file=file, remedy="copy or download it again"
            ) from None

    return read


def without_compression(name: str) -> str:
    """The name of a file without ``.gz`` or ``.zst``."""
    ending = next((x for x in EXTENSIONS if name.lower().endswith(x)), "")
    return name[: len(name) - len(ending)]
