"""Input that is small on disk or on the wire and huge in memory, and servers that never end."""

from __future__ import annotations

import gzip
import hashlib
import os
import random
import socket
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from decentrl.data import fetch as module
from decentrl.data import registry
from decentrl.data.fetch import fetch
from decentrl.data.readers import read_table
from decentrl.errors import ConfigError, InputError
from tests.attacks.conftest import Tally

MIB = 1 << 20
TOO_LARGE = r"more than the .* that text may take here.*DECENTRL_MEMORY"


@pytest.fixture
def small_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine with 32 MiB."""
    monkeypatch.setenv("DECENTRL_MEMORY", str(32 / 1024))


def peak(work: Callable[[], object]) -> int:
    """Bytes of the largest growth of the resident memory of a child that does the work."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads, which the child lacks
        child = os.fork()
    if not child:
        try:
            Path("/proc/self/clear_refs").write_text("5")
            before = resident()
            work()
            os.write(writing, str(resident() - before).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answer:
        found = answer.read()
    os.waitpid(child, 0)
    return int(found)


def resident() -> int:
    text = Path("/proc/self/status").read_text()
    return 1024 * int(text.partition("VmHWM:")[2].split()[0])


def too_large(file: Path) -> None:
    with pytest.raises(InputError, match=TOO_LARGE) as raised:
        read_table(file)
    assert str(file) in str(raised.value)


# Files


def test_four_megabytes_of_gzip_do_not_become_four_gigabytes(tmp_path: Path) -> None:
    """On any machine: text of triples is never packed a thousandfold."""
    file = tmp_path / "bomb.tsv.gz"
    with gzip.open(file, "wb", 1) as stream:
        for _ in range(20):  # 320 MiB in 1.5 MB; four gigabytes only take longer
            stream.write(b"a\tr\tb\n" * (16 * MIB // 6))
    assert peak(lambda: too_large(file)) < 600 * MIB


@pytest.mark.usefixtures("small_memory")
@pytest.mark.parametrize("name", ["x.tsv.gz", "x.csv.gz", "x.nt.gz", "x.ttl.gz", "x.parquet.gz"])
def test_what_is_decompressed_is_held_against_the_memory(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    file.write_bytes(gzip.compress(b"a\tr\tb\n" * (8 * MIB), 1))
    assert peak(lambda: too_large(file)) < 40 * MIB


@pytest.mark.usefixtures("small_memory")
def test_many_members_of_gzip_are_counted_together(tmp_path: Path) -> None:
    file = tmp_path / "members.tsv.gz"
    file.write_bytes(gzip.compress(b"a\tr\tb\n" * 10_000) * 500)
    too_large(file)


def test_a_hundred_thousand_empty_members_are_soon_read(tmp_path: Path) -> None:
    file = tmp_path / "empty.tsv.gz"
    file.write_bytes(gzip.compress(b"", mtime=0) * 100_000 + gzip.compress(b"a\tr\tb\n"))
    begun = time.monotonic()
    assert len(read_table(file)) == 1
    assert time.monotonic() - begun < 10


@pytest.mark.usefixtures("small_memory")
def test_plain_files_and_devices_without_an_end_are_held_against_it_too(tmp_path: Path) -> None:
    file = tmp_path / "hole.tsv"
    with file.open("wb") as stream:
        stream.truncate(1 << 34)
    too_large(file)
    endless = tmp_path / "endless.tsv"
    endless.symlink_to("/dev/zero")
    too_large(endless)


def parquet(file: Path, rows: int, label: str) -> Path:
    zeros = pa.Array.from_buffers(pa.int32(), rows, [None, pa.py_buffer(bytes(4 * rows))])
    column = pa.DictionaryArray.from_arrays(zeros, pa.array([label]))
    table = pa.table(dict.fromkeys(("head", "relation", "tail"), column))
    pq.write_table(table, file, store_schema=False)
    assert file.stat().st_size < 2 * MIB
    return file


@pytest.mark.usefixtures("small_memory")
def test_parquet_rows_are_held_against_the_memory(tmp_path: Path) -> None:
    """Ten million equal rows take a few kilobytes; they are not read at all."""
    file = parquet(tmp_path / "rows.parquet", 10_000_000, "x")
    assert peak(lambda: too_large(file)) < 40 * MIB


@pytest.mark.usefixtures("small_memory")
def test_parquet_labels_are_held_against_the_memory(tmp_path: Path) -> None:
    """One label of a megabyte in five hundred rows: half a gigabyte a column once unpacked."""
    file = parquet(tmp_path / "labels.parquet", 500, "".join(random.Random(0).choices("ab", k=MIB)))
    assert peak(lambda: too_large(file)) < 80 * MIB


@pytest.mark.usefixtures("small_memory")
def test_turtle_prefixes_are_held_against_the_memory(tmp_path: Path) -> None:
    pytest.importorskip("pyoxigraph")
    file = tmp_path / "prefix.ttl"
    lines = "".join(f"p:{i} p:r p:{i + 1} .\n" for i in range(2000))
    file.write_text(f"@prefix p: <http://x.org/{'a' * 100_000}/> .\n{lines}")
    assert peak(lambda: too_large(file)) < 80 * MIB


def test_files_that_fit_are_read_as_before(tmp_path: Path) -> None:
    file = parquet(tmp_path / "rows.parquet", 1000, "label")
    assert [column.to_pylist() for column in read_table(file).columns] == 3 * [["label"] * 1000]
    text = b"a\tr\tb\n" * 100_000
    (tmp_path / "x.tsv.gz").write_bytes(gzip.compress(text))
    assert len(read_table(tmp_path / "x.tsv.gz")) == 100_000


@pytest.mark.parametrize("given", ["much", "nan", "-1", "0", "inf", "9" * 400])
def test_an_odd_memory_is_one_line(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DECENTRL_MEMORY", given)
    with pytest.raises(ConfigError, match="DECENTRL_MEMORY"):
        read_table(registry._WORLD / "triples_1.tsv.gz")


# Servers

NAME = "WN18RR/train.tsv.gz"
BODY = random.Random(1).randbytes(100_000)
Answer = Callable[[socket.socket], None]


@pytest.fixture
def serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Answer], str]]:
    """Starts a server that gives the same answer to every request; the address of it."""
    monkeypatch.setenv("DECENTRL_DATA", str(tmp_path))
    monkeypatch.setattr(module, "checksums", lambda: {NAME: hashlib.sha256(BODY).hexdigest()})
    monkeypatch.setattr(module, "sizes", lambda: {NAME: len(BODY)}, raising=False)
    over = threading.Event()
    listening: list[socket.socket] = []
    threads: list[threading.Thread] = []

    def start(answer: Answer) -> str:
        server = socket.create_server(("127.0.0.1", 0))
        listening.append(server)

        def work() -> None:
            while not over.is_set():
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    try:
                        connection.settimeout(5)
                        connection.recv(65536)
                        answer(connection)
                    except OSError:
                        pass  # the other side had enough

        threads.append(threading.Thread(target=work))
        threads[-1].start()
        return f"http://127.0.0.1:{server.getsockname()[1]}"

    yield start
    over.set()
    for server in listening:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
    for thread in threads:
        thread.join()


def head(*lines: str, status: str = "200 OK") -> bytes:
    return "\r\n".join((f"HTTP/1.1 {status}", *lines, "Connection: close", "", "")).encode("latin1")


@pytest.mark.parametrize(
    "length", [(), ("Content-Length: 100000000000",), ("Transfer-Encoding: chunked",)]
)
def test_an_endless_server_sends_no_more_than_was_published(
    length: tuple[str, ...], serve: Callable[[Answer], str], tmp_path: Path
) -> None:
    sent, most = 0, 64 * MIB

    def endless(connection: socket.socket) -> None:
        nonlocal sent
        connection.sendall(head(*length))
        block = bytes(MIB)
        if "chunked" in "".join(length):
            block = b"100000\r\n" + block + b"\r\n"
        while sent < most:
            connection.sendall(block)
            sent += len(block)

    with pytest.raises(InputError, match=f"{NAME}: the server sends more than the 100,000 bytes"):
        fetch(["wn18rr"], serve(endless))
    assert sent < 16 * MIB  # what fits into the buffers of the system
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def drip_body(connection: socket.socket) -> None:
    connection.sendall(head("Content-Length: 100000"))
    for _ in range(200):
        connection.sendall(b"x")
        time.sleep(0.05)


def drip_header(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
    for _ in range(200):
        connection.sendall(b"x")
        time.sleep(0.05)


def drip_trailers(connection: socket.socket) -> None:
    connection.sendall(head("Transfer-Encoding: chunked") + b"0\r\n")
    for _ in range(200):
        connection.sendall(b"X: y\r\n")
        time.sleep(0.05)


def drip_continue(connection: socket.socket) -> None:
    for _ in range(200):
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        time.sleep(0.05)


def say_nothing(connection: socket.socket) -> None:
    time.sleep(10)


@pytest.mark.parametrize(
    "slow", [drip_body, drip_header, drip_trailers, drip_continue, say_nothing]
)
def test_a_slow_server_ends_at_the_deadline(slow: Answer, serve: Callable[[Answer], str]) -> None:
    over = threading.Event()

    def answer(connection: socket.socket) -> None:
        slow(connection) if slow is not say_nothing else over.wait(10)

    address, begun = serve(answer), time.monotonic()
    with pytest.raises(InputError, match=r"not done after 0.3 s; run the command again"):
        fetch(["wn18rr"], address, timeout=0.3)
    assert time.monotonic() - begun < 3
    over.set()


ODD = [
    "", "-1", "-0", "+5", "0", "1", "99999", "100001", "1e3", "NaN", "0x10", "²", "٣٤", "1, 1",
    "9" * 30, "9" * 5000, "1_000", "\x00", " 7 ", "100000\r\nContent-Length: 5",
]  # fmt: skip


def checked_fetch(address: str, tmp_path: Path) -> None:
    """Either the published file arrives, or one line says why not; nothing else is left."""
    said = ""
    try:
        fetch(["wn18rr"], address, timeout=10)
    except InputError as error:
        said = str(error)
    assert "\n" not in said
    assert said or (tmp_path / NAME).read_bytes() == BODY
    left = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    assert left <= {"train.tsv.gz", "train.tsv.gz.part"}
    for path in list(tmp_path.rglob("*.gz*")):
        path.unlink()


def test_odd_numbers_in_headers(serve: Callable[[Answer], str], tmp_path: Path) -> None:
    headers: list[tuple[str, ...]] = [(f"Content-Length: {odd}",) for odd in ODD]
    headers += [(f"Content-Range: bytes {odd}-{odd}/{odd}",) for odd in ODD]
    queue = iter([(kind, lines) for lines in headers for kind in ("200 OK", "206 Partial Content")])

    def answer(connection: socket.socket) -> None:
        kind, lines = next(queue)
        encoded = [line.encode().decode("latin1") for line in lines]
        connection.sendall(head(*encoded, status=kind) + BODY)

    address = serve(answer)
    for _ in range(2 * len(headers)):
        checked_fetch(address, tmp_path)


@pytest.mark.trials(40, 800)
def test_mutated_answers(
    trials: int, chance: random.Random, tally: Tally, serve: Callable[[Answer], str], tmp_path: Path
) -> None:
    """Bytes of a good answer changed, taken out, doubled, or its end cut off."""
    found = tally("mutated answers of a server")
    numbers = b"Content-Length: 100000", b"Transfer-Encoding: chunked"
    body = BODY, b"186a0\r\n" + BODY + b"\r\n0\r\n\r\n"

    def answer(connection: socket.socket) -> None:
        kind = chance.randrange(2)
        first = bytearray(head(numbers[kind].decode()) + body[kind][:8])
        for _ in range(chance.randrange(1, 6)):
            at = chance.randrange(len(first))
            end = at + chance.randrange(4)
            first[at:end] = chance.choice((b"", chance.randbytes(1), first[at:end] * 2, b"9" * 9))
        rest = body[kind][8:]
        connection.sendall(first + rest[: chance.choice((len(rest), chance.randrange(len(rest))))])

    address = serve(answer)
    for _ in range(trials):
        found.trials += 1
        begun = time.monotonic()
        try:
            checked_fetch(address, tmp_path)
        except AssertionError:
            found.silent += 1
        except Exception:
            found.tracebacks += 1
        found.hangs += time.monotonic() - begun > 30
    assert found.clean


def test_odd_chunks_and_states(serve: Callable[[Answer], str], tmp_path: Path) -> None:
    sizes = [
        "-1",
        "-186a0",
        "FFFFFFFFFFFFFFFFFFFFFFFF",
        "",
        "x",
        "0x10",
        "1_0",
        "f" * 5000,
        "9" * 70000,
    ]
    answers = [
        head("Transfer-Encoding: chunked") + size.encode() + b"\r\n" + BODY for size in sizes
    ]
    states = ["", "0", "99", "-200 OK", "206", "999 x", "9" * 5000, "416 no", "\xff"]
    answers += [head(status=state) + BODY for state in states]
    places = [
        "http://[",
        "ftp://127.0.0.1:1/x",
        "file:///etc/passwd",
        "http://127.0.0.1:99999999/",
        "//",
    ]
    answers += [head(f"Location: {place}", status="302 Found") for place in places]
    queue = iter(answers)
    address = serve(lambda connection: connection.sendall(next(queue, b"")))
    for _ in answers:
        checked_fetch(address, tmp_path)


@pytest.mark.parametrize(
    "address",
    [
        "http://[",
        "http://a..b/",
        "http://127.0.0.1:99999999",
        "http://127.0.0.1:x",
        "http://",
        "http://\x00/",
    ],
)
def test_odd_addresses_are_one_line(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DECENTRL_DATA", str(tmp_path))
    with pytest.raises(InputError):
        fetch(["wn18rr"], address)


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "x"])
def test_odd_deadlines_are_one_line(
    seconds: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from typer.testing import CliRunner

    from decentrl.cli.data import app

    monkeypatch.setenv("DECENTRL_DATA", str(tmp_path))
    asked = ["fetch", "wn18rr", "--base-url", "http://127.0.0.1:1", "--timeout", seconds]
    result = CliRunner().invoke(app, asked)
    assert result.exit_code == 2 or isinstance(result.exception, InputError)


def test_the_sizes_of_all_published_files_are_known() -> None:
    assert set(registry.sizes()) == set(registry.checksums())
    assert all(size > 0 for size in registry.sizes().values())
