"""The folder of a run: one process makes it at a time, and an old run stays until there is another.

``--overwrite`` moves what is there into a folder inside, ``before-overwrite``, and deletes that
once the new run is finished. Killed before the new run has begun, the old one is put back by the
next command that trains; killed later, both are there, and ``--resume`` goes on with the new one;
killed at the end, the next command that trains deletes what is left of the old one.
"""

from __future__ import annotations

import shutil
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from decentrl.errors import InputError
from decentrl.growth.learned import STORE
from decentrl.storage.files import ASIDE, MOVING
from decentrl.storage.lock import locked_file, locked_folder
from decentrl.storage.store_file import LOCK as STORE_LOCK

CONFIG, RESULTS = "config.toml", "results.json"
LOCK = "lock"
"""The file that is locked where a folder cannot be (Windows)."""
_GONE = f"{MOVING}.old"
"""Where what was put aside is deleted: what is called ``before-overwrite`` is whole."""


@contextmanager
def making(folder: Path, overwrite: bool = False) -> Iterator[None]:
    """Be the only process that makes a run, from its first file to its last one.

    Args:
        overwrite: put aside a run that is there; put it back if there will be no other.
    """
    if overwrite and folder.is_symlink():
        raise InputError("is a link", file=folder, remedy="give the folder that it leads to as -o")
    with _locked(folder):
        _put_back(folder)
        if overwrite:
            _put_aside(folder)
        try:
            yield
        except BaseException as error:
            # What was interrupted can be resumed.
            if overwrite and _is_aside(folder) and isinstance(error, Exception):
                clear(folder)
            _put_back(folder)
            raise
        _drop_aside(folder)


def tidy(folder: Path) -> None:
    """End what a killed command has begun: put a run back, or delete one that was replaced."""
    if _is_aside(folder) or (folder / MOVING).is_dir() or (folder / _GONE).is_dir():
        with _locked(folder):
            _put_back(folder)
            if not _is_aside(folder) or (folder / RESULTS).exists():
                _drop_aside(folder)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, made if there is none; one that stays empty is removed."""
    new = [path for path in (folder, *folder.parents) if not path.exists()]
    if folder.exists() and not folder.is_dir():
        raise _exists(folder)
    with ExitStack() as stack:
        try:
            free = None
            while free is None:
                folder.mkdir(parents=True, exist_ok=True)
                with suppress(FileNotFoundError):  # another process has given up and removed it
                    free = stack.enter_context(locked_folder(folder, LOCK))
        except OSError as error:
            raise InputError(f"cannot make this folder ({error.strerror})", file=folder,
                             remedy="choose another -o") from None  # fmt: skip
        if not free:
            raise InputError("another process is training this run", file=folder,
                             remedy="wait until it has finished")  # fmt: skip
        try:
            yield
        finally:
            # Under the lock: another process that waits for it makes the folder again.
            with suppress(OSError):  # until one that is not empty
                for path in new:
                    path.rmdir()


def refuse_existing(folder: Path) -> None:
    """Raise if a new run would mix with what is there."""
    if _begun(folder):
        raise _exists(folder)


def _exists(folder: Path) -> InputError:
    return InputError("already exists", file=folder,
                      remedy="choose another -o, or add --resume or --overwrite")  # fmt: skip


def _contents(folder: Path) -> list[Path]:
    """What is in a folder besides what this module puts there."""
    ours = {MOVING, _GONE, LOCK} | ({ASIDE} if _is_aside(folder) else set())
    return [path for path in folder.iterdir() if path.name not in ours] if folder.is_dir() else []


def _is_aside(folder: Path) -> bool:
    """Whether there is a run that was put aside, and not a folder of the user's of that name."""
    return (folder / ASIDE).is_dir() and _has_runs(folder / ASIDE)


def _drop_aside(folder: Path) -> None:
    """Delete a run that was put aside, and what a killed command has left of one."""
    shutil.rmtree(folder / _GONE, ignore_errors=True)
    if _is_aside(folder):
        (folder / ASIDE).rename(folder / _GONE)
        shutil.rmtree(folder / _GONE, ignore_errors=True)


def _begun(folder: Path) -> bool:
    """Whether there is anything; a run killed before its settings were whole is nothing yet."""
    inside = (path for top in _contents(folder) for path in (top, *top.rglob("*")))
    return any(not path.is_dir() and path.name not in (f"{CONFIG}.part", LOCK) for path in inside)


def clear(folder: Path) -> None:
    """Remove the run that was begun in a folder."""
    for path in _contents(folder):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def _put_aside(folder: Path) -> None:
    """Move what is in a folder to ``before-overwrite``, if it is a run; nothing that is not."""
    if _is_aside(folder) and not (folder / RESULTS).exists():
        clear(folder)  # what was to replace the run aside and is not finished
        return
    contents, moving = _contents(folder), folder / MOVING
    if not contents:
        return
    if not _has_runs(folder):
        raise InputError("is not a run, so it is not overwritten", file=folder,
                         remedy="choose another -o")  # fmt: skip
    with ExitStack() as stack:
        for lock in (path / STORE / STORE_LOCK for path in (folder, *contents)):
            if lock.is_file() and not stack.enter_context(locked_file(lock)):
                raise InputError("another process is adding to this run", file=folder,
                                 remedy="wait until it has finished")  # fmt: skip
        try:
            _drop_aside(folder)
            moving.mkdir()
            for path in contents:
                path.rename(moving / path.name)
            moving.rename(folder / ASIDE)
        except OSError as error:
            _put_back(folder)
            raise InputError(f"cannot be put aside ({error.strerror})", file=folder,
                             remedy="choose another -o") from None  # fmt: skip


def _put_back(folder: Path) -> None:
    """Undo :func:`_put_aside`, also a half of one, unless another run has begun since."""
    moving = folder / MOVING
    if _is_aside(folder) and not _begun(folder):
        clear(folder)
        (folder / ASIDE).rename(moving)
    if moving.is_dir():
        for path in moving.iterdir():
            path.rename(folder / path.name)
        moving.rmdir()


def _is_run(folder: Path) -> bool:
    try:
        return "data_sha256" in tomllib.loads((folder / CONFIG).read_text("utf-8"))["run"]
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _has_runs(folder: Path) -> bool:
    """Whether a folder is a run, or has nothing in it but those that ``--seeds`` makes."""
    others = [path for path in _contents(folder) if path.name != RESULTS]
    seeds = all(path.name.startswith("seed-") and _is_run(path) for path in others)
    return seeds or _is_run(folder)
