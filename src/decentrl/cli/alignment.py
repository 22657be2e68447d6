"""What the alignment commands do once their words are understood."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from decentrl.cli.common import (
    Job,
    Results,
    escape,
    heading,
    mark,
    metric_cells,
    number_columns,
    plain_table,
    print_json,
    say_read,
    wide_console,
)
from decentrl.cli.options import plain_console
from decentrl.cli.output import check_output, tsv_row, write_table

if TYPE_CHECKING:
    from decentrl.data.alignment_task import AlignmentTask
    from decentrl.runs.sources import Grown, Sources

LABELS = ("left", "right", "best match", "truth")
COLUMNS = {"hits@1": (1, 100), "hits@10": (1, 100), "mrr": (3, 1), "mr": (1, 1)}


def job() -> Job:
    """``decentrl align``."""
    from decentrl.runs import run as runs
    from decentrl.training.fitting import planned_epochs

    return Job(
        command="align",
        work=runs.align,
        epochs=lambda config: planned_epochs(config, True),
        announce=_announce,
        samples=lambda aligner: aligner.test_matches(),
        tell=tell,
        way_on="matches  decentrl match {run} --top 5",
        valid="Hits@1",
        finish="matching",
    )


def tell(console: Console, results: Results, samples: Sequence[Results] = ()) -> None:
    """The results of a run, what was chosen, and some matches."""
    console.print(results_table(results))
    _tell_choices(console, results)
    if samples:
        console.print(_sample_table(samples))


def evaluate(folder: Path, links: str, device: str, as_json: bool) -> None:
    """``decentrl evaluate``."""
    from decentrl.aligner import Aligner

    aligner = Aligner.load(folder, device)
    rows, _ = aligner.evaluate(links=links or None)
    results = {
        "dataset": aligner.task.name,
        "open_world": aligner.task.open_world,
        "preset": aligner.config.preset,
        "seed": aligner.config.seed,
        "results": rows,
    }
    if as_json:
        print_json(results)
    else:
        wide_console().print(results_table(results))


def match(
    folder: Path,
    entities: list[str] | None,
    asked: Mapping[str, Any],
    output: Path | None,
    device: str,
    as_json: bool,
) -> None:
    """``decentrl match``; ``asked`` goes to :meth:`Aligner.match` as it is."""
    if output is not None:
        check_output(output, asked["top"])
    from decentrl.aligner import Aligner

    aligner = Aligner.load(folder, device)
    table = aligner.match(entities or None, **asked)
    other = "right" if asked["side"] == "left" else "left"
    if output is not None:
        write_table(table, output)
        none = table[other].null_count
        said = f"{output}: {table.num_rows - none:,} matches"
        said += f", {none:,} entities without one" if none else ""
        plain_console(stderr=True).print(said, soft_wrap=True, markup=False)
    elif as_json:
        print_json(table.to_pylist())
    elif sys.stdout.isatty():
        shown = plain_table("", "left", "right", "rank", "score", "confidence", wrap=LABELS)
        for row in table.slice(0, 50).to_pylist():
            labels = ("[dim]none" if row[side] is None else escape(row[side])
                      for side in ("left", "right"))  # fmt: skip
            numbers = (f"{row[name]:.4f}" if row[name] is not None else ""
                       for name in ("score", "confidence"))  # fmt: skip
            shown.add_row(*labels, str(row["rank"]), *numbers)
        console = plain_console()
        console.print(shown)
        if table.num_rows > 50:
            console.print(f"… and {table.num_rows - 50:,} more: write them with -o matches.tsv")
    else:
        for row in table.to_pylist():
            print(tsv_row(row), end="")


def results_table(results: Results) -> Table:
    """Metrics for people: per cent, with the spread where there are several seeds."""
    parts = any(row["subset"] != "all" for row in results["results"])
    places = ("direction", "among", *(["entities"] if parts else []), "matcher")
    table = plain_table(heading(results), *places)
    number_columns(table, "n", "Hits@1", "Hits@10", "MRR", "MR")
    before: tuple[str, str] | None = None
    for row in results["results"]:
        group = (row["direction"].replace("-", " → "), row["candidates"])
        if before not in (None, group):
            table.add_section()
        place = list(group if before != group else ("", ""))
        before = group
        if parts:
            place.append(row["subset"])
        table.add_row(*place, row["matcher"], f"{row['n']:,}", *metric_cells(row, COLUMNS))
    return table


def _tell_choices(console: Console, results: Results) -> None:
    """What validation links have chosen, and how far confidence can be trusted."""
    training, confidence = results.get("self_training"), results.get("confidence")
    if training and len(training["validation"]) > 1:
        tried = " ".join(f"{row['hits@1']:.3f}" for row in training["validation"])
        chosen = training["rounds"]
        chosen = ", ".join(map(str, chosen)) if isinstance(chosen, list) else chosen
        console.print(f"self-training: {chosen} rounds (validation Hits@1 {tried})")
    if confidence:
        console.print(
            f"confidence: {confidence['mean']:.1%} expected and {confidence['right']:.1%} right "
            f"among all entities, calibration error {confidence['ece']:.3f}",
            soft_wrap=True,
        )


def _sample_table(samples: Sequence[Results]) -> Table:
    names = ("", "left", "best match", "truth")
    table = plain_table("Ten of the test entities", *names, wrap=LABELS)
    for row in samples:
        right = row["correct"]
        table.add_row(
            mark(right),
            *(escape(row[name]) for name in ("left", "right")),
            "" if right else escape(row["truth"]),
        )
    return table


def _announce(console: Console, sources: Sources | Grown, task: AlignmentTask) -> None:
    from decentrl.runs.sources import Sources

    left, right = task.left, task.right
    console.print(
        f"{task.name}: {len(left.entities):,} + {len(right.entities):,} entities, "
        f"{len(left.triples):,} + {len(right.triples):,} triples, {len(task.train):,} training "
        f"and {len(task.test):,} test links",
        soft_wrap=True,
        markup=False,
    )
    for name, graph in (("left", left), ("right", right)):
        say_read(console, graph, f"{name}: ")
    if not isinstance(sources, Sources):
        return
    if not sources.dataset and not sources.test_links and len(task.test):
        console.print(
            f"no --test-links: {len(task.test):,} links ({sources.holdout:.0%}) were held out to "
            "test on; --holdout 0 trains on all of them",
            soft_wrap=True,
        )
