"""``decentrl add | undo | log | compact | drift``: a run whose graph grows after training."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.console import Console
from rich.markup import escape
from typer import Argument, Option

from decentrl.cli.console import plain_table, print_json, print_lines, wide_console
from decentrl.cli.options import (
    Columns,
    Device,
    Header,
    Json,
    Links,
    Memory,
    Run,
    Separator,
    Triples,
    open_sides,
    open_test,
)
from decentrl.errors import ConfigError, DecentRLError, InputError

if TYPE_CHECKING:
    from decentrl.growth.drift import Drift
    from decentrl.storage.addition import Addition
    from decentrl.storage.bundle import Manifest

FAR = 0.2
"""A share of entities or triples after training that is greater than any that was measured."""
MOVED = 0.01
"""Mean of 1 - cos between vectors and refreshed ones below which a refresh is not worth it."""


def add(  # long, as its options and their help are in it
    run: Run,
    files: Annotated[
        list[Path] | None,
        Argument(metavar="[FILE...]", help="New triples, as for `align` and `complete`."),
    ] = None,
    side: Annotated[
        str, Option(help="An aligner's run: which graph they belong to, left or right.")
    ] = "",
    strict: Annotated[
        bool, Option("--strict", help="Add nothing if training has not seen a relation.")
    ] = False,
    refresh: Annotated[
        bool,
        Option("--refresh", help="Encode all anew afterwards, see `decentrl compact`."),
    ] = False,
    names: Annotated[
        str,
        Option(
            help="Names of the entities in them: a file (entity, name, perhaps language), or ids "
            "(made of identifiers); default: those in the file of triples."
        ),
    ] = "",
    links: Annotated[
        Path | None,
        Option(help="An aligner's run: links that have become known, added after the triples."),
    ] = None,
    header: Header = "auto",
    columns: Columns = "",
    separator: Separator = "",
    device: Device = "auto",
    memory: Memory = "",
    as_json: Json = False,
) -> None:
    """Take new triples and entities into a run, without training; they are kept.

    New entities have vectors at once and can be asked about. No vector of a trained entity changes,
    unless --refresh. Each file is one addition, kept whole or not at all; `decentrl undo` takes the
    last one back. Triples of relations that training has not seen are left out and counted.
    Links that have become known count at once, too: their entities are no candidates for others.

    decentrl add run tuesday.tsv --side left
    """
    from decentrl.data.headers import Reading
    from decentrl.data.readers import read_table
    from decentrl.data.table import LINK, TRIPLE, column_ids
    from decentrl.runs.sources import load_model

    reading = Reading.of("", header, columns, separator)
    opened, where = open_sides(run, write=True, side=side)
    two_graphs = opened.kind.two_graphs
    if links and not two_graphs:
        raise ConfigError("this run is about one graph; leave out --links")
    if two_graphs and files and not where:
        raise ConfigError("give the graph that the triples belong to: --side left or --side right")
    if not files and (links is None or strict or names or where):
        raise ConfigError("give a file of triples" + " for the other options" * bool(links))
    console = wide_console(stderr=as_json)
    added: list[dict[str, Any]] = []
    count = len(files or ()) + bool(links)
    try:
        # All are read before the first is added.
        tables = [read_table(file, TRIPLE, reading) for file in files or ()]
        given: list[tuple[Path, dict[str, Any]]] = [
            (table.file, {"triples": table, **where, "names": names or None}) for table in tables
        ]
        if links:
            read_table(links, LINK)
            given.append((links, {"links": links}))
        with load_model(opened, device, durable=True) as model:
            for table in tables if strict else ():
                relations = model.growing.sides[side].trained.relations
                column_ids(table, 1, relations, "relation that training has seen")
            _take_in(model, given, refresh, console, added)
    except DecentRLError as error:
        if count == 1:
            raise
        done = f"{len(added)} of {count} files were added before"
        raise InputError(f"{error} ({done if added else 'nothing was added'})") from error
    if as_json:
        print_json(added)
    elif refresh:
        print_lines(console, "every vector was made anew; these additions are in the bundle now")


def _take_in(
    model: Any,
    given: list[tuple[Path, dict[str, Any]]],
    refresh: bool,
    console: Console,
    added: list[dict[str, Any]],
) -> None:
    """Add what files hold, one after the other; ``added`` gets a line of each at once."""
    two_graphs = model.kind == "aligner"
    # In prediction nothing but an embedding is then left to make a vector of.
    alone = not two_graphs and model.config.model.encoder == "none"
    before = model.claimed() if two_graphs else None
    for number, (file, what) in enumerate(given, 1):
        # The name of a file may be made of any bytes.
        name = os.fsencode(file.name).decode("utf-8", "replace")
        addition = model.add(**what, refresh=refresh and number == len(given), source=name)
        after = None if before is None else model.claimed()
        changes = {} if before is None or after is None else _changes(before, after)
        added.append(_line(addition) | ({"matches": changes} if two_graphs else {}))
        if "links" in what:
            _print_links(console, addition)
        else:
            _print_addition(console, addition, alone)
        if two_graphs:
            _print_changes(console, changes)
        before = after


def _changes(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, int]:
    """How many left entities have a match that they had not, another one, none any more."""
    old, now = set(before), set(after)
    return {
        "new": len(now - old),
        "changed": sum(before[left] != after[left] for left in now & old),
        "lost": len(old - now),
        "all": len(now),
    }


def _print_changes(console: Console, changes: Mapping[str, int]) -> None:
    line = "  matches were not compared, as there are too many pairs: `decentrl match` finds them"
    if changes:
        counts = ", ".join(f"{count:,} {name}" for name, count in changes.items() if name != "all")
        line = f"  matches: {counts}; {changes['all']:,} in all"
    print_lines(console, line)


def _line(addition: Addition) -> dict[str, Any]:
    """An addition as JSON, with its facts on one level."""
    line = asdict(addition)
    facts: dict[str, Any] = line.pop("facts")
    return line | facts


def _print_addition(console: Console, addition: Addition, table: bool) -> None:
    """What an addition brought; ``table`` if vectors are embeddings that only training learns."""
    facts = addition.facts
    place = f", {addition.side} graph" if addition.side else ""
    lines = [
        f"{addition.source}: addition {addition.number}{place}",
        f"  triples accepted: {addition.triples:,}, new entities: {addition.entities:,}",
    ]
    if facts["known"]:
        lines.append(f"  triples known already: {facts['known']:,}")
    if facts["names"] or facts["attributes"]:
        lines.append(f"  names: {facts['names']:,}, attribute values: {facts['attributes']:,}")
    if facts["literals"]:
        lines.append(f"  literals of what is in no triple, left out: {facts['literals']:,}")
    if count := facts["ignored"]:
        named = facts["ignored_relations"]
        names = ", ".join(f"{name!r} ({n:,})" for name, n in named.items())
        others = count - sum(named.values())
        names += f" and others ({others:,})" if others else ""
        why = "as training has not seen their relations"
        lines.append(f"  triples left out, {why}: {count:,}, of {names}")
    if facts["recomputed"]:
        lines.append(f"  entities that came earlier, made anew: {facts['recomputed']:,}")
    if count := facts["without_trained_neighbour"]:
        why = "their vectors are made of relations and other new entities only"
        lines.append(f"  without a trained neighbour: {count:,}; {why}")
    if count := facts["without_vector"]:
        names = ", ".join(map(repr, facts["for_example"]))
        names += ", …" if count > len(facts["for_example"]) else ""
        why, then = "nothing known reaches them", "made once a triple joins them to something known"
        if table:
            why, then = "a table holds what training has seen", "learned by `decentrl refit`"
        lines.append(f"  without a vector, as {why}: {count:,} ({names}); it will be {then}")
    print_lines(console, *lines)


def _print_links(console: Console, addition: Addition) -> None:
    """What an addition of links brought."""
    facts = addition.facts
    lines = [
        f"{addition.source}: addition {addition.number}, links of both graphs",
        f"  links accepted: {facts['links']:,}",
    ]
    if facts["known"]:
        lines.append(f"  links known already: {facts['known']:,}")
    if facts["tested"]:
        lines.append(f"  links left out, as they are held out to test on: {facts['tested']:,}")
    print_lines(console, *lines)


def _log(run: Path, opened: Manifest) -> list[Addition]:
    """What was added to a run with this bundle; nothing else of it is read."""
    from decentrl.storage.additions import Store

    with Store(run / "store", opened.id, grown_from=opened.origin) as store:
        return store.log()


def undo(run: Run) -> None:
    """Take back the last addition to a run, unless it is in the bundle by now."""
    from decentrl.runs.sources import load_model
    from decentrl.storage.bundle import open_bundle

    additions = _log(run, open_bundle(run, write=True))
    if all(addition.folded for addition in additions):
        # A writer would begin by preparing the run for additions.
        raise InputError(
            "there is no addition to take back",
            file=run,
            remedy="what is in the bundle stays" if additions else None,
        )
    with load_model(run, "cpu", durable=True) as model:
        addition = model.undo()
    counts = f"triples: {addition.triples:,}, entities: {addition.entities:,}"
    if "links" in addition.facts:
        counts = f"links: {addition.facts['links']:,}"
    line = f"{addition.source}: addition {addition.number} taken back, {counts}"
    print_lines(wide_console(), line)


def log(run: Run, as_json: Json = False) -> None:
    """What was added to a run, when, and from where."""
    from decentrl.storage.bundle import open_bundle

    additions = _log(run, open_bundle(run))
    console = wide_console()
    if as_json:
        print_json([_line(addition) for addition in additions])
        return
    if not additions:
        print_lines(console, "nothing was added to this run")
        return
    numbers: tuple[str, ...] = ("triples", "entities", "links")
    if not any("links" in a.facts for a in additions):
        numbers = numbers[:2]
    names = ("number", "time (UTC)", "side", "source", *numbers, "in the bundle")
    table = plain_table("", *names, numbers=numbers)
    for a in additions:
        counts = [a.triples, a.entities, a.facts.get("links", 0)][: len(numbers)]
        time = a.time[:19].replace("T", " ")
        folded = "yes" if a.folded else ""
        table.add_row(
            str(a.number), time, a.side, escape(a.source), *(f"{n:,}" for n in counts), folded
        )
    console.print(table)


def count_added(run: Path, opened: Manifest) -> dict[str, int]:
    """How much was added to a run with this bundle; empty if nothing was."""
    additions = _log(run, opened) if (run / "store").is_dir() else []
    if not additions:
        return {}
    return {
        "additions": len(additions),
        "triples": sum(a.triples for a in additions),
        "entities": sum(a.entities for a in additions),
        "links": sum(a.facts.get("links", 0) for a in additions),
        "in_the_bundle": sum(a.folded for a in additions),
    }


def compact(
    run: Run,
    refresh: Annotated[
        bool,
        Option(
            "--refresh",
            help="Encode all entities anew, with all that was added: every vector may change.",
        ),
    ] = False,
    device: Device = "auto",
    memory: Memory = "",
) -> None:
    """Make what was added part of the run's bundle, which then is as quick to load as a new one.

    Vectors stay as they are, unless --refresh. What is in the bundle cannot be undone.
    """
    from decentrl.runs.sources import load_model
    from decentrl.storage.bundle import open_bundle

    console = wide_console()
    pending = sum(not addition.folded for addition in _log(run, open_bundle(run, write=True)))
    if not pending and not refresh:
        print_lines(console, "nothing to compact: all additions are in the bundle")
        return
    with load_model(run, device, durable=True) as model:
        if refresh:
            model.refresh()
        else:
            model.compact()
    vectors = "every vector was made anew" if refresh else "no vector has changed"
    print_lines(console, f"additions that are in the bundle now: {pending:,} more; {vectors}")


def drift(
    run: Run,
    links: Links = "",
    triples: Triples = "",
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """How far a run has grown away from what was trained, and what to do about it."""
    from decentrl.runs.sources import load_model

    opened, others = open_test(run, links, triples)
    with load_model(opened, device) as model:
        found: Drift = model.drift(*others.values())
    todo, why = advice(found, run)
    if as_json:
        print_json({**asdict(found), "advice": todo, "because": why})
        return
    induced, arrived = _shares(found)
    after = "of them came after training"
    lines = [
        f"entities     {found.entities:,} with a vector, {found.induced:,} ({induced:.1%}) {after}",
        f"triples      {found.triples:,}, {found.arrived:,} ({arrived:.1%}) {after}",
        f"stale        {found.stale:,} trained entities would move in a refresh",
        f"drift        {found.drift:.4f}: how far vectors would move in a refresh, 1 - cosine in "
        "the mean",
    ]
    if found.expected:
        names = {"trained": "trained entities", "induced": "new ones"}
        cosines = ", ".join(f"{value:.3f} for {names[k]}" for k, value in found.expected.items())
        lines.append(
            f"recognised   {cosines}: cosine of the input that a vector implies with the nearest "
            "known one"
        )
    if sure := found.calibration:
        lines.append(
            f"calibration  {sure['mean']:.1%} expected and {sure['right']:.1%} right, "
            f"error {sure['ece']:.3f}"
        )
    print_lines(wide_console(), *lines, f"advice       {why}")


def _shares(found: Drift) -> tuple[float, float]:
    return found.induced / max(1, found.entities), found.arrived / max(1, found.triples)


def advice(found: Drift, run: Path) -> tuple[str, str]:
    """What to do, in a word and in a sentence."""
    if not found.arrived:
        return "nothing", "nothing has arrived since training, so there is nothing to do"
    if max(_shares(found)) > FAR:
        return "refit", (
            f"train again (decentrl refit {run} -o NEW): more than a fifth came after training"
        )
    if found.drift > MOVED:
        return "refresh", (
            f"refresh (decentrl compact {run} --refresh): vectors lag behind what has arrived"
        )
    return "nothing", "the vectors are good as they are, as they would hardly move"
