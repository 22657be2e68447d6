"""What names give on DBP15K, beside structure alone.

    DECENTRL_DATA=... PYTHONPATH=. python benchmarks/names_table.py [--seeds 5] [--jobs 1] [--print]
                      [--tables names damaged start self] [--pairs zh-en] [--names ids]
                      [--preset strong]

Tables: ``names`` with names as they are (of identifiers, FR-EN, ZH-EN and JA-EN) and translated by
machine (ZH-EN, JA-EN; alone and beside those of identifiers), closed and open world; ``damaged``
with a fifth of the names missing or wrong on either side; ``start`` without any known link;
``self`` with self-training.

Each run leaves a file in results/names, and one that has left its file is not repeated. One run is
`decentrl align --dataset dbp15k/zh-en --names ids --seed 0 -o RUN`, with `--open-world`,
`--self-train` or `--links none`. Names change nothing in what the encoder learns from known links,
so runs that differ in names alone share its training.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any
from unittest import mock

import numpy as np

from decentrl import Aligner
from decentrl.data.alignment_task import AlignmentTask
from decentrl.data.knowledge_graph import KnowledgeGraph
from decentrl.data.names import Names
from decentrl.errors import DecentRLError
from decentrl.runs.sources import Sources
from decentrl.training.fitting import Pass
from studies.run import PUBLISHED_SPLIT, Run
from studies.source_tree import check_committed, commit
from studies.store import Store

KINDS = (
    ("fr-en", "ids"),
    ("zh-en", "translated"),
    ("ja-en", "translated"),
    ("zh-en", "ids+translated"),
    ("ja-en", "ids+translated"),
    ("zh-en", "ids"),
    ("ja-en", "ids"),
)
SHARE = 0.2  # of the names that are damaged


@dataclass(frozen=True)
class Job:
    """One training."""

    pair: str
    names: str
    preset: str
    seed: int
    open_world: bool = False
    damage: str = ""  # "", missing or wrong
    linked: bool = True
    self_train: bool = False

    @property
    def file(self) -> str:
        parts = [self.pair, self.names, self.preset, "open" if self.open_world else "closed"]
        parts += [self.damage] * bool(self.damage) + ["unlinked"] * (not self.linked)
        return "-".join([*parts, *["self"] * self.self_train, f"seed{self.seed}"]) + ".json"


def damaged(graph: KnowledgeGraph, how: str, rng: np.random.Generator) -> KnowledgeGraph:
    """The graph with a fifth of its names missing, or dealt to wrong entities."""
    names = graph.names
    chosen = rng.random(len(names)) < SHARE
    if how == "wrong":
        rows = np.arange(len(names))
        rows[chosen] = rng.permutation(rows[chosen])
        return replace(graph, names=Names.of_rows(names.entities, names.texts.take(rows)))
    kept = np.flatnonzero(~chosen)
    return replace(graph, names=Names.of_rows(names.entities[kept], names.texts.take(kept)))


def read(job: Job) -> AlignmentTask:
    sources = Sources(f"dbp15k/{job.pair}", job.open_world, names=job.names)
    task = sources.read(job.seed)
    if job.damage:
        rng = np.random.default_rng(job.seed)
        left, right = (damaged(graph, job.damage, rng) for graph in (task.left, task.right))
        task = replace(task, left=left, right=right)
    return task if job.linked else task.without_links()


def group(job: Job) -> tuple[Any, ...]:
    """Jobs of one group learn the same weights from known links."""
    same = replace(job, names="", damage="")
    return (same,) if job.linked and not job.self_train else (same, job.names, job.damage)


@contextmanager
def trained_once() -> Iterator[None]:
    """Within this, every pass after the first of its kind takes the weights that this has left."""
    start, left = Pass.start, dict[str, Any]()

    def start_once(self: Pass, rounds: int = 0) -> None:
        if self.name in left:
            self.restore(*left[self.name])
        else:
            start(self, rounds)
            left[self.name] = self.state()

    with mock.patch.object(Pass, "start", start_once):
        yield


def do_all(jobs: list[Job], folder: Path) -> list[tuple[Job, str]]:
    """Do the jobs of a group; returns what was wrong with each, "" for nothing."""
    with trained_once():
        return [(job, do(job, folder)) for job in jobs]


def do(job: Job, folder: Path) -> str:
    """Train and evaluate; returns what was wrong, "" for nothing."""
    started = time.perf_counter()
    try:
        changes = ["self_training.rounds=3"] * job.self_train
        aligner = Aligner.from_preset(job.preset, *changes, seed=job.seed).fit(read(job))
        rows = aligner.evaluate(candidates=("test",)).rows
    except DecentRLError as error:
        return str(error)
    names = aligner.learned.config.names
    found = {
        "job": asdict(job), "commit": commit(), "device": str(aligner.device),
        "weight": names.weight, "translation": names.translation,
        "rounds": aligner.chosen_rounds,
        "seconds": round(time.perf_counter() - started, 1),
        "results": [{k: round(v, 6) if isinstance(v, float) else v for k, v in row.items()}
                    for row in rows],
    }  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    (folder / job.file).write_text(json.dumps(found) + "\n", "utf-8")
    return ""


def jobs_of(
    table: str, pairs: list[str], names: list[str], preset: str, seeds: int
) -> list[list[Job]]:
    """The jobs of each row of a table."""
    kinds = [kind for kind in KINDS if kind[0] in pairs and kind[1] in names]
    rows: list[dict[str, Any]] = {
        "names": [{}, {"open_world": True}],
        "damaged": [{"damage": "missing"}, {"damage": "wrong"}],
        "start": [{"linked": False}],
        "self": [{"self_train": True}, {"self_train": True, "open_world": True}],
    }[table]
    return [
        [Job(pair, names, preset, seed, **row) for seed in range(seeds)]
        for row in rows for pair, names in kinds
    ]  # fmt: skip


def cell(results: list[list[dict[str, Any]]], **where: str) -> str:
    parts = []
    for name in ("hits@1", "hits@10", "mrr"):
        values = [
            row[name] for rows in results for row in rows
            if all(row[key] == value for key, value in where.items())
        ]  # fmt: skip
        spread = f" ± {stdev(values):.3f}" if len(values) > 1 else ""
        parts.append(f"{fmean(values):.3f}{spread}" if values else "–")
    return " / ".join(parts)


def print_table(table: str, rows: list[list[Job]], folder: Path, structure: Store) -> None:
    print(f"\n**{table}**, Hits@1 / Hits@10 / MRR, left to right among the test targets\n")
    print("| | seeds | CSLS | Sinkhorn | weight, translation | seconds |")
    print("| --- | --- | --- | --- | --- | --- |")
    for jobs in rows:
        done = [json.loads((folder / job.file).read_text()) for job in jobs
                if (folder / job.file).exists()]  # fmt: skip
        if not done:
            continue
        first = jobs[0]
        name = f"{first.pair.upper()}, {first.names}" + ", open world" * first.open_world
        name += f", a fifth {first.damage}" * bool(first.damage) + ", no links" * (not first.linked)
        subsets = ("all", "known", "unknown") if first.open_world else ("all",)
        settings = ("self_training.rounds=3",) * first.self_train
        unseen = PUBLISHED_SPLIT if first.open_world else 0.0
        alone = [
            result for seed in range(len(jobs))
            if (result := structure.get(Run("alignment", f"dbp15k/{first.pair}", first.preset,
                                            settings, unseen, seed)))
        ]  # fmt: skip
        means = (fmean(x[key] for x in done) for key in ("weight", "translation"))
        chosen = ", ".join(f"{mean:.2f}" for mean in means)
        for subset in subsets:
            at = {"direction": "left-right", "candidates": "test", "subset": subset}
            cells = [cell([x["results"] for x in done], matcher=m, **at)
                     for m in ("csls", "sinkhorn")]  # fmt: skip
            seconds = f"{fmean(x['seconds'] for x in done):.0f}"
            what = f"{name}: {subset}" if len(subsets) > 1 else name
            print(f"| {what} | {len(done)} | {' | '.join(cells)} | {chosen} | {seconds} |")
            if alone and first.linked:
                cells = [cell([x["results"] for x in alone], matcher=m, **at)
                         for m in ("csls", "sinkhorn")]  # fmt: skip
                print(f"| structure alone | {len(alone)} | {' | '.join(cells)} | | |")


def main() -> None:
    tables = ("names", "damaged", "start", "self")
    pairs, which = (tuple(dict.fromkeys(kind[i] for kind in KINDS)) for i in range(2))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", nargs="+", choices=tables, default=list(tables))
    parser.add_argument("--pairs", nargs="+", choices=pairs, default=list(pairs))
    parser.add_argument("--names", nargs="+", choices=which, default=list(which))
    parser.add_argument("--preset", default="strong")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("-o", "--output", type=Path, default=Path("results/names"))
    parser.add_argument("--print", action="store_true", help="only what is there: train nothing")
    options = parser.parse_args()
    chosen = options.pairs, options.names, options.preset, options.seeds
    rows = {table: jobs_of(table, *chosen) for table in options.tables}
    missing = [job for table in rows.values() for jobs in table for job in jobs
               if not (options.output / job.file).exists()]  # fmt: skip
    failed = []
    if not options.print and missing:
        check_committed(commit())
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(options.jobs, context) as pool:
            groups: dict[tuple[Any, ...], list[Job]] = {}
            for job in missing:
                groups.setdefault(group(job), []).append(job)
            pending = [pool.submit(do_all, jobs, options.output) for jobs in groups.values()]
            for future in pending:
                for job, problem in future.result():
                    failed += [job] * bool(problem)
                    print(f"{job.file}{problem and ': '}{problem}", file=sys.stderr)
    structure = Store(Path("results/reproduce"))
    for table, jobs in rows.items():
        print_table(table, jobs, options.output, structure)
    sys.exit(bool(failed))


if __name__ == "__main__":
    try:
        main()
    except DecentRLError as error:
        sys.exit(f"error: {error}")
