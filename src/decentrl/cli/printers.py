"""How the results of the two jobs are printed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from decentrl.cli.console import (
    Results,
    escape,
    mark,
    metric_cells,
    number_columns,
    plain_table,
    print_lines,
)

if TYPE_CHECKING:
    from decentrl.data.alignment_task import AlignmentTask
    from decentrl.data.graph_task import GraphTask

LABELS = ("left", "right", "head", "relation", "tail", "question", "best match", "best answer",
          "truth")  # fmt: skip
"""Columns that may be wrapped."""
LINK_COLUMNS = {"hits@1": (1, 100), "hits@10": (1, 100), "mrr": (3, 1), "mr": (1, 1)}
COLUMNS = {"mrr": (3, 1), "hits@1": (1, 100), "hits@3": (1, 100), "hits@10": (1, 100), "mr": (1, 1)}
NAMES = ("n", "MRR", "Hits@1", "Hits@3", "Hits@10", "MR")
QUESTIONS = {"tail": "(h, r, ?)", "head": "(?, r, t)"}


@dataclass(frozen=True)
class Printer:
    """What the command line prints of a job, beside what all jobs share."""

    announce: Callable[[Console, Any], None]  # the task, before training
    held_out: tuple[str, str, str]  # without which option, what was held out, what 0 does
    results: Callable[[Console, Results], None]
    samples: Callable[[Sequence[Results]], Table]
    answers: Callable[[Sequence[Results]], Table | str]
    next_step: str  # what to do with the RUN
    valid: str  # the metric that validation decides by
    finish: str  # what comes after training


# Alignment


def _announce_links(console: Console, task: AlignmentTask) -> None:
    left, right = task.left, task.right
    print_lines(
        console,
        f"{task.name}: {len(left.entities):,} + {len(right.entities):,} entities, "
        f"{len(left.triples):,} + {len(right.triples):,} triples, {len(task.train):,} training "
        f"and {len(task.test):,} test links",
    )
    for name, graph in (("left", left), ("right", right)):
        _print_left_out(console, graph, f"{name}: ")


def _print_links(console: Console, results: Results) -> None:
    """Metrics, what validation links have chosen, and how far confidence can be trusted."""
    console.print(_links_table(results))
    training = results.get("self_training")
    if training and len(training["validation"]) > 1:
        tried = " ".join(f"{row['hits@1']:.3f}" for row in training["validation"])
        chosen = training["rounds"]
        chosen = ", ".join(map(str, chosen)) if isinstance(chosen, list) else chosen
        console.print(f"self-training: {chosen} rounds (validation Hits@1 {tried})")
    _print_calibration(console, results, "confidence", "all entities")


def _links_table(results: Results) -> Table:
    """Metrics in per cent, with the spread where there are several seeds."""
    parts = any(row["subset"] != "all" for row in results["results"])
    places = ("direction", "among", *(["entities"] if parts else []), "matcher")
    table = plain_table(_heading(results), *places)
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
        table.add_row(*place, row["matcher"], f"{row['n']:,}", *metric_cells(row, LINK_COLUMNS))
    return table


def _sample_links(samples: Sequence[Results]) -> Table:
    names = ("", "left", "best match", "truth")
    table = plain_table("Ten of the test entities", *names, wrap=LABELS)
    for row in samples:
        truth = "" if row["correct"] else escape(row["truth"])
        table.add_row(mark(row["correct"]), escape(row["left"]), escape(row["right"]), truth)
    return table


def _show_matches(rows: Sequence[Results]) -> Table:
    table = plain_table("", "left", "right", "rank", "score", "confidence", wrap=LABELS)
    for row in rows:
        labels = ("[dim]none" if row[side] is None else escape(row[side])
                  for side in ("left", "right"))  # fmt: skip
        numbers = (f"{row[name]:.4f}" if row[name] is not None else ""
                   for name in ("score", "confidence"))  # fmt: skip
        table.add_row(*labels, str(row["rank"]), *numbers)
    return table


# Prediction


def _announce_triples(console: Console, task: GraphTask) -> None:
    graph = task.graph
    later = "" if task.auxiliary is None else f"; {len(task.auxiliary):,} arrive after training"
    print_lines(
        console,
        f"{task.name}: {len(graph.entities):,} entities, {len(graph.relations):,} relations, "
        f"{len(graph.triples):,} training, {len(task.valid):,} validation and "
        f"{len(task.test):,} test triples{later}",
    )
    _print_left_out(console, graph)


def _print_triples(console: Console, results: Results) -> None:
    """Metrics, the baseline by frequency, and how far probabilities can be trusted."""
    if results["results"]:
        console.print(_triples_table(results))
    else:
        console.print("no triple was held out, so nothing was evaluated", soft_wrap=True)
    if frequency := results["frequency"]:
        mrr, *hits, mr = metric_cells(frequency, COLUMNS)
        shown = ", ".join(f"Hits@{k} {value}" for k, value in zip((1, 3, 10), hits, strict=True))
        console.print(f"answering by training frequency: MRR {mrr}, {shown}, MR {mr}")
    among = "the ten best answers of each test question"
    _print_calibration(console, results, "probabilities", among)


def _triples_table(results: Results) -> Table:
    """Metrics group by group; single relations are another table."""
    table = plain_table(_heading(results), "questions")
    number_columns(table, *NAMES)
    before = None
    for row in results["results"]:
        group, name = row["group"], row["name"]
        if group == "relation":
            continue
        if before not in (None, group):
            table.add_section()
        before = group
        name = f"{name} {QUESTIONS[name]}" if group == "direction" else name
        table.add_row(name, f"{row['n']:,}", *metric_cells(row, COLUMNS))
    return table


def relation_table(rows: Sequence[Results]) -> Table:
    """Metrics of a prediction for each relation, the most frequent first."""
    table = plain_table("Relation by relation", "relation", wrap=LABELS)
    number_columns(table, *NAMES)
    chosen = [row for row in rows if row["group"] == "relation"]
    for row in sorted(chosen, key=lambda row: (-row["n"], row["name"])):
        table.add_row(escape(row["name"]), f"{row['n']:,}", *metric_cells(row, COLUMNS))
    return table


def _sample_answers(samples: Sequence[Results]) -> Table:
    names = ("", "question", "best answer", "truth")
    table = plain_table("Ten of the test questions", *names, wrap=LABELS)
    number_columns(table, "probability")
    for row in samples:
        relation = escape(row["relation"])
        if row["asked"] == "tail":
            asked, answer = f"{escape(row['head'])} – {relation} → ?", row["tail"]
        else:
            asked, answer = f"? – {relation} → {escape(row['tail'])}", row["head"]
        truth = "" if row["correct"] else ", ".join(row["truth"][:2])
        if truth and len(row["truth"]) > 2:
            truth += f" and {len(row['truth']) - 2:,} more"
        chance = "" if row["probability"] is None else f"{row['probability']:.2f}"
        table.add_row(mark(row["correct"]), asked, escape(answer or "none"), escape(truth), chance)
    return table


def _show_answers(rows: Sequence[Results]) -> Table | str:
    if not rows:
        return "no new answer; --known also shows the answers that the graph already holds"
    with_known = any(row["known"] for row in rows)
    names = ("head", "relation", "tail", *(["known"] if with_known else []))
    table = plain_table("", *names, wrap=LABELS)
    number_columns(table, "rank", "score", "probability")
    for row in rows:
        cells = [escape(row[name]) for name in ("head", "relation", "tail")]
        if with_known:
            cells.append("yes" if row["known"] else "")
        chance = "" if row["probability"] is None else f"{row['probability']:.3f}"
        table.add_row(*cells, str(row["rank"]), f"{row['score']:.4f}", chance)
    return table


# Both


def _heading(results: Results) -> str:
    world = "open world" if results["open_world"] else "closed world"
    return escape(f"{results['dataset']}, {world}, preset {results['preset']}")


def _print_left_out(console: Console, graph: Any, name: str = "") -> None:
    """What reading a graph left out, if anything."""
    counts = graph.counts
    if counts.duplicates or counts.literals:
        console.print(
            f"{name}{counts.duplicates:,} duplicate triples dropped, "
            f"{counts.literals:,} with a literal set aside"
        )


def _print_calibration(console: Console, results: Results, name: str, among: str) -> None:
    if found := results.get("confidence"):
        print_lines(
            console,
            f"{name}: {found['mean']:.1%} expected and {found['right']:.1%} right among {among}, "
            f"calibration error {found['ece']:.3f}",
        )


PRINTERS = {
    "aligner": Printer(
        announce=_announce_links,
        held_out=("test_links", "links", "trains on all of them"),
        results=_print_links,
        samples=_sample_links,
        answers=_show_matches,
        next_step="matches  decentrl match {run} --top 5",
        valid="Hits@1",
        finish="matching",
    ),
    "predictor": Printer(
        announce=_announce_triples,
        held_out=("test", "triples", "holds out none"),
        results=_print_triples,
        samples=_sample_answers,
        answers=_show_answers,
        next_step="answers  decentrl predict {run} --head HEAD --relation RELATION",
        valid="MRR",
        finish="answering",
    ),
}
