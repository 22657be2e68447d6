"""Kills processes that write to one store, and reads what one writes; prints what was found.

A script of its own, because it forks: so a child is at work a moment after the one before was
killed. The children add a stream of growths, of which the n-th follows from n. Usage:

    python kill_store.py kill|fold|read|decide FOLDER TIMES

``kill``: a child adds and is killed at a random moment, so often; each time all that it had
acknowledged is there, and whole. ``fold``: the same with a child that folds. ``read``: this process
reads while a child adds so many. ``decide``: as ``kill``, with a child that decides about matches,
and adds now and then. The JSON on stdout has counts, and what was wrong.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from decentrl.data.literals import Literals
from decentrl.data.names import Names
from decentrl.storage.addition import Growth
from decentrl.storage.additions import Store
from decentrl.storage.decision import Decision

WIDTH, FIRST = 1000, 5000
CHANCE = random.Random(os.environ["DECENTRL_SEED"])


def growth(number: int) -> Growth:
    """Two new entities and others again; now and then so many that they take a while to write."""
    rng = np.random.default_rng(number)
    first = FIRST + 2 * (number // 2)
    again = rng.choice(FIRST, 500 if number % 7 == 0 else 2, replace=False)
    ids = np.sort(np.append(again, [first, first + 1]))
    return Growth(
        "left" if number % 2 else "right",
        rng.integers(0, first, (5, 3)),
        [f"{number} a", f"{number} b"],
        first,
        ids,
        rng.standard_normal((len(ids), WIDTH), np.float32),
        Literals(Names.of_rows(ids, [f"name {i} of {number}" for i in ids])),
    )


def same(found: Growth, expected: Growth) -> bool:
    return (
        (found.side, found.labels, found.first) == (expected.side, expected.labels, expected.first)
        and np.array_equal(found.triples, expected.triples)
        and np.array_equal(found.ids, expected.ids)
        and found.literals.names.to_arrow().equals(expected.literals.names.to_arrow())
        and found.rows.tobytes() == expected.rows.tobytes()
    )


def differences(store: Store, after: int) -> list[str]:
    """Where a store is not the stream, looking only at additions after a number."""
    numbers = [line.number for line in store.log()]
    wrong = [] if numbers == list(range(1, len(numbers) + 1)) else [f"numbers {numbers}"]
    for line, found in store.since(after):
        if not same(found, growth(line.number)) or line.source != str(line.number):
            wrong.append(f"addition {line.number} differs")
    return wrong


def started(work: Callable[[int], None]) -> tuple[int, int]:
    """A child at work, and the end of a pipe on which it says how far it is."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read_end)
        code = 1
        try:
            work(write_end)
            code = 0
        finally:
            os._exit(code)
    os.close(write_end)
    return child, read_end


def adds(folder: Path, how_many: int) -> Callable[[int], None]:
    def work(write_end: int) -> None:
        with Store(folder, "bundle", write=True) as store:
            first = store.last + 1
            for number in range(first, first + how_many):
                added = store.add(growth(number), str(number), {})
                os.write(write_end, b"%d\n" % added.number)

    return work


def killed(work: Callable[[int], None], slow: float = 1) -> tuple[int, list[int]]:
    """The exit status of a child killed at a random moment, and the numbers it acknowledged."""
    child, read_end = started(work)
    # Disks differ: on a slow one it opens the store for as long as a fast one takes for ten adds.
    time.sleep(slow * CHANCE.uniform(0, CHANCE.choice((0.01, 0.05, 0.2))))
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    with os.fdopen(read_end) as said:
        return os.waitstatus_to_exitcode(status), [int(line) for line in said]


def kill_while_adding(folder: Path, times: int) -> dict[str, Any]:
    seen, kills, lost, wrong, slow = 0, 0, 0, [], 1.0
    for _ in range(times):
        code, numbers = killed(adds(folder, 10**6), slow)
        slow = 1 if numbers else 1.3 * slow  # where others use the processor too
        kills += code == -signal.SIGKILL
        acknowledged = numbers[-1] if numbers else seen
        with Store(folder, "bundle") as store:
            wrong += differences(store, seen)
            lost += max(0, acknowledged - store.last)
            if store.last > acknowledged + 1:
                wrong.append(f"{acknowledged} acknowledged, {store.last} there")
            seen = store.last
    with Store(folder, "bundle") as store:
        wrong += differences(store, 0)
    return {"trials": kills, "lost": lost, "wrong": wrong, "additions": seen}


def kill_while_folding(folder: Path, times: int) -> dict[str, Any]:
    kills, folds, base, wrong = 0, 0, "bundle", []
    for turn in range(1, times + 1):
        last, new = 14 * turn, f"bundle {turn}"
        with Store(folder, base, write=True) as store:
            for number in range(store.last + 1, last + 1):
                store.add(growth(number), str(number), {})

        def fold(write_end: int, base: str = base, new: str = new) -> None:
            with Store(folder, base, write=True) as store:
                store.fold(new)
                os.write(write_end, b"1\n")
                time.sleep(60)

        code, acknowledged = killed(fold)
        kills += code == -signal.SIGKILL
        folds += len(acknowledged)
        grown_from = None if acknowledged else {"base": base, "additions": last}
        for write in (False, True, False):
            with Store(folder, new, write=write, grown_from=grown_from) as store:
                log = [(line.number, line.folded) for line in store.log()]
                if log != [(n, True) for n in range(1, last + 1)] or store.since(0):
                    wrong.append(f"fold {turn}: {log[-14:]}")
        base = new
    return {"trials": kills, "lost": 0, "wrong": wrong, "folds": folds}


def decision(number: int) -> Decision:
    """One about so many pairs; every fifth takes back another."""
    verdict = "undo" if number % 5 == 0 else ("accept", "reject", "skip")[number % 3]
    pairs = [(f"{number} left {i}", f"right {i}") for i in range(1 + number % 40)]
    return Decision(number, f"time {number}", verdict, tuple(pairs), "Ada", "x" * (number % 9))


def decides(folder: Path, how_many: int) -> Callable[[int], None]:
    def work(write_end: int) -> None:
        with Store(folder, "bundle", write=True) as store:
            first = len(store.decisions()) + 1
            for number in range(first, first + how_many):
                store.decide([decision(number)])
                os.write(write_end, b"%d\n" % number)
                if number % 11 == 0:
                    store.add(growth(store.last + 1), str(store.last + 1), {})

    return work


def kill_while_deciding(folder: Path, times: int) -> dict[str, Any]:
    seen, kills, lost, wrong, slow = 0, 0, 0, [], 1.0
    for _ in range(times):
        code, numbers = killed(decides(folder, 10**6), slow)
        slow = 1 if numbers else 1.3 * slow
        kills += code == -signal.SIGKILL
        acknowledged = numbers[-1] if numbers else seen
        with Store(folder, "bundle") as store:
            wrong += differences(store, 0)
            found = store.decisions()
        wrong += ["other decisions"] * (found != [decision(i + 1) for i in range(len(found))])
        lost += max(0, acknowledged - len(found))
        if len(found) > acknowledged + 1:
            wrong.append(f"{acknowledged} acknowledged, {len(found)} there")
        seen = len(found)
    return {"trials": kills, "lost": lost, "wrong": wrong, "decisions": seen}


def read_while_adding(folder: Path, times: int) -> dict[str, Any]:
    child, read_end = started(adds(folder, times))
    seen, looks, wrong = 0, set(), []
    with Store(folder, "bundle") as store:
        while seen < times:
            last = store.last
            wrong += differences(store, seen)
            seen = last
            looks.add(seen)
    _, status = os.waitpid(child, 0)  # it says a last number after the store has it
    os.close(read_end)
    return {"trials": len(looks), "code": os.waitstatus_to_exitcode(status), "wrong": wrong}


if __name__ == "__main__":
    what = {
        "kill": kill_while_adding, "fold": kill_while_folding, "read": read_while_adding,
        "decide": kill_while_deciding,
    }  # fmt: skip
    print(json.dumps(what[sys.argv[1]](Path(sys.argv[2]), int(sys.argv[3]))))
