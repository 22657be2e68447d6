"""Folders that are made beside their place and then renamed, so that they appear whole."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

fcntl: Any
try:
    import fcntl
except ImportError:  # Windows, where folders cannot be locked: there nothing is swept
    fcntl = None


@contextmanager
def scratch_folder(target: Path) -> Iterator[Path]:
    """A new folder beside ``target``, to be renamed to it; after an error it is removed.

    So are those that killed processes have left. Its permissions are as the umask has them.
    """
    sweep(target)
    while True:
        folder = target.with_name(f".{target.name}.part-{secrets.token_hex(4)}")
        folder.mkdir()
        descriptor = _lock(folder, wait=True)
        if folder.exists():  # no other process removed it before it was locked
            break
    try:
        yield folder
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    finally:
        if descriptor is not None:
            os.close(descriptor)


def sweep(target: Path) -> None:
    """Remove the scratch folders of a target that no process holds any more."""
    for stale in target.parent.iterdir():
        if not stale.name.startswith(f".{target.name}.part-") or stale.is_symlink():
            continue
        descriptor = _lock(stale)
        if descriptor is not None:
            shutil.rmtree(stale, ignore_errors=True)
            os.close(descriptor)


def _lock(folder: Path, wait: bool = False) -> int | None:
    """Lock a folder until what this returns is closed; None if that cannot be."""
    if fcntl is None:
        return None
    descriptor = None
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        if descriptor is not None:
            os.close(descriptor)
        return None
    return descriptor
