"""The prediction tables of docs/results.md.

    DECENTRL_DATA=... python benchmarks/prediction_table.py [NAME ...] --seeds 3 --jobs 3
                      [--set model.dim=256] [-o results/prediction]

Trains every named row, closed or open world, and prints mean and standard deviation of the
filtered, tie-aware test metrics as Markdown. A run that has left its file in the output folder is
not repeated; with other settings, name another folder.
One run of it is `decentrl complete --dataset fb15k-237 --preset strong --seed 0 [--open-world]`.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from decentrl import load_dataset
from decentrl.data.graph_task import GraphTask
from decentrl.predictor import Predictor

# name: dataset, open world, preset, settings, published MRR / Hits@1 / Hits@10 of the paper
ROWS: dict[str, tuple[str, bool, str, tuple[str, ...], str]] = {
    "fb15k-237-complex": (
        "fb15k-237", False, "strong", ("decoder.dim=2048",), ".354 / .261 / .544"
    ),
    "fb15k-237-distmult": (
        "fb15k-237", False, "strong", ("decoder.name=distmult",), ".350 / – / .541"
    ),
    "fb15k-237-transe": (
        "fb15k-237", False, "paper",
        ("decoder.name=transe", "model.dropout=0.1", "training.epochs=60"), ".334 / – / .521"
    ),
    "fb15k-237-paper-complex": ("fb15k-237", False, "paper", (), ".354 / .261 / .544"),
    "fb15k-237-paper-distmult": (
        "fb15k-237", False, "paper", ("decoder.name=distmult",), ".350 / – / .541"
    ),
    "fb15k-237-open-distmult": (
        "fb15k-237", True, "paper", ("decoder.name=distmult",), ".264 / .176 / .383"
    ),
    "fb15k-237-open-transe": (
        "fb15k-237", True, "paper", ("decoder.name=transe",), ".255 / .172 / .383"
    ),
    "fb15k-237-open-complex": ("fb15k-237", True, "paper", (), "–"),
    "wn18rr-complex": (
        "wn18rr", False, "strong",
        ("loss.n3=0.1", "loss.relations=0.05", "training.epochs=25"),
        ".458 / .422 / .533"
    ),
    "fb15k-complex": (
        "fb15k", False, "strong",
        ("decoder.dim=2048", "loss.n3=0.0025", "loss.relations=0.0", "training.epochs=25"),
        ".804 / .745 / .901"
    ),
    "wn18-complex": (
        "wn18", False, "strong",
        ("loss.relations=0.0", "training.epochs=15"), ".949 / .945 / .959"
    ),
}  # fmt: skip
NAMES = ("mrr", "hits@1", "hits@10")
Job = tuple[str, int, Path, tuple[str, ...]]


def path_of(job: Job) -> Path:
    name, seed, folder, _ = job
    return folder / f"{name}-{seed}.json"


def run(job: Job) -> None:
    name, seed, _, more = job
    dataset, open_world, preset, settings, _ = ROWS[name]
    settings = (*settings, *more)
    task = load_dataset(dataset, open_world)
    assert isinstance(task, GraphTask)
    predictor = Predictor.from_preset(preset, *settings, seed=seed).fit(task)
    rows = [row for row in predictor.evaluate()[0] if row["group"] != "relation"]
    facts = {
        "dataset": dataset,
        "open_world": open_world,
        "preset": preset,
        "settings": list(settings),
        "seed": seed,
        "epochs": len(predictor.history),
        "seconds": {"train": round(predictor.seconds["train"], 2)},
        "device": predictor.device.type,
        "confidence": {k: round(v, 4) for k, v in predictor.confidence().items()},
        "valid": max((r.get("valid_mrr", 0.0) for r in predictor.history), default=0.0),
        "results": [
            {k: round(v, 6) if isinstance(v, float) else v for k, v in row.items()} for row in rows
        ],
    }
    path_of(job).write_text(json.dumps(facts) + "\n", "utf-8")


def cell(runs: list[dict[str, Any]], group: str, name: str) -> str:
    found = [
        next(row for row in run["results"] if (row["group"], row["name"]) == (group, name))
        for run in runs
    ]
    parts = []
    for metric in NAMES:
        values = [row[metric] for row in found]
        spread = f" ± {stdev(values):.3f}" if len(values) > 1 else ""
        parts.append(f"{fmean(values):.3f}{spread}")
    return f"{' / '.join(parts)} | {fmean(row['mr'] for row in found):.0f}"


def tables(names: list[str], folder: Path, seeds: int) -> None:
    print("| row | preset | seeds | MRR / Hits@1 / Hits@10 | MR | paper | training |")
    print("| --- | --- | ---: | --- | ---: | --- | ---: |")
    cells = []
    for name in names:
        *_, preset, _, published = ROWS[name]
        jobs = [(name, seed, folder, ()) for seed in range(seeds)]
        runs = [json.loads(path_of(j).read_text("utf-8")) for j in jobs if path_of(j).exists()]
        if not runs:
            continue
        seconds = fmean(run["seconds"]["train"] for run in runs)
        used = " ".join((f"`{preset}`", *runs[0]["settings"]))
        numbers = cell(runs, "all", "all")
        print(f"| {name} | {used} | {len(runs)} | {numbers} | {published} | {seconds:.0f} s |")
        if runs[0]["open_world"]:
            cells.append((name, runs))
    if cells:
        print("\n| row | cell of the open world | n | MRR / Hits@1 / Hits@10 | MR |")
        print("| --- | --- | ---: | --- | ---: |")
    for name, runs in cells:
        for row in runs[0]["results"]:
            if row["group"] == "open world":
                numbers = cell(runs, "open world", row["name"])
                print(f"| {name} | {row['name']} | {row['n']:,} | {numbers} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of: {', '.join(ROWS)}")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--set", dest="settings", action="append", default=[])
    parser.add_argument("-o", "--output", type=Path, default=Path("results/prediction"))
    options = parser.parse_args()
    names = options.names or list(ROWS)
    for name in names:
        if name not in ROWS:
            parser.error(f"no row {name!r}; there are: {', '.join(ROWS)}")
    options.output.mkdir(parents=True, exist_ok=True)
    more = tuple(options.settings)
    jobs = [(name, seed, options.output, more) for seed in range(options.seeds) for name in names]
    missing = [job for job in jobs if not path_of(job).exists()]
    with ProcessPoolExecutor(options.jobs, multiprocessing.get_context("spawn")) as pool:
        for job, _ in zip(missing, pool.map(run, missing), strict=True):
            print(*job[:2], file=sys.stderr, flush=True)
    tables(names, options.output, options.seeds)


if __name__ == "__main__":
    main()
