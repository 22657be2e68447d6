"""``decentrl review``: look through the doubtful matches of a run and decide about them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.markup import escape
from typer import Option

from decentrl.cli.console import (
    number,
    plain_console,
    plain_table,
    print_answers,
    print_json,
    print_lines,
    wide_console,
)
from decentrl.cli.options import Device, Json, Language, Run
from decentrl.cli.output import SSSOM, check_output
from decentrl.data.called import called
from decentrl.errors import ConfigError

if TYPE_CHECKING:
    from decentrl.aligner import Aligner
    from decentrl.growth.review import ReviewQueue
    from decentrl.storage.decision import Decision

Pair = tuple[str, str]
DONE = {"accept": "accepted", "reject": "rejected", "skip": "skipped"}


def review(  # long, as its options and their help are in it
    run: Run,
    accept: Annotated[
        Pair | None, Option(metavar="LEFT RIGHT", help="These two entities are a match.")
    ] = None,
    reject: Annotated[Pair | None, Option(metavar="LEFT RIGHT", help="They are none.")] = None,
    skip: Annotated[
        Pair | None, Option(metavar="LEFT RIGHT", help="Leave it open, and ask last.")
    ] = None,
    undo: Annotated[bool, Option("--undo", help="Take back the last decision.")] = False,
    by: Annotated[str, Option(help="Who decides, for the log.")] = "",
    note: Annotated[str, Option(help="Why, for the log.")] = "",
    log: Annotated[bool, Option("--log", help="Every decision, in place of the queue.")] = False,
    export: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="Write the accepted pairs to a .tsv file, as --links reads it, or all decisions "
            "to a .sssom.tsv file.",
        ),
    ] = None,
    top: Annotated[int, Option(help="How many matches to show.", min=1)] = 10,
    offset: Annotated[int, Option(help="Leave out so many before.", min=0)] = 0,
    language: Language = "",
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Show the matches that are worth looking at, doubtful ones first; or decide about them.

    What is accepted is matched from then on, and its entities with nothing else; what is rejected
    is not proposed again. Decisions are kept in the run, and `decentrl refit` learns from them.

    decentrl review run

    decentrl review run --accept Berlin "Berlin (DE)" --by Ada
    """
    pairs = {"accept": accept, "reject": reject, "skip": skip}
    asked = [name for name, pair in pairs.items() if pair is not None]
    asked += [name for name, chosen in (("undo", undo), ("log", log)) if chosen]
    asked += ["export"] if export is not None else []
    if len(asked) > 1:
        raise ConfigError(f"do one thing at a time: leave out --{asked[1]}")
    what = asked[0] if asked else ""
    if (by or note) and what not in {*pairs, "undo"}:
        raise ConfigError("--by and --note are about a decision; give --accept, --reject or --skip")
    if note and undo:
        raise ConfigError("--note is about a decision; leave it out with --undo")
    if export is not None:
        check_output(export, suffixes=(".tsv", SSSOM))
    from decentrl.aligner import Aligner
    from decentrl.storage.bundle import open_bundle

    opened = open_bundle(run, write=what in {*pairs, "undo"})
    if not opened.kind.two_graphs:
        raise ConfigError("this run is about prediction; there are no matches to review")
    with Aligner.load(opened, device, durable=what in {*pairs, "undo"}) as aligner:
        if pair := pairs.get(what):
            _print_decision(DONE[what], aligner.decide(*pair, what, by, note), as_json)  # type: ignore[arg-type]
        elif undo:
            _print_decision("taken back", aligner.undo_decision(by), as_json)
        elif log:
            print_answers(aligner.decisions(), as_json=as_json, empty="nothing was decided yet")
        elif export is not None:
            _export(aligner, export)
        else:
            _print_queue(aligner.review_queue(top, offset, language), as_json)


def _print_decision(done: str, decision: Decision, as_json: bool) -> None:
    if as_json:
        print_json(asdict(decision))
        return
    pairs = (f"{left} – {right}" for left, right in decision.pairs)
    print_lines(wide_console(), f"decision {decision.number}, {done}: {', '.join(pairs)}")


def _export(aligner: Aligner, file: Path) -> None:
    kind = "sssom" if file.name.endswith(SSSOM) else "links"
    count = aligner.export_decisions(file, kind)  # type: ignore[arg-type]
    what = "decisions" if kind == "sssom" else "accepted pairs"
    print_lines(plain_console(stderr=True), f"{file}: {count:,} {what}")


def _print_queue(queue: ReviewQueue, as_json: bool) -> None:
    if as_json:
        print_json(asdict(queue))
        return
    console = wide_console()
    names = ("left", "right", "confidence", "or else", "")
    table = plain_table("", *names, numbers=("confidence",))
    for item in queue.items:
        row = asdict(item)
        others = ", ".join(_sure(other) for other in row["alternatives"][:2])
        cells = called(row, "left"), called(row, "right"), number(item.confidence, 2), others
        table.add_row(*map(escape, cells), "skipped" if item.decision else "")
    console.print(table if queue.items else "there is nothing to review: every match is decided")
    done = queue.progress
    lines = [
        f"{done.decided:,} decided: {done.accepted:,} accepted, {done.rejected:,} rejected, "
        f"{done.skipped:,} skipped; {done.remaining:,} not looked at yet"
    ]
    share = done.estimated_precision
    lines.append(
        f"expected precision: {'not known' if share is None else f'{share:.1%}'}, {done.based_on}"
    )
    print_lines(console, *lines)


def _sure(candidate: Mapping[str, Any]) -> str:
    sure = candidate["confidence"]
    shown = str(called(candidate, "right"))
    return shown if sure is None else f"{shown} ({sure:.2f})"
