"""Exclusive locks on files, which the system takes back when a process ends or is killed.

``fcntl.flock`` on Linux and macOS, ``msvcrt.locking`` on Windows. The library ``filelock`` is not
used because it truncates the file it locks, and a run locks its ``config.toml``.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

fcntl: Any
try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

_BYTE = 1 << 30
"""The byte that is locked on Windows: others cannot read a locked byte, so it is behind the end."""


def lock_file(path: Path) -> int | None:
    """Lock a file, made if there is none: its descriptor, or None if another process holds it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        if fcntl is not None:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        else:
            _windows_lock(descriptor, "LK_NBLCK")
    except (BlockingIOError, PermissionError):
        os.close(descriptor)
        return None
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def unlock_file(descriptor: int) -> None:
    """Release what :func:`lock_file` returned."""
    try:
        if fcntl is None:  # closing alone would release it some time later
            _windows_lock(descriptor, "LK_UNLCK")
    finally:
        os.close(descriptor)


@contextmanager
def locked_file(path: Path) -> Iterator[bool]:
    """Hold the lock of a file; yields whether it was free."""
    descriptor = lock_file(path)
    try:
        yield descriptor is not None
    finally:
        if descriptor is not None:
            unlock_file(descriptor)


def _windows_lock(descriptor: int, mode: str) -> None:
    msvcrt: Any = importlib.import_module("msvcrt")
    os.lseek(descriptor, _BYTE, os.SEEK_SET)
    msvcrt.locking(descriptor, getattr(msvcrt, mode), 1)
