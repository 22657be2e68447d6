"""How time and memory of a whole alignment grow with the graphs.

    python benchmarks/size.py 10000 50000 100000 [--preset quick] [--set key=value] [-o FOLDER]

For each number of entities of a side: generates a pair (``decentrl data make``, six triples an
entity, no batches), aligns it without names by ``decentrl align --dataset``, which reads, trains,
ranks the test links and writes matches, report and bundle, and prints seconds, CPU seconds and peak
memory of that command, what it says of its parts, and Hits@1 among all candidates. The exponent is
that of the growth since the size before: 1 is linear, 2 is quadratic.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

COLUMNS = ("entities", "seconds", "cpu", "GB", "read", "train", "match", "hits@1")


def measure(command: list[str]) -> tuple[str, dict[str, float]]:
    """What a command printed, and its seconds, CPU seconds and gigabytes at its peak."""
    started = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    found = {
        "seconds": time.perf_counter() - started,
        "cpu": used.ru_utime + used.ru_stime,
        "GB": used.ru_maxrss * 1024 / 1e9,
    }
    return said, found


def align(entities: int, folder: Path, options: list[str]) -> dict[str, float]:
    """Make a pair of this size if it is not there, align it, and return what it took."""
    data = folder / f"pair-{entities}"
    decentrl = [sys.executable, "-m", "decentrl"]
    if not data.exists():
        make = ["data", "make", "--entities", str(entities), "--batches", "0", "-o", str(data)]
        subprocess.run([*decentrl, *make], check=True, stdout=subprocess.DEVNULL)
    run = folder / f"run-{entities}"
    command = ["align", "--dataset", str(data), "--names", "none", "--json", "--overwrite"]
    said, found = measure([*decentrl, *command, *options, "-o", str(run)])
    results = json.loads(said)
    best = [
        row["hits@1"]
        for row in results["results"]
        if (row["direction"], row["matcher"], row["candidates"], row["subset"])
        == ("left-right", "sinkhorn", "all", "all")
    ]
    return {"entities": entities, **found, **results["seconds"], "hits@1": best[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("entities", type=int, nargs="+", help="of each side")
    parser.add_argument("--preset", default="quick")
    parser.add_argument("--set", dest="settings", action="append", default=[])
    parser.add_argument("--memory", help="the budget, like 8GB")
    parser.add_argument("-o", "--output", type=Path, help="keep data and runs there")
    given = parser.parse_args()
    options = ["--preset", given.preset, *(x for y in given.settings for x in ("--set", y))]
    options += ["--memory", given.memory] if given.memory else []
    print(*(f"{x:>9}" for x in COLUMNS), "  exponents: cpu, GB")
    before: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as temporary:
        for entities in given.entities:
            row = align(entities, given.output or Path(temporary), options)
            cells = [f"{row.get(x, math.nan):>9,.{3 if x == 'hits@1' else 1}f}" for x in COLUMNS]
            if before:
                ratio = math.log(entities / before["entities"])
                grown = [math.log(row[x] / before[x]) / ratio for x in ("cpu", "GB")]
                cells += [f"{x:8.2f}" for x in grown]
            print(*cells, flush=True)
            before = row


if __name__ == "__main__":
    main()
