"""Options that several commands share; nothing heavy is imported here."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from decentrl.errors import ConfigError

if TYPE_CHECKING:
    from decentrl.storage.bundle import Manifest

Run = Annotated[Path, Argument(metavar="RUN", help="The folder of a finished run.")]
Json = Annotated[bool, Option("--json", help="Print JSON and nothing else on stdout.")]
Device = Annotated[str, Option(help="auto (CUDA if there is one), cpu or cuda.")]


def _set_memory(text: str) -> str:
    if text:
        from decentrl.config.memory import set_memory

        set_memory(text)
    return text


Memory = Annotated[
    str,
    Option(
        metavar="SIZE",
        callback=_set_memory,
        is_eager=True,
        expose_value=False,
        help="Memory to use, like 8GB; default: DECENTRL_MEMORY in GiB, or that of the machine.",
    ),
]
Output = Annotated[Path, Option("--output", "-o", metavar="RUN", help="The run folder.")]
Resume = Annotated[bool, Option("--resume", help="Go on with the interrupted run of -o.")]
Overwrite = Annotated[bool, Option("--overwrite", help="Replace the run of -o if it exists.")]
Ann = Annotated[
    bool,
    Option("--ann", help="An approximate index: faster among many entities, nearly exact."),
]
Side = Annotated[
    str,
    Option(help="The entity's graph: left (the default) or right; of an aligner's run only."),
]
Links = Annotated[str, Option(help="An aligner's run: links to measure it by.")]
Graph = Annotated[
    str,
    Option(
        help="A predictor's run: ask about another graph with the same relations, a file of "
        "triples or a dataset."
    ),
]
Triples = Annotated[str, Option(help="A predictor's run: triples to measure it by.")]
Header = Annotated[
    str,
    Option(
        help="Whether the first lines of files name the columns: yes, no, or auto (found out, and "
        "said)."
    ),
]
Columns = Annotated[
    str,
    Option(
        metavar="HEAD,RELATION,TAIL",
        help="The columns of triples to read, by name or by number from 1.",
    ),
]
Separator = Annotated[
    str,
    Option(help="What is between two columns of triples: a character, tab or space."),
]
Entity = Annotated[str, Argument(metavar="ENTITY", help="Its identifier or name.")]
Language = Annotated[str, Option(help="Show names in this language: en, zh-hant, …")]
Top = Annotated[int, Option(help="How many.", min=1)]


def given(context: typer.Context, *names: str) -> list[str]:
    """Those of the options that were given to the command, whatever their value."""
    sources = {name: context.get_parameter_source(name) for name in names}
    return [name for name, source in sources.items() if source and source.name == "COMMANDLINE"]


def check_choice(what: str, value: str, choices: tuple[str, ...]) -> None:
    """Raise unless the value is one of the choices."""
    if value not in choices:
        raise ConfigError(f"no {what} {value!r}; there are: {', '.join(choices)}")


def open_sides(run: Path, write: bool = False, **sides: str) -> tuple[Manifest, dict[str, str]]:
    """The bundle of a run, and the sides that were given, by the name of their option.

    Only a run of two graphs has any.
    """
    from decentrl.storage.bundle import open_bundle

    opened = open_bundle(run, write)
    found = {name: side for name, side in sides.items() if side}
    if found and not opened.kind.two_graphs:
        raise ConfigError(f"this run is about one graph; leave out --{next(iter(found))}")
    for side in found.values():
        check_choice("side", side, ("left", "right"))
    return opened, found


def open_test(run: Path, links: str, triples: str) -> tuple[Manifest, dict[str, str | None]]:
    """The bundle of a run, and the file of links or of triples to test on, if one was given."""
    from decentrl.storage.bundle import open_bundle

    opened = open_bundle(run)
    names = ("links", "triples") if opened.kind.two_graphs else ("triples", "links")
    file, other = ({"links": links, "triples": triples}[name] for name in names)
    if other:
        about = f"this run is about {opened.kind.about}"
        raise ConfigError(f"{about}; give --{names[0]} instead of --{names[1]}")
    return opened, {names[0]: file or None}
