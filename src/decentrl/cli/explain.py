"""``decentrl explain``: why a vector, a match or an answer is what it is."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from rich.markup import escape
from typer import Argument, Option

from decentrl.cli.console import (
    number,
    plain_console,
    plain_table,
    print_json,
    print_lines,
    wide_console,
)
from decentrl.cli.options import Device, Json, Language, Run, Side, open_sides
from decentrl.data.called import NAME, called
from decentrl.errors import ConfigError


def explain(  # long, as its options and their help are in it
    run: Run,
    entity: Annotated[
        str, Argument(metavar="[ENTITY]", help="Its identifier or name.", show_default=False)
    ] = "",
    counterpart: Annotated[
        str | None,
        Argument(help="An aligner's run: an entity of the right graph; the other is of the left."),
    ] = None,
    head: Annotated[str, Option(help="A predictor by paths: the head of a triple.")] = "",
    relation: Annotated[str, Option(help="Its relation.")] = "",
    tail: Annotated[str, Option(help="Its tail.")] = "",
    side: Side = "",
    top: Annotated[
        int | None,
        Option(
            help="How many neighbours or paths; default: 10, of a pair or triple 5.",
            min=1,
            show_default=False,
        ),
    ] = None,
    language: Language = "",
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """What a vector is made of, why two entities are a match or none, or which paths answer.

    Of one entity: its neighbours and relations, the weightiest neighbour first. "weight" is the
    share of the encoder's attention, "moves" how far the vector would move without the neighbour
    (1 - cosine), "role" what the entity is in the triple.

    Of two entities, the first of the left graph, the second of the right one: the share of each
    view in their cosine, the neighbours and names that they share, and what would change the
    answer.

    Of a triple, with a run of answers by paths: the paths from its head to its tail that give most
    to the score of the tail, each with its share.
    """
    if triple := head or relation or tail:
        if entity or not (head and relation and tail):
            raise ConfigError("give either an ENTITY, or --head, --relation and --tail")
    elif not entity:
        raise ConfigError("give an ENTITY, or --head, --relation and --tail of a triple")
    from decentrl.runs.sources import load_model

    opened, where = open_sides(run, side=side)
    if triple:
        if opened.kind.two_graphs:
            raise ConfigError("this run is about alignment; give an ENTITY")
        explain_triple(run, (head, relation, tail), top or 5, language, device, as_json)
        return
    if counterpart is not None:
        if not opened.kind.two_graphs:
            raise ConfigError("this run is about one graph; give one entity")
        if where:
            raise ConfigError("of two entities the first is of the left graph; leave out --side")
        explain_pair(run, entity, counterpart, top or 5, language, device, as_json)
        return
    top = top or 10
    with load_model(opened, device) as model:
        reasons = model.explain(entity, **where, moved=min(top, 10), language=language)
        named = bool(model.growing.sides[side or next(iter(model.growing.sides))].names)
    rows = [asdict(reason) for reason in reasons[:top]]
    if as_json:
        for row in () if named else rows:
            del row[f"neighbour{NAME}"]
        print_json(rows)
        return
    console = wide_console()
    if not reasons:
        print_lines(console, f"no triple is about {entity!r}, so its vector is made of nothing")
        return
    names = ("neighbour", "relation", "role", "weight", "moves", "arrived")
    table = plain_table(escape(entity), *names, numbers=("weight", "moves"))
    for reason, row in zip(reasons, rows, strict=False):
        table.add_row(
            escape(called(row, "neighbour")),
            escape(reason.relation) or "[dim]two steps away",
            reason.role,
            f"{reason.weight:.1%}",
            number(reason.moves, 4),
            "after training" if reason.arrived else "",
        )
    console.print(table)
    if len(reasons) > top:
        rest = sum(reason.weight for reason in reasons[top:])
        print_lines(console, f"… and {len(reasons) - top:,} more, {rest:.1%} together")


def explain_pair(
    run: Path, left: str, right: str, shown: int, language: str, device: str, as_json: bool
) -> None:
    """Print why two entities of an aligner's run are a match, or are none."""
    from decentrl.aligner import Aligner
    from decentrl.growth.pair_explanation import in_words

    with Aligner.load(run, device) as aligner:
        found = aligner.explain(left, right, shown=shown, language=language)
    if as_json:
        print_json(found.to_dict())
    else:
        print_lines(plain_console(), *in_words(found))


def explain_triple(
    run: Path, triple: tuple[str, str, str], top: int, language: str, device: str, as_json: bool
) -> None:
    """Print the paths that lead from the head of a triple to its tail."""
    from decentrl.predictor import Predictor

    head, relation, tail = triple
    with Predictor.load(run, device) as predictor:
        found = predictor.explain(
            head=head, relation=relation, tail=tail, top=top, language=language
        )
    if as_json:
        print_json([asdict(reason) for reason in found])
        return
    if not found:
        print_lines(plain_console(), "no path that was found gives anything to this answer")
    print_lines(plain_console(), *(f"{reason.share:5.1%}  {reason.text}" for reason in found))
