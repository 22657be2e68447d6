"""Try settings on validation links, never on test links.

    DECENTRL_DATA=... python benchmarks/search.py benchmarks/search_paper.txt [--jobs 5]

Each line of the file is a preset and settings. 10 % of the training links are held out (by the
seed), the rest train for the preset's number of epochs, and the held-out links are ranked (CSLS,
left to right, among all right entities that no training link has taken). Prints a Markdown table
with the mean over the seeds. These tables are in docs/experiments.md.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from statistics import fmean

from decentrl import Aligner, AlignmentTask, Config, load_dataset

NAMES = ("hits@1", "hits@10", "mrr")


def validate(job: tuple[str, str, int, bool]) -> tuple[str, list[float]]:
    dataset, line, seed, open_world = job
    preset, *settings = line.split()
    epochs = Config.from_preset(preset, settings).training.epochs
    settings += ["training.valid=0.1", "training.patience=0", f"training.validate_every={epochs}"]
    task = load_dataset(dataset, open_world)
    assert isinstance(task, AlignmentTask)
    last = Aligner.from_preset(preset, *settings, seed=seed).fit(task).history[-1]
    return line, [last[f"valid_{name}"] for name in NAMES]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--dataset", default="dbp15k/zh-en")
    parser.add_argument("--open-world", action="store_true")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    text = options.file.read_text("utf-8").splitlines()
    lines = [line.strip() for line in text if line.strip() and not line.startswith("#")]
    jobs = [
        (options.dataset, x, s, options.open_world) for x in lines for s in range(options.seeds)
    ]
    found: dict[str, list[list[float]]] = {}
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.jobs, mp_context=context) as pool:
        for line, values in pool.map(validate, jobs):
            found.setdefault(line, []).append(values)
            print(line, values, file=sys.stderr, flush=True)
    print("| settings | Hits@1 | Hits@10 | MRR |\n| --- | ---: | ---: | ---: |")
    for line, runs in found.items():
        means = " | ".join(f"{fmean(column):.3f}" for column in zip(*runs, strict=True))
        print(f"| `{line}` | {means} |")


if __name__ == "__main__":
    main()
