"""What adding entities to a run costs, and how that grows.

    python benchmarks/add.py RUN [--side left]

Entities with ten triples each, to entities of the run at random. The run is copied, so that it
stays as it is; additions are durable, as those of `decentrl add` are.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from decentrl import Aligner, Predictor
from decentrl.storage.bundle import open_bundle

COUNTS = (1, 10, 100, 1000, 10_000)
TRIPLES = 10


def new_entities(
    graph: Any, count: int, first: int, rng: np.random.Generator
) -> list[tuple[str, str, str]]:
    known, relations = graph.trained.entities, graph.trained.relations
    rows = []
    for i in range(first, first + count):
        ends = rng.integers(len(known), size=TRIPLES).tolist()
        kinds = rng.integers(len(relations), size=TRIPLES).tolist()
        for end, kind, head in zip(ends, kinds, rng.random(TRIPLES) < 0.5, strict=True):
            pair = (f"new {i}", known[end]) if head else (known[end], f"new {i}")
            rows.append((pair[0], relations[kind], pair[1]))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--side", choices=("left", "right"), default="left")
    parser.add_argument("--repeats", type=int, default=100, help="of adding one entity")
    options = parser.parse_args()
    aligner = open_bundle(options.run).kind.name == "aligner"
    with tempfile.TemporaryDirectory() as temporary:
        run = Path(temporary) / "run"
        shutil.copytree(options.run / "bundle", run / "bundle")
        started = time.perf_counter()
        model: Any = (Aligner if aligner else Predictor).load(run, device="cpu", durable=True)
        print(f"opened for adding for the first time in {time.perf_counter() - started:.1f} s")
        model.close()
        started = time.perf_counter()
        model = (Aligner if aligner else Predictor).load(run, device="cpu", durable=True)
        print(f"opened for adding again in {time.perf_counter() - started:.2f} s")
        side = options.side if aligner else ""
        graph, rng, first = model.growing.sides[side], np.random.default_rng(0), 0
        width = model.growing.model.width
        print(f"{len(graph.entities):,} entities on this side, rows of {width:,} "
              f"floats; {TRIPLES} triples an entity")  # fmt: skip
        where = {"side": side} if aligner else {}
        for count in COUNTS:
            seconds = []
            for _ in range(options.repeats if count == 1 else 3):
                rows = new_entities(model.growing.sides[side], count, first, rng)
                first += count
                started = time.perf_counter()
                model.add(rows, **where)
                seconds.append(time.perf_counter() - started)
                if count == COUNTS[-1]:
                    break
            middle = statistics.median(seconds)
            worst = sorted(seconds)[int(0.95 * len(seconds))] if count == 1 else max(seconds)
            print(f"{count:>6,} entities: median {1000 * middle:9.1f} ms, "
                  f"{'p95' if count == 1 else 'worst'} {1000 * worst:9.1f} ms, "
                  f"{1000 * middle / count:7.2f} ms an entity")  # fmt: skip
        model.close()


if __name__ == "__main__":
    main()
