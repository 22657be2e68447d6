"""An exclusive lock on a file, which the system takes back when a process ends or is killed.

``fcntl.flock`` on Linux and macOS, ``msvcrt.locking`` on Windows. The library ``filelock`` is not
used because it truncates the file it locks, and a run locks its ``config.toml``.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

fcntl: Any
try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

_BYTE = 1 << 30
"""The byte that is locked on Windows. Nothing else can read it then, so it is behind the end."""


@contextmanager
def locked_file(path: Path) -> Iterator[bool]:
    """Hold the lock of a file, made if there is none; yields False if another process has it."""
    descriptor, free = os.open(path, os.O_RDWR | os.O_CREAT, 0o666), False
    try:
        with suppress(BlockingIOError, PermissionError):
            if fcntl is None:
                _windows_lock(descriptor, "LK_NBLCK")
            else:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            free = True
        yield free
    finally:
        if free and fcntl is None:  # closing alone would release it some time later
            _windows_lock(descriptor, "LK_UNLCK")
        os.close(descriptor)


def _windows_lock(descriptor: int, mode: str) -> None:
    msvcrt: Any = importlib.import_module("msvcrt")
    os.lseek(descriptor, _BYTE, os.SEEK_SET)
    msvcrt.locking(descriptor, getattr(msvcrt, mode), 1)
