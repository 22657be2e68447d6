"""``python -m studies``: the paper's tables and figures again, from trainings of our own."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from decentrl.cli.options import Device
from decentrl.errors import ConfigError, InputError

if TYPE_CHECKING:
    from rich.console import Console

    from studies.execute import Outcome
    from studies.layout import Target
    from studies.plan import Plan
    from studies.run import Run
    from studies.scale import Scale
    from studies.store import Store

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
RESULTS, SITE = Path("results/reproduce"), Path("docs/results")
QUICK_RESULTS = Path("runs/reproduce-quick")


@app.command()
def reproduce(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME",
            help="datasets, alignment, open-alignment, known-unknown, prediction, open-prediction, "
            "decoders, ablation, sizes, proportions, degree, layers, time, baselines, or all.",
        ),
    ],
    quick: Annotated[
        bool,
        typer.Option("--quick", help="A small version on the dataset `world`: minutes on a CPU."),
    ] = False,
    list_runs: Annotated[
        bool,
        typer.Option("--list", "--dry-run", help="Only list which runs are done and missing."),
    ] = False,
    seeds: Annotated[
        int, typer.Option(help="At most so many seeds a run; 0 takes each target's own.", min=0)
    ] = 0,
    only: Annotated[
        str,
        typer.Option(metavar="PATTERN", help="Only runs with this in their name (see --list)."),
    ] = "",
    budget: Annotated[
        float | None,
        typer.Option(
            metavar="MINUTES",
            help="Start nothing that is expected to end later; 0 only lays out what is there.",
        ),
    ] = None,
    jobs: Annotated[
        int, typer.Option(help="Runs at once; 0 takes what the device has room for.", min=0)
    ] = 0,
    device: Device = "auto",
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FOLDER", help=f"Result files ({RESULTS})."),
    ] = None,
    site: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help=f"Pages and figures ({SITE}).")
    ] = None,
) -> None:
    """Make tables and figures of the paper again, ours beside the paper's numbers.

    Runs that have left a result file are not repeated, so a command that was interrupted goes on
    when given again. Pages are made from the result files alone. Without `--quick` nothing is
    trained from a tree with uncommitted changes.

    python -m studies alignment open-alignment --budget 60

    python -m studies all --only 'fb15k-237.*transe' --list

    python -m studies all --quick
    """
    from studies.execute import room_for
    from studies.plan import Plan
    from studies.scale import FULL, QUICK, fewer_seeds
    from studies.source_tree import check_committed, commit
    from studies.store import Store
    from studies.targets import make_targets

    scale = fewer_seeds(QUICK if quick else FULL, seeds)
    targets = make_targets(names, scale)
    if budget is not None and budget < 0:
        raise ConfigError(f"the budget is {budget:g} minutes; it must be at least 0")
    folder = output or (QUICK_RESULTS if quick else RESULTS)
    pages = site or (QUICK_RESULTS / "site" if quick else SITE)
    store = Store(folder)
    plan = Plan.of(targets, store)
    if only:
        plan = plan.only(only)
    if list_runs:
        _list(targets, plan, store)
        return
    outcome, train = None, bool(plan.missing) and budget != 0
    trial = quick and folder.resolve() != RESULTS.resolve()
    if train:
        _check_data(plan.missing)
        if not trial:
            check_committed(commit())
        _make(folder)
    _make(pages)
    if train:
        try:
            outcome = _execute(plan, store, jobs or room_for(device, quick), device, budget, trial)
        except KeyboardInterrupt:
            typer.echo(f"interrupted; what is finished is kept in {folder}", err=True)
            raise typer.Exit(130) from None
    _show(targets, scale, store, pages, outcome)
    if outcome is not None and outcome.failed:
        raise typer.Exit(1)


def _check_data(runs: Sequence[Run]) -> None:
    """Raise before any work if files of a dataset are missing."""
    from decentrl.data.registry import find_dataset, load_dataset

    for dataset, opened in sorted({(run.dataset, run.unseen > 0) for run in runs}):
        if find_dataset(dataset).missing(opened):
            try:
                load_dataset(dataset, opened)  # its message names the remedy
            except InputError as error:
                raise InputError(
                    f"{error.problem}",
                    file=error.file,
                    remedy=f"{error.remedy}; `--quick` needs no files",
                ) from None


def _make(folder: Path) -> None:
    """Make a folder, or raise before any work if nothing can be written there."""
    from tempfile import TemporaryFile

    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise InputError(
            f"cannot write there ({error.strerror})", file=folder, remedy="give another folder"
        ) from error


def _execute(
    plan: Plan, store: Store, jobs: int, device: str, budget: float | None, trial: bool
) -> Outcome:
    from studies.execute import execute

    total = len(plan.missing)
    before = f"{len(plan.done)} done before, {jobs} at once"
    typer.echo(f"{_runs(total)} to do, {before}", err=True)

    def report(run: Run, problem: str, outcome: Outcome, left: float) -> None:
        ended = len(outcome.done) + len(outcome.failed)
        result = store.get(run)
        ending = problem or ("" if result is None else f"{result['seconds']['whole']:.1f} s")
        typer.echo(f"[{ended}/{total}] {run.name}: {ending}, about {_minutes(left)} left", err=True)

    seconds = None if budget is None else 60 * budget
    return execute(
        plan.missing, store, jobs=jobs, device=device, budget=seconds, trial=trial, report=report
    )


def _runs(count: int) -> str:
    return f"{count} run{'s' * (count != 1)}"


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


def _list(targets: list[Target], plan: Plan, store: Store) -> None:
    from studies.plan import Plan, expected_seconds

    for target in targets:
        own = Plan.of([target], store)
        typer.echo(f"{target.name}: {_runs(len(own.done))} done, {len(own.missing)} missing")
    for run in plan.missing:
        typer.echo(f"missing  {run.name}")
    for name in plan.unavailable:
        typer.echo(f"no preset {name}: its rows stay empty")
    known = store.all()
    seconds = sum(expected_seconds(run, known) for run in plan.missing)
    if seconds:
        typer.echo(f"about {_minutes(seconds)} of work, judged by the runs done")


def _print(console: Console, target: Target, store: Store) -> None:
    """The tables, in pieces where the terminal is too narrow."""
    from studies.tables import by_group, terminal

    for table in target.tables:
        title = f"{target.title}: {table.title}"
        shown = terminal(table, store, title)
        if console.measure(shown).maximum <= console.width:
            console.print(shown)
            continue
        for part in by_group(table):
            console.print(terminal(part, store, title))


def _show(
    targets: list[Target], scale: Scale, store: Store, pages: Path, outcome: Outcome | None
) -> None:
    from decentrl.cli.console import wide_console
    from studies.site import write_site

    console: Console = wide_console()
    if not console.is_terminal:
        console.width = max(console.width, 200)
    for target in targets:
        _print(console, target, store)
    for problem in write_site(pages, targets, scale, store):
        typer.echo(f"no figures: {problem}", err=True)
    for target in targets:
        typer.echo(f"page  {os.fspath(pages / target.name)}.md")
    if outcome is not None:
        for run, problem in outcome.failed:
            typer.echo(f"failed  {run.name}: {problem}", err=True)
        if outcome.left:
            typer.echo(f"{_runs(len(outcome.left))} did not fit into the budget", err=True)


if __name__ == "__main__":
    from decentrl.cli import run_app

    run_app(app)
