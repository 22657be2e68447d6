"""Kills a process that adds to a run, again and again, and compares with one that was let be.

A script of its own, because it forks. Usage:

    python kill_growing.py kill|copy RUN FOLDER TIMES TRIPLES.tsv

``kill``: each child opens the run in FOLDER for adding, goes on where the log ends, and
acknowledges every addition through a pipe; every fifth is a link, every seventh is followed by
compacting, every 21st by a refresh. It is killed by SIGKILL at a random moment. ``copy``: the run
is copied while a child adds, in turn as it lies there, which may give a copy that is refused, and
under the lock of writers. The JSON on stdout has how often that was done, how many acknowledged
additions were lost, and what else was wrong.
"""

from __future__ import annotations

import json
import os
import random
import select
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from decentrl.aligner import Aligner
from decentrl.errors import BundleError, DecentRLError

LINK, COMPACT, REFRESH = 5, 7, 21
State = dict[str, torch.Tensor]


def stream(file: Path) -> list[list[tuple[str, ...]]]:
    """Additions: each of one to three triples, or a left entity that is to be linked."""
    rows = [tuple(line.split("\t")) for line in file.read_text("utf-8").splitlines()]
    chance, parts = random.Random(1), []
    while rows:
        size = chance.randint(1, 3)
        parts.append(rows[:size])
        rows = rows[size:]
        if len(parts) % LINK == LINK - 1:
            parts.append([parts[-1][0][:1]])
    return parts


def add(aligner: Aligner, part: list[tuple[str, ...]], number: int) -> None:
    source = f"part {number}"
    if len(part[0]) == 1:
        rights = aligner.task.right.entities
        right = rights[number % len(rights)]
        aligner.add(links=[(part[0][0], right)], source=source)
    else:
        aligner.add(part, side="left", source=source)


def fold(aligner: Aligner) -> None:
    """Compact or refresh if it is time; that is seen from the log, also after a kill."""
    log = aligner.log()
    if log and len(log) % COMPACT == 0 and not log[-1].folded:
        if len(log) % REFRESH == 0:
            aligner.refresh()
        else:
            aligner.compact()


def add_all(run: Path, parts: list[Any], acknowledge: Any) -> None:
    with Aligner.load(run, device="cpu", durable=True) as aligner:
        fold(aligner)
        done = len(aligner.log())
        for number, part in enumerate(parts[done:], start=done + 1):
            add(aligner, part, number)
            acknowledge(number)
            fold(aligner)


def add_one_by_one(run: Path, parts: list[Any], acknowledge: Any) -> None:
    """The same, each addition by one who opens the run, and waits while another holds the lock."""
    number = 0
    while number < len(parts):
        with suppress(BundleError), Aligner.load(run, device="cpu", durable=True) as aligner:
            add(aligner, parts[number], number + 1)
            number += 1
            acknowledge(number)
            fold(aligner)
        time.sleep(0.005)


def child(work: Any, run: Path, parts: list[Any]) -> tuple[int, int]:
    """The process id and the reading end of the pipe of one who adds."""
    read_end, write_end = os.pipe()
    process = os.fork()
    if process:
        os.close(write_end)
        return process, read_end
    os.close(read_end)
    code = 1
    try:
        work(run, parts, lambda number: os.write(write_end, bytes([number])))
        code = 0
    finally:
        os._exit(code)


def vectors(aligner: Aligner) -> State:
    side = aligner.growing.sides["left"]
    found = dict(zip(side.entities, side.vectors.clone(), strict=True))
    return found | {"known links": torch.from_numpy(aligner.task.train.copy())}


def same(found: State, expected: State) -> bool:
    return found.keys() == expected.keys() and all(
        torch.equal(found[label], row) for label, row in expected.items()
    )


def differences(whole: list[dict[bool, State]], run: Path) -> str:
    """What is wrong with a run, compared with the uninterrupted one after as many additions."""
    aligner = Aligner.load(run, device="cpu")
    log = aligner.log()
    if [addition.source for addition in log] != [f"part {i + 1}" for i in range(len(log))]:
        return "the log has gaps"
    expected = whole[len(log)][bool(log and log[-1].folded)]
    return "" if same(vectors(aligner), expected) else "other vectors"


def undisturbed(source: Path, folder: Path, parts: list[Any]) -> list[dict[bool, State]]:
    """The vectors after each addition, before and after it is in the bundle."""
    whole: list[dict[bool, State]] = []
    plain = Path(shutil.copytree(source, folder / "whole"))
    with Aligner.load(plain, device="cpu", durable=True) as aligner:
        for number in range(len(parts) + 1):
            if number:
                add(aligner, parts[number - 1], number)
            whole.append({False: vectors(aligner)})
            fold(aligner)
            whole[-1][True] = vectors(aligner)
    return whole


def kill(source: Path, folder: Path, kills: int, parts: list[Any]) -> dict[str, Any]:
    whole, chance = undisturbed(source, folder, parts), random.Random(os.environ["DECENTRL_SEED"])
    run, done, lost, wrong, rounds = folder / "run", 0, 0, [], 0
    while done < kills:
        shutil.rmtree(run, ignore_errors=True)
        shutil.copytree(source, run)
        acknowledged, before, rounds = 0, 0, rounds + 1
        while acknowledged < len(parts) and done < kills:
            process, pipe = child(add_all, run, parts)
            time.sleep(chance.uniform(0, 0.25))
            os.kill(process, signal.SIGKILL)
            _, status = os.waitpid(process, 0)
            with os.fdopen(pipe, "rb") as told:
                acknowledged = max([acknowledged, *told.read()])
            done += os.waitstatus_to_exitcode(status) == -signal.SIGKILL
            problem = differences(whole, run)
            there = len(Aligner.load(run, device="cpu").log())
            # One that was written but not acknowledged may be there, from this child.
            lost += max(0, acknowledged - there)
            if there > max(acknowledged, before) + 1:
                problem = f"{acknowledged} were acknowledged, {there} are there"
            before = there
            if problem:
                wrong.append(problem)
    add_all(run, parts, lambda _: None)
    wrong += [problem for problem in [differences(whole, run)] if problem]
    return {"trials": done, "lost": lost, "wrong": wrong, "rounds": rounds}


def copy(source: Path, folder: Path, copies: int, parts: list[Any]) -> dict[str, Any]:
    whole, chance = undisturbed(source, folder, parts), random.Random(os.environ["DECENTRL_SEED"])
    run, again, done, lost, refused, wrong = folder / "run", folder / "copy", 0, 0, 0, []
    while done < copies:
        shutil.rmtree(run, ignore_errors=True)
        shutil.copytree(source, run)
        process, pipe = child(add_one_by_one, run, parts)
        acknowledged, alive = max(os.read(pipe, 1)), True
        while done < copies and (alive := os.waitpid(process, os.WNOHANG)[0] == 0):
            time.sleep(chance.uniform(0, 0.1))
            if select.select([pipe], [], [], 0)[0]:
                acknowledged = max([acknowledged, *os.read(pipe, 65536)])
            shutil.rmtree(again, ignore_errors=True)
            locked = ["flock", run / "store" / "lock"] if done % 2 else []
            code = subprocess.run([*locked, "cp", "-a", run, again], stderr=-3).returncode
            done += 1
            try:
                problem = differences(whole, again)
                there = len(Aligner.load(again, device="cpu").log())
                if locked:
                    lost += max(0, acknowledged - there)
            except DecentRLError as error:
                refused += 1
                problem = str(error) if locked else ""
            if problem or (locked and code):
                wrong.append(f"{locked[:1]} {code}: {problem}")
        os.close(pipe)
        if alive:
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
    return {"trials": done, "lost": lost, "wrong": wrong, "refused": refused}


if __name__ == "__main__":
    torch.set_num_threads(1)
    attack, run, folder, times, file = sys.argv[1:]
    attacks = {"kill": kill, "copy": copy}
    print(json.dumps(attacks[attack](Path(run), Path(folder), int(times), stream(Path(file)))))
