"""What the prediction commands do once their words are understood."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

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
from decentrl.cli.output import TABLES, check_output, tsv_row, write_table

if TYPE_CHECKING:
    from decentrl.data.graph_task import GraphTask
    from decentrl.data.questions import Question
    from decentrl.runs.sources import GraphSources, Grown

LABELS = ("head", "relation", "tail", "question", "best answer", "truth")
COLUMNS = {"mrr": (3, 1), "hits@1": (1, 100), "hits@3": (1, 100), "hits@10": (1, 100), "mr": (1, 1)}
NAMES = ("n", "MRR", "Hits@1", "Hits@3", "Hits@10", "MR")
ASKS = {"tail": "(h, r, ?)", "head": "(?, r, t)"}


def job() -> Job:
    """``decentrl complete``."""
    from decentrl.runs import run as runs

    return Job(
        command="complete",
        work=runs.complete,
        epochs=lambda config: int(config.training.epochs),
        announce=_announce,
        samples=lambda predictor: predictor.test_predictions().to_pylist(),
        tell=tell,
        way_on="answers  decentrl predict {run} --head HEAD --relation RELATION",
        valid="MRR",
        finish="answering",
    )


def tell(console: Console, results: Results, samples: Sequence[Results] = ()) -> None:
    """The results of a run, what they compare with, and some answers."""
    if results["results"]:
        console.print(results_table(results))
    else:
        console.print("no triple was held out, so nothing was evaluated", soft_wrap=True)
    _tell_frequency(console, results)
    if confidence := results["confidence"]:
        console.print(
            f"probabilities: {confidence['mean']:.1%} expected and {confidence['right']:.1%} right "
            "among the ten best answers of each test question, "
            f"calibration error {confidence['ece']:.3f}",
            soft_wrap=True,
        )
    if samples:
        console.print(_sample_table(samples))


def evaluate(folder: Path, triples: str, relations: bool, device: str, as_json: bool) -> None:
    """``decentrl evaluate`` of a predictor."""
    from decentrl.predictor import Predictor

    predictor = Predictor.load(folder, device)
    rows, _ = predictor.evaluate(triples or None)
    results = {
        "dataset": predictor.task.name,
        "open_world": predictor.task.open_world,
        "task": "prediction",
        "preset": predictor.config.preset,
        "seed": predictor.config.seed,
        "results": rows,
        "frequency": predictor.frequency(triples or None),
    }
    if as_json:
        print_json(results)
        return
    console = wide_console()
    console.print(results_table(results))
    _tell_frequency(console, results)
    if relations:
        console.print(_relation_table(rows))


def predict(
    folder: Path,
    question: Question | None,
    batch: str,
    top: int,
    known: bool,
    output: Path | None,
    device: str,
    as_json: bool,
) -> None:
    """``decentrl predict``: one question, or a file of them."""
    if output is not None:
        check_output(output, suffixes=TABLES)
    from decentrl.data.questions import read_questions
    from decentrl.predictor import Predictor

    predictor = Predictor.load(folder, device)
    graph = predictor.task.graph
    questions = [question] if question else read_questions(batch, graph.entities, graph.relations)
    table = predictor.predict_all(questions, top=top, known=known)
    if output is not None:
        write_table(table, output)
        said = f"{output}: {table.num_rows:,} answers to {len(questions):,} questions"
        plain_console(stderr=True).print(said, soft_wrap=True, markup=False)
    elif as_json:
        print_json(table.to_pylist())
    elif sys.stdout.isatty():
        _show(table.slice(0, 50).to_pylist(), table.num_rows)
    else:
        for row in table.to_pylist():
            print(tsv_row(row), end="")


def _show(rows: Sequence[Results], count: int) -> None:
    """Answers for people."""
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
    console = plain_console()
    console.print(
        table if rows else "no answer: nothing new is known (--known shows what was told)"
    )
    if count > len(rows):
        console.print(f"… and {count - len(rows):,} more: write them with -o answers.tsv")


def results_table(results: Results) -> Table:
    """Metrics for people, group by group; single relations are another table."""
    table = plain_table(heading(results), "questions")
    number_columns(table, *NAMES)
    before = None
    for row in results["results"]:
        if row["group"] == "relation":
            continue
        if before not in (None, row["group"]):
            table.add_section()
        before = row["group"]
        name = f"{row['name']} {ASKS[row['name']]}" if row["group"] == "direction" else row["name"]
        table.add_row(name, f"{row['n']:,}", *metric_cells(row, COLUMNS))
    return table


def _relation_table(rows: Sequence[Results]) -> Table:
    table = plain_table("Relation by relation", "relation", wrap=LABELS)
    number_columns(table, *NAMES)
    chosen = [row for row in rows if row["group"] == "relation"]
    for row in sorted(chosen, key=lambda row: (-row["n"], row["name"])):
        table.add_row(escape(row["name"]), f"{row['n']:,}", *metric_cells(row, COLUMNS))
    return table


def _tell_frequency(console: Console, results: Results) -> None:
    if found := results["frequency"]:
        mrr, *hits, mr = metric_cells(found, COLUMNS)
        told = ", ".join(f"Hits@{k} {value}" for k, value in zip((1, 3, 10), hits, strict=True))
        console.print(f"answering by training frequency: MRR {mrr}, {told}, MR {mr}")


def _sample_table(samples: Sequence[Results]) -> Table:
    names = ("", "question", "best answer", "truth")
    table = plain_table("Ten of the test questions", *names, wrap=LABELS)
    number_columns(table, "probability")
    for row in samples:
        relation = escape(row["relation"])
        if row["asked"] == "tail":
            asked, answer = f"{escape(row['head'])} – {relation} → ?", row["tail"]
        else:
            asked, answer = f"? – {relation} → {escape(row['tail'])}", row["head"]
        truth = "" if row["correct"] else _some(row["truth"])
        chance = "" if row["probability"] is None else f"{row['probability']:.2f}"
        table.add_row(mark(row["correct"]), asked, escape(answer or "none"), truth, chance)
    return table


def _some(labels: Sequence[str]) -> str:
    more = f" and {len(labels) - 2:,} more" if len(labels) > 2 else ""
    return escape(", ".join(labels[:2]) + more)


def _announce(console: Console, sources: GraphSources | Grown, task: GraphTask) -> None:
    from decentrl.runs.sources import GraphSources

    graph = task.graph
    said = (
        f"{task.name}: {len(graph.entities):,} entities, {len(graph.relations):,} relations, "
        f"{len(graph.triples):,} training, {len(task.valid):,} validation and "
        f"{len(task.test):,} test triples"
    )
    if task.auxiliary is not None:
        said += f"; {len(task.auxiliary):,} arrive after training"
    console.print(said, soft_wrap=True, markup=False)
    say_read(console, graph)
    if not isinstance(sources, GraphSources):
        return
    if not sources.dataset and not sources.test and len(task.test):
        console.print(
            f"no --test: {len(task.test):,} triples ({sources.holdout:.0%}) were held out to test "
            "on; --holdout 0 holds out none",
            soft_wrap=True,
        )
