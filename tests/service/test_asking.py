"""The thread that asks a model: one thing at a time, those of one kind together."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from decentrl.service.asking import TOGETHER, Worker
from decentrl.service.failures import RequestError


@pytest.fixture
def worker() -> Iterator[Worker]:
    found = Worker("test", waiting=150, seconds=5)
    yield found
    found.stop()


def run(ask: Callable[[], Awaitable[None]]) -> None:
    """Run it in a thread of its own: browser tests may have left a loop in this one."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(lambda: asyncio.run(ask())).result()  # type: ignore[arg-type]


async def held(worker: Worker) -> threading.Event:
    """Hold the thread until the event is set."""
    begun, free = threading.Event(), threading.Event()

    def hold() -> None:
        begun.set()
        free.wait(10)

    task = asyncio.create_task(worker.do(hold))
    while not begun.is_set():
        await asyncio.sleep(0.001)
    held.task = task  # type: ignore[attr-defined]  # kept from the collector
    return free


def test_answers_and_errors_come_back(worker: Worker) -> None:
    async def ask() -> None:
        assert await worker.do(lambda: 1 + 1) == 2
        with pytest.raises(ZeroDivisionError):
            await worker.do(lambda: 1 // 0)
        assert await worker.do(lambda: "on") == "on"

    run(ask)


def test_questions_of_a_kind_are_answered_together(worker: Worker) -> None:
    sizes: list[int] = []

    def double(items: Sequence[int]) -> list[int]:
        sizes.append(len(items))
        return [2 * x for x in items]

    async def ask() -> None:
        free = await held(worker)
        tasks = [asyncio.create_task(worker.together(i % 2, i, double)) for i in range(100)]
        await asyncio.sleep(0.01)
        free.set()
        assert await asyncio.gather(*tasks) == [2 * i for i in range(100)]

    run(ask)
    assert sizes == [50, 50]
    assert max(sizes) <= TOGETHER


def test_too_many_are_refused_and_what_takes_too_long_is_given_up() -> None:
    worker = Worker("test", waiting=3, seconds=0.05)

    async def ask() -> None:
        free = await held(worker)
        tasks = [asyncio.create_task(worker.do(lambda: 1)) for _ in range(5)]
        found = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(x, RequestError) and x.status == 503 for x in found)
        assert sum("waiting" in str(x) for x in found) == 2
        free.set()
        assert await worker.do(lambda: 2) == 2  # what was given up is not done

    run(ask)
    worker.stop()


def test_what_waits_is_finished_before_the_end() -> None:
    worker, done = Worker("test", waiting=9, seconds=5), []

    async def ask() -> None:
        free = await held(worker)
        task = asyncio.create_task(worker.do(lambda: done.append(1)))
        await asyncio.sleep(0.01)
        stopping = threading.Thread(target=worker.stop)
        stopping.start()
        while not worker._stopped:
            await asyncio.sleep(0.001)
        with pytest.raises(RequestError):
            await worker.do(lambda: None)
        free.set()
        await task
        stopping.join()

    run(ask)
    assert done == [1]


def test_idle_work_rests_and_is_woken() -> None:
    calls, left, rested = [], [3], threading.Event()

    def idle() -> float | None:
        calls.append(1)
        left[0] -= 1
        if left[0] <= 0:
            rested.set()
        return 0.001 if left[0] > 0 else None

    worker = Worker("test", waiting=9, seconds=5, idle=idle)
    worker.wake()
    assert rested.wait(5)
    worker.stop()
    assert len(calls) >= 3
