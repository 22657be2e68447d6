"""Two graphs that grow in five steps (ContEA, ZH-EN): how good matches are after each of them.

    DECENTRL_DATA=... python benchmarks/contea.py [--preset quick] [--batches 5]
                      [--refit] [--scratch]

Trains on the base, adds each batch to both graphs without training, and matches all entities that
no known link names. Precision, recall and F1 of what is claimed, in all and for links with an end
that came after the base; every claim counts, also of entities that have no counterpart. "fitted" is
the threshold fitted for F1, "abstain" the one of `match --abstain`. The validation links serve to
fit confidence; test links choose nothing. `--refit` trains again after each batch instead of adding
to the first training, `--scratch` trains anew on all that is there.
"""

from __future__ import annotations

import argparse
import resource
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from decentrl import Aligner, AlignmentTask, KnowledgeGraph, load_dataset
from decentrl.data.layouts import read_batches
from decentrl.data.registry import find_dataset
from decentrl.matching.confidence import expected_calibration_error

SIDES = ("left", "right")
NAMES = ("precision", "recall", "f1")


def cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


class Clock:
    """Wall and processor seconds since it was made."""

    def __init__(self) -> None:
        self.wall, self.cpu = time.perf_counter(), cpu()

    def __str__(self) -> str:
        return f"{time.perf_counter() - self.wall:.0f} s ({cpu() - self.cpu:.0f} s of processor)"


def show(name: str, aligner: Aligner, links: Path | None) -> None:
    """Print what is claimed, and how well confidence is calibrated for newcomers."""
    clock = Clock()
    for threshold, abstain in (("fitted", False), ("abstain", True)):
        for row in aligner.evaluate_matches(links, abstain=abstain):
            cells = " / ".join(f"{row[metric]:.3f}" for metric in NAMES)
            counts = f"{row['claimed']:,} claimed, {row['n']:,} links"
            print(f"| {name} | {threshold} | {row['subset']} | {cells} | {counts} |", flush=True)
    claims = aligner._claims(links)
    if claims is not None and not claims.confidence.isnan().all():
        new = torch.from_numpy(claims.ends_new(aligner.growing))
        for subset, chosen in (("known", ~new), ("unknown", new)):
            if chosen.any():
                right = torch.from_numpy(claims.right)
                error = expected_calibration_error(claims.confidence[chosen], right[chosen])
                print(f"  calibration error of all matches, {subset}: {error:.3f}")
    print(f"  matched in {clock}", flush=True)


def grown(task: AlignmentTask, batches: list[Any]) -> AlignmentTask:
    """The task with the triples of some batches from the beginning."""
    tables: list[Any] = []
    for i, graph in enumerate((task.left, task.right)):
        rows = graph.to_arrow().to_pylist()
        every = [tuple(row.values()) for row in rows]
        for new, _ in batches:
            found = KnowledgeGraph.read(new[i]).to_arrow().to_pylist()
            every += [tuple(row.values()) for row in found]
        tables.append(every)

    def labels(links: Any) -> list[tuple[str, str]] | None:
        ends = task.left.entities.take(links[:, 0]), task.right.entities.take(links[:, 1])
        return list(zip(*ends, strict=True)) or None

    left, right = tables
    train, test, valid = (labels(x) for x in (task.train, task.test, task.valid))
    return replace(AlignmentTask.read(left, right, train, test, valid), name=task.name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", default="contea/zh-en")
    parser.add_argument("--preset", default="quick")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--batches", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--refit", action="store_true")
    parser.add_argument("--scratch", action="store_true")
    options = parser.parse_args()
    task = load_dataset(options.dataset)
    assert isinstance(task, AlignmentTask)
    batches = read_batches(find_dataset(options.dataset).path())[: options.batches]

    def fit(task: AlignmentTask) -> Aligner:
        clock = Clock()
        made = Aligner.from_preset(options.preset, *options.set, seed=options.seed).fit(task)
        print(f"  trained in {clock}", flush=True)
        return made

    print("| | threshold | entities | P / R / F1 | |\n| --- | --- | --- | --- | --- |")
    aligner = fit(task)
    show("base", aligner, None)
    for number, (new, links) in enumerate(batches, 1):
        if options.scratch:
            show(f"batch {number}", fit(grown(task, batches[:number])), links)
            continue
        clock = Clock()
        for side, file in zip(SIDES, new, strict=True):
            aligner.add(file, side=side)
        print(f"  added in {clock}", flush=True)
        if options.refit:
            clock = Clock()
            aligner = aligner.refit()
            print(f"  trained again in {clock}", flush=True)
        show(f"batch {number}", aligner, links)


if __name__ == "__main__":
    main()
