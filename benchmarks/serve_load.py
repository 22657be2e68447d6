"""How fast the service answers, with real HTTP, in a process of its own.

    PYTHONPATH=. python benchmarks/serve_load.py RUN [--seconds 60]

First it waits until the matches of all entities were found ahead (`--cold` does not). Then, one
after the other: single matches at a steady rate, batches of 1,000, as many single matches as 32
connections bring, and single matches while additions are made; at the end the service is killed
with SIGKILL, and every acknowledged addition has to be there. The last lines say of each aim
whether it was reached; they count on two cores that do nothing else.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import shutil
import signal
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.serving import Service, served
from decentrl.runs.sources import load_model
from decentrl.storage.bundle import open_bundle

TOKEN = "a-token-for-the-benchmark"


class Connection:
    """One connection of HTTP/1.1 that is kept."""

    def __init__(self, port: int) -> None:
        self._port, self._streams = port, None

    async def ask(self, method: str, path: str, body: Any = None) -> tuple[int, bytes]:
        """The status and body of an answer."""
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port, limit=2**24)
        reader, writer = self._streams
        content = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\n"
        if body is not None:
            head += f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n"
            head += f"Authorization: Bearer {TOKEN}\r\n"
        writer.write(head.encode() + b"\r\n" + content)
        lines = (await reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
        length = next(int(x.split(":")[1]) for x in lines if x.startswith("content-length:"))
        answer = await reader.readexactly(length)
        if "connection: close" in lines:
            writer.close()
            self._streams = None
        return int(lines[0].split()[1]), answer

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()


class Times:
    """Seconds of requests, and how many failed."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.failed = 0

    def percentile(self, q: float) -> float:
        """Milliseconds in which so many per cent of the requests were answered."""
        return float(1000 * np.percentile(self.seconds, q))

    def __str__(self) -> str:
        p50, p99 = self.percentile(50), self.percentile(99)
        worst = 1000 * max(self.seconds)
        return (
            f"{len(self.seconds):,} requests, {self.failed} failed; "
            f"p50 {p50:.1f} ms, p99 {p99:.1f} ms, longest {worst:.0f} ms"
        )


class Aims:
    """What is to be reached, with what was measured."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str, bool]] = []

    def at_most(self, what: str, value: float, most: float, unit: str, failed: int = 0) -> None:
        """An aim that is reached where a value is not above another, and nothing failed."""
        found = f"{value:.1f} {unit}" + (f", {failed} failed" if failed else "")
        self.lines.append((f"{what} <= {most:g} {unit}", found, value <= most and not failed))

    def show(self) -> None:
        print("\naim")
        for what, found, reached in self.lines:
            print(f"{'yes' if reached else 'NO':4} {what:58} {found}")


async def steadily(
    port: int, rate: float, seconds: float, ask: Callable[[Connection], Any], times: Times
) -> None:
    """Requests at a steady rate, whether those before have been answered or not.

    The time of a request counts from when it was due.
    """
    free = [Connection(port) for _ in range(8)]
    every = list(free)
    start, running = time.perf_counter(), set()

    async def one(due: float) -> None:
        if not free:
            every.append(Connection(port))
            free.append(every[-1])
        connection = free.pop()
        try:
            status, _ = await ask(connection)
            times.failed += not 200 <= status < 300
        except (OSError, asyncio.IncompleteReadError):
            times.failed += 1
        times.seconds.append(time.perf_counter() - due)
        free.append(connection)

    for i in range(int(rate * seconds)):
        due = start + i / rate
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        task = asyncio.create_task(one(due))
        running.add(task)
        task.add_done_callback(running.discard)
    if running:
        await asyncio.gather(*running)
    for connection in every:
        connection.close()


async def flat_out(
    port: int, connections: int, seconds: float, ask: Callable[[Connection], Any], times: Times
) -> float:
    """As many requests as connections bring, each one after the other; requests a second."""
    start = time.perf_counter()

    async def client() -> None:
        connection = Connection(port)
        while time.perf_counter() - start < seconds:
            asked = time.perf_counter()
            try:
                status, _ = await ask(connection)
                times.failed += not 200 <= status < 300
            except (OSError, asyncio.IncompleteReadError):
                times.failed += 1
                connection = Connection(port)
            times.seconds.append(time.perf_counter() - asked)
        connection.close()

    await asyncio.gather(*(client() for _ in range(connections)))
    return len(times.seconds) / (time.perf_counter() - start)


def wait_until_warm(address: str, most: float = 1800) -> float:
    """Until the matches of all entities are kept; how long it took."""
    started = time.perf_counter()
    while time.perf_counter() - started < most:
        with urllib.request.urlopen(f"{address}ready") as answer:
            (state,) = json.load(answer)["runs"].values()
        if state["matched"] == 1:
            return time.perf_counter() - started
        time.sleep(1)
    raise RuntimeError("it did not get warm")


async def measure(
    service: Service, labels: dict[str, list[str]], args: Any, aims: Aims
) -> list[str]:
    """All measurements; the sources of additions that were acknowledged."""
    rng, port = random.Random(args.seed), service.port
    relations = json.load(urllib.request.urlopen(f"{service.address}v1/relations?side=left"))
    known = relations["relations"]

    async def single(connection: Connection) -> tuple[int, bytes]:
        side = rng.choice(("left", "right"))
        asked = urllib.parse.urlencode({"id": rng.choice(labels[side]), "side": side, "top": 5})
        return await connection.ask("GET", f"/v1/matches?{asked}")

    async def batch(connection: Connection) -> tuple[int, bytes]:
        body = {"entities": rng.sample(labels["left"], min(1000, len(labels["left"]))), "top": 5}
        return await connection.ask("POST", "/v1/matches", body)

    acknowledged: list[str] = []
    numbers = iter(range(10**9))

    async def add(connection: Connection) -> tuple[int, bytes]:
        name = f"new entity {next(numbers)}"
        triples = [[name, rng.choice(known), rng.choice(labels["left"])] for _ in range(3)]
        body = {"triples": triples, "side": "left", "source": name}
        status, answer = await connection.ask("POST", "/v1/additions", body)
        if status == 201:
            acknowledged.append(name)
        return status, answer

    cpu = 0.0

    def report(what: str, times: Times, more: str = "") -> None:
        nonlocal cpu
        each = 1000 * (service.cpu - cpu) / max(1, len(times.seconds))
        print(f"{what:34} {times}{more}; {each:.1f} ms of processor each", flush=True)
        cpu = service.cpu

    await steadily(port, 50, 2, single, Times())  # what is made at the first questions
    cpu = service.cpu
    await steadily(port, 50, args.seconds / 3, single, times := Times())
    report("1 match, 50 requests/s", times)
    for q, most in ((50, 15), (99, 60)):
        what = f"p{q} of a match at 50 requests/s"
        aims.at_most(what, times.percentile(q), most, "ms", times.failed)
    await flat_out(port, 1, 5, batch, times := Times())
    report("1,000 matches at once", times)
    aims.at_most("longest batch of 1,000", max(times.seconds), 1, "s", times.failed)
    before = service.memory
    rate = await flat_out(port, args.connections, args.seconds, single, times := Times())
    grown = service.memory / before - 1
    report(f"{args.connections} connections", times, f"; {rate:.0f} requests/s")
    print(f"{'memory':34} {before / 2**20:.0f} MiB before, {grown:+.1%} after")
    what = f">= 150 requests/s for {args.seconds:.0f} s, {args.connections} connections, no error"
    found = f"{rate:.0f} requests/s, {times.failed} failed"
    aims.lines.append((what, found, rate >= 150 and not times.failed))
    aims.at_most("memory grows meanwhile", 100 * grown, 5, "%")
    if args.write:
        asked, added = Times(), Times()
        await asyncio.gather(
            steadily(port, 50, args.seconds / 3, single, asked),
            steadily(port, 10, args.seconds / 3, add, added),
        )
        report("1 match, 50 requests/s, meanwhile", asked)
        report("additions, 10 requests/s", added)
        what = "p99 of a match while 10 additions/s are written"
        aims.at_most(what, asked.percentile(99), 150, "ms", asked.failed + added.failed)
    return acknowledged


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cold", action="store_true", help="do not wait for what is found ahead")
    parser.add_argument("--read", dest="write", action="store_false", help="make no additions")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run, token = Path(folder) / "run", Path(folder) / "token"
        shutil.copytree(args.run, run, ignore=shutil.ignore_patterns("checkpoint"))
        token.write_text(f"{TOKEN}\n")
        with load_model(open_bundle(run), "cpu") as model:
            labels = {side: list(x.entities) for side, x in model.growing.sides.items()}
        options = ("--write", "--token-file", str(token))
        aims = Aims()
        with served(run, options=options) as service:
            print(f"{'started':34} in {service.start:.1f} s")
            if not args.cold:
                print(f"{'warm':34} after {wait_until_warm(service.address):.0f} s", flush=True)
            acknowledged = asyncio.run(measure(service, labels, args, aims))
            service.stop(signal.SIGKILL)
        with load_model(run, "cpu") as model:
            there = {addition.source for addition in model.log()}
        lost = len(set(acknowledged) - there)
        print(f"{'after SIGKILL':34} {len(acknowledged)} acknowledged additions, {lost} lost")
        if args.write:
            what = f"acknowledged additions there after SIGKILL (of {len(acknowledged)})"
            aims.lines.append((what, f"{lost} lost", not lost and len(acknowledged) > 0))
    aims.show()


if __name__ == "__main__":
    main()
