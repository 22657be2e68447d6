"""How drift rises as a graph grows, and what a refresh and a warm start are worth.

    python benchmarks/drift.py world --preset quick
    python benchmarks/drift.py dbp15k/zh-en --preset quick --open-world

Some entities of both graphs, chosen at random, are taken away with all their triples and links; an
aligner is trained on the rest; then they arrive. Links between entities that have arrived are not
known: all but those of the training set that the start knew are to be found. Metrics are Hits@1
left to right among the test links, with the preset's matcher. With --open-world the entities are
those of the published split, which has no training links.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from typing import Any

import numpy as np

from decentrl import Aligner, AlignmentTask, load_dataset


def without(task: AlignmentTask, share: float, seed: int) -> tuple[AlignmentTask, dict[str, Any]]:
    """A task without a share of the entities, and the triples that bring them back."""
    rng = np.random.default_rng(seed)
    graphs, later, there = {}, {}, {}
    for side, graph in (("left", task.left), ("right", task.right)):
        n = len(graph.entities)
        known = np.ones(n, bool)
        known[rng.permutation(n)[: round(share * n)]] = False
        inside = known[graph.triples[:, [0, 2]]].all(axis=1)
        graphs[side] = replace(graph, triples=graph.triples[inside])
        names = graph.entities, graph.relations, graph.entities
        later[side] = [
            tuple(v[i] for v, i in zip(names, row, strict=True))
            for row in graph.triples[~inside].tolist()
        ]
        there[side] = known
    train = task.train[there["left"][task.train[:, 0]] & there["right"][task.train[:, 1]]]
    return replace(task, left=graphs["left"], right=graphs["right"], train=train), later


def published(name: str) -> tuple[AlignmentTask, dict[str, Any]]:
    """The same of the dataset's own open world."""
    task = load_dataset(name, True)
    assert isinstance(task, AlignmentTask)
    assert task.auxiliary is not None
    later = {}
    for side, graph, rows in zip(
        ("left", "right"), (task.left, task.right), task.auxiliary, strict=True
    ):
        names = graph.entities, graph.relations, graph.entities
        later[side] = [
            tuple(v[i] for v, i in zip(names, row, strict=True)) for row in rows.tolist()
        ]
    return replace(task, auxiliary=None, unknown=None), later


def hits(aligner: Aligner) -> float:
    matcher = aligner.config.matching.matcher
    rows = aligner.evaluate(("test",)).rows
    wanted = {"direction": "left-right", "matcher": matcher, "subset": "all"}
    (row,) = [row for row in rows if wanted.items() <= row.items()]
    return float(row["hits@1"])


def epochs(aligner: Aligner) -> int:
    return len(aligner.history)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dataset", nargs="?", default="world")
    parser.add_argument("--preset", default="quick")
    parser.add_argument("--set", dest="settings", action="append", default=[])
    parser.add_argument("--shares", type=float, nargs="+", default=[0, 0.2, 0.4, 0.6, 0.8])
    parser.add_argument("--open-world", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    task = load_dataset(options.dataset)
    assert isinstance(task, AlignmentTask)

    def make() -> Aligner:
        return Aligner.from_preset(
            options.preset, *options.settings, seed=options.seed, device="cpu"
        )

    print(f"{options.dataset}, preset {options.preset} {' '.join(options.settings)}")
    print("induced  drift  expected: trained induced   kept  refreshed  refitted (epochs)  "
          "from scratch (epochs)")  # fmt: skip
    for share in [0.0] if options.open_world else options.shares:
        known, later = without(task, share, options.seed)
        if options.open_world:
            known, later = published(options.dataset)
        aligner = make().fit(known)
        for side, rows in later.items():
            aligner.add(rows, side=side)  # type: ignore[arg-type]
        drift, kept = aligner.drift(), hits(aligner)
        started = time.perf_counter()
        again = aligner.refit()
        warm = time.perf_counter() - started
        started = time.perf_counter()
        scratch = make().fit(aligner.settled_task())
        cold = time.perf_counter() - started
        aligner.refresh()
        expected = drift.expected or {}
        columns = [
            f"{drift.induced / drift.entities:7.1%}",
            f"{drift.drift:6.4f}",
            f"{expected.get('trained', np.nan):17.3f} {expected.get('induced', np.nan):7.3f}",
            f"{kept:6.4f}",
            f"{hits(aligner):10.4f}",
            f"{hits(again):8.4f} ({epochs(again)}, {warm:.0f} s)",
            f"{hits(scratch):8.4f} ({epochs(scratch)}, {cold:.0f} s)",
        ]
        print("  ".join(columns), flush=True)


if __name__ == "__main__":
    main()
