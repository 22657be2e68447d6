"""What is left lying around, who may read it, and where a planted link leads."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from decentrl.data.registry import load_dataset
from decentrl.data.writers import write_graph_folder
from decentrl.storage.bundle import read_bundle, write_bundle
from decentrl.storage.files import write_text

ROOT = Path(__file__).parents[2]

SPLIT = """
import os, signal, sys, time
from decentrl.cli import main
from decentrl.data import writers
def stop(*_):
    print("half", flush=True)
    time.sleep(60)
writers._write_triples = stop
sys.argv = ["decentrl", "data", "split", "world/cldr", "-o", sys.argv[1]]
main()
"""

SAVE = """
import sys
from pathlib import Path
from decentrl.storage import bundle
held, seal = bundle.read_bundle(Path(sys.argv[1])), bundle._sealed
def stop(manifest):
    print("half", flush=True)
    sys.stdin.readline()
    return seal(manifest)
bundle._sealed = stop
bundle.write_bundle(held, Path(sys.argv[2]))
"""


def split_halfway(out: Path) -> subprocess.Popen[str]:
    """``decentrl data split``, which has written half of its folder."""
    command = [sys.executable, "-c", SPLIT, str(out)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    assert process.stdout.readline() == "half\n"
    return process


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


# What killed processes leave


def test_what_a_killed_split_left_is_swept_and_nothing_else(tmp_path: Path) -> None:
    out, task = tmp_path / "out", load_dataset("world/cldr")
    killed, alive = split_halfway(out), split_halfway(out)
    killed.kill()
    killed.communicate()
    before = names(tmp_path)
    assert len(before) == 2
    (tmp_path / ".out-notes001").mkdir()  # a user's own
    (tmp_path / ".outside").mkdir()
    write_graph_folder(task, out)
    left = names(tmp_path) - {"out", ".out-notes001", ".outside"}
    assert len(left) == 1  # that of the one that is still writing
    assert left < before
    alive.kill()
    alive.communicate()
    shutil.rmtree(out)
    write_graph_folder(task, out)
    assert names(tmp_path) == {"out", ".out-notes001", ".outside"}


def test_a_save_leaves_what_another_is_writing(world_run: Path, tmp_path: Path) -> None:
    bundle, target = read_bundle(world_run), tmp_path / "bundle"
    other = subprocess.Popen(
        [sys.executable, "-c", SAVE, world_run, target],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert other.stdout
    assert other.stdout.readline() == "half\n"
    write_bundle(bundle, target)
    said = other.communicate("\n")[1]
    assert other.returncode == 0, said
    assert names(tmp_path) == {"bundle"}
    read_bundle(target)


# Permissions


@pytest.fixture
def umask() -> Iterator[Callable[[int], int]]:
    before = os.umask(0o022)
    yield os.umask
    os.umask(before)


def modes(folder: Path) -> dict[str, int]:
    every = [folder, *folder.rglob("*")]
    return {str(path.relative_to(folder)): path.stat().st_mode & 0o777 for path in every}


@pytest.mark.parametrize("mask", [0o077, 0o027, 0o002])
def test_the_umask_is_honoured(
    mask: int, umask: Callable[[int], int], world_run: Path, tmp_path: Path,
    decentrl: Callable[..., tuple[int, str, str]],
) -> None:  # fmt: skip
    umask(mask)
    run = tmp_path / "run"
    run.mkdir()
    write_bundle(read_bundle(world_run), run / "bundle")
    write_graph_folder(load_dataset("world/cldr"), tmp_path / "split")
    label = read_bundle(world_run).task.left.entities[0]
    (tmp_path / "new.tsv").write_text(f"Atlantis\tcontinent\t{label}\n")
    assert decentrl("add", run, tmp_path / "new.tsv", "--side", "left")[0] == 0
    assert (run / "store").is_dir()
    assert decentrl("export", run, "-o", tmp_path / "x.parquet", "--format", "parquet")[0] == 0
    found = modes(tmp_path)
    del found["."]  # made by pytest
    assert not {name: oct(mode) for name, mode in found.items() if mode & mask}
    # And no more is taken away than it says.
    made = {x: m for x, m in found.items() if x.startswith(("run/bundle", "split", "x.parquet"))}
    assert len(made) > 10
    wanted = {x: (0o777 if (tmp_path / x).is_dir() else 0o666) & ~mask for x in made}
    assert made == wanted


# Links that somebody planted


@pytest.fixture
def victim(tmp_path: Path) -> Iterator[Path]:
    file = tmp_path / "victim"
    file.write_text("precious")
    yield file
    assert file.read_text() == "precious"
    assert not file.is_symlink()


def test_a_link_in_the_place_of_a_temporary_file_is_not_followed(
    victim: Path, world_run: Path, tmp_path: Path, decentrl: Callable[..., tuple[int, str, str]]
) -> None:
    (tmp_path / "text.part").symlink_to(victim)
    write_text(tmp_path / "text", "new")
    for name in ("m.tsv", "x.npy", "x.labels.txt", "y.parquet", "z.vec"):
        (tmp_path / f"{name}.part").symlink_to(victim)
    for command in (
        ("match", world_run, "-o", tmp_path / "m.tsv"),
        ("export", world_run, "-o", tmp_path / "x.npy", "--side", "left"),
        ("export", world_run, "-o", tmp_path / "y.parquet"),
        ("export", world_run, "-o", tmp_path / "z.vec", "--side", "left"),
    ):
        assert decentrl(*command)[0] == 0
    assert not [path.name for path in tmp_path.iterdir() if path.is_symlink()]
    assert (tmp_path / "text").read_text() == "new"


def test_a_link_in_the_place_of_a_checkpoint_is_not_followed(victim: Path, tmp_path: Path) -> None:
    import numpy as np
    import torch

    from decentrl.training.checkpoint import FILE, save_checkpoint

    (tmp_path / f"{FILE}.part").symlink_to(victim)
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.Adam(model.parameters())
    save_checkpoint(tmp_path, model, optimizer, np.random.default_rng(0), {}, epoch=1)
    assert not (tmp_path / FILE).is_symlink()


def test_a_link_in_the_place_of_a_download_is_not_followed(
    victim: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from http.server import BaseHTTPRequestHandler, HTTPServer
    from threading import Thread

    from decentrl.data import fetch as module

    body = b"precious, and more"  # even one that begins as the file does

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            start = int((self.headers.get("Range") or "bytes=0-")[6:-1])
            self.send_response(206 if start else 200)
            self.end_headers()
            self.wfile.write(body[start:])

        def log_message(self, *_: object) -> None:
            pass

    name = "WN18RR/train.tsv.gz"
    monkeypatch.setenv("DECENTRL_DATA", str(tmp_path))
    monkeypatch.setattr(module, "checksums", lambda: {name: hashlib.sha256(body).hexdigest()})
    monkeypatch.setattr(module, "sizes", lambda: {name: len(body)}, raising=False)
    (tmp_path / "WN18RR").mkdir()
    (tmp_path / f"{name}.part").symlink_to(victim)
    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            module.fetch(["wn18rr"], f"http://127.0.0.1:{server.server_port}")
        finally:
            server.shutdown()
            thread.join()
    assert (tmp_path / name).read_bytes() == body
    assert not (tmp_path / name).is_symlink()


# Metadata


def test_the_metadata_name_the_licences_of_the_data() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    inside = (ROOT / "src/decentrl/data/world/LICENSES.md").read_text()
    named = set(project["license"].split(" AND "))
    assert named == {"MIT", "CC-BY-4.0", "Unicode-3.0"}
    assert all(licence in inside for licence in named)
    assert all((ROOT / file).is_file() for file in project["license-files"])
    assert "src/decentrl/data/world/LICENSES.md" in project["license-files"]


def test_what_ci_installs_is_pinned_by_hashes() -> None:
    text = (ROOT / "requirements-ci.txt").read_text().replace("\\\n", " ")
    lines = [line.split() for line in text.splitlines() if not line.startswith("#")]
    assert [line[0] for line in lines] == (ROOT / "constraints.txt").read_text().split()
    good = re.compile("--hash=sha256:[0-9a-f]{64}")
    assert all(line[1:] and all(map(good.fullmatch, line[1:])) for line in lines)
    assert re.search("make HASHED=1 .*lint test", (ROOT / ".ci/run").read_text())
