"""The alignment tables of docs/results.md.

    DECENTRL_DATA=... python benchmarks/alignment_table.py --seeds 5 --jobs 5 [-o results/alignment]

Trains every preset on every pair, closed and open world, and prints mean and standard deviation
of the test metrics as Markdown. A run that has left its file in the output folder is not repeated.
One run of it is `decentrl align --dataset dbp15k/zh-en --preset paper --seed 0 [--open-world]`.
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

from decentrl import Aligner, AlignmentTask, load_dataset
from decentrl.runs import device_name

PAIRS = ("zh-en", "ja-en", "fr-en")
# Hits@1, Hits@10 and MRR of the paper's tables (CSLS, left to right, test targets).
PAPER = {
    ("zh-en", False): (0.589, 0.819, 0.672),
    ("ja-en", False): (0.596, 0.819, 0.678),
    ("fr-en", False): (0.602, 0.842, 0.689),
    ("zh-en", True): (0.565, 0.775, 0.643),
    ("ja-en", True): (0.583, 0.786, 0.659),
    ("fr-en", True): (0.590, 0.814, 0.673),
}
NAMES = ("hits@1", "hits@10", "mrr")
Job = tuple[str, str, bool, int, Path]


def path_of(job: Job) -> Path:
    preset, pair, open_world, seed, folder = job
    return folder / f"{pair}-{'open' if open_world else 'closed'}-{preset}-{seed}.json"


def run(job: Job) -> None:
    preset, pair, open_world, seed, _ = job
    task = load_dataset(f"dbp15k/{pair}", open_world)
    assert isinstance(task, AlignmentTask)
    aligner = Aligner.from_preset(preset, seed=seed).fit(task)
    rows = [
        {k: round(v, 6) if isinstance(v, float) else v for k, v in row.items()}
        for row in aligner.evaluate()[0]
    ]
    facts = {
        "dataset": task.name,
        "open_world": open_world,
        "preset": preset,
        "seed": seed,
        "device": device_name(aligner),
        "seconds": {"train": round(aligner.seconds["train"], 2)},
        "results": rows,
    }
    path_of(job).write_text(json.dumps(facts) + "\n", "utf-8")


def cell(runs: list[dict[str, Any]], name: str, **where: str) -> tuple[float, float]:
    values = [
        row[name] for run in runs for row in run["results"]
        if all(row[key] == value for key, value in where.items())
    ]  # fmt: skip
    return fmean(values), stdev(values) if len(values) > 1 else 0.0


def triple(runs: list[dict[str, Any]], **where: str) -> str:
    return " / ".join("{:.3f} ± {:.3f}".format(*cell(runs, name, **where)) for name in NAMES)


def tables(presets: list[str], folder: Path, seeds: int) -> None:
    def load(preset: str, pair: str, world: bool) -> list[dict[str, Any]]:
        jobs = [(preset, pair, world, seed, folder) for seed in range(seeds)]
        return [json.loads(path_of(job).read_text("utf-8")) for job in jobs]

    at = {"direction": "left-right", "candidates": "test", "matcher": "csls"}
    for world in (False, True):
        print(f"\n**{'Open' if world else 'Closed'} world**, Hits@1 / Hits@10 / MRR, CSLS\n")
        print(f"| | {' | '.join(pair.upper() for pair in PAIRS)} |\n| --- | --- | --- | --- |")
        paper = [" / ".join(f"{x:.3f}" for x in PAPER[pair, world]) for pair in PAIRS]
        print(f"| published | {' | '.join(paper)} |")
        for preset in presets:
            cells = [triple(load(preset, pair, world), subset="all", **at) for pair in PAIRS]
            print(f"| `{preset}` | {' | '.join(cells)} |")
            for subset in ("known", "unknown") if world else ():
                cells = [triple(load(preset, pair, world), subset=subset, **at) for pair in PAIRS]
                print(f"| `{preset}`, {subset} entities | {' | '.join(cells)} |")
    for world in (False, True):
        print(
            f"\n**{'Open' if world else 'Closed'} world, other readings**, Hits@1 / Hits@10 / MRR\n"
        )
        print(f"| preset | direction | among | matcher | {' | '.join(p.upper() for p in PAIRS)} |")
        print("| --- | --- | --- | --- | --- | --- | --- |")
        for preset in presets:
            for among in ("test", "all"):
                for direction in ("left-right", "right-left"):
                    for matcher in ("cosine", "csls", "sinkhorn"):
                        where = {"direction": direction, "candidates": among, "matcher": matcher}
                        cells = [triple(load(preset, pair, world), subset="all", **where)
                                 for pair in PAIRS]  # fmt: skip
                        place = f"{direction.replace('-', ' → ')} | {among} | {matcher}"
                        print(f"| `{preset}` | {place} | {' | '.join(cells)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--presets", nargs="+", default=["paper", "paper-code"])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("-o", "--output", type=Path, default=Path("results/alignment"))
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    jobs = [
        (preset, pair, world, seed, options.output)
        for preset in options.presets for world in (False, True) for pair in PAIRS
        for seed in range(options.seeds)
    ]  # fmt: skip
    missing = [job for job in jobs if not path_of(job).exists()]
    with ProcessPoolExecutor(options.jobs, multiprocessing.get_context("spawn")) as pool:
        for job, _ in zip(missing, pool.map(run, missing), strict=True):
            print(*job[:4], file=sys.stderr, flush=True)
    tables(options.presets, options.output, options.seeds)


if __name__ == "__main__":
    main()
