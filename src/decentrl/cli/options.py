"""Options that several commands share; nothing heavy is imported here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from decentrl.errors import ConfigError

Run = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a finished run.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else on stdout.")]
Device = Annotated[str, typer.Option(help="auto (CUDA if there is one), cpu or cuda.")]
Output = Annotated[Path, typer.Option("--output", "-o", metavar="RUN", help="The run folder.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with an interrupted RUN.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace RUN if it exists.")]
Ann = Annotated[
    bool,
    typer.Option("--ann", help="An approximate index: faster among many entities, nearly exact."),
]
Side = Annotated[
    str,
    typer.Option(help="The entity's graph: left (the default) or right; of an aligner's run only."),
]
Entity = Annotated[str, typer.Argument(metavar="ENTITY", help="Its label.")]
Top = Annotated[int, typer.Option(help="How many.", min=1)]


def given(context: typer.Context, *names: str) -> list[str]:
    """Those of the options that were given to the command, whatever their value."""
    sources = {name: context.get_parameter_source(name) for name in names}
    return [name for name, source in sources.items() if source and source.name == "COMMANDLINE"]


def check_choice(what: str, value: str, choices: tuple[str, ...]) -> None:
    """Raise unless the value is one of the choices."""
    if value not in choices:
        raise ConfigError(f"no {what} {value!r}; there are: {', '.join(choices)}")


def check_sides(two_graphs: bool, **sides: str) -> dict[str, str]:
    """The sides that were given, by the name of their option; only two graphs have any."""
    found = {name: side for name, side in sides.items() if side}
    if found and not two_graphs:
        raise ConfigError(f"this run is about one graph; leave out --{next(iter(found))}")
    for side in found.values():
        check_choice("side", side, ("left", "right"))
    return found


def check_test_files(two_graphs: bool, links: str, triples: str) -> str | None:
    """The file of links or of triples that was given; a run has one of the two."""
    if links and not two_graphs:
        raise ConfigError("this run is about prediction; give --triples instead of --links")
    if triples and two_graphs:
        raise ConfigError("this run is about alignment; give --links instead of --triples")
    return links or triples or None
