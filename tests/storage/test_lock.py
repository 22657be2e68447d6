"""A lock has one holder and dies with it; no system needs what it does not have."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from decentrl.storage import files, lock
from decentrl.storage.additions import Store
from decentrl.storage.lock import locked_file, locked_folder

HOLDER = """
import sys, time
from pathlib import Path
from decentrl.storage.lock import locked_file
with locked_file(Path(sys.argv[1])) as free:
    print(free, flush=True)
    time.sleep(60)
"""


def test_a_lock_is_free_again_when_its_holder_is_killed(tmp_path: Path) -> None:
    file = tmp_path / "lock"
    command = [sys.executable, "-c", HOLDER, str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "True\n"
        with locked_file(file) as free:
            assert not free
        holder.kill()
        holder.wait()
    with locked_file(file) as free:
        assert free


def test_the_locked_file_keeps_its_content_and_can_be_read(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text("seed = 0\n")
    with locked_file(file) as free:
        assert free
        assert file.read_text() == "seed = 0\n"
    assert file.read_text() == "seed = 0\n"


FOLDER_HOLDER = (
    HOLDER.replace("locked_file(", "locked_folder(")
    .replace("import locked_file", "import locked_folder")
    .replace("argv[1])", 'argv[1]), "lock"')
)


def test_a_killed_holder_of_a_folder_leaves_nothing_behind(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FOLDER_HOLDER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "True\n"
        with locked_folder(tmp_path, "lock") as free:
            assert not free
        holder.kill()
        holder.wait()
    assert list(tmp_path.iterdir()) == []
    with locked_folder(tmp_path, "lock") as free:
        assert free


class Windows:
    """``msvcrt.locking`` as documented: a byte is locked by one open file, at its position."""

    LK_NBLCK, LK_UNLCK = 2, 0

    def __init__(self) -> None:
        self.held: dict[tuple[int, int], int] = {}

    def locking(self, descriptor: int, mode: int, size: int) -> None:
        assert size == 1
        byte = os.fstat(descriptor).st_ino, os.lseek(descriptor, 0, os.SEEK_CUR)
        if mode == self.LK_UNLCK:
            assert self.held.pop(byte) == descriptor
        elif byte in self.held:
            raise PermissionError(errno.EACCES, "Permission denied")
        else:
            self.held[byte] = descriptor


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> Windows:
    system = Windows()
    monkeypatch.setattr(lock, "fcntl", None)
    monkeypatch.setitem(sys.modules, "msvcrt", system)  # type: ignore[arg-type]
    return system


def test_the_way_of_windows(windows: Windows, tmp_path: Path) -> None:
    file = tmp_path / "lock"
    file.write_text("content")
    with locked_file(file) as first:
        ((_, byte),) = windows.held
        assert byte >= file.stat().st_size  # what is in the file can be read meanwhile
        with locked_file(file) as second, locked_file(tmp_path / "other") as other:
            assert (first, second, other) == (True, False, True)
        assert len(windows.held) == 1  # the second has not released what the first holds
    assert not windows.held
    with pytest.raises(ZeroDivisionError), locked_file(file):
        raise ZeroDivisionError
    assert not windows.held


def test_a_folder_is_locked_by_a_file_in_it_on_windows(windows: Windows, tmp_path: Path) -> None:
    with locked_folder(tmp_path, "lock") as first, locked_folder(tmp_path, "lock") as second:
        assert (first, second) == (True, False)
        assert windows.held
    assert not windows.held
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]


def test_a_store_has_one_writer_on_windows(windows: Windows, tmp_path: Path) -> None:
    from decentrl.errors import BundleError

    with Store(tmp_path / "store", "base", write=True):
        assert windows.held
        with pytest.raises(BundleError, match="another process is adding to this run"):
            Store(tmp_path / "store", "base", write=True)
    Store(tmp_path / "store", "base", write=True).close()
    assert not windows.held


def test_errors_of_the_lock_itself_are_not_taken_for_another_holder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def flock(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(lock, "fcntl", SimpleNamespace(flock=flock, LOCK_EX=2, LOCK_NB=4))
    with pytest.raises(OSError, match="No locks"), locked_file(tmp_path / "lock"):
        pass


IMPORT_ALL = """
import importlib, pkgutil, sys
import numpy, pyarrow.parquet, rich, safetensors.torch, torch, typer  # may use what they find
for name in ("fcntl", "resource", "msvcrt"):
    sys.modules[name] = None
import decentrl
for module in pkgutil.walk_packages(decentrl.__path__, "decentrl."):
    # Triton is there where CUDA is, and imported there alone.
    if module.name not in ("decentrl.__main__", "decentrl.nn.triton_sum"):
        importlib.import_module(module.name)
from types import SimpleNamespace
from decentrl.runs.machine import peak_memory
print(peak_memory(SimpleNamespace(device=torch.device("cpu"))))
"""


def test_every_module_loads_without_the_modules_of_unix() -> None:
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr


def test_folders_are_exchanged_on_linux_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("new", "old"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
    monkeypatch.setattr(files.sys, "platform", "darwin")
    assert not files._exchange(tmp_path / "new", tmp_path / "old")
    files.replace_folder(tmp_path / "new", tmp_path / "old")
    assert [path.name for path in tmp_path.rglob("*")] == ["old", "new"]
    assert (tmp_path / "old" / "new").exists()


def test_a_system_that_cannot_open_folders_syncs_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError(errno.EACCES, "a folder")

    monkeypatch.setattr(files.os, "open", refuse)
    with pytest.raises(PermissionError):
        files.sync_folder(tmp_path)
    monkeypatch.setattr(files.os, "name", "nt")
    files.sync_folder(tmp_path)
