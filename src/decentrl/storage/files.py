"""Files and folders that appear whole or not at all, also if the process is killed."""

from __future__ import annotations

import ctypes
import glob
import json
import math
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from decentrl.data.scratch import sweep
from decentrl.errors import writing

ASIDE, MOVING = "before-overwrite", ".before-overwrite"
"""Where in its folder a run lies that is being replaced, and where until all of it is there."""


def put_aside(run: Path) -> str:
    """Where to find a run that a command was to replace and has not yet; empty if there is none."""
    if (run / MOVING).is_dir():
        return (
            "a command was stopped while it put this run aside; "
            f"`decentrl align --resume -o {run}` puts it back"
        )
    if (run / ASIDE).is_dir():
        return (
            f"the run that was here is in {run / ASIDE} until the one that replaces it is "
            f"finished; give that folder, or go on by `decentrl align` or `complete` and "
            f"`--resume -o {run}`"
        )
    return ""


@contextmanager
def whole_files(*files: Path) -> Iterator[list[Path]]:
    """Names beside ``files`` to write to; at the end they are renamed, after an error removed.

    The last of several files appears last.
    """
    temporary = [file.with_name(file.name + ".part") for file in files]
    try:
        for source in temporary:
            source.unlink(missing_ok=True)  # it may be a link to anywhere
            source.touch(exist_ok=False)
        with writing(*files):
            yield temporary
            if len(files) > 1:
                files[-1].unlink(missing_ok=True)  # an old one would not fit the new others
            for source, file in zip(temporary, files, strict=True):
                source.replace(file)
    except BaseException:
        for source in temporary:
            source.unlink(missing_ok=True)
        raise


def write_text(path: Path, text: str) -> None:
    """Write a UTF-8 file, whole or not at all."""
    with whole_files(path) as (part,):
        part.write_text(text, "utf-8")


def json_text(value: Any) -> str:
    """Indented JSON as its standard has it: a number that is not finite is null."""
    try:
        return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(value), indent=2, ensure_ascii=False, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(x) for key, x in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(x) for x in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


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
    sweep(target)
    for stale in (source, *target.parent.glob(f".{glob.escape(target.name)}.old-*")):
        shutil.rmtree(stale, ignore_errors=True)


def _exchange(source: Path, target: Path) -> bool:
    """Swap two folders in one step; False where the system cannot (only Linux can)."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        swap = ctypes.CDLL(None).renameat2
    except (AttributeError, OSError):
        return False
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    return bool(swap(here, os.fsencode(source), here, os.fsencode(target), exchange) == 0)


def sync_file(path: Path) -> None:
    """fsync a file. It is opened for writing, as Windows syncs no other."""
    with path.open("r+b") as file:
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """fsync the directory so that renames survive power loss; Windows cannot, and does nothing."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
