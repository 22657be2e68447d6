"""An exclusive lock on a file or folder, which the system takes back when a process ends.

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
def locked_file(path: Path) -> Iterator[bool]:
    """Hold the lock of a file, made if there is none; yields False if another process has it."""
    with _locked(path, os.O_RDWR | os.O_CREAT) as free:
        yield free


@contextmanager
def locked_folder(path: Path, name: str) -> Iterator[bool]:
    """Hold the lock of a folder; yields False if another process has it.

    The folder itself is locked, so a killed process leaves nothing behind. Windows cannot lock a
    folder: there it is the file ``name`` inside.
    """
    with locked_file(path / name) if fcntl is None else _locked(path, os.O_RDONLY) as free:
        yield free


@contextmanager
def _locked(path: Path, how: int) -> Iterator[bool]:
    descriptor, free = _open_and_lock(path, how)
    try:
        yield free
    finally:
        if free and fcntl is None:  # closing alone would release it some time later
            _windows_lock(descriptor, "LK_UNLCK")
        os.close(descriptor)


def _open_and_lock(path: Path, how: int) -> tuple[int, bool]:
    """What a path leads to, opened, and whether it is locked now.

    It is what the path leads to afterwards, too: one that was removed or moved away meanwhile is
    left, as a later process would lock another one.
    """
    while True:
        descriptor, free = os.open(path, how, 0o666), False
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
