"""Compare settings on validation links, never on test links.

    DECENTRL_DATA=... python benchmarks/search.py benchmarks/search_paper.txt [--jobs 5]

Each line of the file is a preset and settings; one that begins with + adds settings to the last
line that does not. 10 % of the training links are held out (by the
seed), the rest train for the preset's number of epochs, and the held-out links are ranked left to
right among all right entities that no training link has taken. Prints a Markdown table with the
mean over the seeds; `rounds` are Hits@1 with the preset's matcher after every round of
self-training. These tables are in research/experiments.md.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import numpy as np
import torch

from decentrl import Aligner, AlignmentTask, Config, load_dataset
from decentrl.evaluation.metrics import summary
from decentrl.training.unlinked import VALIDATED, Unlinked, held_out_ranks

MATCHERS = ("csls", "sinkhorn")
NAMES = ("hits@1", "mrr")


def measure(job: tuple[str, str, int, bool]) -> tuple[str, list[float]]:
    dataset, line, seed, open_world = job
    preset, *settings = line.split()
    training = Config.from_preset(preset, settings).training
    epochs = getattr(training, "epochs", 0)
    changed = {"valid": 0.1, "patience": 0, "refit": "false", "validate_every": max(1, epochs)}
    settings += [f"training.{key}={x}" for key, x in changed.items() if hasattr(training, key)]
    task = load_dataset(dataset, open_world)
    assert isinstance(task, AlignmentTask)
    aligner = Aligner.from_preset(preset, *settings, seed=seed).fit(task)
    n_left = len(task.left.entities)
    offset = np.array([0, n_left])
    links, valid = aligner.task.train + offset, aligner.task.valid + offset
    vectors = torch.cat([aligner.vectors(side) for side in ("left", "right")])
    unlinked = Unlinked.of(n_left, len(vectors), links, valid)
    config = aligner.config.matching
    values = []
    for matcher in MATCHERS:
        matching = replace(config, matcher=matcher)
        found = summary(held_out_ranks(vectors, unlinked, valid, matching), VALIDATED)
        values += [found[name] for name in NAMES]
    return line, values + [row["hits@1"] for row in aligner.rounds]


def read(file: Path) -> dict[str, str]:
    """The settings of every line, and how the line itself writes them."""
    found, base = {}, ""
    for line in filter(None, map(str.strip, file.read_text("utf-8").splitlines())):
        if line.startswith("+"):
            found[f"{base} {line[1:].strip()}"] = line
        elif not line.startswith("#"):
            base = line
            found[base] = line
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--dataset", default="dbp15k/zh-en")
    parser.add_argument("--open-world", action="store_true")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    names = read(options.file)
    jobs = [
        (options.dataset, x, s, options.open_world) for x in names for s in range(options.seeds)
    ]
    found: dict[str, list[list[float]]] = {}
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.jobs, mp_context=context) as pool:
        for line, values in pool.map(measure, jobs):
            found.setdefault(line, []).append(values)
            print(line, values, file=sys.stderr, flush=True)
    print("| settings | CSLS Hits@1 | MRR | Sinkhorn Hits@1 | MRR | rounds |")
    print("| --- | ---: | ---: | ---: | ---: | --- |")
    for line, runs in found.items():
        means = [f"{fmean(column):.3f}" for column in zip(*runs, strict=True)]
        print(f"| `{names[line]}` | {' | '.join(means[:4])} | {' '.join(means[4:])} |")


if __name__ == "__main__":
    main()
