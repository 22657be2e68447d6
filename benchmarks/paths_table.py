"""Answers by paths: the rows of docs/prediction.md.

    DECENTRL_DATA=... PYTHONPATH=. python benchmarks/paths_table.py [NAME ...] [--seeds 5] [--print]
                      [-o results/paths]

Each run leaves a file in results/paths, and one that has left its file is not repeated, so the
table goes on where it stopped; nothing is trained from a tree with uncommitted changes. One run is
`decentrl complete --dataset inductive/fb237-v1 --preset paths --seed 0 -o RUN` with the settings of
its row. The large rows are for a card: on two cores they take hours.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from decentrl import Predictor
from decentrl.data.graph_task import GraphTask
from decentrl.data.registry import load_task
from decentrl.errors import DecentRLError
from studies.source_tree import check_committed, commit


@dataclass(frozen=True)
class Row:
    """What is trained, and what is known of it elsewhere."""

    dataset: str
    settings: tuple[str, ...] = ()
    open_world: bool = False
    preset: str = "paths"
    published: str = "–"


# An epoch has `training.steps` steps. Nothing here was chosen on test triples; see
# research/experiments.md.
ROWS = {
    "geonames": Row("world/geonames"),
    "geonames-strong": Row("world/geonames", preset="strong"),
    "fb237-v1": Row("inductive/fb237-v1", published="RED-GNN .369; NBFNet Hits@10 of 50 .834"),
    "wn18rr-v1": Row("inductive/wn18rr-v1", published="RED-GNN .701; NBFNet Hits@10 of 50 .948"),
    "fb237-v1-members": Row("inductive/fb237-v1", ("model.members=3",)),
    "wn18rr-v1-members": Row("inductive/wn18rr-v1", ("model.members=3",)),
    "subject10": Row("fb15k-subject10", open_world=True, published="MEAN .310, LAN .394"),
    "fb15k-237": Row(
        "fb15k-237", ("model.dim=32", "training.batch=64", "training.epochs=70"),
        published="NBFNet .415 / .321 / .599",
    ),
    "fb15k-237-open": Row(
        "fb15k-237", ("model.dim=32", "training.epochs=100"), open_world=True,
        published="the paper .264 / .176 / .383",
    ),
    "wn18rr": Row(
        "wn18rr", ("model.dim=32", "model.layers=6", "training.epochs=77"),
        published="NBFNet .551 / .497 / .666",
    ),
    "fb15k": Row(
        "fb15k", ("model.dim=32", "model.layers=4", "training.batch=64", "training.epochs=86")
    ),
    "wn18": Row("wn18", ("model.dim=32", "model.layers=6", "training.epochs=77")),
}  # fmt: skip
SMALL = ("geonames", "geonames-strong", "fb237-v1", "wn18rr-v1")
METRICS = ("mrr", "hits@1", "hits@10")


def do(name: str, seed: int, folder: Path) -> None:
    """Train and evaluate one row with one seed."""
    row, started, cpu = ROWS[name], time.perf_counter(), time.process_time()
    predictor = Predictor.from_preset(row.preset, *row.settings, seed=seed)
    predictor.fit(load_task(GraphTask, row.dataset, row.open_world))
    trained = time.perf_counter() - started
    found = {
        "name": name, "seed": seed, "commit": commit(), "device": str(predictor.device),
        "settings": predictor.config.to_dict(),
        "results": [*predictor.evaluate().rows, *predictor.evaluate_elsewhere()],
        "train_seconds": round(trained, 1),
        "seconds": round(time.perf_counter() - started, 1),
        "cpu_seconds": round(time.process_time() - cpu, 1),
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}-seed{seed}.json").write_text(json.dumps(found) + "\n", "utf-8")


def print_table(names: list[str], seeds: int, folder: Path) -> None:
    print("| | questions | seeds | MRR / Hits@1 / Hits@10 | elsewhere | CPU-s, MiB |")
    print("| --- | --- | ---: | --- | --- | --- |")
    for name in names:
        files = [folder / f"{name}-seed{seed}.json" for seed in range(seeds)]
        done: list[dict[str, Any]] = [json.loads(x.read_text()) for x in files if x.exists()]
        if not done:
            continue
        shown = ("all", "open world", "another graph")
        labels = [x["name"] for x in done[0]["results"] if x["group"] in shown]
        cost = f"{fmean(x['cpu_seconds'] for x in done):.0f}, {max(x['peak_mib'] for x in done)}"
        for label in labels:
            rows = [next(r for r in x["results"] if r["name"] == label) for x in done]
            cells = []
            for metric in METRICS:
                values = [row[metric] for row in rows]
                spread = f" ± {stdev(values):.3f}" if len(values) > 1 else ""
                cells.append(f"{fmean(values):.3f}{spread}")
            numbers = " / ".join(cells)
            print(
                f"| {name} | {label} | {len(done)} | {numbers} | {ROWS[name].published} | {cost} |"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of: {', '.join(ROWS)}")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("-o", "--output", type=Path, default=Path("results/paths"))
    parser.add_argument("--print", action="store_true", help="only what is there: train nothing")
    options = parser.parse_args()
    names = options.names or list(SMALL)
    for name in names:
        if name not in ROWS:
            parser.error(f"no row {name!r}; there are: {', '.join(ROWS)}")
    if not options.print:
        check_committed(commit())
        for name in names:
            for seed in range(options.seeds):
                if not (options.output / f"{name}-seed{seed}.json").exists():
                    do(name, seed, options.output)
                    print(f"{name}, seed {seed}", file=sys.stderr, flush=True)
    print_table(names, options.seeds, options.output)


if __name__ == "__main__":
    try:
        main()
    except DecentRLError as error:
        sys.exit(f"error: {error}")
