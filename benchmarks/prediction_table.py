"""The prediction tables of research/results.md.

    DECENTRL_DATA=... python benchmarks/prediction_table.py [NAME ...] --seeds 5 --jobs 3
                      [-o results/reproduce]

Trains every named row, closed or open world, and prints mean and standard deviation of the
filtered, tie-aware test metrics as Markdown. Runs are kept as `python -m studies` keeps them, and
one that has left its file is not repeated, whichever of the two commands it was trained by;
nothing is trained from a tree with uncommitted changes.
One run of it is `decentrl complete --dataset fb15k-237 --preset strong --seed 0 [--open-world]`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from statistics import fmean, stdev

from decentrl.errors import DecentRLError
from studies.execute import do_missing
from studies.run import PUBLISHED_SPLIT, Run
from studies.store import Result, Store, uncommitted
from studies.tables import MARK, UNCOMMITTED_NOTE

# name: dataset, open world, preset, settings, published MRR / Hits@1 / Hits@10 of the paper
ROWS: dict[str, tuple[str, bool, str, tuple[str, ...], str]] = {
    "fb15k-237-complex": (
        "fb15k-237", False, "strong", ("decoder.dim=2048",), ".354 / .261 / .544"
    ),
    "fb15k-237-distmult": (
        "fb15k-237", False, "strong",
        ("decoder.name=distmult", "decoder.dim=2048", "loss.relations=1.0"), ".350 / – / .541"
    ),
    "fb15k-237-transe": (
        "fb15k-237", False, "paper",
        ("decoder.name=transe", "loss.root=true", "loss.smoothing=0.1", "model.dropout=0.1",
         "training.epochs=60"),
        ".334 / – / .521"
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
    "wn18rr-paper-distmult": (
        "wn18rr", False, "paper", ("decoder.name=distmult",), ".458 / .422 / .533"
    ),
    "wn18rr-table-complex": ("wn18rr", False, "table-complex", ("loss.n3=0.1",), "–"),
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


def runs_of(name: str, seeds: int) -> list[Run]:
    dataset, open_world, preset, settings, _ = ROWS[name]
    unseen = PUBLISHED_SPLIT if open_world else 0.0
    return [Run("prediction", dataset, preset, settings, unseen, s) for s in range(seeds)]


def cell(results: list[Result], group: str, name: str) -> str:
    found = [
        next(row for row in result["results"] if (row["group"], row["name"]) == (group, name))
        for result in results
    ]
    parts = []
    for metric in NAMES:
        values = [row[metric] for row in found]
        spread = f" ± {stdev(values):.3f}" if len(values) > 1 else ""
        parts.append(f"{fmean(values):.3f}{spread}")
    return f"{' / '.join(parts)} | {fmean(row['mr'] for row in found):.0f}"


def tables(names: list[str], store: Store, seeds: int) -> None:
    print("| row | preset | seeds | MRR / Hits@1 / Hits@10 | MR | paper | training |")
    print("| --- | --- | ---: | --- | ---: | --- | ---: |")
    cells, marked = [], False
    for name in names:
        _, open_world, preset, settings, published = ROWS[name]
        results = store.results(runs_of(name, seeds))
        if not results:
            continue
        seconds = fmean(result["seconds"]["train"] for result in results)
        used = " ".join((f"`{preset}`", *settings))
        numbers = cell(results, "all", "all")
        mark = f" {MARK}" * any(map(uncommitted, results))
        marked = marked or bool(mark)
        head = f"| {name}{mark} | {used} | {len(results)}"
        print(f"{head} | {numbers} | {published} | {seconds:.0f} s |")
        if open_world:
            cells.append((name, results))
    if cells:
        print("\n| row | cell of the open world | n | MRR / Hits@1 / Hits@10 | MR |")
        print("| --- | --- | ---: | --- | ---: |")
    for name, results in cells:
        for row in results[0]["results"]:
            if row["group"] == "open world":
                numbers = cell(results, "open world", row["name"])
                print(f"| {name} | {row['name']} | {row['n']:,} | {numbers} |")
    if marked:
        print(f"\n{UNCOMMITTED_NOTE}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of: {', '.join(ROWS)}")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("-o", "--output", type=Path, default=Path("results/reproduce"))
    parser.add_argument("--print", action="store_true", help="only what is there: train nothing")
    options = parser.parse_args()
    names = options.names or list(ROWS)
    for name in names:
        if name not in ROWS:
            parser.error(f"no row {name!r}; there are: {', '.join(ROWS)}")
    store = Store(options.output)
    runs = [run for name in names for run in runs_of(name, options.seeds)]
    failed = [] if options.print else do_missing(runs, store, options.jobs)
    tables(names, store, options.seeds)
    sys.exit(bool(failed))


if __name__ == "__main__":
    try:
        main()
    except DecentRLError as error:
        sys.exit(f"error: {error}")
