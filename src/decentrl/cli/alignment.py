"""What the alignment commands do once their words are understood."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from decentrl.cli.output import check_output, tsv_row, write_matches
from decentrl.config import Config
from decentrl.errors import BundleError, InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from decentrl.data.alignment_task import AlignmentTask
    from decentrl.runs import Sources


def run(
    sources: Sources,
    config: Config,
    output: Path,
    *,
    seeds: int,
    device: str,
    resume: bool,
    overwrite: bool,
    as_json: bool,
    command: str,
) -> None:
    """``decentrl align``."""
    from dataclasses import replace

    from decentrl import runs
    from decentrl.aligner import pick_device
    from decentrl.runs import RESULTS
    from decentrl.training.fitting import planned_epochs

    first = output / "seed-0" if seeds else output
    if resume:
        if (output / RESULTS).exists() and not seeds:
            raise InputError("this run is finished", file=output, remedy="`decentrl info` shows it")
        sources, config = runs.read_settings(first)
    elif overwrite:
        sources.read(config.seed)  # bad input must not cost the old run
        pick_device(device)
        runs.remove_run(output)
    if seeds and not resume:
        runs.refuse_existing(output)
    places = [(output / f"seed-{i}", i) for i in range(seeds)] or [(output, config.seed)]

    console = _console(stderr=as_json)
    done: list[dict[str, Any]] = []
    samples: Sequence[Mapping[str, Any]] = ()
    for folder, seed in places:
        if resume and (folder / RESULTS).exists():
            done.append(read_results(folder))
            continue
        used = replace(config, seed=seed)
        with _progress(planned_epochs(used, True)) as (on_epoch, on_trained):
            aligner, results = runs.align(
                sources, used, folder,
                device=device, resume=resume and (folder / runs.CONFIG).exists(),
                command=command, on_epoch=on_epoch, on_trained=on_trained,
                on_start=partial(_announce, console, sources),
            )  # fmt: skip
        done.append(results)
        samples = runs.pick_samples(aligner.test_matches(), 10) if results["results"] else ()
    summary = runs.average(done) if seeds else done[0]
    if seeds:
        text = json.dumps(summary, indent=2, ensure_ascii=False) + "\n"
        (output / RESULTS).write_text(text, "utf-8")
    if as_json:
        print(json.dumps(summary, indent=2, ensure_ascii=False))
        return
    console.print(results_table(summary))
    _tell_choices(console, summary)
    if samples:
        console.print(_sample_table(samples))
    console.print(
        f"report   {first / 'report.html'}\nmatches  decentrl match {first} --top 5",
        soft_wrap=True,
        markup=False,
    )


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
        print(json.dumps(results, indent=2, ensure_ascii=False))
    else:
        _console().print(results_table(results))


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
        write_matches(table, output)
        none = table[other].null_count
        said = f"{output}: {table.num_rows - none:,} matches"
        said += f", {none:,} entities without one" if none else ""
        Console(stderr=True, highlight=False).print(said, soft_wrap=True, markup=False)
    elif as_json:
        print(json.dumps(table.to_pylist(), indent=2, ensure_ascii=False))
    elif sys.stdout.isatty():
        shown = _plain_table("", "left", "right", "rank", "score", "confidence")
        for row in table.slice(0, 50).to_pylist():
            labels = ("[dim]none" if row[side] is None else _escape(row[side])
                      for side in ("left", "right"))  # fmt: skip
            numbers = (f"{row[name]:.4f}" if row[name] is not None else ""
                       for name in ("score", "confidence"))  # fmt: skip
            shown.add_row(*labels, str(row["rank"]), *numbers)
        console = Console(highlight=False)
        console.print(shown)
        if table.num_rows > 50:
            console.print(f"… and {table.num_rows - 50:,} more: write them with -o matches.tsv")
    else:
        for row in table.to_pylist():
            print(tsv_row(**row), end="")


def info(folder: Path, results: Mapping[str, Any]) -> None:
    """``decentrl info``."""
    console = _console()
    card = folder / "bundle" / "README.md"
    if card.is_file():
        text = card.read_text("utf-8").split("Quality on the test links")[0].rstrip()
        console.print(text, markup=False)
    seconds = ", ".join(f"{name} {value:.1f} s" for name, value in results["seconds"].items())
    memory = results["peak_memory_bytes"] / 2**20
    console.print(f"- {results['device']}: {seconds}; peak memory {memory:,.0f} MiB\n")
    console.print(results_table(results))


def read_results(folder: Path) -> dict[str, Any]:
    """``results.json`` of a finished run."""
    path = folder / "results.json"
    if not path.is_file():
        raise InputError("no finished run here", file=folder, remedy="give one made by `align`")
    try:
        results = dict(json.loads(path.read_bytes()))
        _ = results["seconds"].items(), results["results"][:], results["peak_memory_bytes"] + 0
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise BundleError(f"{path}: damaged, it is not the JSON that a run writes") from error
    return results


def results_table(results: Mapping[str, Any]) -> Table:
    """Metrics for people: per cent, with the spread where there are several seeds."""
    world = "open world" if results["open_world"] else "closed world"
    title = _escape(f"{results['dataset']}, {world}, preset {results['preset']}")
    parts = any(row["subset"] != "all" for row in results["results"])
    table = _plain_table(title, "direction", "among", *(["entities"] if parts else []), "matcher")
    for name in ("n", "Hits@1", "Hits@10", "MRR", "MR"):
        table.add_column(name, justify="right", no_wrap=True)
    before: tuple[str, str] | None = None
    for row in results["results"]:
        group = (row["direction"].replace("-", " → "), row["candidates"])
        if before not in (None, group):
            table.add_section()
        place = list(group if before != group else ("", ""))
        before = group
        if parts:
            place.append(row["subset"])
        table.add_row(*place, row["matcher"], f"{row['n']:,}", *_cells(row))
    return table


def _tell_choices(console: Console, results: Mapping[str, Any]) -> None:
    """What validation links have chosen, and how far confidence can be trusted."""
    training, confidence = results["self_training"], results["confidence"]
    if len(training["validation"]) > 1:
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


def _console(stderr: bool = False) -> Console:
    """Where no terminal sets a width, a table with the spread of several seeds must fit."""
    console = Console(stderr=stderr, highlight=False)
    if not console.is_terminal:
        console.width = max(console.width, 120)
    return console


def _plain_table(title: str, *names: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    table.pad_edge, table.padding = False, (0, 1, 0, 0)  # nine columns fit into eighty characters
    for name in names:
        table.add_column(name, no_wrap=name not in ("left", "right", "best match", "truth"))
    return table


def _cells(row: Mapping[str, Any]) -> list[str]:
    cells = []
    for name, digits, scale in (
        ("hits@1", 1, 100),
        ("hits@10", 1, 100),
        ("mrr", 3, 1),
        ("mr", 1, 1),
    ):
        spread = row.get(f"{name}_std")
        text = f"{scale * row[name]:.{digits}f}"
        cells.append(text if spread is None else f"{text} ± {scale * spread:.{digits}f}")
    return cells


def _sample_table(samples: Sequence[Mapping[str, Any]]) -> Table:
    table = _plain_table("Ten of the test entities", "", "left", "best match", "truth")
    for row in samples:
        right = row["correct"]
        table.add_row(
            "[green]✓" if right else "[red]✗",
            *(_escape(row[name]) for name in ("left", "right")),
            "" if right else _escape(row["truth"]),
        )
    return table


def _escape(label: str) -> str:
    from rich.markup import escape

    return escape(label)


def _announce(console: Console, sources: Sources, task: AlignmentTask) -> None:
    left, right = task.left, task.right
    console.print(
        f"{task.name}: {len(left.entities):,} + {len(right.entities):,} entities, "
        f"{len(left.triples):,} + {len(right.triples):,} triples, {len(task.train):,} training "
        f"and {len(task.test):,} test links",
        soft_wrap=True,
        markup=False,
    )
    for name, graph in (("left", left), ("right", right)):
        counts = graph.counts
        if counts.duplicates or counts.literals:
            console.print(
                f"{name}: {counts.duplicates:,} duplicate triples dropped, "
                f"{counts.literals:,} with a literal set aside"
            )
    if not sources.dataset and not sources.test_links and len(task.test):
        console.print(
            f"no --test-links: {len(task.test):,} links ({sources.holdout:.0%}) were held out to "
            "test on; --holdout 0 trains on all of them",
            soft_wrap=True,
        )


@contextmanager
def _progress(epochs: int) -> Iterator[tuple[Callable[[dict[str, Any]], None], Callable[[], None]]]:
    """A bar on a terminal: loss, validation Hits@1, epochs a second, time left; then matching.

    Yields what to call after every epoch, and after training.
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda row: None, lambda: None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[note]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("reading", total=None, note="")
        valid, done = "", 0

        def on_epoch(row: dict[str, Any]) -> None:
            nonlocal valid, done
            done = max(done + 1, row["epoch"])
            if "valid_hits@1" in row:
                valid = f"  valid Hits@1 {row['valid_hits@1']:.3f}"
            speed = f"{1 / max(row['seconds'], 1e-9):.1f} epochs/s"
            note = f"loss {row['loss']:,.1f}{valid}  {speed}"
            bar.update(task, description="training", total=epochs, completed=done, note=note)

        def on_trained() -> None:
            bar.remove_task(task)
            bar.add_task("matching", total=None, note="")

        yield on_epoch, on_trained
