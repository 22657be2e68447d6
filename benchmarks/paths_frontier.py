"""What a frontier costs in accuracy, and gives in time: on validation triples.

    DECENTRL_DATA=... python benchmarks/paths_frontier.py [--dataset inductive/fb237-v1]
                      [--frontiers 0 30 100 300] [--set training.epochs=4]

Trains `paths` with each frontier (0 is exact), and prints filtered, tie-aware metrics of the
validation triples, CPU seconds of training and of a question; then how much the exact network loses
that is asked by a frontier it was not trained with. Test triples are not read.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace

from decentrl import Predictor
from decentrl.data.graph_task import GraphTask
from decentrl.data.registry import load_task

NAMES = ("mrr", "hits@1", "hits@10")


def asked(predictor: Predictor, triples: int) -> str:
    """Metrics of so many validation triples, and CPU milliseconds of a question."""
    task, started = predictor.task, time.process_time()
    found = predictor.evaluate(task.valid[:: max(1, len(task.valid) // triples)])
    taken = time.process_time() - started
    metrics = " / ".join(f"{found.rows[0][name]:.3f}" for name in NAMES)
    return f"{metrics}  {1000 * taken / len(found.ranks[0]):6.1f} ms"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", default="inductive/fb237-v1")
    parser.add_argument("--frontiers", type=int, nargs="+", default=[0, 30, 100, 300])
    parser.add_argument("--triples", type=int, default=500)
    parser.add_argument("--set", action="append", default=[], dest="settings")
    options = parser.parse_args()
    task = load_task(GraphTask, options.dataset)
    task = replace(task, test=task.test[:0], elsewhere=None)
    sizes = f"{len(task.graph.entities):,} entities, {len(task.graph.triples):,} triples"
    print(f"{task.name}: {sizes}; MRR / Hits@1 / Hits@10, and CPU time of a question", flush=True)
    exact = None
    for most in options.frontiers:
        chosen = f"model.frontier={most}"
        predictor = Predictor.from_preset("paths", *options.settings, chosen, device="cpu")
        started = time.process_time()
        predictor.fit(task, progress=False)
        seconds = time.process_time() - started
        line = f"frontier {most:5}  {asked(predictor, options.triples)}  trained in {seconds:.0f} s"
        print(line, flush=True)
        if not most:
            exact = predictor
    for most in options.frontiers if exact is not None else ():
        if most:
            assert exact is not None
            model = exact.learned.model
            model.config = exact.config.with_setting(f"model.frontier={most}")
            line = f"trained exactly, asked by {most:5}  {asked(exact, options.triples)}"
            print(line, flush=True)


if __name__ == "__main__":
    main()
