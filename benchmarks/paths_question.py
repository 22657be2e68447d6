"""How long a question is answered by paths, and a test set ranked, on this machine.

    DECENTRL_DATA=... python benchmarks/paths_question.py [--dataset fb15k-237] [--repeats 20]
                      [--ranked 64] [--set model.dim=32]
    python benchmarks/paths_question.py --generated 1000000 10000000 --set model.frontier=300

With --generated a random graph of so many entities and triples, of which entity i occurs in about
as many as 1 / sqrt(i) says: the first in thousands, most in a few. The weights are untrained: they cost the same. Prints wall and CPU seconds of `predictor.predict`
for one question with the process warm, and of scoring a block of test questions, each; that times
the number of test questions is what ranking the test set takes.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
import torch

from decentrl import Predictor
from decentrl.data.graph_task import GraphTask
from decentrl.data.knowledge_graph import KnowledgeGraph
from decentrl.data.registry import load_task
from decentrl.data.vocabulary import Vocabulary

RELATIONS = 200
"""Of a generated graph; the first are the most frequent."""


def taken(work: Callable[[], Any]) -> tuple[float, float]:
    """Wall and CPU seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu


def generated(entities: int, triples: int) -> GraphTask:
    """A random graph with hubs, and a few triples to ask about."""
    rng = np.random.default_rng(0)
    ends = (entities * rng.random((triples, 2)) ** 2).astype(np.int64)
    kinds = (RELATIONS * rng.random(triples) ** 2).astype(np.int64)
    names = Vocabulary(f"e{i:09}" for i in range(entities))
    empty = KnowledgeGraph(names, Vocabulary(f"r{i:03}" for i in range(RELATIONS)), ends[:0])
    graph = empty.with_triples(np.stack((ends[:, 0], kinds, ends[:, 1]), 1))
    some = graph.triples[rng.integers(len(graph.triples), size=1000)]
    return GraphTask("generated", graph, some[:0], some)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", default="fb15k-237")
    parser.add_argument("--generated", type=int, nargs=2, metavar=("ENTITIES", "TRIPLES"))
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--ranked", type=int, default=64)
    parser.add_argument("--set", action="append", default=[], dest="settings")
    options = parser.parse_args()
    if options.generated:
        task = generated(*options.generated)
    else:
        task = load_task(GraphTask, options.dataset)
    valid = task.valid[:0]  # nothing is calibrated
    graph = task.graph
    predictor = Predictor.from_preset("paths", "training.epochs=0", *options.settings)
    predictor.fit(GraphTask(task.name, graph, valid, task.test), progress=False)
    rows = task.test[:: max(1, len(task.test) // options.repeats)][: options.repeats]
    asked = [(graph.entities[h], graph.relations[r]) for h, r, _ in rows.tolist()]
    predictor.predict(*asked[0])
    times = [taken(lambda q=q: predictor.predict(*q)) for q in asked]  # type: ignore[misc]
    wall, cpu = (median(column) for column in zip(*times, strict=True))
    settings = predictor.config.model
    print(f"{task.name}: {len(graph.triples):,} triples, width {settings.dim}, "
          f"{settings.layers} layers, {torch.get_num_threads()} threads")  # fmt: skip
    print(f"one question   {wall:.3f} s, {cpu:.3f} s of CPU (median of {len(times)})")
    queries = predictor._splits.queries(task.test)
    some = [torch.from_numpy(x[: options.ranked]) for x in (queries.entities, queries.relations)]
    wall, cpu = taken(lambda: predictor._completion.scores(*some))
    every = len(queries) / options.ranked
    print(f"in a block     {wall / options.ranked:.3f} s, {cpu / options.ranked:.3f} s of CPU each")
    print(f"the test set   {len(queries):,} questions, about {wall * every / 60:.1f} minutes, "
          f"{cpu * every / 60:.1f} of CPU")  # fmt: skip
    print(f"peak memory    {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024:,} MiB")


if __name__ == "__main__":
    main()
