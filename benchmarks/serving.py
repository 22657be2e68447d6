"""A service in a process of its own, for benchmarks and tests."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Service:
    """A service that runs.

    Attributes:
        address: with a slash at its end.
        start: seconds until it answered.
    """

    process: subprocess.Popen[str]
    address: str
    start: float

    @property
    def port(self) -> int:
        return int(self.address.rstrip("/").rpartition(":")[2])

    @property
    def memory(self) -> int:
        """Bytes of memory that it has."""
        pages = Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    @property
    def cpu(self) -> float:
        """Seconds of processor time that it has taken."""
        text = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(text[11]) + int(text[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self, how: int = signal.SIGTERM) -> int:
        """End it; the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        try:
            return self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()


@contextmanager
def served(
    *runs: Path,
    options: tuple[str, ...] = (),
    log: Path | None = None,
    program: tuple[str, ...] = ("-m", "decentrl", "serve"),
) -> Iterator[Service]:
    """``decentrl serve`` on a free port, with its log in a file."""
    command = [sys.executable, *program, *map(str, runs), "--port", "0", *options]
    started = time.perf_counter()
    with open(log or os.devnull, "w") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r" at (http://\S+/)", line)
        if found is None:
            process.wait()
            process.stdout.close()
            raise RuntimeError(f"the service did not start: {line}")
        service = Service(process, found[1], time.perf_counter() - started)
        try:
            yield service
        finally:
            service.stop()
            process.stdout.close()
