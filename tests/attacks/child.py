"""A command in a child process, and what disturbs it: a signal, a full disk."""

from __future__ import annotations

import errno
import os
import resource
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import decentrl.cli
import decentrl.cli.streams

EVENTS = {"os.rename", "os.mkdir", "sqlite3.connect"}
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE)
PATIENCE = 30
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
Disturb = Callable[[], None]


class Ended(NamedTuple):
    """How a command ended; None if it hung."""

    code: int | None
    out: str
    err: str
    seconds: float


def forked(arguments: list[str], prepare: Disturb, send: tuple[int, float] | None = None) -> Ended:
    """A command in a child that begins with ``prepare``; a signal comes after some seconds."""
    ready, out, err = os.pipe(), os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(out[1], 1)
        os.dup2(err[1], 2)
        for end in (ready[0], *out, *err):
            os.close(end)
        try:
            for number in SIGNALS:  # the shell may have chosen to ignore some
                signal.signal(number, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # as Python does
            prepare()
            sys.argv = ["decentrl", *arguments]
            begin = decentrl.cli.streams.open_standard_files

            def begun() -> None:  # the first that a command does: no signal comes before it
                begin()
                os.write(ready[1], b"1")

            decentrl.cli.streams.open_standard_files = begun
            decentrl.cli.entry()
        except BaseException:
            os.write(2, traceback.format_exc().encode())
        finally:
            os._exit(1)
    for end in (ready[1], out[1], err[1]):
        os.close(end)
    os.read(ready[0], 1)
    started = time.perf_counter()
    if send:
        time.sleep(send[1])
        os.kill(child, send[0])
    said = {out[0]: b"", err[0]: b""}
    open_ends = set(said)
    while open_ends and (left := started + PATIENCE - time.perf_counter()) > 0:
        for end in select.select(open_ends, [], [], left)[0]:
            if part := os.read(end, 65536):
                said[end] += part
            else:
                open_ends.remove(end)
    if open_ends:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    for end in (ready[0], *said):
        os.close(end)
    code = None if open_ends else os.waitstatus_to_exitcode(status)
    texts = (part.decode("utf-8", "replace") for part in said.values())
    return Ended(code, *texts, time.perf_counter() - started)


def hooked(place: Path, on_write: Callable[[str], None]) -> None:
    """Calls a function in front of each operation that takes space in a folder."""

    def hook(event: str, about: tuple[Any, ...]) -> None:
        writes = event == "open" and isinstance(about[2], int) and about[2] & WRITES
        if writes or event in EVENTS:
            path = about[0]
            # A connection that only reads makes files in C or none at all: RLIMIT_FSIZE is for it.
            reads = event == "sqlite3.connect" and ("mode=ro" in path or "immutable" in path)
            skipped = ("/dev", "/proc", ":memory:")
            if isinstance(path, str) and not path.startswith(skipped) and not reads:
                on_write(path)

    sys.addaudithook(hook)
    original = os.fsync

    def fsync(file: int) -> None:
        on_write("")
        original(file)

    os.fsync = fsync


def count_operations(place: Path, counted: int) -> None:
    hooked(place, lambda _: os.write(counted, b"1") and None)


def full_from(place: Path, number: int, again: bool) -> Disturb:
    """From the ``number``-th operation on nothing can be written; else only that one fails."""

    def prepare() -> None:
        count = 0

        def refuse(path: str) -> None:
            nonlocal count
            count += 1
            if count == number or (again and count > number):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path or None)

        hooked(place, refuse)

    return prepare


def limited(size: int) -> Disturb:
    """No file grows beyond a size; what tries gets an error instead of the signal."""

    def prepare() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    return prepare
