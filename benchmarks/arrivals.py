"""An open world made of training links alone, to choose settings by.

    DECENTRL_DATA=... python benchmarks/arrivals.py "quick" "quick distillation.induce=false" ...
                      [--dataset dbp15k/zh-en] [--seeds 1] [--jobs 1] [--new both left]
                      [--candidates test]

A fifth of the training links is held out; the entities of half of these are made new: their triples
are taken out of training and come back afterwards. Each argument is a preset and settings. Prints
how well the held-out links are found left to right, new and known entities apart; test links are
not used.

``--new left`` (``right``) makes only the left (right) end of a link new: its counterpart was in
training. With ``--new neither`` all triples are there in training, for comparison. Candidates are
the other ends of the held-out links (``test``), all entities of the other graph (``all``), or those
that no training link has taken (``unlinked``), matched with all of the left graph that none has
taken.
"""

from __future__ import annotations

import argparse
import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from decentrl import Aligner, AlignmentTask, load_dataset
from decentrl.data.knowledge_graph import KnowledgeGraph
from decentrl.evaluation.metrics import summary
from decentrl.matching.matchers import MATCHERS
from decentrl.training.unlinked import Unlinked, held_out_ranks

SIDES = {"both": (0, 1), "left": (0,), "right": (1,), "neither": ()}
NAMES = ("hits@1", "hits@10", "mrr")
Job = tuple[str, str, int, argparse.Namespace]
Readings = dict[tuple[str, str, str, str], list[float]]


def rehearse(task: AlignmentTask, seed: int, new: str = "both") -> AlignmentTask:
    """An open world made of training links alone."""
    task = replace(task, test=task.test[:0]).hold_out(0.2, seed, into="test")
    unknown = np.arange(len(task.test)) < len(task.test) // 2
    unknown = np.random.default_rng(seed).permutation(unknown)
    if new == "neither":
        return replace(task, unknown=unknown)
    graphs, auxiliary = [], []
    for side, graph in enumerate((task.left, task.right)):
        ends = task.test[unknown, side] if side in SIDES[new] else task.test[:0, side]
        late = np.isin(graph.triples[:, [0, 2]], ends).any(axis=1)
        graphs.append(KnowledgeGraph(graph.entities, graph.relations, graph.triples[~late]))
        auxiliary.append(graph.triples[late])
    return replace(
        task,
        left=graphs[0],
        right=graphs[1],
        auxiliary=(auxiliary[0], auxiliary[1]),
        unknown=unknown,
    )


def readings(aligner: Aligner, candidates: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Matcher, entities and metrics, left to right."""
    if candidates != "unlinked":
        for row in aligner.evaluate((candidates,)).rows:
            if row["direction"] == "left-right" and row["subset"] != "all":
                yield row["matcher"], row["subset"], row
        return
    task, vectors = aligner.task, [aligner.vectors(side) for side in ("left", "right")]
    assert task.unknown is not None
    assert all(v[e].any(1).all() for v, e in zip(vectors, task.test.T, strict=True))
    n_left = len(vectors[0])
    both = torch.cat(vectors)
    offset = np.array([0, n_left])
    there = both.any(1).nonzero()[:, 0].cpu().numpy()
    pool = Unlinked.of(n_left, task.train + offset, task.test[:0], np.arange(len(both)))
    pool = Unlinked(np.intersect1d(pool.left, there), np.intersect1d(pool.right, there))
    unknown = torch.from_numpy(task.unknown)
    for matcher in MATCHERS:
        config: Any = replace(aligner.config.matching, matcher=matcher)
        ranks = held_out_ranks(both, pool, task.test + offset, config)
        for name, subset in (("known", ~unknown), ("unknown", unknown)):
            yield matcher, name, summary(ranks[subset])


def played(job: Job) -> Readings:
    """Train once with one seed; metrics by settings, new ends, matcher and entities."""
    line, new, seed, options = job
    whole = load_dataset(options.dataset)
    assert isinstance(whole, AlignmentTask)
    preset, *settings = line.split()
    aligner = Aligner.from_preset(preset, *settings, "training.valid=0", seed=seed)
    aligner.fit(rehearse(whole, seed, new))
    found: Readings = {}
    for matcher, subset, row in readings(aligner, options.candidates):
        found[line, new, matcher, subset] = [row[metric] for metric in NAMES]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("settings", nargs="+")
    parser.add_argument("--dataset", default="dbp15k/zh-en")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--new", choices=SIDES, nargs="+", default=["both"])
    parser.add_argument("--candidates", choices=("test", "all", "unlinked"), default="test")
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    jobs = [
        (line, new, seed, options)
        for line in options.settings for new in options.new for seed in range(options.seeds)
    ]  # fmt: skip
    print("| settings | new | matcher | entities | Hits@1 | Hits@10 | MRR |")
    print("| --- | --- | --- | --- | ---: | ---: | ---: |")
    with ProcessPoolExecutor(options.jobs, multiprocessing.get_context("spawn")) as pool:
        seeds: list[Readings] = []
        for found in pool.map(played, jobs) if options.jobs > 1 else map(played, jobs):
            seeds.append(found)
            if len(seeds) == options.seeds:
                for place in found:
                    means = np.mean([one[place] for one in seeds], axis=0)
                    cells = (f"`{place[0]}`", *place[1:], *(f"{mean:.3f}" for mean in means))
                    print(f"| {' | '.join(cells)} |", flush=True)
                seeds = []


if __name__ == "__main__":
    main()
