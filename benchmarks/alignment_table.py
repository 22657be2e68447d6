"""The alignment tables of docs/results.md.

    DECENTRL_DATA=... python benchmarks/alignment_table.py --seeds 5 --jobs 5 [-o results/alignment]
                      [--variants strong strong-self] [--pairs ja-en] [--first 5]

Trains every variant on every pair, closed and open world, and prints mean and standard deviation
of the test metrics as Markdown. A run that has left its file in the output folder is not repeated.
One run of it is `decentrl align --dataset dbp15k/zh-en --preset paper --seed 0 [--open-world]`;
`strong-self` is `--preset strong --self-train`.
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
from decentrl.training.fitting import Pass

PAIRS = ("zh-en", "ja-en", "fr-en")
# Hits@1, Hits@10 and MRR on ZH-EN, JA-EN and FR-EN as published by others: structure only, left to
# right, test targets. decentRL: the paper; Dual-AMN (Mao et al., WWW 2021); LightEA (Mao et al.,
# EMNLP 2022). "self-trained" is with links found on the way.
PUBLISHED = {
    ("csls", False): {
        "decentRL": ".589/.819/.672 .596/.819/.678 .602/.842/.689",
        "Dual-AMN": ".731/.923/.799 .728/.928/.801 .756/.948/.827",
        "Dual-AMN, self-trained": ".808/.940/.857 .806/.944/.857 .840/.965/.888",
    },
    ("csls", True): {"decentRL": ".565/.775/.643 .583/.786/.659 .590/.814/.673"},
    ("sinkhorn", False): {
        "LightEA": ".756/.905/.811 .762/.919/.821 .807/.943/.857",
        "LightEA, self-trained": ".812/.915/.849 .821/.933/.864 .863/.959/.900",
    },
    ("sinkhorn", True): {},
}
VARIANTS = {
    "paper": ("paper", ()),
    "paper-code": ("paper-code", ()),
    "propagate": ("propagate", ()),
    "strong-self": ("strong", ("self_training.rounds=3",)),
    "strong": ("strong", ()),
}
NAMES = ("hits@1", "hits@10", "mrr")
Job = tuple[str, str, bool, int, Path]


def path_of(job: Job) -> Path:
    variant, pair, open_world, seed, folder = job
    return folder / f"{pair}-{'open' if open_world else 'closed'}-{variant}-{seed}.json"


def run(job: Job) -> None:
    if path_of(job).exists():
        return
    variant, pair, open_world, seed, folder = job
    preset, settings = VARIANTS[variant]
    task = load_dataset(f"dbp15k/{pair}", open_world)
    assert isinstance(task, AlignmentTask)
    aligner = Aligner.from_preset(preset, *settings, seed=seed)
    before = []
    go_on = Pass.go_on

    def watched(training: Pass) -> None:
        if training.name == "refit" and training.round == 0:
            before.append(training.vectors("now"))
        go_on(training)

    Pass.go_on = watched  # type: ignore[method-assign]
    try:
        aligner.fit(task)
    finally:
        Pass.go_on = go_on  # type: ignore[method-assign]
    write(job, aligner)
    # Round 0 of a self-trained run is the run without self-training: it is measured on the way.
    plain = (variant.removesuffix("-self"), pair, open_world, seed, folder)
    if variant.endswith("-self") and not path_of(plain).exists():
        if before:
            n_left = len(task.left.entities)
            aligner._vectors = {"left": before[0][:n_left], "right": before[0][n_left:]}
            aligner._confidence, aligner.chosen_rounds = None, 0
        write(plain, aligner)


def write(job: Job, aligner: Aligner) -> None:
    """Evaluate and keep the numbers."""
    variant, _, open_world, seed, _ = job
    preset, settings = VARIANTS[variant]
    rows = [
        {k: round(v, 6) if isinstance(v, float) else v for k, v in row.items()}
        for row in aligner.evaluate()[0]
    ]
    facts = {
        "dataset": aligner.task.name,
        "open_world": open_world,
        "preset": preset,
        "settings": list(settings),
        "seed": seed,
        "device": device_name(aligner),
        "seconds": {"train": round(aligner.seconds["train"], 2)},
        "rounds": aligner.chosen_rounds,
        "valid": [round(row["mrr"], 6) for row in aligner.rounds],
        "confidence": {name: round(x, 4) for name, x in aligner.confidence().items()},
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


def tables(variants: list[str], pairs: list[str], folder: Path, seeds: range) -> None:
    line = f"| --- |{' --- |' * len(pairs)}"

    def load(variant: str, pair: str, world: bool) -> list[dict[str, Any]]:
        jobs = [(variant, pair, world, seed, folder) for seed in seeds]
        return [json.loads(path_of(job).read_text("utf-8")) for job in jobs]

    for matcher, world in PUBLISHED:
        name = {"csls": "CSLS", "sinkhorn": "Sinkhorn"}[matcher]
        print(f"\n**{'Open' if world else 'Closed'} world, {name}**, Hits@1 / Hits@10 / MRR\n")
        print(f"| | {' | '.join(pair.upper() for pair in pairs)} |\n{line}")
        for model, numbers in PUBLISHED[matcher, world].items():
            published = dict(zip(PAIRS, numbers.split(), strict=True))
            cells = [published[pair].replace("/", " / ") for pair in pairs]
            print(f"| {model}, published | {' | '.join(cells)} |")
        at = {"direction": "left-right", "candidates": "test", "matcher": matcher}
        for variant in variants:
            cells = [triple(load(variant, pair, world), subset="all", **at) for pair in pairs]
            print(f"| `{variant}` | {' | '.join(cells)} |")
            for subset in ("known", "unknown") if world else ():
                cells = [triple(load(variant, pair, world), subset=subset, **at) for pair in pairs]
                print(f"| `{variant}`, {subset} entities | {' | '.join(cells)} |")
    for world in (False, True):
        print(
            f"\n**{'Open' if world else 'Closed'} world, other readings**, Hits@1 / Hits@10 / MRR\n"
        )
        print(f"| variant | direction | among | matcher | {' | '.join(p.upper() for p in pairs)} |")
        print(f"| --- | --- | --- {line}")
        for variant in variants:
            for among in ("test", "all"):
                for direction in ("left-right", "right-left"):
                    for matcher in ("cosine", "csls", "sinkhorn"):
                        where = {"direction": direction, "candidates": among, "matcher": matcher}
                        cells = [triple(load(variant, pair, world), subset="all", **where)
                                 for pair in pairs]  # fmt: skip
                        place = f"{direction.replace('-', ' → ')} | {among} | {matcher}"
                        print(f"| `{variant}` | {place} | {' | '.join(cells)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    parser.add_argument("--pairs", nargs="+", choices=PAIRS, default=list(PAIRS))
    parser.add_argument("--seeds", type=int, default=5, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("-o", "--output", type=Path, default=Path("results/alignment"))
    options = parser.parse_args()
    seeds = range(options.first, options.first + options.seeds)
    options.output.mkdir(parents=True, exist_ok=True)
    jobs = [
        (variant, pair, world, seed, options.output)
        for seed in seeds for variant in options.variants
        for world in (False, True) for pair in options.pairs
    ]  # fmt: skip
    # A self-trained run measures the plain one too, so the plain ones come last.
    jobs.sort(key=lambda job: job[0] == "strong" and "strong-self" in options.variants)
    missing = [job for job in jobs if not path_of(job).exists()]
    with ProcessPoolExecutor(options.jobs, multiprocessing.get_context("spawn")) as pool:
        for job, _ in zip(missing, pool.map(run, missing), strict=True):
            print(*job[:4], file=sys.stderr, flush=True)
    tables(options.variants, options.pairs, options.output, seeds)


if __name__ == "__main__":
    main()
