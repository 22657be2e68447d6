"""Compare prediction settings on validation triples, never on test triples.

    DECENTRL_DATA=... python benchmarks/prediction_search.py benchmarks/search_prediction.txt \
                      [--dataset fb15k-237] [--arrivals] [--seeds 1] [--jobs 4]

Each line of the file is a preset and settings, as for benchmarks/search.py. Prints a Markdown table
of filtered validation metrics, mean over the seeds. With --arrivals the open world is played with
what is known before anything arrives: of the open training graph a fifth of the entities comes
later, half of the validation triples choose the epoch and the other half is asked; then the four
cells are printed too.
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
from search import read

from decentrl import GraphTask, Predictor, load_dataset
from decentrl.data.open_world import split_graph
from decentrl.graph.view import entities_of

NAMES = ("mrr", "hits@1", "hits@10")


def measure(job: tuple[str, str, int, bool]) -> tuple[str, list[float]]:
    dataset, line, seed, arrivals = job
    preset, *settings = line.split()
    task = load_dataset(dataset, arrivals)
    assert isinstance(task, GraphTask)
    if arrivals:
        seen = entities_of(task.graph.triples, len(task.graph.entities))
        valid = task.valid[seen[task.valid[:, [0, 2]]].all(axis=1)]
        known = replace(task, auxiliary=None, new_entities=None, valid=valid[::2], test=valid[1::2])
        task = split_graph(known, 0.2, seed=1)
    else:
        task = replace(task, test=np.empty((0, 3), np.int64))
    predictor = Predictor.from_preset(preset, *settings, seed=seed).fit(task)
    rows = predictor.evaluate(None if arrivals else task.valid).rows
    cells = [row["mrr"] for row in rows if row["group"] == "open world"]
    return line, [rows[0][name] for name in NAMES] + cells


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--dataset", default="fb15k-237")
    parser.add_argument("--arrivals", action="store_true")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    names = read(options.file)
    jobs = [(options.dataset, x, s, options.arrivals) for x in names for s in range(options.seeds)]
    found: dict[str, list[list[float]]] = {}
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.jobs, mp_context=context) as pool:
        for line, values in pool.map(measure, jobs):
            found.setdefault(line, []).append(values)
            print(line, values, file=sys.stderr, flush=True)
    cells = " known-known | new query | new answer | both new |" if options.arrivals else ""
    print(f"| settings | MRR | Hits@1 | Hits@10 |{cells}")
    print(f"| --- | ---: | ---: | ---: |{' ---: |' * 4 * options.arrivals}")
    for line, runs in found.items():
        means = " | ".join(f"{fmean(column):.3f}" for column in zip(*runs, strict=True))
        print(f"| `{names[line]}` | {means} |")


if __name__ == "__main__":
    main()
