"""What ``align``, ``complete`` and ``refit`` do once their options are understood."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from decentrl.cli.ask import read_results
from decentrl.cli.console import Results, plain_console, print_json, print_lines, wide_console
from decentrl.cli.printers import PRINTERS, Printer
from decentrl.errors import BundleError, ConfigError, InputError
from decentrl.nn.device import pick_device
from decentrl.runs import run as runs
from decentrl.runs.report.collect import pick_samples
from decentrl.runs.sources import Grown, read_task
from decentrl.storage.kinds import kind_for


@dataclass(frozen=True)
class Plan:
    """A run to make: from what, with which settings, where and how.

    Args:
        changes: settings asked for; a run that goes on must have been begun with them.
        named: other options that were given; the same holds for them.
    """

    sources: Any
    config: Any
    output: Path
    device: str
    resume: bool
    overwrite: bool
    as_json: bool
    seeds: int = 0
    changes: Sequence[str] = ()
    named: Sequence[str] = ()

    def start(self) -> None:
        """Make the run, and print its results."""
        try:
            self._run()
        except KeyboardInterrupt:  # typer would end here without a word
            typer.echo("interrupted; `--resume` goes on from the last checkpoint", err=True)
            raise typer.Exit(130) from None

    @property
    def first(self) -> Path:
        """The folder of the first run, where there are several seeds."""
        return self.output / "seed-0" if self.seeds else self.output

    def _run(self) -> None:
        if self.resume and self.overwrite:
            raise ConfigError("--resume keeps a run and --overwrite does not; give one of them")
        plan = self
        if self.resume:
            plan = self._begun()
        elif self.overwrite:
            read_task(self.sources, self.config)  # input errors come before anything is touched
            pick_device(self.device)
        kind = kind_for(plan.config).name
        console, printer = wide_console(stderr=self.as_json), PRINTERS[kind]
        with runs.replacing(self.output) if self.overwrite else nullcontext():
            summary, samples = _train(plan, runs.JOBS[kind], printer, console)
        if self.as_json:
            print_json(summary)
            return
        printer.results(console, summary)
        if samples:
            console.print(printer.samples(samples))
        next_step = printer.next_step.format(run=self.first)
        print_lines(console, f"report   {self.first / 'report.html'}", next_step)

    def _begun(self) -> Plan:
        """The plan with the sources and settings that its run was begun with."""
        sources, config = runs.read_settings(self.first)
        if not isinstance(sources, type(self.sources)):
            command = "refit" if isinstance(sources, Grown) else kind_for(config).command
            raise BundleError(f"{self.first}: go on with this run by `decentrl {command} --resume`")
        if (self.output / runs.RESULTS).exists() and not self.seeds:
            raise InputError(
                "this run is finished", file=self.output, remedy="`decentrl info` shows it"
            )
        begun = replace(self, sources=sources, config=config)
        _refuse_changes(self, begun)
        return begun


def _train(
    plan: Plan, job: runs.Job, printer: Printer, console: Console
) -> tuple[dict[str, Any], Sequence[Results]]:
    """One run, or one for each seed: the results, and some answers."""
    config, output, seeds = plan.config, plan.output, plan.seeds
    if seeds and not plan.resume:
        runs.refuse_existing(output)
    places = [(output / f"seed-{i}", i) for i in range(seeds)] or [(output, config.seed)]
    done: list[dict[str, Any]] = []
    samples: Sequence[Results] = ()
    for folder, seed in places:
        if plan.resume and (folder / runs.RESULTS).exists():
            done.append(read_results(folder))
            continue
        used = replace(config, seed=seed)
        with _phases(console, printer, plan.sources) as (on_start, on_trained):
            model, results = runs.make_run(
                job, plan.sources, used, folder,
                device=plan.device, resume=plan.resume and (folder / runs.CONFIG).exists(),
                command=shlex.join(["decentrl", *sys.argv[1:]]),
                on_start=on_start, on_trained=on_trained,
            )  # fmt: skip
        done.append(results)
        samples = pick_samples(job.tested(model).to_pylist(), 10) if results["results"] else ()
    summary = runs.average(done) if seeds else done[0]
    if seeds:
        runs.write_results(output, summary)
    return summary, samples


@contextmanager
def _phases(
    console: Console, printer: Printer, sources: Any
) -> Iterator[tuple[Callable[[Any], None], Callable[[], None]]]:
    """On a terminal, what goes on before and after training, which draws a bar of its own.

    Yields what to call with the task, once it is read, and after training.
    """
    terminal = plain_console(stderr=True)
    status = terminal.status("reading")

    def on_start(task: Any) -> None:
        status.stop()
        _announce(console, printer, sources, task)

    def on_trained() -> None:
        status.update(printer.finish)
        if terminal.is_terminal:
            status.start()

    if terminal.is_terminal:
        status.start()
    try:
        yield on_start, on_trained
    finally:
        status.stop()


def _announce(console: Console, printer: Printer, sources: Any, task: Any) -> None:
    """What is read, and what was held out of it."""
    printer.announce(console, task)
    option, what, none = printer.held_out
    if isinstance(sources, Grown):
        print_lines(
            console, f"{sources.share:.0%} of the epochs, from what {sources.start} has learned"
        )
    elif not sources.dataset and not getattr(sources, option) and len(task.test):
        print_lines(
            console,
            f"no --{option.replace('_', '-')}: {len(task.test):,} {what} ({sources.holdout:.0%}) "
            f"were held out to test on; --holdout 0 {none}",
        )


def _refuse_changes(asked: Plan, begun: Plan) -> None:
    """Raise if a run that goes on is asked for something else than it was begun with."""
    other = []
    for name in asked.named:
        part = "config" if name in ("preset", "seed") else "sources"
        now = getattr(getattr(asked, part), name)
        if now != getattr(getattr(begun, part), name):
            other.append(f"--{name.replace('_', '-')}" + ("" if now is True else f" {now}"))
    config = begun.config
    wanted = reduce(lambda known, change: known.with_setting(change), asked.changes, config)
    for change in asked.changes:
        if config.with_setting(change) != config and wanted.with_setting(change) == wanted:
            other.append(change)  # unless a later change of the same setting replaces it
    if other:
        raise ConfigError(
            f"{begun.first} was not begun with {', '.join(other)}; leave that out to go on, or "
            "start a new run"
        )
