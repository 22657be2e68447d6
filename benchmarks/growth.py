"""Does it matter in how many pieces a graph grows, and what does a refresh bring?

Trains on the known part of an open-world dataset, whose files alone name the entities; then the
auxiliary triples arrive, once all in one file and once in ten random files, each added durably.

    python benchmarks/growth.py dbp15k/zh-en --preset quick
    python benchmarks/growth.py fb15k-237 --preset quick --set training.epochs=6
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from decentrl import Aligner, AlignmentTask, GraphTask, Predictor, load_dataset

SIDES = ("left", "right")
METRICS = ("hits@1", "hits@10", "mrr")


def write(rows: list[tuple[str, ...]], path: Path) -> Path:
    path.write_text("".join("\t".join(row) + "\n" for row in rows), "utf-8")
    return path


def labels(graph: Any, triples: np.ndarray) -> list[tuple[str, ...]]:
    names = graph.entities, graph.relations, graph.entities
    return [tuple(n[i] for n, i in zip(names, row, strict=True)) for row in triples.tolist()]


class Alignment:
    """Two graphs."""

    def __init__(self, task: AlignmentTask, folder: Path) -> None:
        graphs = dict(zip(SIDES, (task.left, task.right), strict=True))
        known = {s: write(labels(g, g.triples), folder / f"{s}.tsv") for s, g in graphs.items()}
        # Of some entities all triples arrive later; links of these are not known before.
        seen = [set(g.triples[:, [0, 2]].ravel().tolist()) for g in graphs.values()]
        pairs = [(i, j) for i, j in task.train.tolist() if i in seen[0] and j in seen[1]]
        names = [(task.left.entities[i], task.right.entities[j]) for i, j in pairs]
        links = write(names, folder / "links.tsv")
        test = [(task.left.entities[i], task.right.entities[j]) for i, j in task.test.tolist()]
        self.test, self.folder = test, folder
        self.task = AlignmentTask.read(known["left"], known["right"], links)
        arrived = dict(zip(SIDES, task.auxiliary or (), strict=True))
        self.later = {s: labels(g, arrived[s]) for s, g in graphs.items()}

    def fit(self, preset: str, settings: list[str]) -> Aligner:
        return Aligner.from_preset(preset, *settings, device="cpu").fit(self.task)

    def load(self, run: Path) -> Aligner:
        return Aligner.load(run, device="cpu", durable=True)

    def add(self, model: Aligner, side: str, file: Path) -> None:
        model.add(file, side=side)  # type: ignore[arg-type]

    def metrics(self, model: Aligner) -> dict[str, dict[str, float]]:
        matcher, task = model.config.matching.matcher, model.task
        # Some are in no triple, or only in triples of relations that training has not seen.
        there = [
            (a, b) for a, b in self.test if a in task.left.entities and b in task.right.entities
        ]
        print(f"  {len(self.test) - len(there)} of {len(self.test):,} test links name an entity "
              "that is in no triple of a known relation: left out")  # fmt: skip
        rows = model.evaluate(("test",), write(there, self.folder / "test.tsv")).rows
        return {
            row["subset"]: {name: row[name] for name in METRICS}
            for row in rows
            if row["direction"] == "left-right" and row["matcher"] == matcher
        }


class Prediction:
    """One graph."""

    def __init__(self, task: GraphTask, folder: Path) -> None:
        graph = task.graph
        known = write(labels(graph, graph.triples), folder / "known.tsv")
        seen = np.zeros(len(graph.entities), bool)
        seen[graph.triples[:, [0, 2]]] = True
        valid = task.valid[seen[task.valid[:, [0, 2]]].all(axis=1)]
        file = write(labels(graph, valid), folder / "valid.tsv")
        self.test, self.folder = labels(graph, task.test), folder
        self.task = GraphTask.read(known, file, 0)
        self.later = {"": labels(graph, task.auxiliary)}

    def fit(self, preset: str, settings: list[str]) -> Predictor:
        return Predictor.from_preset(preset, *settings, device="cpu").fit(self.task)

    def load(self, run: Path) -> Predictor:
        return Predictor.load(run, device="cpu", durable=True)

    def add(self, model: Predictor, _: str, file: Path) -> None:
        model.add(file)

    def metrics(self, model: Predictor) -> dict[str, dict[str, float]]:
        names = model.task.graph.entities, model.task.graph.relations
        there = [
            (h, r, t) for h, r, t in self.test if h in names[0] and r in names[1] and t in names[0]
        ]
        left_out = len(self.test) - len(there)
        print(f"  {left_out} of {len(self.test):,} test triples name a relation that was not "
              "trained, or an entity without a triple of one that was: left out")  # fmt: skip
        rows = model.evaluate(write(there, self.folder / "test.tsv")).rows
        return {
            row["name"]: {name: row[name] for name in METRICS}
            for row in rows
            if row["group"] in ("all", "open world")
        }


def vectors(model: Any) -> dict[tuple[str, str], np.ndarray]:
    return {
        (side, label): row
        for side, graph in model.growing.sides.items()
        for label, row in zip(graph.entities, graph.vectors.numpy(), strict=True)
    }


def show(title: str, rows: dict[str, dict[str, float]]) -> None:
    for name, row in rows.items():
        print(f"  {title:<32} {name:<28}" + "  ".join(f"{m} {row[m]:.4f}" for m in METRICS))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dataset")
    parser.add_argument("--preset", default="quick")
    parser.add_argument("--set", dest="settings", action="append", default=[])
    parser.add_argument("--pieces", type=int, default=10)
    options = parser.parse_args()
    task = load_dataset(options.dataset, True)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        job: Any = (Alignment if isinstance(task, AlignmentTask) else Prediction)(task, folder)
        started = time.perf_counter()
        job.fit(options.preset, options.settings).save(folder / "run")
        name = " ".join((options.dataset, options.preset, *options.settings))
        print(f"{name}: trained on "
              f"the known part in {time.perf_counter() - started:.0f} s")  # fmt: skip
        shutil.copytree(folder / "run", folder / "pieces")
        rng = np.random.default_rng(0)
        with job.load(folder / "run") as model:
            for side, rows in job.later.items():
                job.add(model, side, write(rows, folder / f"all-{side}.tsv"))
            model.refresh()
            at_once, expected = vectors(model), job.metrics(model)
        show("all at once, refreshed", expected)
        with job.load(folder / "pieces") as model:
            before = vectors(model)
            orders = {side: rng.permutation(len(rows)) for side, rows in job.later.items()}
            started = time.perf_counter()
            for piece in range(options.pieces):
                for side, rows in job.later.items():
                    chosen = np.array_split(orders[side], options.pieces)[piece]
                    file = write([rows[i] for i in chosen], folder / f"{piece}-{side}.tsv")
                    job.add(model, side, file)
            seconds = time.perf_counter() - started
            kept = vectors(model)
            same = all(np.array_equal(kept[key], row) for key, row in before.items())
            show(f"{options.pieces} pieces, not refreshed", job.metrics(model))
            started = time.perf_counter()
            model.refresh()
            refreshing = time.perf_counter() - started
            pieces, found = vectors(model), job.metrics(model)
        show(f"{options.pieces} pieces, refreshed", found)
        largest = max(np.abs(pieces[key] - row).max() for key, row in at_once.items())
        names = {(a, b) for a in expected for b in METRICS}
        equal = all(f"{expected[a][b]:.4f}" == f"{found[a][b]:.4f}" for a, b in names)
        print(f"  largest difference of a coordinate, pieces against all at once: {largest:.1e}")
        print(f"  metrics equal to four decimals: {equal}")
        print(f"  vectors of known entities unchanged until the refresh: {same}")
        n = sum(map(len, job.later.values()))
        print(f"  adding {n:,} triples took {seconds:.1f} s, refreshing {refreshing:.1f} s")


if __name__ == "__main__":
    main()
