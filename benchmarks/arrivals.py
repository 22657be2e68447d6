"""The open world rehearsed before anything has arrived.

    DECENTRL_DATA=... python benchmarks/arrivals.py "quick" "quick distillation.induce=false" ...
                      [--dataset dbp15k/zh-en] [--seeds 1] [--candidates test] [--closed]

A fifth of the training links is held out; the entities of half of these are made new: their triples
are taken out of training and come back afterwards. Each argument is a preset and settings. Prints
how well the held-out links are found left to right among each other (or, with ``--candidates all``,
among all entities of the other graph), new and known entities apart. With ``--closed`` all triples
are there in training, which tells what arriving later costs. Test links are not used.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import numpy as np

from decentrl import Aligner, AlignmentTask, load_dataset
from decentrl.data.knowledge_graph import KnowledgeGraph


def rehearse(task: AlignmentTask, seed: int, closed: bool = False) -> AlignmentTask:
    """An open world made of training links alone; ``closed``: the same links, nothing new."""
    task = replace(task, test=task.test[:0]).hold_out(0.2, seed, into="test")
    unknown = np.arange(len(task.test)) < len(task.test) // 2
    unknown = np.random.default_rng(seed).permutation(unknown)
    if closed:
        return replace(task, unknown=unknown)
    graphs, auxiliary = [], []
    for side, graph in enumerate((task.left, task.right)):
        late = np.isin(graph.triples[:, [0, 2]], task.test[unknown, side]).any(axis=1)
        graphs.append(KnowledgeGraph(graph.entities, graph.relations, graph.triples[~late]))
        auxiliary.append(graph.triples[late])
    return replace(
        task,
        left=graphs[0],
        right=graphs[1],
        auxiliary=(auxiliary[0], auxiliary[1]),
        unknown=unknown,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("settings", nargs="+")
    parser.add_argument("--dataset", default="dbp15k/zh-en")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--candidates", choices=("test", "all"), default="test")
    parser.add_argument("--closed", action="store_true")
    options = parser.parse_args()
    whole = load_dataset(options.dataset)
    assert isinstance(whole, AlignmentTask)
    print("| settings | matcher | entities | Hits@1 | Hits@10 | MRR |")
    print("| --- | --- | --- | ---: | ---: | ---: |")
    for line in options.settings:
        preset, *settings = line.split()
        runs = []
        for seed in range(options.seeds):
            task = rehearse(whole, seed, options.closed)
            aligner = Aligner.from_preset(preset, *settings, "training.valid=0", seed=seed)
            runs.append(aligner.fit(task).evaluate((options.candidates,))[0])
        for same in zip(*runs, strict=True):
            first = same[0]
            if first["direction"] == "left-right" and first["subset"] != "all":
                means = (
                    f"{np.mean([row[name] for row in same]):.3f}"
                    for name in ("hits@1", "hits@10", "mrr")
                )
                place = f"`{line}` | {first['matcher']} | {first['subset']}"
                print(f"| {place} | {' | '.join(means)} |", flush=True)


if __name__ == "__main__":
    main()
