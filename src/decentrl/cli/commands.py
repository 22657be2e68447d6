"""``decentrl align | evaluate | match | info | settings | data``."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import fields
from pathlib import Path
from typing import Annotated

import typer

from decentrl.cli import data
from decentrl.config import DEFAULT_PRESET, SECTIONS, Config, preset_names
from decentrl.errors import ConfigError

app = typer.Typer(
    help="Entity representations for open-world knowledge graphs: align two graphs, also when "
    "entities arrive after training.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(data.app, name="data")

Run = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a finished run.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else on stdout.")]
Device = Annotated[str, typer.Option(help="auto (CUDA if there is one), cpu or cuda.")]
Matcher = Annotated[
    str | None, typer.Option(help="cosine, csls or sinkhorn; default: the run's own.")
]


def _version(show: bool) -> None:
    if show:
        from decentrl._version import __version__

        typer.echo(f"decentrl {__version__}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


@app.command()
def align(
    output: Annotated[Path, typer.Option("--output", "-o", metavar="RUN", help="The run folder.")],
    left: Annotated[str, typer.Argument(metavar="[LEFT]", help="Triples of the left graph.")] = "",
    right: Annotated[
        str, typer.Argument(metavar="[RIGHT]", help="Triples of the right graph.")
    ] = "",
    links: Annotated[str, typer.Option(help="Known links: left entity, right entity.")] = "",
    test_links: Annotated[str, typer.Option(help="Links to evaluate on.")] = "",
    valid_links: Annotated[str, typer.Option(help="Links to make choices by.")] = "",
    holdout: Annotated[
        float, typer.Option(help="Share of the links to evaluate on if no test links are given.")
    ] = 0.1,
    format: Annotated[
        str, typer.Option(help="tsv, csv, parquet, nt or ttl, whatever the extensions say.")
    ] = "",
    dataset: Annotated[
        str, typer.Option(help="A dataset's name or folder instead of files (`data list`).")
    ] = "",
    open_world: Annotated[
        bool, typer.Option("--open-world", help="Some test entities arrive after training.")
    ] = False,
    preset: Annotated[str, typer.Option(help="A ready set of settings.")] = DEFAULT_PRESET,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change one setting; may be repeated."),
    ] = None,
    self_train: Annotated[
        bool,
        typer.Option(
            "--self-train",
            help="Learn from found links too, in up to 3 rounds; validation links choose how many "
            "(short for --set self_training.rounds=3).",
        ),
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    seeds: Annotated[
        int, typer.Option(help="Run the seeds 0 … K-1 into RUN/seed-i and average.", min=0)
    ] = 0,
    device: Device = "auto",
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with an interrupted RUN.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace RUN if it exists.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Find which entity of LEFT is which entity of RIGHT, from some known links.

    decentrl align zh.tsv en.nt --links seeds.tsv -o run

    decentrl align --dataset world -o run
    """
    more = ["self_training.rounds=3"] if self_train else []
    config = Config.from_preset(preset, [*more, *(settings or ())], seed)
    if not resume:
        _check_sources(dataset, left, right, links, open_world)

    from decentrl.cli import alignment
    from decentrl.runs import Sources

    sources = Sources(
        dataset, open_world, left, right, links, test_links, valid_links, format, holdout
    )
    try:
        alignment.run(
            sources, config, output,
            seeds=seeds, device=device, resume=resume, overwrite=overwrite, as_json=as_json,
            command=shlex.join(["decentrl", *sys.argv[1:]]),
        )  # fmt: skip
    except KeyboardInterrupt:  # typer would end here without a word
        typer.echo("interrupted; `--resume` goes on from the last checkpoint", err=True)
        raise typer.Exit(130) from None


def _check_sources(dataset: str, left: str, right: str, links: str, open_world: bool) -> None:
    if dataset and (left or right or links):
        raise ConfigError("give either --dataset or files, not both")
    if not dataset and not (left and right and links):
        raise ConfigError("give LEFT, RIGHT and --links, or --dataset NAME")
    if open_world and not dataset:
        raise ConfigError("--open-world needs --dataset; `decentrl data split` makes such a folder")


@app.command()
def evaluate(
    run: Run,
    links: Annotated[str, typer.Option(help="Other links than the run's test links.")] = "",
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Rank the test links of a finished run again, from its bundle alone."""
    from decentrl.cli import alignment

    alignment.evaluate(run, links, device, as_json)


@app.command()
def match(
    run: Run,
    entities: Annotated[
        list[str] | None, typer.Argument(metavar="[ENTITY]...", help="Entities to match.")
    ] = None,
    top: Annotated[int, typer.Option(help="How many matches for each.", min=1)] = 1,
    side: Annotated[str, typer.Option(help="The side of the entities: left or right.")] = "left",
    matcher: Matcher = None,
    assign: Annotated[
        str,
        typer.Option(
            help="nearest: each entity's best; mutual: only pairs that are each other's best; "
            "one-to-one: every entity at most once."
        ),
    ] = "nearest",
    abstain: Annotated[
        bool,
        typer.Option(
            "--abstain", help="No match where it is too unsure; validation links said from when on."
        ),
    ] = False,
    min_confidence: Annotated[
        float | None, typer.Option(help="No match below this confidence, 0 to 1.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write to a .tsv, .parquet or .nt file.")
    ] = None,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """The counterparts of some entities, or of all that have no known link.

    The confidence is how likely the best match is right. In an .nt file matches are owl:sameAs
    statements; entities without a match are left out there and have an empty counterpart elsewhere.
    """
    from decentrl.cli import alignment

    if side not in ("left", "right"):
        raise ConfigError(f"no side {side!r}; there are: left, right")
    if matcher not in (None, "cosine", "csls", "sinkhorn"):
        raise ConfigError(f"no matcher {matcher!r}; there are: cosine, csls, sinkhorn")
    if assign not in ("nearest", "mutual", "one-to-one"):
        raise ConfigError(f"no assignment {assign!r}; there are: nearest, mutual, one-to-one")
    if abstain and min_confidence is not None:
        raise ConfigError("give either --abstain or --min-confidence, not both")
    if min_confidence is not None and not 0 <= min_confidence <= 1:
        raise ConfigError(f"--min-confidence is {min_confidence}; it must be between 0 and 1")
    asked = {
        "top": top,
        "side": side,
        "matcher": matcher,
        "assign": assign,
        "min_confidence": "fitted" if abstain else min_confidence,
    }
    alignment.match(run, entities, asked, output, device, as_json)


@app.command()
def info(run: Run, as_json: Json = False) -> None:
    """What a run is made of and how good it is."""
    from decentrl.cli import alignment

    results = alignment.read_results(run)
    if as_json:
        typer.echo(json.dumps(results, indent=2, ensure_ascii=False))
    else:
        alignment.info(run, results)


@app.command()
def settings(
    preset: Annotated[str, typer.Argument(help="Whose values to show.")] = DEFAULT_PRESET,
    as_json: Json = False,
) -> None:
    """Every setting that --set can change, its value in a preset, and what it means."""
    config = Config.from_preset(preset)
    if as_json:
        typer.echo(json.dumps(config.to_dict(), indent=2))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table("setting", "value", "meaning", title=f"preset {preset}", title_justify="left")
    for name, kind in SECTIONS.items():
        for field in fields(kind):
            value = getattr(getattr(config, name), field.name)
            table.add_row(f"{name}.{field.name}", str(value), field.metadata["meaning"])
    Console().print(table, f"presets: {', '.join(preset_names())}")
