"""How the results of the two jobs are printed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from decentrl.cli.console import Results, number, plain_table, print_lines
from decentrl.config import FEW_LINKS
from decentrl.data.called import NAME, called

METRICS = {f"hits@{k}": (f"Hits@{k}", 1, 100) for k in (1, 3, 10)}
METRICS |= {"mrr": ("MRR", 3, 1), "mr": ("MR", 1, 1)}
"""Name, digits and scale (100 for per cent) of each metric that is shown."""
LINK_METRICS = ("hits@1", "hits@10", "mrr", "mr")
TRIPLE_METRICS = ("mrr", "hits@1", "hits@3", "hits@10", "mr")
CLAIM_METRICS = {"hits@1": "Hits@1", "precision": "precision", "recall": "recall", "f1": "F1"}
ONE_EACH = (
    "among test: the targets of test links alone, of which each has exactly one counterpart; real "
    "graphs do not promise that"
)
QUESTIONS = {"tail": "tail (h, r, ?)", "head": "head (?, r, t)"}


@dataclass(frozen=True)
class Printer:
    """What the command line prints of a job, beside what all jobs share."""

    held_out: tuple[str, str, str]  # without which option, what was held out, what 0 does
    results: Callable[[Console, Results], None]
    samples: Callable[[Sequence[Results]], Table]
    next_step: str  # what to do with the RUN
    finish: str  # what comes after training


def print_unfinished(console: Console, run: Path, facts: Results) -> None:
    """What there is of a run that has not finished, and how to go on with it."""
    data = ", ".join(f"{name} {value}" for name, value in facts["data"].items())
    stage = f" of {facts['stage']}" if "stage" in facts else ""
    kept = "a checkpoint is there" if facts["checkpoint"] else "no checkpoint yet"
    lines = [
        f"{run}: {facts['task']}, begun and not finished (unless it is training now)",
        f"- preset {facts['preset']}, seed {facts['seed']}; {data}",
        f"- epochs done: {facts['epochs']}{stage}; {kept}",
        f"- go on by: {facts['resume']}",
    ]
    if "seeds_begun" in facts:
        lines.insert(
            2, f"- seeds begun: {facts['seeds_begun']}, finished: {facts['seeds_finished']}"
        )
    print_lines(console, *lines)


# Alignment


def _print_links(console: Console, results: Results) -> None:
    """What `match` gives, the field's metrics, what validation links have chosen, confidence."""
    _print_matches(console, results)
    rows = results["results"]
    parts = any(row["subset"] != "all" for row in rows)
    groups = []
    for place, group in groupby(rows, lambda row: (row["direction"], row["candidates"])):
        direction, among = place[0].replace("-", " → "), place[1]
        lines = []
        for row in group:
            subset = [row["subset"]] if parts else []
            lines.append(([direction, among, *subset, row["matcher"]], row))
            direction = among = ""
        groups.append(lines)
    places = ("direction", "among", *(["entities"] if parts else []), "matcher")
    title = "As the field reports it" if results.get("matches") else _heading(results)
    console.print(_metric_table(title, places, LINK_METRICS, groups))
    if any(row["candidates"] == "test" for row in rows):
        print_lines(console, ONE_EACH)
    if apart := results.get("apart"):
        cells = ", ".join(f"{row['view']} {_metric_cells(row, ['hits@1'])[0]}" for row in apart)
        matcher = apart[0]["matcher"]
        print_lines(console, f"alone, left → right among test, Hits@1 with {matcher}: {cells}")
    if started := results.get("started_from_names"):
        some = ", ".join(f"{left} = {right}" for left, right in started["for_example"][:5])
        print_lines(
            console, f"no known link: began with {started['pairs']:,} pairs of names ({some})"
        )
    training = results.get("self_training")
    if training and len(training["validation"]) > 1:
        tried = " ".join(f"{row['hits@1']:.3f}" for row in training["validation"])
        chosen = training["rounds"]
        chosen = ", ".join(map(str, chosen)) if isinstance(chosen, list) else chosen
        console.print(f"self-training: {chosen} rounds (validation Hits@1 {tried})")
    _print_calibration(console, results, "confidence", "matches of entities in test links")


def _print_matches(console: Console, results: Results) -> None:
    """The table of what `match` gives among everything without a known link, if there is one."""
    rows = results.get("matches") or []
    if not rows:
        return
    parts = len(rows) > 1
    names = [*(["entities"] if parts else []), "matcher", "links", *CLAIM_METRICS.values()]
    numbers = [name for name in names if name not in ("entities", "matcher")]
    title = f"{_heading(results)}: `match`, left → right, among all without a known link"
    table = plain_table(title, *names, numbers=numbers)
    for row in rows:
        subset = [row["subset"]] if parts else []
        shares = (
            " ± ".join(f"{100 * row[key]:.1f}" for key in (name, f"{name}_std") if key in row)
            for name in CLAIM_METRICS
        )
        table.add_row(*subset, row["matcher"], f"{row['n']:,}", *shares)
    console.print(table)
    first = rows[0]
    if (n := first["n"]) < FEW_LINKS:
        print_lines(console, f"only {n} links are tested: these numbers say little")
    if first["judged"] < first["claimed"]:
        print_lines(
            console,
            f"{first['claimed'] - first['judged']:,} of {first['claimed']:,} matches have no end "
            "in a test link and count as wrong: where there are other links, precision is higher",
        )


def _sample_links(samples: Sequence[Results]) -> Table:
    table = plain_table("Ten of the test entities", "", "left", "best match", "truth")
    for row in samples:
        left, right, truth = (called(row, name) or "" for name in ("left", "right", "truth"))
        table.add_row(_mark(row), *map(escape, (left, right, "" if row["correct"] else truth)))
    return table


# Prediction


def _print_triples(console: Console, results: Results) -> None:
    """Metrics, the baseline by frequency, and how far probabilities can be trusted."""
    # Single relations are a table of their own.
    rows = [row for row in results["results"] if row["group"] != "relation"]
    if rows:
        groups = [
            [([QUESTIONS.get(row["name"], row["name"])], row) for row in group]
            for _, group in groupby(rows, lambda row: str(row["group"]))
        ]
        console.print(_metric_table(_heading(results), ["questions"], TRIPLE_METRICS, groups))
    else:
        console.print("no triple was held out, so nothing was evaluated", soft_wrap=True)
    if frequency := results["frequency"]:
        metrics = zip(TRIPLE_METRICS, _metric_cells(frequency, TRIPLE_METRICS), strict=True)
        shown = ", ".join(f"{METRICS[name][0]} {value}" for name, value in metrics)
        console.print(f"answering by training frequency: {shown}")
    among = "the ten best answers of each test question"
    _print_calibration(console, results, "probabilities", among)


def relation_table(rows: Sequence[Results]) -> Table:
    """Metrics of a prediction for each relation, the most frequent first."""
    chosen = [row for row in rows if row["group"] == "relation"]
    chosen.sort(key=lambda row: (-row["n"], row["name"]))
    lines = [([escape(row["name"])], row) for row in chosen]
    return _metric_table("Relation by relation", ["relation"], TRIPLE_METRICS, [lines])


def _sample_answers(samples: Sequence[Results]) -> Table:
    names = ("", "question", "best answer", "truth", "probability")
    table = plain_table("Ten of the test questions", *names, numbers=["probability"])
    for row in samples:
        head, tail = called(row, "head"), called(row, "tail")
        if row["asked"] == "tail":
            asked, answer = f"{head} – {row['relation']} → ?", tail
        else:
            asked, answer = f"? – {row['relation']} → {tail}", head
        names = row.get(f"truth{NAME}") or row["truth"]
        truths = [name or label for name, label in zip(names, row["truth"], strict=True)]
        truth = "" if row["correct"] else ", ".join(truths[:2])
        if truth and len(row["truth"]) > 2:
            truth += f" and {len(row['truth']) - 2:,} more"
        labels = map(escape, (asked, answer or "none", truth))
        table.add_row(_mark(row), *labels, number(row["probability"], 2))
    return table


# Both


def _heading(results: Results) -> str:
    world = "open world" if results["open_world"] else "closed world"
    return escape(f"{results['dataset']}, {world}, preset {results['preset']}")


def _mark(row: Results) -> str:
    return "[green]✓" if row["correct"] else "[red]✗"


def _metric_cells(row: Results, metrics: Iterable[str]) -> list[str]:
    """Metrics as text, with the spread where there are several seeds."""
    cells = []
    for name in metrics:
        _, digits, scale = METRICS[name]
        values = [row[key] for key in (name, f"{name}_std") if row.get(key) is not None]
        cells.append(" ± ".join(f"{scale * value:.{digits}f}" for value in values))
    return cells


def _metric_table(
    title: str,
    places: Sequence[str],
    metrics: Sequence[str],
    groups: Iterable[Iterable[tuple[Sequence[str], Results]]],
) -> Table:
    """Metrics in groups of rows, each with its cells in the columns ``places``."""
    numbers = ["n", *(METRICS[name][0] for name in metrics)]
    table = plain_table(title, *places, *numbers, numbers=numbers)
    for group in groups:
        table.add_section()
        for cells, row in group:
            table.add_row(*cells, f"{row['n']:,}", *_metric_cells(row, metrics))
    return table


def _print_calibration(console: Console, results: Results, name: str, among: str) -> None:
    if found := results.get("confidence"):
        print_lines(
            console,
            f"{name}: {found['mean']:.1%} expected and {found['right']:.1%} right among {among}, "
            f"calibration error {found['ece']:.3f}",
        )


PRINTERS = {
    "aligner": Printer(
        held_out=("test_links", "links", "trains on all of them"),
        results=_print_links,
        samples=_sample_links,
        next_step="matches  decentrl match {run} --top 5",
        finish="matching",
    ),
    "predictor": Printer(
        held_out=("test", "triples", "holds out none"),
        results=_print_triples,
        samples=_sample_answers,
        next_step="answers  decentrl predict {run} --head HEAD --relation RELATION",
        finish="answering",
    ),
}
