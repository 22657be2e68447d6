"""Threads that answer: one at a time asks a model, so that nothing it keeps is changed meanwhile.

Questions of the same kind that wait together are answered together, as a hundred cost little more
than one.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from typing import Any, TypeVar

from decentrl.service.failures import busy

T = TypeVar("T")
TOGETHER = 64
"""Questions that are answered at once, at most."""


@dataclass(eq=False)
class _Job:
    """Something to do: ``work()``, or with others of the same ``kind`` ``work([item, …])``."""

    work: Callable[..., Any]
    kind: Hashable = None
    item: Any = None
    future: Future[Any] = field(default_factory=Future)


class Worker:
    """A thread with a queue.

    Args:
        name: of the thread.
        waiting: jobs that may wait; more are refused.
        seconds: after which a job is given up by those who wait for it.
        idle: called again and again while nothing waits; it returns after how many seconds, or
            None: not before something was asked.
    """

    def __init__(
        self,
        name: str,
        waiting: int,
        seconds: float,
        idle: Callable[[], float | None] | None = None,
    ) -> None:
        self._waiting, self._seconds, self._idle = waiting, seconds, idle
        self._jobs: deque[_Job] = deque()
        self._change, self._stopped, self._due = threading.Condition(), False, 0.0
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def __len__(self) -> int:
        return len(self._jobs)

    async def do(self, work: Callable[[], T]) -> T:
        """What ``work`` returns, done in the thread."""
        found: T = await self._put(_Job(work))
        return found

    async def together(
        self, kind: Hashable, item: Any, work: Callable[[Sequence[Any]], Sequence[Any]]
    ) -> Any:
        """What ``work([…, item, …])`` returns for the item."""
        return await self._put(_Job(work, kind, item))

    async def _put(self, job: _Job) -> Any:
        with self._change:
            if self._stopped:
                raise busy("the service is being stopped")
            if len(self._jobs) >= self._waiting:
                raise busy("too many questions are waiting")
            self._jobs.append(job)
            self._due = 0.0
            self._change.notify()
        try:
            return await asyncio.wait_for(asyncio.wrap_future(job.future), self._seconds)
        except TimeoutError:
            with self._change, suppress(ValueError):
                self._jobs.remove(job)
            raise busy(f"no answer was found in {self._seconds:g} seconds") from None

    def wake(self) -> None:
        """Call ``idle`` again."""
        with self._change:
            self._due = 0.0
            self._change.notify()

    def stop(self) -> None:
        """Finish what waits, then end."""
        with self._change:
            self._stopped = True
            self._change.notify()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._change:
                while not self._jobs and not self._stopped:
                    left = inf if self._idle is None else self._due - time.monotonic()
                    if left <= 0:
                        break
                    self._change.wait(None if left == inf else left)
                jobs = self._take()
                if not jobs and self._stopped:
                    return
                self._due = self._due if jobs else inf
            if jobs:
                self._answer(jobs)
            elif self._idle is not None and (seconds := self._idle()) is not None:
                with self._change:  # it may have been woken meanwhile
                    self._due = min(self._due, time.monotonic() + seconds)

    def _take(self) -> list[_Job]:
        """The next job, with those of its kind that wait."""
        if not self._jobs:
            return []
        first = self._jobs.popleft()
        if first.kind is None:
            return [first]
        same = [x for x in self._jobs if x.kind == first.kind][: TOGETHER - 1]
        for job in same:
            self._jobs.remove(job)
        return [first, *same]

    @staticmethod
    def _answer(jobs: list[_Job]) -> None:
        jobs = [job for job in jobs if job.future.set_running_or_notify_cancel()]
        if not jobs:
            return
        first = jobs[0]
        try:
            answers = (
                [first.work()] if first.kind is None else first.work([job.item for job in jobs])
            )
        except BaseException as error:
            for job in jobs:
                job.future.set_exception(error)
            return
        for job, answer in zip(jobs, answers, strict=True):
            job.future.set_result(answer)
