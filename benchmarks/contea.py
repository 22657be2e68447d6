"""Two graphs that grow in five steps (ContEA, ZH-EN): how good matches are after each of them.

    DECENTRL_DATA=... python benchmarks/contea.py [--variants added refit scratch propagation mean]
                      [--batches 5] [--preset quick] [--seed 0] [--print] [--page]

Trains on the base, adds each batch to both graphs without training, and matches all entities that
no known link names. Precision, recall and F1 of what is claimed, in all and for links with an end
that came after the base; every claim counts, also of entities that have no counterpart. "fitted" is
the threshold fitted for F1, "abstain" the one of `match --abstain`. The validation links serve to
fit confidence; test links choose nothing.

Variants: `added`, to the first training; `refit`, trained again after each batch, from what was
learned before; `scratch`, trained anew on all that is there; `propagation`, seed propagation alone,
added; `mean`, as `added`, but a newcomer's vector is the mean of its neighbours'.

Each snapshot leaves a file in results/contea, and is not repeated; a command that was interrupted
goes on from the run in runs/contea. Nothing is measured on a tree with uncommitted changes.
`--print` prints the tables of what is there, `--page` writes docs/results/contea.md.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from decentrl import Aligner, AlignmentTask, KnowledgeGraph, load_dataset
from decentrl.data.layouts import read_batches
from decentrl.data.registry import find_dataset
from decentrl.growth.growing_graph import GrowingGraph
from decentrl.matching.confidence import expected_calibration_error
from studies.contea import print_tables, write_page
from studies.source_tree import check_committed, commit

SIDES = ("left", "right")
RESULTS, RUNS = Path("results/contea"), Path("runs/contea")
VARIANTS = ("added", "refit", "scratch", "propagation", "mean")


class Clock:
    """Wall and processor seconds since it was made, or since it was last read."""

    def __init__(self) -> None:
        self._start = self._now()

    def _now(self) -> tuple[float, float]:
        used = resource.getrusage(resource.RUSAGE_SELF)
        return time.perf_counter(), used.ru_utime + used.ru_stime

    def read(self) -> dict[str, float]:
        before, self._start = self._start, self._now()
        wall, cpu = (round(b - a, 1) for a, b in zip(before, self._start, strict=True))
        return {"wall": wall, "cpu": cpu}


def quality(aligner: Aligner, links: Path | None) -> dict[str, Any]:
    """What is claimed at both thresholds, and how well confidence is calibrated."""
    found: dict[str, Any] = {
        threshold: aligner.evaluate_matches(links, abstain=threshold == "abstain")
        for threshold in ("fitted", "abstain")
    }
    claims = aligner._claims(links)
    assert claims is not None
    new, right = torch.from_numpy(claims.ends_new(aligner.growing)), torch.from_numpy(claims.right)
    known = ~claims.confidence.isnan()
    found["calibration error"] = {
        subset: expected_calibration_error(claims.confidence[chosen], right[chosen])
        for subset, chosen in (("known", known & ~new), ("unknown", known & new))
        if chosen.any()
    }
    return found


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


def use_means(graph: GrowingGraph) -> None:
    """Give all newcomers of a graph the mean of their neighbours' vectors, three steps far."""
    new = torch.from_numpy(graph.arrivals.new_entities())
    vectors = graph.vectors.clone()
    vectors[new] = 0
    ends = torch.from_numpy(graph.arrivals.triples[:, [0, 2]])
    for _ in range(3):
        sums = torch.zeros_like(vectors)
        for a, b in ((0, 1), (1, 0)):
            sums.index_add_(0, ends[:, a], vectors[ends[:, b]])
        vectors[new] = F.normalize(sums[new], dim=1)
    kept = sorted(set(new.tolist()) & graph.rows.keys())
    rows = torch.stack([graph.rows[i] for i in kept])
    rows[:, : graph.width] = vectors[kept]
    graph.put(torch.tensor(kept).numpy(), rows)


class Course:
    """One variant, snapshot by snapshot."""

    def __init__(self, variant: str, options: argparse.Namespace, found: str) -> None:
        self.variant, self.options, self.commit = variant, options, found
        task = load_dataset(options.dataset)
        assert isinstance(task, AlignmentTask)
        self.task = task
        self.batches = read_batches(find_dataset(options.dataset).path())[: options.batches]
        self.runs = RUNS / f"{found}-{options.preset}-{variant}-seed{options.seed}"
        self.seconds: dict[str, dict[str, float]] = {}

    def file(self, batch: int) -> Path:
        preset = "" if self.options.preset == "quick" else f"{self.options.preset}-"
        return RESULTS / f"{preset}{self.variant}-batch{batch}-seed{self.options.seed}.json"

    def fit(self, task: AlignmentTask) -> Aligner:
        preset = "propagate" if self.variant == "propagation" else self.options.preset
        clock = Clock()
        made = Aligner.from_preset(preset, *self.options.set, seed=self.options.seed).fit(task)
        self.seconds["train"] = clock.read()
        return made

    def opened(self, batch: int, make: Any) -> Aligner:
        """The run of a snapshot, open for adding; made where no command has left it."""
        folder = self.runs / f"batch{batch}"
        if not (folder / "bundle").is_dir():
            made = make()
            shutil.rmtree(folder, ignore_errors=True)
            made.save(folder)
        return Aligner.load(folder, durable=True)

    def snapshots(self) -> None:
        """Make every snapshot whose file is not there."""
        missing = [k for k in range(len(self.batches) + 1) if not self.file(k).is_file()]
        if self.variant == "scratch":
            for k in missing:
                self.keep(k, self.fit(grown(self.task, self.batches[:k])))
        elif missing:
            aligner = self.opened(0, lambda: self.fit(self.task))
            for k in range(max(missing) + 1):
                aligner = self.after(k, aligner) if k else aligner
                if k in missing:
                    self.keep(k, aligner)
            aligner.close()

    def after(self, batch: int, aligner: Aligner) -> Aligner:
        """With the next batch, which may be there already."""
        new, _ = self.batches[batch - 1]
        done = len(aligner.log())
        if done > self.before(batch) + 2:
            raise SystemExit(f"{self.runs}: holds what comes after batch {batch}; delete it")
        clock = Clock()
        for side, file in list(zip(SIDES, new, strict=True))[done - self.before(batch) :]:
            aligner.add(file, side=side)
        self.seconds["add"] = clock.read()
        if self.variant == "mean":
            for side in SIDES:
                use_means(aligner.growing.sides[side])
        if self.variant != "refit":
            return aligner

        def trained() -> Aligner:
            clock.read()
            again = aligner.refit()
            self.seconds["train"] = clock.read()
            return again

        made = self.opened(batch, trained)
        aligner.close()
        return made

    def before(self, batch: int) -> int:
        """How many files a run has that holds all before a batch."""
        return 0 if self.variant == "refit" else 2 * (batch - 1)

    def keep(self, batch: int, aligner: Aligner) -> None:
        """Measure a snapshot and write its file."""
        clock = Clock()
        rows = quality(aligner, self.batches[batch - 1][1] if batch else None)
        self.seconds["match"] = clock.read()
        about = {"variant": self.variant, "batch": batch, "seed": self.options.seed}
        result = about | {"preset": aligner.config.preset, "set": self.options.set}
        result |= {"commit": self.commit, "threads": torch.get_num_threads()}
        result |= {"seconds": self.seconds, **rows}
        RESULTS.mkdir(parents=True, exist_ok=True)
        part = self.file(batch).with_suffix(".part")
        part.write_text(json.dumps(result, indent=1) + "\n", "utf-8")
        part.replace(self.file(batch))
        print(f"{self.file(batch)}: {self.seconds}", flush=True)
        self.seconds = {}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", default="contea/zh-en")
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=["added"])
    parser.add_argument("--preset", default="quick")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--batches", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--print", action="store_true")
    parser.add_argument("--page", action="store_true")
    options = parser.parse_args()
    if not options.print and not options.page:
        found = commit()
        check_committed(found)
        for variant in options.variants:
            Course(variant, options, found).snapshots()
    if options.page:
        write_page(RESULTS, Path("docs/results/contea.md"))
    else:
        print_tables(RESULTS)


if __name__ == "__main__":
    main()
