"""Folders that take each other's place, and stay where they were put."""

from __future__ import annotations

import ctypes
import os
import shutil
from pathlib import Path


def replace_folder(source: Path, target: Path) -> None:
    """Put a folder in the place of another; at every moment one of the two is there."""
    if target.exists() and not _exchange(source, target):
        old = target.with_name(f".{target.name}.old-{os.getpid()}")
        target.rename(old)
        try:
            source.rename(target)
        except BaseException:
            old.rename(target)
            raise
    elif not target.exists():
        source.rename(target)
    # What this and killed writers left behind; only now, as the old one was the only whole one.
    for stale in target.parent.iterdir():
        if stale.name.startswith((f".{target.name}.part-", f".{target.name}.old-")):
            shutil.rmtree(stale, ignore_errors=True)


def _exchange(source: Path, target: Path) -> bool:
    """Let two folders change places in one step, where the system can."""
    try:
        swap = ctypes.CDLL(None).renameat2
    except (AttributeError, OSError, TypeError):
        return False
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    return bool(swap(here, os.fsencode(source), here, os.fsencode(target), exchange) == 0)


def sync_folder(folder: Path) -> None:
    """What was named in it stays so, whatever happens to the machine."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
