"""Which part of an alignment takes how much time and memory, as the graphs grow?

    python benchmarks/parts.py 10000 20000 40000 [--preset quick] [--steps 3]

For each number of entities of a side, in a process of its own: makes a pair (without names), reads
it into the structures of the views, trains some steps, makes the vectors of all entities and what
newcomers read of them, and finds the 64 best pairs of each unlinked entity. Prints CPU seconds of
each part (of a step, where there are several), and the resident memory at its peak, of all until
then. Labels, files, evaluation and the matchers themselves are not in it.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

import numpy as np
import torch

from decentrl.config import Config
from decentrl.data.generator import Shape, generate
from decentrl.graph.merged import MergedGraph
from decentrl.matching.clustered import nearest_pairs
from decentrl.matching.sparse import LARGE_KEEP
from decentrl.training.fitting import NO_LINKS, Pass, TrainingContext
from decentrl.training.loop import _optimizer
from decentrl.views.base import TrainingData

PAGE = 4096


@contextmanager
def part(name: str, times: int = 1) -> Iterator[Callable[[str], None]]:
    """Print what the block took."""
    peak, done, note = 0.0, Event(), ""

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.005):
            with open("/proc/self/statm") as file:
                peak = max(peak, int(file.read().split()[1]) * PAGE / 1e9)

    def say(text: str) -> None:
        nonlocal note
        note = text

    watcher = Thread(target=watch)
    watcher.start()
    started = time.process_time()
    try:
        yield say
    finally:
        seconds = (time.process_time() - started) / times
        done.set()
        watcher.join()
    print(f"  {name:<22}{seconds:>9.2f} s {peak:>7.2f} GB  {note}", flush=True)


def measure(entities: int, config: Any, steps: int) -> None:
    with part("generate"):
        world = generate(Shape(entities, batches=0))
        links = world.links[: len(world.links) // 5]
        sizes, relations = (entities, entities), (world.left.relations, world.right.relations)
        graph = MergedGraph.merge(world.left.triples, world.right.triples, links, sizes, relations)
        del world
    context = TrainingContext(graph, graph, config, torch.device("cpu"))
    torch.manual_seed(0)
    with part("structures"):
        one = Pass(context, graph.links, NO_LINKS)
        views, structures = one.views, one.structures["known"]
        assert views.encoder is not None
        structures.of(views.encoder)
    with part("relations"):
        found = views.seeds.relation_features(structures.of(views.seeds), one.all_links())
        data = TrainingData(graph, graph.links, lambda: found)
        objective = views.encoder.objective(structures.of(views.encoder), data)
        assert objective is not None
    rng = np.random.default_rng(0)
    optimizer = _optimizer(objective.model, config.training, False)
    batches = list(objective.batches(rng))
    objective.model.train()
    with part("a training step", min(steps, len(batches))) as say:
        for batch in batches[:steps]:
            objective.loss(batch, rng).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            optimizer.zero_grad()
        say(f"{len(batches)} an epoch")
    del optimizer, objective
    with part("vectors"):
        vectors = one.vectors("now")
    with part("memory for newcomers"):
        memory = one.memory("now")
    del memory
    pool = one.unlinked(context.seen)
    with part("64 best pairs") as say:
        pairs = nearest_pairs(pool.cosine(vectors), LARGE_KEEP)
        values, columns = pairs.best(1)
        say(f"{len(pairs):,} of {len(pool.left):,} x {len(pool.right):,}")
        assert len(values) == len(columns)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("entities", type=int, nargs="+", help="of each side")
    parser.add_argument("--preset", default="quick")
    parser.add_argument("--steps", type=int, default=3)
    given = parser.parse_args()
    if len(given.entities) == 1:
        measure(given.entities[0], Config.from_preset(given.preset), given.steps)
        return
    for entities in given.entities:
        print(f"2 x {entities:,} entities", flush=True)
        options = [str(entities), "--preset", given.preset, "--steps", str(given.steps)]
        subprocess.run([sys.executable, __file__, *options], check=True)


if __name__ == "__main__":
    main()
