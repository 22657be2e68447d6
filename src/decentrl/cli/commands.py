"""The command ``decentrl``: all commands in the order of its help."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from typer import Argument, Option
from typer.core import TyperGroup

from decentrl.cli import ask, data, explain, grow, review, serve, train
from decentrl.cli.console import plain_console, print_json
from decentrl.cli.options import Json, check_choice
from decentrl.cli.streams import DEBUG
from decentrl.config import DEFAULT_PRESET, Config, PredictionConfig, Settings, preset_names
from decentrl.data.called import printable


class _Commands(TyperGroup):
    """Commands of which no message about options reaches a terminal as a command to it."""

    def make_context(self, *arguments: Any, **more: Any) -> Any:
        with _printable_messages():
            return super().make_context(*arguments, **more)

    def invoke(self, ctx: Any) -> Any:
        with _printable_messages():
            return super().invoke(ctx)


@contextmanager
def _printable_messages() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if isinstance(message := getattr(error, "message", None), str):
            error.message = printable(message)  # type: ignore[attr-defined]
        raise


app = typer.Typer(
    cls=_Commands,
    help="Entity representations for open-world knowledge graphs: align two graphs or complete "
    "one, also when entities arrive after training.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
)
app.add_typer(data.app, name="data")


def _version(show: bool) -> None:
    if show:
        from decentrl._version import __version__

        typer.echo(f"decentrl {__version__}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[
        bool, Option("--debug", help="Show the traceback of an error, for a report of it.")
    ] = False,
) -> None:
    if debug:
        os.environ[DEBUG] = "1"


def settings(
    preset: Annotated[str, Argument(help="Whose values to show.")] = DEFAULT_PRESET,
    task: Annotated[str, Option(help="alignment or prediction.")] = "alignment",
    as_json: Json = False,
) -> None:
    """Every setting that --set can change, its value in a preset, and what it means."""
    kinds: dict[str, type[Settings]] = {"alignment": Config, "prediction": PredictionConfig}
    check_choice("task", task, tuple(kinds))
    config = kinds[task].from_preset(preset)
    if as_json:
        print_json(config.to_dict())
        return
    from rich.table import Table

    table = Table("setting", "value", "meaning", title=f"preset {preset}", title_justify="left")
    for section, rows in config.describe():
        for name, value, meaning in rows:
            table.add_row(f"{section}.{name}", str(value), meaning)
        table.add_section()
    plain_console().print(table, f"presets: {', '.join(preset_names(config.folder))}")


FIRST: tuple[Callable[..., None], ...] = (
    train.align, train.complete, ask.evaluate, ask.match, ask.predict, ask.info, settings,
)  # fmt: skip
GROWING: tuple[Callable[..., None], ...] = (
    grow.add, grow.undo, grow.log, grow.compact, explain.explain, ask.neighbours, grow.drift,
    review.review, train.refit, ask.export, serve.serve,
)  # fmt: skip
for _command in FIRST:
    app.command()(_command)
for _command in GROWING:
    app.command(rich_help_panel="A graph that grows")(_command)
