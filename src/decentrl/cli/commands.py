"""``decentrl align | match | complete | predict | evaluate | info | settings``, and the others."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Annotated

import typer

from decentrl.cli import data, inspect
from decentrl.cli.options import (
    Ann,
    Device,
    Json,
    Output,
    Overwrite,
    Resume,
    Run,
    check_side,
    given,
    plain_console,
)
from decentrl.cli.start import start_run
from decentrl.config import DEFAULT_PRESET, Config, PredictionConfig, Settings, preset_names
from decentrl.errors import ConfigError

app = typer.Typer(
    help="Entity representations for open-world knowledge graphs: align two graphs or complete "
    "one, also when entities arrive after training.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(inspect.app)
app.add_typer(data.app, name="data")

Format = Annotated[
    str, typer.Option(help="tsv, csv, parquet, nt or ttl, whatever the extensions say.")
]
Dataset = Annotated[
    str, typer.Option(help="A dataset's name or folder instead of files (`data list`).")
]
OpenWorld = Annotated[
    bool, typer.Option("--open-world", help="Some test entities arrive after training.")
]
Preset = Annotated[str, typer.Option(help="A ready set of settings.")]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change one setting; may be repeated."),
]
Seed = Annotated[int, typer.Option(help="Seed of everything random.")]
Seeds = Annotated[
    int, typer.Option(help="Run the seeds 0 … K-1 into RUN/seed-i and average.", min=0)
]
Matcher = Annotated[
    str | None, typer.Option(help="cosine, csls or sinkhorn; default: the run's own.")
]


OPEN_PRESET = "paper"
"""Of `complete`: embeddings of their own make known entities better and new ones worse."""

NAMED = ("dataset", "open_world", "left", "right", "links", "test_links", "valid_links", "triples",
         "valid", "test", "format", "holdout", "preset", "seed")  # fmt: skip
"""A run that goes on must have been begun with these, if they are given at all."""


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
    context: typer.Context,
    output: Output,
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
    format: Format = "",
    dataset: Dataset = "",
    open_world: OpenWorld = False,
    preset: Preset = DEFAULT_PRESET,
    settings: Set = None,
    self_train: Annotated[
        bool,
        typer.Option(
            "--self-train",
            help="Learn from found links too, in up to 3 rounds; validation links choose how many "
            "(short for --set self_training.rounds=3).",
        ),
    ] = False,
    seed: Seed = 0,
    seeds: Seeds = 0,
    device: Device = "auto",
    resume: Resume = False,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Find which entity of LEFT is which entity of RIGHT, from some known links.

    decentrl align zh.tsv en.nt --links seeds.tsv -o run

    decentrl align --dataset world -o run
    """
    changes = [*(["self_training.rounds=3"] * self_train), *(settings or ())]
    config = Config.from_preset(preset, changes, seed)
    if not resume:
        names = ("left", "right", "links", "test_links", "valid_links")
        _check_sources(context, dataset, left and right and links, open_world, names)

    from decentrl.cli import alignment
    from decentrl.runs.sources import Sources

    sources = Sources(
        dataset, open_world, left, right, links, test_links, valid_links, format, holdout
    )
    start_run(
        alignment.job(), sources, config, output,
        seeds=seeds, device=device, resume=resume, overwrite=overwrite, as_json=as_json,
        changes=changes, named=given(context, *NAMED),
    )  # fmt: skip


@app.command()
def complete(
    context: typer.Context,
    output: Output,
    triples: Annotated[
        str, typer.Argument(metavar="[TRIPLES]", help="The graph: head, relation, tail.")
    ] = "",
    valid: Annotated[str, typer.Option(help="Triples to make choices by.")] = "",
    test: Annotated[str, typer.Option(help="Triples to evaluate on.")] = "",
    holdout: Annotated[
        float, typer.Option(help="Share of the triples to evaluate on if no test file is given.")
    ] = 0.1,
    format: Format = "",
    dataset: Dataset = "",
    open_world: OpenWorld = False,
    preset: Annotated[
        str,
        typer.Option(
            help="A ready set of settings.",
            show_default=f"{DEFAULT_PRESET}; {OPEN_PRESET} with --open-world",
        ),
    ] = "",
    decoder: Annotated[
        str,
        typer.Option(
            help="transe, distmult, complex, rotate, tucker or conve; default: the preset's "
            "(short for --set decoder.name=…)."
        ),
    ] = "",
    settings: Set = None,
    seed: Seed = 0,
    seeds: Seeds = 0,
    device: Device = "auto",
    resume: Resume = False,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Learn to complete the triples of one graph: (h, r, ?) and (?, r, t).

    decentrl complete graph.tsv -o run

    decentrl complete --dataset world/geonames --open-world -o run
    """
    changes = [*([f"decoder.name={decoder}"] if decoder else ()), *(settings or ())]
    preset = preset or (OPEN_PRESET if open_world else DEFAULT_PRESET)
    config = PredictionConfig.from_preset(preset, changes, seed)
    if not resume:
        config.check()
        _check_sources(context, dataset, triples, open_world, ("triples", "valid", "test"))

    from decentrl.cli import prediction
    from decentrl.runs.sources import GraphSources

    sources = GraphSources(dataset, open_world, triples, valid, test, format, holdout)
    start_run(
        prediction.job(), sources, config, output,
        seeds=seeds, device=device, resume=resume, overwrite=overwrite, as_json=as_json,
        changes=changes, named=given(context, *NAMED),
    )  # fmt: skip


def _check_sources(
    context: typer.Context, dataset: str, files: str, open_world: bool, names: tuple[str, ...]
) -> None:
    """Raise unless there is either a dataset or all that is needed of files.

    Args:
        names: of the options that are about files.
    """
    if dataset and given(context, *names):
        raise ConfigError("give either --dataset or files, not both")
    for name in given(context, "format", "holdout") if dataset else ():
        raise ConfigError(f"--{name} is about files; {dataset} comes as it is")
    if not dataset and not files:
        needed = "LEFT, RIGHT and --links" if "links" in names else "TRIPLES"
        raise ConfigError(f"give {needed}, or --dataset NAME")
    if open_world and not dataset:
        raise ConfigError("--open-world needs --dataset; `decentrl data split` makes such a folder")


@app.command()
def evaluate(
    run: Run,
    links: Annotated[
        str, typer.Option(help="Alignment: other links than the run's test links.")
    ] = "",
    triples: Annotated[
        str, typer.Option(help="Prediction: other triples than the run's test triples.")
    ] = "",
    relations: Annotated[
        bool, typer.Option("--relations", help="Prediction: each relation on its own, too.")
    ] = False,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Rank the test links or triples of a finished run again, from its bundle alone."""
    from decentrl.storage.bundle import kind_of

    if kind_of(run) == "predictor":
        if links:
            raise ConfigError("this run is about prediction; give --triples instead of --links")
        from decentrl.cli import prediction

        prediction.evaluate(run, triples, relations, device, as_json)
        return
    if triples or relations:
        raise ConfigError("this run is about alignment; it has --links, no triples or --relations")
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
    ann: Ann = False,
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

    check_side(side)
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
        "ann": ann,
    }
    alignment.match(run, entities, asked, output, device, as_json)


@app.command()
def predict(
    run: Run,
    head: Annotated[str | None, typer.Option(help="The head of the triple.")] = None,
    relation: Annotated[str | None, typer.Option(help="Its relation.")] = None,
    tail: Annotated[str | None, typer.Option(help="Its tail.")] = None,
    batch: Annotated[
        str,
        typer.Option(
            metavar="FILE",
            help="Many questions: a .tsv file of head, relation, tail, one of them empty or ?.",
        ),
    ] = "",
    top: Annotated[int, typer.Option(help="How many answers for each question.", min=1)] = 10,
    known: Annotated[
        bool, typer.Option("--known", help="Also answers that the graph already holds.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write to a .tsv or .parquet file.")
    ] = None,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """What completes a triple: give two of its parts, the third is asked for.

    decentrl predict run --head Germany --relation borders --top 5

    decentrl predict run --batch questions.tsv -o answers.parquet
    """
    from decentrl.cli import prediction

    parts = (head, relation, tail)
    given = sum(part is not None for part in parts)
    if batch and given:
        raise ConfigError("give either --batch or parts of one triple, not both")
    if not batch and given != 2:
        raise ConfigError("give two of --head, --relation and --tail; the third is asked for")
    question = None if batch else parts
    prediction.predict(run, question, batch, top, known, output, device, as_json)


@app.command()
def info(run: Run, as_json: Json = False) -> None:
    """What a run is made of, how good it was when trained, and how much was added since."""
    from decentrl.cli import common, grow

    results = common.read_results(run)
    if since := grow.added(run):
        results["added"] = since
    if as_json:
        typer.echo(json.dumps(results, indent=2, ensure_ascii=False))
    else:
        if results.get("task") == "prediction":
            from decentrl.cli.prediction import tell
        else:
            from decentrl.cli.alignment import tell
        common.info(run, results, tell)


@app.command()
def settings(
    preset: Annotated[str, typer.Argument(help="Whose values to show.")] = DEFAULT_PRESET,
    task: Annotated[str, typer.Option(help="alignment or prediction.")] = "alignment",
    as_json: Json = False,
) -> None:
    """Every setting that --set can change, its value in a preset, and what it means."""
    kinds: dict[str, type[Settings]] = {"alignment": Config, "prediction": PredictionConfig}
    if task not in kinds:
        raise ConfigError(f"no task {task!r}; there are: {', '.join(kinds)}")
    config = kinds[task].from_preset(preset)
    if as_json:
        typer.echo(json.dumps(config.to_dict(), indent=2))
        return
    from rich.table import Table

    table = Table("setting", "value", "meaning", title=f"preset {preset}", title_justify="left")
    for name, kind in config.sections().items():
        for field in fields(kind):
            value = getattr(getattr(config, name), field.name)
            table.add_row(f"{name}.{field.name}", str(value), field.metadata["meaning"])
    plain_console().print(table, f"presets: {', '.join(preset_names(config.folder))}")
