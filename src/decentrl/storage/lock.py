"""An exclusive lock on a file, which the system takes back when a process ends or is killed.

``fcntl.flock`` on Linux and macOS, ``msvcrt.locking`` on Windows. The library ``filelock`` is not
used because it truncates the file it locks.
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
def locked_file(path: Path, remove: bool = False) -> Iterator[bool]:
    """Hold the lock of a file, made if there is none; yields False if another process has it.

    Args:
        remove: the file, before the lock is given back (Windows keeps it).
    """
    descriptor, free = _open_and_lock(path)
    try:
        yield free
    finally:
        if free and remove:
            with suppress(OSError):
                path.unlink()
        if free and fcntl is None:  # closing alone would release it some time later
            _windows_lock(descriptor, "LK_UNLCK")
        os.close(descriptor)


def _open_and_lock(path: Path) -> tuple[int, bool]:
    """An open file, and whether it is locked now.

    It is the one that the path leads to: one that was removed or moved away meanwhile is left, as
    a later process would lock another file.
    """
    while True:
        descriptor, free = os.open(path, os.O_RDWR | os.O_CREAT, 0o666), False
        with suppress(BlockingIOError, PermissionError):
            if fcntl is None:
                _windows_lock(descriptor, "LK_NBLCK")
            else:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            free = True
        with suppress(FileNotFoundError):
            if not free or os.path.samestat(os.fstat(descriptor), os.stat(path)):
                return descriptor, free
        os.close(descriptor)


def _windows_lock(descriptor: int, mode: str) -> None:
    msvcrt: Any = importlib.import_module("msvcrt")
    os.lseek(descriptor, _BYTE, os.SEEK_SET)
    msvcrt.locking(descriptor, getattr(msvcrt, mode), 1)
