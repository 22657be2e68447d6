"""What an epoch of the paper's alignment costs on a CPU: seconds, memory, and where they go.

    DECENTRL_DATA=... python benchmarks/epoch.py [--dataset dbp15k/zh-en] [--set KEY=VALUE ...]

The authors' TensorFlow code needs 25.5 CPU-seconds and 22.2 GB a step on two cores (ZH-EN, 512
dimensions, four layers).
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from decentrl import Aligner, AlignmentTask, load_dataset
from decentrl.graph.hops import two_hop_neighbours


def gigabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def timed(work: Callable[[], Any]) -> tuple[float, float, Any]:
    wall, cpu = time.perf_counter(), time.process_time()
    result = work()
    return time.perf_counter() - wall, time.process_time() - cpu, result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", default="dbp15k/zh-en")
    parser.add_argument("--preset", default="paper")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--set", action="append", default=[], dest="settings")
    options = parser.parse_args()

    wall, cpu, task = timed(lambda: load_dataset(options.dataset))
    assert isinstance(task, AlignmentTask)
    print(f"reading {options.dataset}: {wall:.2f} s ({cpu:.2f} CPU-s)")

    marks: list[tuple[float, float]] = []

    def on_epoch(row: dict[str, Any]) -> None:
        marks.append((time.perf_counter(), time.process_time()))

    settings = (*options.settings, f"training.epochs={options.epochs}")
    aligner = Aligner.from_preset(options.preset, *settings, device="cpu")
    aligner.fit(task, on_epoch=on_epoch)
    # The first epoch warms up; it is left out.
    steps = len(marks) - 1
    wall = (marks[-1][0] - marks[0][0]) / steps
    cpu = (marks[-1][1] - marks[0][1]) / steps
    model = aligner.config.model
    print(
        f"preset {options.preset}, {model.dim} dimensions, {model.layers} layers, mean of {steps} "
        f"epochs: {wall:.2f} s, {cpu:.2f} CPU-s an epoch; peak memory {gigabytes():.2f} GB"
    )
    n = len(task.left.entities)
    shift = np.array([n, 0, n])
    graphs = (task.left.triples, task.right.triples + shift)
    both = n + len(task.right.entities)
    wall, cpu, hops = timed(lambda: two_hop_neighbours(graphs, both))
    print(f"two-hop neighbours: {wall:.2f} s ({cpu:.2f} CPU-s), {hops.n_edges:,} edges")


if __name__ == "__main__":
    main()
