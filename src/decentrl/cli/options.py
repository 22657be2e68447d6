"""Words that several commands understand, and what is checked before anything heavy is imported."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from decentrl.errors import ConfigError

if TYPE_CHECKING:
    from rich.console import Console


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


def given(context: typer.Context, *names: str) -> list[str]:
    """Those of the options that were given to the command, whatever their value."""
    sources = {name: context.get_parameter_source(name) for name in names}
    return [name for name, source in sources.items() if source and source.name == "COMMANDLINE"]


def plain_console(stderr: bool = False, markup: bool = True) -> Console:
    """One that prints labels and paths as they are: no colours of its own, and no pictures."""
    from rich.console import Console

    return Console(stderr=stderr, markup=markup, emoji=False, highlight=False)


def check_side(side: str) -> None:
    if side not in ("left", "right"):
        raise ConfigError(f"no side {side!r}; there are: left, right")
