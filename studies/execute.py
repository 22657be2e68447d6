"""Do runs, several at once, each in its own process; every finished run is kept immediately."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path

from studies.plan import expected_seconds
from studies.run import Run
from studies.source_tree import check_committed, commit
from studies.store import Store, write_result

SPAWN = multiprocessing.get_context("spawn")
ROOM = 24 * 2**30
"""Bytes of a card that one run may need."""


@dataclass
class Outcome:
    """Which runs were done, which failed, and which were not started."""

    done: list[Run] = field(default_factory=list)
    failed: list[tuple[Run, str]] = field(default_factory=list)
    left: list[Run] = field(default_factory=list)  # there was no time for them


Report = Callable[[Run, str, Outcome, float], None]
"""Called with a run that has ended, what is wrong with it or "", all so far, and seconds left."""


class Worker:
    """A process that does one run after another."""

    def __init__(self, folder: Path, device: str, at_once: int, trial: bool) -> None:
        self.connection, other = SPAWN.Pipe()
        arguments = (other, folder, device, at_once, trial)
        self.process = SPAWN.Process(target=_work, args=arguments, daemon=True)
        self.process.start()
        other.close()
        self.run: Run | None = None

    def start(self, run: Run) -> None:
        self.run = run
        with suppress(OSError):  # the process has died meanwhile; `finish` reports it
            self.connection.send((run, run.key))

    def finish(self) -> str | None:
        """What is wrong with the run, "" for nothing; None if the process has died of it."""
        self.run = None
        try:
            return str(self.connection.recv())
        except (EOFError, OSError):
            return None

    def end(self) -> None:
        self.connection.close()
        self.process.kill()
        self.process.join()


def execute(
    runs: Sequence[Run],
    store: Store,
    *,
    jobs: int = 1,
    device: str = "auto",
    budget: float | None = None,
    trial: bool = False,
    report: Report = lambda *_: None,
) -> Outcome:
    """Do the runs in their order, ``jobs`` at once.

    A run is not started if it is expected to end after ``budget`` seconds; those under way are
    waited for. A run that fails, or kills its process, is reported and the others go on.

    Args:
        trial: keep results of a tree with uncommitted changes too; otherwise that is an error,
            raised before anything is trained.
    """
    if runs and not trial:
        check_committed(commit())
    waiting, outcome = list(runs), Outcome()
    begun: dict[Run, float] = {}
    deadline = None if budget is None else time.monotonic() + budget
    with _workers(min(jobs, max(1, len(runs))), store.folder, device, trial) as workers:
        while True:
            begun |= dict.fromkeys(_start(waiting, workers, store, deadline), time.monotonic())
            busy = [worker for worker in workers if worker.run is not None]
            if not busy:
                break
            ready = wait([worker.connection for worker in busy])
            for worker in [worker for worker in busy if worker.connection in ready]:
                run = worker.run
                assert run is not None
                problem = worker.finish()
                if problem is None:
                    problem = "its process died (out of memory? try a smaller --jobs)"
                if problem:  # what is left of it must not disturb the next run
                    worker.end()
                    again = Worker(store.folder, device, len(workers), trial)
                    workers[workers.index(worker)] = again
                    outcome.failed.append((run, problem))
                else:
                    outcome.done.append(run)
                    store.reload(run)
                report(run, problem, outcome, _seconds_left(waiting, workers, store, begun))
    outcome.left = waiting
    return outcome


def do_missing(
    runs: Sequence[Run], store: Store, jobs: int, trial: bool = False
) -> list[tuple[Run, str]]:
    """Do the runs without a result, all of one seed before the next; return those that failed.

    Each is named on the standard error as it ends. ``trial`` is that of :func:`execute`.
    """
    missing = sorted((run for run in runs if not store.has(run)), key=lambda run: run.seed)
    if not missing:
        return []

    def report(run: Run, problem: str, *_: object) -> None:
        print(run.name, problem, file=sys.stderr, flush=True)

    return execute(missing, store, jobs=jobs, trial=trial, report=report).failed


def _start(
    waiting: list[Run], workers: list[Worker], store: Store, deadline: float | None
) -> list[Run]:
    """Give every idle worker the first run that fits; one that must be alone waits until it is.

    Returns:
        the runs that were started.
    """
    known, started = store.all(), []
    for worker in workers:
        busy = [other.run for other in workers if other.run is not None]
        if worker.run is not None or any(run.alone for run in busy):
            continue
        for run in waiting:
            late = deadline is not None and (
                time.monotonic() + expected_seconds(run, known) > deadline
            )
            if not late and not (run.alone and busy):
                waiting.remove(run)
                worker.start(run)
                started.append(run)
                break
    return started


def _seconds_left(
    waiting: Sequence[Run], workers: Sequence[Worker], store: Store, begun: Mapping[Run, float]
) -> float:
    """Until all runs have ended, those under way too, if they take as long as others like them."""
    known, now = store.all(), time.monotonic()
    under_way = [
        max(0.0, expected_seconds(worker.run, known) - (now - begun[worker.run]))
        for worker in workers
        if worker.run is not None
    ]
    alone = sum(expected_seconds(run, known) for run in waiting if run.alone)
    others = sum(expected_seconds(run, known) for run in waiting if not run.alone)
    shared = (sum(under_way) + others) / len(workers)
    return alone + max([shared, *under_way])


@contextmanager
def _workers(jobs: int, folder: Path, device: str, trial: bool) -> Iterator[list[Worker]]:
    workers: list[Worker] = []
    try:
        workers += [Worker(folder, device, jobs, trial) for _ in range(jobs)]
        yield workers
    finally:
        for worker in workers:
            worker.end()


def _work(connection: Connection, folder: Path, device: str, at_once: int, trial: bool) -> None:
    """Loop of a worker process; it ends when the connection to the first process closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process ends this one
    threading.Thread(target=_end_with_parent, daemon=True).start()
    while True:
        try:
            run, key = connection.recv()
        except EOFError:
            return
        if run.key == key:
            _share_cores(1 if run.alone else at_once)
            problem = _attempt(run, folder, device, at_once, trial)
        else:
            problem = "its preset or the results' version was changed meanwhile; start again"
        try:
            connection.send(problem)
        except OSError:
            return


def _end_with_parent() -> None:
    """Exit when the first process is gone.

    A command that was killed cannot end its workers: they would go on for as long as their run
    takes, and slow down other commands.
    """
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _share_cores(runs: int) -> None:
    """Give each of so many runs its part of the cores; a single run takes all of them."""
    import torch

    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(max(1, (os.cpu_count() or 1) // runs))


def _attempt(run: Run, folder: Path, device: str, at_once: int, trial: bool) -> str:
    """Do one run and keep its result; return the error in one line, "" for none."""
    import gc

    import torch

    from studies.measure import measure

    try:
        write_result(folder, run, measure(run, device, at_once), trial=trial)
    except Exception as error:  # the other runs go on
        lines = str(error).splitlines() or [""]
        return f"{type(error).__name__}: {lines[0]}"
    finally:
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
    return ""


def room_for(device: str, quick: bool) -> int:
    """How many runs at once: as many as fit on the card, a core each for small ones, else one."""
    import torch

    from decentrl.nn.running import pick_device

    cores = os.cpu_count() or 1
    if pick_device(device).type == "cuda":
        memory = torch.cuda.get_device_properties(0).total_memory
        return max(1, min(int(memory // ROOM), cores // 2))
    return cores if quick else 1
