"""How much text may be read into memory, so that a small file cannot fill all of it.

A few megabytes of gzip or Parquet unpack to as many gigabytes. What is unpacked is therefore
counted while it is, and refused once it is over the limit.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from os import PathLike

from decentrl.config.memory import VARIABLE, memory
from decentrl.errors import InputError

_SHARE = 4  # text, its columns, their distinct labels and ids are in memory at once
_CHUNK = 1 << 20
# Text of triples is packed ten- to thirtyfold; texts below this size are never refused.
_PACKED, _FREE = 200, 256 << 20


class Limit:
    """How many bytes the text of a file may take.

    Args:
        file: names it in an error.
        packed: bytes of the file it is unpacked from, if it is.
        kept: whether the text is in memory as a whole, and not piece by piece.
    """

    def __init__(
        self, file: str | PathLike[str], packed: int | None = None, kept: bool = True
    ) -> None:
        self.file, self.bytes = file, memory() // _SHARE if kept else 1 << 62
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
