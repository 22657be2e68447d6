"""How much text may be read into memory, so that a small file cannot fill all of it.

A few megabytes of gzip or Parquet unpack to as many gigabytes. What is unpacked is therefore
counted while it is, and refused once it is over the limit.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from contextlib import suppress
from os import PathLike
from pathlib import Path

from decentrl.errors import ConfigError, InputError

VARIABLE = "DECENTRL_MEMORY"
_SHARE = 4  # text, its columns, their distinct labels and ids are in memory at once
_CHUNK = 1 << 20
# Text of triples is packed ten- to thirtyfold; texts below this size are never refused.
_PACKED, _FREE = 200, 256 << 20
_CGROUP = Path("/sys/fs/cgroup")


def memory() -> int:
    """Bytes of memory that may be used: DECENTRL_MEMORY in GiB, or those of this machine.

    Of a container or process with a limit of its own, its limit.
    """
    if given := os.environ.get(VARIABLE):
        try:
            if (size := int(float(given) * 2**30)) > 0:
                return size
            raise ValueError
        except (ValueError, OverflowError):  # what is no number, nan, inf
            raise ConfigError(
                f"{VARIABLE} is {given[:40]!r}; give the memory that may be used in GiB, like 16"
            ) from None
    found = [1 << 63]
    with suppress(AttributeError, OSError, ValueError):  # not on Windows
        found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        with suppress(OSError, ValueError):  # "max" is none
            found.append(int((_CGROUP / name).read_text()))
    with suppress(ImportError):
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        found += [limit] if limit != resource.RLIM_INFINITY else []
    return min(found)


class Limit:
    """How many bytes the text of a file may take.

    Args:
        file: names it in an error.
        packed: bytes of the file it is unpacked from, if it is.
    """

    def __init__(self, file: str | PathLike[str], packed: int | None = None) -> None:
        self.file, self.bytes = file, memory() // _SHARE
        if packed is not None:
            self.bytes = min(self.bytes, max(_FREE, _PACKED * packed))

    def check(self, size: int) -> None:
        """Raise if so many bytes are too many."""
        if size > self.bytes:
            raise InputError(
                f"more than the {self.bytes / 2**20:,.0f} MiB that text may take here",
                file=self.file,
                remedy=f"split it, unpack it, or set {VARIABLE} to the memory in GiB, "
                "a quarter of which text may take",
            )

    def read(self, read: Callable[[int], bytes], expected: int = 0) -> bytes:
        """All that ``read`` gives, asked for no more than the limit allows."""
        # The bytes of the first piece are not copied where it is all there is.
        whole = io.BytesIO(read(min(max(expected, _CHUNK), self.bytes) + 1))
        self.check(whole.seek(0, io.SEEK_END))
        while piece := read(_CHUNK):
            whole.write(piece)
            self.check(whole.tell())
        return whole.getvalue()
