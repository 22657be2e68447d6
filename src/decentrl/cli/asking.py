"""What the commands that ask a run about its entities do once their words are understood."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from decentrl.cli.common import (
    escape,
    number_columns,
    plain_table,
    print_json,
    wide_console,
)
from decentrl.cli.grow import load, one_graph, say, sided
from decentrl.cli.options import plain_console
from decentrl.cli.output import tsv_row
from decentrl.errors import ConfigError, InputError

if TYPE_CHECKING:
    from decentrl.growth.drift import Drift
    from decentrl.growth.explanation import Reason

FORMATS = {".parquet": "parquet", ".npy": "npy", ".txt": "word2vec", ".vec": "word2vec"}
FAR = 0.2
"""A greater share of entities or triples after training is more than was ever measured."""
MOVED = 0.01
"""Vectors that would move less in a refresh, in the mean of 1 - cos, are good as they are."""


def explain(run: Path, entity: str, side: str, top: int, device: str, as_json: bool) -> None:
    """``decentrl explain``."""
    where = sided(run, {"side": side})
    with load(run, device) as model:
        reasons: list[Reason] = model.explain(entity, **where, moved=min(top, 10))
    if as_json:
        print_json([asdict(reason) for reason in reasons[:top]])
        return
    console = wide_console()
    if not reasons:
        say(console, f"no triple is about {entity!r}, so nothing tells of it")
        return
    labels = ("neighbour", "relation")
    table = plain_table(escape(entity), *labels, "role", wrap=labels)
    number_columns(table, "weight", "moves")
    table.add_column("arrived", no_wrap=True)
    for reason in reasons[:top]:
        table.add_row(
            escape(reason.neighbour),
            escape(reason.relation) or "[dim]two steps away",
            reason.role,
            f"{reason.weight:.1%}",
            "" if reason.moves is None else f"{reason.moves:.4f}",
            "after training" if reason.arrived else "",
        )
    console.print(table)
    if len(reasons) > top:
        rest = sum(reason.weight for reason in reasons[top:])
        say(console, f"… and {len(reasons) - top:,} more, {rest:.1%} together")


def neighbours(
    run: Path,
    entity: str,
    side: str,
    among: str,
    top: int,
    ann: bool,
    device: str,
    as_json: bool,
) -> None:
    """``decentrl neighbours``."""
    where = sided(run, {"side": side, "among": among})
    with load(run, device) as model:
        rows = model.neighbours(entity, **where, top=top, ann=ann).to_pylist()
    if as_json:
        print_json(rows)
    elif sys.stdout.isatty():
        table = plain_table("", "entity", wrap=("entity",))
        number_columns(table, "rank", "cosine")
        for row in rows:
            table.add_row(escape(row["entity"]), str(row["rank"]), f"{row['cosine']:.4f}")
        plain_console().print(table)
    else:
        for row in rows:
            print(tsv_row(row), end="")


def drift(run: Path, links: str, triples: str, device: str, as_json: bool) -> None:
    """``decentrl drift``."""
    one = one_graph(run)
    if one and links:
        raise ConfigError("this run is about prediction; give --triples instead of --links")
    if triples and not one:
        raise ConfigError("this run is about alignment; give --links instead of --triples")
    with load(run, device) as model:
        found: Drift = model.drift(links or triples or None)
    todo, why = advice(found, run)
    if as_json:
        print_json({**asdict(found), "advice": todo, "because": why})
        return
    console = wide_console()
    induced, arrived = _shares(found)
    for line in (
        f"entities     {found.entities:,} with a vector, {found.induced:,} ({induced:.1%}) of them "
        "came after training",
        f"triples      {found.triples:,}, {found.arrived:,} ({arrived:.1%}) of them came after "
        "training",
        f"stale        {found.stale:,} trained entities would move in a refresh",
        f"drift        {found.drift:.4f}: how far vectors would move in a refresh, 1 - cosine in "
        "the mean",
    ):
        say(console, line)
    if found.expected:
        words = {"trained": "trained entities", "induced": "new ones"}
        told = ", ".join(f"{value:.3f} for {words[k]}" for k, value in found.expected.items())
        say(
            console,
            f"recognised   {told}: how like a known input is the one a vector tells of, cosine",
        )
    if found.calibration:
        sure = found.calibration
        say(console, f"calibration  {sure['mean']:.1%} expected and {sure['right']:.1%} right, "
                        f"error {sure['ece']:.3f}")  # fmt: skip
    say(console, f"advice       {why}")


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


def export(run: Path, output: Path, format: str, side: str) -> None:
    """``decentrl export``."""
    where = sided(run, {"side": side})
    known = sorted(set(FORMATS.values()))
    if not format and output.suffix not in FORMATS:
        raise InputError(
            f"cannot tell the format by {output.suffix or 'a name without an extension'}",
            file=output,
            remedy=f"use {', '.join(FORMATS)}, or --format {' | '.join(known)}",
        )
    format = format or FORMATS[output.suffix]
    if format not in known:
        raise ConfigError(f"no format {format!r}; there are: {', '.join(known)}")
    if not where and format != "parquet" and not one_graph(run):
        raise ConfigError(
            f"{format} holds one graph; add --side left or --side right, or write parquet"
        )
    from decentrl.storage.export import Part, export_vectors

    with load(run, "cpu") as model:
        sides = model.growing.sides
        parts = [
            Part(graph.entities, graph.vectors, name or None)
            for name, graph in sides.items()
            if not where or name == side
        ]
        done = export_vectors(parts, output, format)
    said = f"{', '.join(map(str, done.files))}: {done.written:,} vectors"
    said += f", {done.without:,} entities without one left out" if done.without else ""
    say(plain_console(stderr=True), said)
