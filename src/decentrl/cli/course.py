"""What ``align``, ``complete`` and ``refit`` do once their options are understood."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from shutil import disk_usage
from typing import Any

import numpy as np
import typer
from rich.console import Console

from decentrl.cli.ask import read_results
from decentrl.cli.console import Results, plain_console, print_json, print_lines, wide_console
from decentrl.cli.printers import PRINTERS
from decentrl.data.links import several
from decentrl.errors import BundleError, ConfigError, InputError
from decentrl.runs import run as runs
from decentrl.runs.folder import CONFIG, RESULTS, making, refuse_existing, tidy
from decentrl.runs.report.collect import pick_samples
from decentrl.runs.sources import Grown, whole_path, whole_paths
from decentrl.runs.unfinished import has_checkpoint
from decentrl.storage.files import ASIDE
from decentrl.storage.kinds import kind_for

LONG = 90.0
"""Seconds of training that are said before it begins."""
WORTH_SAYING = 2 * 10**9
"""Bytes of memory that are."""


@dataclass(frozen=True)
class Plan:
    """A run to make: from what, with which settings, where and how.

    Args:
        changes: settings asked for; a run that goes on must have been begun with them.
        named: other options that were given; the same holds for them.
        larger: settings in place of ``config`` if the graph turns out to be large.
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
    larger: Any = None

    def start(self) -> None:
        """Make the run, and print its results."""
        try:
            self._run()
        except KeyboardInterrupt:  # typer would end here without a word
            text = f"interrupted{self._way_on()}"
            if (aside := self.output / ASIDE).is_dir():
                text += f"; until it has finished, the run that was here is in {aside}"
            typer.echo(text, err=True)
            raise typer.Exit(130) from None

    def _way_on(self) -> str:
        """What there is to go on from after an interruption."""
        if any(map(has_checkpoint, self.folders)):
            return "; `--resume` goes on from the last checkpoint"
        if any((folder / CONFIG).exists() for folder in self.folders):
            return " before the first checkpoint; `--resume` begins the training again"
        return " before the training; nothing of this run is kept"

    @property
    def folders(self) -> list[Path]:
        """The folder of the run, or of the run of each seed."""
        return [self.output / f"seed-{i}" for i in range(self.seeds)] or [self.output]

    def _run(self) -> None:
        if self.resume and self.overwrite:
            raise ConfigError("--resume keeps a run and --overwrite does not; give one of them")
        whole_path(self.output)  # a name that cannot be kept is refused before any work
        whole_paths(self.sources)
        tidy(self.output)
        plan = self._begun() if self.resume else self
        console, printer = wide_console(stderr=self.as_json), PRINTERS[kind_for(plan.config).name]
        # Seeds have a folder of their own each, in one that is replaced whole.
        with making(self.output, self.overwrite) if self.seeds else nullcontext():
            summary, answers = plan._train(console)
        if self.as_json:
            print_json(summary)
            return
        printer.results(console, summary)
        if answers:
            console.print(printer.samples(pick_samples(answers, 10)))
        first = self.folders[0]
        next_step = printer.next_step.format(run=first)
        print_lines(console, f"report   {first / 'report.html'}", next_step)

    def _begun(self) -> Plan:
        """The plan with the sources and settings that its run was begun with."""
        first = self.folders[0]
        sources, config = runs.read_settings(first)
        if not isinstance(sources, type(self.sources)):
            command = "refit" if isinstance(sources, Grown) else kind_for(config).command
            raise BundleError(f"{first}: go on with this run by `decentrl {command} --resume`")
        if (self.output / RESULTS).exists() and not self.seeds:
            raise InputError(
                "this run is finished", file=self.output, remedy="`decentrl info` shows it"
            )
        begun = replace(self, sources=sources, config=config)
        _refuse_changes(self, begun)
        return begun

    def _train(self, console: Console) -> tuple[dict[str, Any], Sequence[Results]]:
        """One run, or one for each seed: the results, and the answers to the last test."""
        if self.seeds and not self.resume:
            refuse_existing(self.output)
        done: list[dict[str, Any]] = []
        answers: Sequence[Results] = ()
        for i, folder in enumerate(self.folders):
            if self.resume and (folder / RESULTS).exists():
                done.append(read_results(folder))
                continue
            seed = i if self.seeds else self.config.seed
            results, answers = self._make_run(seed, folder, console)
            done.append(results)
        summary = runs.average(done) if self.seeds else done[0]
        if self.seeds:
            runs.write_results(self.output, summary)
        return summary, answers

    def _make_run(
        self, seed: int, folder: Path, console: Console
    ) -> tuple[dict[str, Any], Sequence[Results]]:
        """One run; a terminal shows what goes on before and after training, too."""
        config = replace(self.config, seed=seed)
        larger = None if self.larger is None else replace(self.larger, seed=seed)
        kind = kind_for(config).name
        with plain_console(stderr=True).status("reading") as status:

            def on_start(task: Any, chosen: Any) -> None:
                status.stop()
                _announce(console, self.sources, task)
                if larger is not None:
                    print_lines(console, _default_line(chosen, larger))
                if kind_for(task).two_graphs and self.device != "cuda":
                    _announce_needs(console, chosen, task, folder)

            def on_estimate(seconds: float) -> None:
                if seconds > LONG:
                    fewer = max(1, config.training.epochs // 4)
                    print_lines(
                        console,
                        f"training takes about {seconds / 60:,.0f} minutes; a quarter of that with "
                        f"--set training.epochs={fewer}, less with --preset quick",
                    )

            def on_trained() -> None:
                status.update(PRINTERS[kind].finish)
                status.start()

            model, results = runs.make_run(
                self.sources, config, folder,
                device=self.device, resume=self.resume,
                overwrite=self.overwrite and not self.seeds, larger=larger,
                on_start=on_start, on_trained=on_trained, on_estimate=on_estimate,
                command=shlex.join(["decentrl", *sys.argv[1:]]),
            )  # fmt: skip
        answers = runs.JOBS[kind].tested(model).to_pylist() if results["results"] else ()
        return results, answers


def _default_line(chosen: Any, larger: Any) -> str:
    """Which preset was taken, where none was asked for, and what another would be good for."""
    if chosen.preset == larger.preset:
        return (
            f"preset {chosen.preset}, for graphs above {runs.SMALL:,} triples; --preset paths "
            "takes longer, and answers with reasons"
        )
    return (
        f"preset {chosen.preset}, for graphs of at most {runs.SMALL:,} triples; --preset "
        f"{larger.preset} makes vectors of entities"
    )


def _announce(console: Console, sources: Any, task: Any) -> None:
    """What is read, what reading it left out, and what was held out of it."""
    kind = kind_for(task)
    graphs = {f"{name}: " * kind.two_graphs: getattr(task, name) for name in kind.graphs}
    entities, triples = (
        " + ".join(f"{len(getattr(graph, part)):,}" for graph in graphs.values())
        for part in ("entities", "triples")
    )
    if kind.two_graphs:
        held = f"{triples} triples, {len(task.train):,} training and {len(task.test):,} test links"
    else:
        held = f"{len(task.graph.relations):,} relations, {triples} training, "
        held += f"{len(task.valid):,} validation and {len(task.test):,} test triples"
    if task.auxiliary is not None:
        later = sum(map(len, task.auxiliary)) if kind.two_graphs else len(task.auxiliary)
        held += f"; {later:,} triples arrive after training"
    lines = [f"{task.name}: {entities} entities, {held}"]
    lines += [
        f"{side}{_count(duplicates, 'duplicate triple')} dropped"
        for side, graph in graphs.items()
        if (duplicates := graph.counts.duplicates)
    ]
    lines += [
        f"{side}{_count(len(graph.names), 'name')}, "
        f"{_count(len(graph.attributes), 'attribute value')}"
        + f"; {left:,} of what is in no triple left out"
        * bool(left)
        for side, graph in graphs.items()
        if (left := graph.counts.literals) or graph.names or graph.attributes
    ]
    if kind.two_graphs:
        lines += _link_lines(task)
    option, what, none = PRINTERS[kind.name].held_out
    if isinstance(sources, Grown):
        lines.append(f"{sources.share:.0%} of the epochs, from what {sources.start} has learned")
    elif not sources.dataset and not getattr(sources, option) and len(task.test):
        lines.append(
            f"no --{option.replace('_', '-')}: {len(task.test):,} {what} ({sources.holdout:.0%}) "
            f"were held out to test on; --holdout 0 {none}"
        )
    print_lines(console, *lines)


def _announce_needs(console: Console, config: Any, task: Any, folder: Path) -> None:
    """How much memory and disk a large alignment takes, about, and what to do if it is too much."""
    from decentrl.config.memory import memory
    from decentrl.training.estimate import needs

    sides = task.left, task.right
    triples = sum(len(side.triples) for side in sides)
    found = needs(config, (len(sides[0].entities), len(sides[1].entities)), triples)
    if found.memory < WORTH_SAYING:
        return
    about, there = f"about {found.memory / 1e9:,.1f} GB of memory", memory() / 1e9
    lines = [f"this takes {about} and {found.disk / 1e9:,.1f} GB of disk"]
    if found.memory > memory():
        lines.append(
            f"{there:,.1f} GB of memory may be used, so it may fail; a smaller one takes less: "
            "--preset quick, --set propagation.dim=256"
        )
    print_lines(console, *lines)
    place = next(x for x in (folder, *folder.absolute().parents) if x.exists())
    if found.disk > (free := disk_usage(place).free):
        raise InputError(
            f"the run takes about {found.disk / 1e9:,.1f} GB, and {free / 1e9:,.1f} GB are free",
            file=folder,
            remedy="choose another -o, or make room",
        )


def _link_lines(task: Any) -> list[str]:
    """What is unusual about links: repeated ones, and entities with several counterparts."""
    lines = [f"links: {_count(task.repeated, 'duplicate')} dropped"] if task.repeated else []
    links = np.concatenate((task.train, task.valid, task.test))
    for side, ends in ((task.left, links), (task.right, links[:, ::-1])):
        count, one = several(ends, side.entities)
        if count:
            which = "left" if side is task.left else "right"
            entities = "entity has" if count == 1 else "entities have"
            lines.append(f"links: {count:,} {which} {entities} several counterparts ({one!r})")
    return lines


def _count(n: int, noun: str) -> str:
    return f"{n:,} {noun}" + "s" * (n != 1)


def _refuse_changes(asked: Plan, begun: Plan) -> None:
    """Raise if a run that goes on is asked for something else than it was begun with."""
    other = []
    for name in asked.named:
        part = "config" if name in ("preset", "seed") else "sources"
        now = getattr(getattr(asked, part), name)
        same = asked.config, begun.config
        if part == "sources":
            same = whole_paths(asked.sources), whole_paths(begun.sources)
        if getattr(same[0], name) != getattr(same[1], name):
            other.append(f"--{name.replace('_', '-')}" + ("" if now is True else f" {now}"))
    config = begun.config
    wanted = reduce(lambda known, change: known.with_setting(change), asked.changes, config)
    for change in asked.changes:
        if config.with_setting(change) != config and wanted.with_setting(change) == wanted:
            other.append(change)  # unless a later change of the same setting replaces it
    if other:
        raise ConfigError(
            f"{begun.folders[0]} was not begun with {', '.join(other)}; leave that out to go on, "
            "or start a new run"
        )
