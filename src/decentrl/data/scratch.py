"""Temporary files and folders beside what they will become."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO


def open_scratch(path: Path, append: bool = False) -> BinaryIO:
    """Open a temporary file to write to; one that is there is replaced, or appended to.

    A link in its place is removed: it could lead anywhere.
    """
    if not append or path.is_symlink():
        path.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | (os.O_APPEND if append else os.O_EXCL)
    flags |= getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)  # Windows has the latter
    return os.fdopen(os.open(path, flags, 0o666), "wb")
