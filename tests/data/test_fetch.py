"""Fetching, against a real server on this machine."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from decentrl.data import fetch as module
from decentrl.data.fetch import fetch
from decentrl.data.registry import checksums
from decentrl.errors import InputError

NAMES = ("WN18RR/train.tsv.gz", "WN18RR/test.tsv.gz")
FILES = {name: hashlib.sha512(name.encode()).digest() * 5000 for name in NAMES}


class Server(ThreadingHTTPServer):
    """Serves FILES. What it was asked for is in ``asked``: (file, Range header)."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files = dict(FILES)
        self.ranges = True  # whether it understands Range
        self.stop_after: int | None = None  # close the connection after so many bytes
        self.asked: list[tuple[str, str | None]] = []
        self.url = f"http://127.0.0.1:{self.server_port}/data"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        name = self.path.removeprefix("/data/")
        asked = self.headers.get("Range")
        self.server.asked.append((name, asked))
        if name not in self.server.files:
            self.send_error(404)
            return
        body, start = self.server.files[name], 0
        if asked and self.server.ranges:
            start = int(re.fullmatch(r"bytes=(\d+)-", asked)[1])  # type: ignore[index]
            if start >= len(body):
                self.send_error(416)
                return
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        self.send_header("Content-Length", str(len(body) - start))
        self.end_headers()
        self.wfile.write(body[start:][: self.server.stop_after])

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DECENTRL_DATA", str(tmp_path))


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    sums = {name: hashlib.sha256(body).hexdigest() for name, body in FILES.items()}
    monkeypatch.setattr(module, "checksums", lambda: sums)
    monkeypatch.setattr(module, "sizes", lambda: {name: len(body) for name, body in FILES.items()})
    monkeypatch.delenv("DECENTRL_DATA_URL", raising=False)
    server = Server()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def here(root: Path) -> dict[str, bytes]:
    return {x.relative_to(root).as_posix(): x.read_bytes() for x in root.rglob("*") if x.is_file()}


def test_the_files_of_a_dataset_arrive(server: Server, tmp_path: Path) -> None:
    seen: list[tuple[str, int, int | None]] = []
    done = fetch(["wn18rr"], server.url, lambda *x: seen.append(x))
    assert here(tmp_path) == FILES
    assert len(done) == 2
    assert seen[-1][1] == seen[-1][2] == len(FILES[seen[-1][0]])


def test_the_address_may_come_from_the_environment(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DECENTRL_DATA_URL", server.url + "/")
    fetch(["wn18rr"])
    assert here(tmp_path) == FILES


def test_good_files_are_not_fetched_again_and_bad_ones_are(server: Server, tmp_path: Path) -> None:
    fetch(["wn18rr"], server.url)
    server.asked.clear()
    (tmp_path / NAMES[0]).write_bytes(b"damaged")
    assert fetch(["wn18rr"], server.url) == [tmp_path / NAMES[0]]
    assert server.asked == [(NAMES[0], None)]
    assert here(tmp_path) == FILES


@pytest.mark.parametrize("ranges", [True, False])
def test_an_interrupted_transfer_goes_on_where_it_stopped(
    server: Server, tmp_path: Path, ranges: bool
) -> None:
    server.ranges, server.stop_after = ranges, 1000
    with pytest.raises(InputError, match=r"stopped after 1,000 of 320,000 bytes; run .* again"):
        fetch(["wn18rr"], server.url)
    assert {x: len(y) for x, y in here(tmp_path).items()} == {NAMES[0] + ".part": 1000}
    server.stop_after = None
    fetch(["wn18rr"], server.url)
    # A server that does not understand Range sends all of it, and the part is written anew.
    assert server.asked[1] == (NAMES[0], "bytes=1000-")
    assert here(tmp_path) == FILES


def test_a_part_that_is_already_whole_only_needs_its_name(server: Server, tmp_path: Path) -> None:
    part = tmp_path / (NAMES[0] + ".part")
    part.parent.mkdir()
    part.write_bytes(FILES[NAMES[0]])
    fetch(["wn18rr"], server.url)
    assert here(tmp_path) == FILES


def test_a_corrupted_file_is_named_and_removed(server: Server, tmp_path: Path) -> None:
    server.files[NAMES[1]] = b"something else"
    with pytest.raises(InputError, match=r"WN18RR/test\.tsv\.gz: .*SHA-256 differs"):
        fetch(["wn18rr"], server.url)
    assert set(here(tmp_path)) == {NAMES[0]}
    server.files = dict(FILES)
    fetch(["wn18rr"], server.url)
    assert here(tmp_path) == FILES


def test_a_missing_file_and_a_missing_server_are_told_apart(server: Server, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"answered 404 Not Found .*check the address"):
        fetch(["wn18rr"], server.url + "/elsewhere")
    with pytest.raises(InputError, match=r"failed \(.*refused.*\)"):
        fetch(["wn18rr"], "http://127.0.0.1:1/")


def test_there_is_no_address_built_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("DECENTRL_DATA_URL", raising=False)
    with pytest.raises(InputError, match=r"give --base-url \(DECENTRL_DATA_URL\)"):
        fetch(["wn18rr"], None)
    with pytest.raises(InputError, match="no web address"):
        fetch(["wn18rr"], "file:///data")


def test_names_are_checked_before_anything_is_fetched(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="did you mean wn18rr"):
        fetch(["wn18r"], "http://127.0.0.1:1/")
    assert fetch(["world"], None) == []


def test_every_published_dataset_has_checksums() -> None:
    assert sum(name.startswith("DBP15K/zh_en/") for name in checksums()) == 13
    assert all(re.fullmatch("[0-9a-f]{64}", x) for x in checksums().values())
