"""What the commands of both jobs share: the course of a run, consoles, tables, progress."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial, reduce
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

from decentrl.cli.options import plain_console
from decentrl.errors import BundleError, ConfigError, InputError
from decentrl.storage.card import QUALITY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Results = Mapping[str, Any]
COMMANDS = {"Sources": "align", "GraphSources": "complete", "Grown": "refit"}
"""What makes a run from each of :mod:`decentrl.runs.sources`."""


@dataclass(frozen=True)
class Job:
    """What makes a run an alignment or a prediction."""

    command: str
    work: Callable[..., tuple[Any, dict[str, Any]]]  # runs.align or runs.complete
    epochs: Callable[[Any], int]  # how many the settings plan
    announce: Callable[[Console, Any, Any], None]  # sources and task, before training
    samples: Callable[[Any], Sequence[Results]]  # of the trained model, to show ten
    tell: Callable[[Console, Results, Sequence[Results]], None]  # results and samples
    way_on: str  # what to do with the RUN
    valid: str  # the metric that validation decides by
    finish: str  # what comes after training


def run(
    job: Job,
    sources: Any,
    config: Any,
    output: Path,
    *,
    seeds: int,
    device: str,
    resume: bool,
    overwrite: bool,
    as_json: bool,
    command: str,
    changes: Sequence[str] = (),
    named: Sequence[str] = (),
) -> None:
    """``decentrl align``, ``decentrl complete`` and ``decentrl refit``.

    Args:
        changes: settings asked for; a run that goes on must have been begun with them.
        named: other options that were given; the same holds for them.
    """
    from decentrl.nn.device import pick_device
    from decentrl.runs import run as runs
    from decentrl.runs.sources import read_task

    first = output / "seed-0" if seeds else output
    if resume and overwrite:
        raise ConfigError("--resume keeps a run and --overwrite does not; give one of them")
    if resume:
        if (output / runs.RESULTS).exists() and not seeds:
            raise InputError("this run is finished", file=output, remedy="`decentrl info` shows it")
        asked = sources, config
        sources, config = runs.read_settings(first)
        if not isinstance(sources, type(asked[0])):
            raise BundleError(
                f"{first}: go on with this run by `decentrl {COMMANDS[type(sources).__name__]} "
                "--resume`"
            )
        _refuse_changes(first, asked, (sources, config), changes, named)
    elif overwrite:
        read_task(sources, config)  # what is clearly wrong is told before anything is touched
        pick_device(device)
    console = wide_console(stderr=as_json)
    with runs.replacing(output) if overwrite else nullcontext():
        summary, samples = _train(
            job, sources, config, output, seeds, console, device=device, resume=resume,
            command=command,
        )  # fmt: skip
    if as_json:
        print_json(summary)
        return
    job.tell(console, summary, samples)
    console.print(
        f"report   {first / 'report.html'}\n{job.way_on.format(run=first)}",
        soft_wrap=True,
        markup=False,
    )


def _train(
    job: Job,
    sources: Any,
    config: Any,
    output: Path,
    seeds: int,
    console: Console,
    *,
    device: str,
    resume: bool,
    command: str,
) -> tuple[dict[str, Any], Sequence[Results]]:
    """One run, or one for each seed: the results, and some answers."""
    from decentrl.runs import run as runs
    from decentrl.runs.report.collect import pick_samples

    if seeds and not resume:
        runs.refuse_existing(output)
    places = [(output / f"seed-{i}", i) for i in range(seeds)] or [(output, config.seed)]
    done: list[dict[str, Any]] = []
    samples: Sequence[Results] = ()
    for folder, seed in places:
        if resume and (folder / runs.RESULTS).exists():
            done.append(read_results(folder))
            continue
        used = replace(config, seed=seed)
        with _progress(job, job.epochs(used)) as (on_epoch, on_trained):
            model, results = job.work(
                sources, used, folder,
                device=device, resume=resume and (folder / runs.CONFIG).exists(),
                command=command, on_epoch=on_epoch, on_trained=on_trained,
                on_start=partial(job.announce, console, sources),
            )  # fmt: skip
        done.append(results)
        samples = pick_samples(job.samples(model), 10) if results["results"] else ()
    summary = runs.average(done) if seeds else done[0]
    if seeds:
        text = json.dumps(summary, indent=2, ensure_ascii=False) + "\n"
        (output / runs.RESULTS).write_text(text, "utf-8")
    return summary, samples


def _refuse_changes(
    run: Path,
    asked: tuple[Any, Any],
    begun: tuple[Any, Any],
    changes: Sequence[str],
    named: Sequence[str],
) -> None:
    """Raise if a run that goes on is asked for something else than it was begun with."""
    other = []
    for name in named:
        place = int(name in ("preset", "seed"))
        if (now := getattr(asked[place], name)) != getattr(begun[place], name):
            other.append(f"--{name.replace('_', '-')}" + ("" if now is True else f" {now}"))
    config = begun[1]
    wanted = reduce(lambda known, change: known.with_setting(change), changes, config)
    for change in changes:
        if config.with_setting(change) != config and wanted.with_setting(change) == wanted:
            other.append(change)  # unless a later one has the last word
    if other:
        raise ConfigError(
            f"{run} was not begun with {', '.join(other)}; leave that out to go on, or start a "
            "new run"
        )


def read_results(folder: Path) -> dict[str, Any]:
    """``results.json`` of a finished run."""
    path = folder / "results.json"
    if not path.is_file():
        raise InputError(
            "no finished run here", file=folder, remedy="give one made by `align` or `complete`"
        )
    try:
        results = dict(json.loads(path.read_bytes()))
        _ = results["seconds"].items(), results["results"][:], results["peak_memory_bytes"] + 0
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise BundleError(f"{path}: damaged, it is not the JSON that a run writes") from error
    return results


def info(folder: Path, results: Results, tell: Callable[[Console, Results], None]) -> None:
    """``decentrl info``."""
    console = wide_console()
    card = folder / "bundle" / "README.md"
    if card.is_file():
        text = card.read_text("utf-8").split(QUALITY)[0].split("```")[0].rstrip()
        console.print(text, markup=False)
    seconds = ", ".join(f"{name} {value:.1f} s" for name, value in results["seconds"].items())
    memory = results["peak_memory_bytes"] / 2**20
    console.print(f"- {results['device']}: {seconds}; peak memory {memory:,.0f} MiB")
    if since := results.get("added"):
        console.print(
            f"- added since: {since['triples']:,} triples and {since['entities']:,} entities; "
            f"additions: {since['additions']:,}, {since['in_the_bundle']:,} of them in the bundle"
        )
    console.print()
    tell(console, results)


def heading(results: Results) -> str:
    """What a table of results is about."""
    world = "open world" if results["open_world"] else "closed world"
    return escape(f"{results['dataset']}, {world}, preset {results['preset']}")


def metric_cells(row: Results, columns: Mapping[str, tuple[int, int]]) -> list[str]:
    """Metrics for people, with the spread where there are several seeds.

    Args:
        columns: the digits and the scale (100 for per cent) of each metric.
    """
    cells = []
    for name, (digits, scale) in columns.items():
        spread = row.get(f"{name}_std")
        text = f"{scale * row[name]:.{digits}f}"
        cells.append(text if spread is None else f"{text} ± {scale * spread:.{digits}f}")
    return cells


def wide_console(stderr: bool = False) -> Console:
    """Where no terminal sets a width, a table with the spread of several seeds must fit."""
    console = plain_console(stderr)
    if not console.is_terminal:
        console.width = max(console.width, 120)
    return console


def plain_table(title: str, *names: str, wrap: Sequence[str] = ()) -> Table:
    """Few lines and little space: nine columns fit into eighty characters."""
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    table.pad_edge, table.padding = False, (0, 1, 0, 0)
    for name in names:
        table.add_column(name, no_wrap=name not in wrap)
    return table


def number_columns(table: Table, *names: str) -> None:
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)


def mark(right: bool) -> str:
    return "[green]✓" if right else "[red]✗"


def escape(label: str) -> str:
    from rich.markup import escape

    return escape(label)


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False))


def say_read(console: Console, graph: Any, name: str = "") -> None:
    """What reading a graph left out, if anything."""
    counts = graph.counts
    if counts.duplicates or counts.literals:
        console.print(
            f"{name}{counts.duplicates:,} duplicate triples dropped, "
            f"{counts.literals:,} with a literal set aside"
        )


@contextmanager
def _progress(
    job: Job, epochs: int
) -> Iterator[tuple[Callable[[dict[str, Any]], None], Callable[[], None]]]:
    """A bar on a terminal: loss, validation, epochs a second, time left; then what comes after.

    Yields what to call after every epoch, and after training.
    """
    console = plain_console(stderr=True)
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
            if (value := row.get(f"valid_{job.valid.lower()}")) is not None:
                valid = f"  valid {job.valid} {value:.3f}"
            speed = f"{1 / max(row['seconds'], 1e-9):.1f} epochs/s"
            note = f"loss {row['loss']:,.1f}{valid}  {speed}"
            bar.update(task, description="training", total=epochs, completed=done, note=note)

        def on_trained() -> None:
            bar.remove_task(task)
            bar.add_task(job.finish, total=None, note="")

        yield on_epoch, on_trained
