"""Interrupts ``decentrl ARGUMENT...`` at one line of its shell after the other.

A script of its own, because it forks. Usage:

    python interrupt_sweep.py HOW_MANY ARGUMENT...

Each child gets SIGINT in front of another line of ``decentrl/cli``: from the first that ``entry``,
the function that the installed command calls, can guard (the second) to the last. The JSON on
stdout has the number of lines, and the exit code and standard error of each child that did not end
as it should: with 130 or, if all was done, 0, and with one line of text at most.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import tempfile
from pathlib import Path
from types import FrameType
from typing import Any

import decentrl.cli
import decentrl.cli.course
import decentrl.runs.run

SHELL = str(Path(decentrl.cli.__file__).parent)


def command(arguments: list[str], interrupt_at: int) -> tuple[int, str, int]:
    """Exit status and standard error of a child, and how many lines it came to."""
    with tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as counted:
        child = os.fork()
        if child == 0:
            count, os_exit = 0, os._exit

            def ended(code: int) -> None:
                os.write(counted.fileno(), str(count).encode())
                os_exit(code)

            def line(frame: FrameType, event: str, _: Any) -> Any:
                nonlocal count
                if not frame.f_code.co_filename.startswith(SHELL):
                    return None
                if event == "line":
                    count += 1
                    if count == interrupt_at:
                        os.kill(os.getpid(), signal.SIGINT)
                return line

            try:
                os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
                os.dup2(said.fileno(), 2)
                signal.signal(signal.SIGINT, signal.default_int_handler)
                sys.argv = ["decentrl", *arguments]
                decentrl.cli.os._exit = ended
                sys.settrace(line)
                decentrl.cli.entry()
            except BaseException:
                import traceback

                traceback.print_exc()
            finally:
                os_exit(1)
        _, status = os.waitpid(child, 0)
        said.seek(0)
        counted.seek(0)
        text = said.read().decode("utf-8", "replace")
        return os.waitstatus_to_exitcode(status), text, int(counted.read() or 0)


def sweep(how_many: int, arguments: list[str]) -> dict[str, Any]:
    code, said, lines = command(arguments, 0)
    assert code == 0, said
    chance, wrong = random.Random(os.environ["DECENTRL_SEED"]), []
    # Few lines stand before and after the work of the command; all of them have their turn first.
    ends = [*range(2, 41), *range(lines - 39, lines + 1)]
    inner = chance.sample(range(41, lines - 39), lines - 80)
    moments = [*ends[:: max(1, len(ends) // how_many)], *inner][:how_many]
    for moment in moments:
        code, said, _ = command(arguments, moment)
        if code not in (0, 130) or said.count("\n") > 1 or "Traceback" in said:
            wrong.append(f"line {moment} of {lines}: {code} {said}")
    tracebacks = sum("Traceback" in one for one in wrong)
    return {"trials": len(moments), "lines": lines, "tracebacks": tracebacks, "wrong": wrong}


if __name__ == "__main__":
    print(json.dumps(sweep(int(sys.argv[1]), sys.argv[2:])))
