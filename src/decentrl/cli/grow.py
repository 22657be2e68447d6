"""What the commands for a graph that grows do once their words are understood."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from decentrl.cli.common import (
    Job,
    escape,
    number_columns,
    plain_table,
    print_json,
    wide_console,
)
from decentrl.cli.options import check_side
from decentrl.errors import BundleError, ConfigError, DecentRLError, InputError

if TYPE_CHECKING:
    from decentrl.data.table import Table
    from decentrl.storage.additions import Addition


def _readable(name: str) -> str:
    """The name of a file, whatever bytes it is made of."""
    return os.fsencode(name).decode("utf-8", "replace")


def load(run: Path, device: str, durable: bool = False) -> Any:
    """The aligner or predictor of a run."""
    if one_graph(run):
        from decentrl.predictor import Predictor

        return Predictor.load(run, device, durable=durable)
    from decentrl.aligner import Aligner

    return Aligner.load(run, device, durable=durable)


def one_graph(run: Path) -> bool:
    from decentrl.storage.bundle import kind_of

    return kind_of(run) == "predictor"


def sided(run: Path, options: Mapping[str, str]) -> dict[str, str]:
    """The sides that were given; only a run of two graphs has any."""
    given = {name: side for name, side in options.items() if side}
    if given and one_graph(run):
        raise ConfigError(f"this run is about one graph; leave out --{next(iter(given))}")
    for side in given.values():
        check_side(side)
    return given


# Growing


def add(
    run: Path,
    files: Sequence[Path],
    side: str,
    strict: bool,
    refresh: bool,
    device: str,
    as_json: bool,
) -> None:
    """``decentrl add``: all files are read before the first is added."""
    where = sided(run, {"side": side})
    if not where and not one_graph(run):
        raise ConfigError("say which graph the triples belong to: --side left or --side right")
    from decentrl.data.readers import read_table

    console, told = wide_console(stderr=as_json), []
    with _counting(0, len(files)):
        tables = [read_table(file) for file in files]
    with load(run, device, durable=True) as model:
        # In prediction nothing but an embedding is then left to make a vector of.
        alone = one_graph(run) and model.config.model.encoder == "none"
        if strict:
            with _counting(0, len(files)):
                _check_relations(model, side, tables)
        for i, table in enumerate(tables):
            last = i == len(files) - 1
            with _counting(i, len(files)):
                rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
                addition = model.add(
                    rows, **where, refresh=refresh and last, source=_readable(table.file.name)
                )
            told.append(_line(addition) | {"literals": table.literals})
            _tell_addition(console, addition, table.literals, alone)
    if as_json:
        print_json(told)
    elif refresh:
        say(console, "every vector was made anew; these additions are in the bundle now")


@contextmanager
def _counting(done: int, count: int) -> Iterator[None]:
    """An error says how many of several files were added before it."""
    try:
        yield
    except DecentRLError as error:
        if count == 1:
            raise
        said = f"{done} of {count} files were added before" if done else "nothing was added"
        raise InputError(f"{error} ({said})") from error


def _check_relations(model: Any, side: str, tables: Sequence[Table]) -> None:
    from decentrl.data.table import column_ids

    relations = model.growing.sides[side].trained.graph.relations
    for table in tables:
        column_ids(table, 1, relations, "relation that training has seen")


def _line(addition: Addition) -> dict[str, Any]:
    """An addition as JSON, with all that is to be said of it on one level."""
    line = asdict(addition)
    facts: dict[str, Any] = line.pop("facts")
    return line | facts


def _tell_addition(console: Console, addition: Addition, literals: int, table: bool) -> None:
    facts = addition.facts
    place = f", {addition.side} graph" if addition.side else ""
    say(console, f"{addition.source}: addition {addition.number}{place}")
    say(console, f"  triples accepted: {addition.triples:,}, new entities: {addition.entities:,}")
    if facts["known"]:
        say(console, f"  triples known already: {facts['known']:,}")
    if literals:
        say(console, f"  triples with a literal, set aside: {literals:,}")
    if facts["ignored"]:
        names = ", ".join(f"{name!r} ({n:,})" for name, n in facts["ignored_relations"].items())
        others = facts["ignored"] - sum(facts["ignored_relations"].values())
        names += f" and others ({others:,})" if others else ""
        say(
            console,
            f"  triples left out, as training has not seen their relations: {facts['ignored']:,}, "
            f"of {names}",
        )
    if facts["recomputed"]:
        say(console, f"  entities that came earlier, made anew: {facts['recomputed']:,}")
    if facts["without_trained_neighbour"]:
        say(
            console,
            f"  without a trained neighbour: {facts['without_trained_neighbour']:,}; only "
            "relations and other new entities tell of them",
        )
    if facts["without_vector"]:
        names = ", ".join(map(repr, facts["for_example"]))
        more = ", …" if facts["without_vector"] > len(facts["for_example"]) else ""
        why, then = "nothing known reaches them", "made once a triple joins them to something known"
        if table:
            why, then = "a table holds what training has seen", "learned by `decentrl refit`"
        say(
            console,
            f"  without a vector, as {why}: {facts['without_vector']:,} ({names}{more}); it will "
            f"be {then}",
        )


def _log(run: Path) -> list[Addition]:
    """What was added to a run; nothing else of it is read."""
    from decentrl.storage.additions import Store
    from decentrl.storage.bundle import bundle_id, bundle_origin

    base, origin = bundle_id(run), bundle_origin(run)
    with Store.open(run / "store", base, grown_from=origin) as store:
        return store.log()


def undo(run: Path) -> None:
    """``decentrl undo``."""
    log = _log(run)
    if all(addition.folded for addition in log):
        # A writer would begin by preparing the run for additions.
        raise InputError(
            "there is no addition to take back",
            file=run,
            remedy="what is in the bundle stays" if log else None,
        )
    with load(run, "cpu", durable=True) as model:
        addition = model.undo()
    say(
        wide_console(),
        f"{addition.source}: addition {addition.number} taken back, triples: {addition.triples:,}, "
        f"entities: {addition.entities:,}",
    )


def log(run: Path, as_json: bool) -> None:
    """``decentrl log``."""
    additions = _log(run)
    console = wide_console()
    if as_json:
        print_json([_line(addition) for addition in additions])
        return
    if not additions:
        say(console, "nothing was added to this run")
        return
    table = plain_table("", "number", "time (UTC)", "side", "source", wrap=("source",))
    number_columns(table, "triples", "entities")
    table.add_column("in the bundle", no_wrap=True)
    for a in additions:
        counts = f"{a.triples:,}", f"{a.entities:,}"
        time = a.time[:19].replace("T", " ")
        folded = "yes" if a.folded else ""
        table.add_row(str(a.number), time, a.side, escape(a.source), *counts, folded)
    console.print(table)


def added(run: Path) -> dict[str, int]:
    """How much was added to a run, for ``decentrl info``; empty if nothing was."""
    if not (run / "store").is_dir():
        return {}
    additions = _log(run)
    if not additions:
        return {}
    return {
        "additions": len(additions),
        "triples": sum(a.triples for a in additions),
        "entities": sum(a.entities for a in additions),
        "in_the_bundle": sum(a.folded for a in additions),
    }


def compact(run: Path, refresh: bool, device: str) -> None:
    """``decentrl compact``."""
    console = wide_console()
    pending = sum(not addition.folded for addition in _log(run))
    if not pending and not refresh:
        say(console, "nothing to compact: all additions are in the bundle")
        return
    with load(run, device, durable=True) as model:
        if refresh:
            model.refresh()
        else:
            model.compact()
    vectors = "every vector was made anew" if refresh else "no vector has changed"
    say(console, f"additions that are in the bundle now: {pending:,} more; {vectors}")


# Training again


def refit(
    run: Path | None, output: Path, links: str, share: float, resume: bool
) -> tuple[Job, Any, Any]:
    """``decentrl refit``: what is to be run, from what, with which settings."""
    from decentrl.cli import alignment, prediction
    from decentrl.config import Config, must_grow
    from decentrl.runs.run import read_settings
    from decentrl.runs.sources import Grown
    from decentrl.storage.bundle import bundle_folder, kind_of, read_bundle

    if resume:
        sources, config = read_settings(output)
        if not isinstance(sources, Grown):
            other = "align" if isinstance(config, Config) else "complete"
            raise BundleError(f"{output}: go on with this run by `decentrl {other} --resume`")
    else:
        assert run is not None
        sources = Grown(str(run), links, share)
        config = read_bundle(bundle_folder(run), kind_of(run)).config
        must_grow(config)  # before anything is said
    job = alignment.job() if isinstance(config, Config) else prediction.job()
    epochs, announce = job.epochs, job.announce

    def tell(console: Console, sources: Grown, task: Any) -> None:
        announce(console, sources, task)
        say(console, f"{sources.share:.0%} of the epochs, from what {sources.start} has learned")

    return (
        replace(
            job,
            command="refit",
            epochs=lambda settings: epochs(settings.with_epochs(sources.share)),
            announce=tell,
        ),
        sources,
        config,
    )


def say(console: Console, text: str) -> None:
    """As it is: labels and paths may contain brackets, and get copied."""
    console.print(text, soft_wrap=True, markup=False)
