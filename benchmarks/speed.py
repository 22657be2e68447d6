"""How long a good alignment takes, and where the time goes.

    DECENTRL_DATA=... python benchmarks/speed.py [--device cpu] [--seeds 3] [--set KEY=VALUE ...]

Reading, training, and matching the test links with Sinkhorn, measured after imports and, on a CUDA
device, after an alignment of two toy graphs that starts the device and loads its kernels. What
comes before is printed beside it. Peak memory is the process's.
"""

# ruff: noqa: E402 (the clock starts before the imports)

from __future__ import annotations

import time

BEGUN = time.perf_counter()

import argparse
import resource
from collections.abc import Callable
from statistics import fmean
from typing import Any

import numpy as np
import torch

import decentrl.training.fitting as fitting
from decentrl import Aligner, AlignmentTask, KnowledgeGraph, load_dataset
from decentrl.evaluation.metrics import summary
from decentrl.evaluation.ranks import rank
from decentrl.matching.matchers import apply_matcher
from decentrl.matching.similarity import Scores
from decentrl.nn.propagation import SeedPropagation


class Clock:
    """Adds up the seconds spent in functions."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def __call__(self, name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any, **more: Any) -> Any:
            started = time.perf_counter()
            result = work(*arguments, **more)
            if torch.cuda.is_initialized():
                torch.cuda.synchronize()
            spent = time.perf_counter() - started
            self.seconds[name] = self.seconds.get(name, 0.0) + spent
            return result

        return timed


def toy() -> AlignmentTask:
    """Two copies of a random graph, so small that aligning them is no work."""
    rng = np.random.default_rng(0)
    labels = [[f"{x}" for x in rng.integers(limit, size=900)] for limit in (300, 9, 300)]
    graphs = [KnowledgeGraph.from_labels(*labels) for _ in range(2)]
    pairs = np.stack([np.arange(len(graphs[0].entities))] * 2, axis=1)
    return AlignmentTask("toy", *graphs, pairs[:100], pairs[:0], pairs[100:])


def match(aligner: Aligner) -> float:
    """Hits@1 of the test links, left to right among the test targets, by Sinkhorn."""
    left, right = aligner.learned.vectors["left"], aligner.learned.vectors["right"]
    links = torch.from_numpy(aligner.task.test).to(left.device)
    cosine = Scores.cosine(left[links[:, 0]], right[links[:, 1]])
    scores = apply_matcher(cosine, "sinkhorn", aligner.config.matching)
    return summary(rank(scores, torch.arange(len(links), device=left.device)))["hits@1"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", default="dbp15k/zh-en")
    parser.add_argument("--preset", default="quick")
    parser.add_argument("--set", action="append", default=[], dest="settings")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()

    def make(seed: int) -> Aligner:
        return Aligner.from_preset(
            options.preset, *options.settings, seed=seed, device=options.device
        )

    name = "cpu"
    if make(0).device.type == "cuda":
        name = torch.cuda.get_device_name()
        match(make(0).fit(toy()))
    print(f"imports and device start: {time.perf_counter() - BEGUN:.1f} s")

    clock = Clock()
    fitting.train = clock("encoder steps", fitting.train)
    SeedPropagation.__init__ = clock("propagation", SeedPropagation.__init__)  # type: ignore[method-assign]
    SeedPropagation.features = clock("propagation", SeedPropagation.features)  # type: ignore[method-assign]
    hits, walls = [], []
    for seed in range(options.seeds):
        started, aligner = time.perf_counter(), make(seed)
        task = clock("reading", load_dataset)(options.dataset)
        clock("fit", aligner.fit)(task)
        hits.append(clock("matching", match)(aligner))
        walls.append(time.perf_counter() - started)
        print(f"seed {seed}: Hits@1 {hits[-1]:.4f} in {walls[-1]:.2f} s", flush=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(
        f"{options.dataset}, preset {options.preset} {' '.join(options.settings)}, {name}: Hits@1 "
        f"{fmean(hits):.4f} (Sinkhorn, test targets), {fmean(walls):.2f} s (slowest "
        f"{max(walls):.2f} s), peak memory of the process {peak:.2f} GB"
    )
    parts = {part: total / len(walls) for part, total in clock.seconds.items()}
    parts["graphs and the rest"] = parts.pop("fit") - parts["encoder steps"] - parts["propagation"]
    for part, seconds in parts.items():
        print(f"  {part:20} {seconds:6.2f} s  {seconds / fmean(walls):4.0%}")


if __name__ == "__main__":
    main()
