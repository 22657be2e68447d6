"""``decentrl align | complete | refit``: the commands that train."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from decentrl.cli.options import (
    Columns,
    Device,
    Header,
    Json,
    Memory,
    Output,
    Overwrite,
    Resume,
    Separator,
    check_choice,
    given,
)
from decentrl.config import DEFAULT_PRESET, Config, PredictionConfig, must_grow
from decentrl.errors import ConfigError, InputError

Holdout = Annotated[float, Option(help="Share to evaluate on if no test file is given.")]
Format = Annotated[
    str,
    Option(
        help="tsv, csv, parquet, jsonl, nt, ttl, n3, rdf, jsonld, nq or trig, in place of what the "
        "extensions mean."
    ),
]
Dataset = Annotated[str, Option(help="A dataset's name or folder instead of files (`data list`).")]
OpenWorld = Annotated[
    bool,
    Option(
        "--open-world",
        help="Some test entities arrive after training; of files a fifth, chosen at random.",
    ),
]
Preset = Annotated[str, Option(help="A ready set of settings.")]
Set = Annotated[
    list[str] | None,
    Option("--set", metavar="KEY=VALUE", help="Change one setting; may be repeated."),
]
Seed = Annotated[int, Option(help="Seed of everything random.")]
Seeds = Annotated[
    int, Option(help="Run the seeds 0 … K-1 into RUN/seed-i and average.", min=0, max=1000)
]

READING = ("format", "header", "columns", "separator", "unknown_links", "right_columns")
"""Options about how files are read."""
SMALL_PRESET = "paths"
"""Of `complete` for graphs of at most ``runs.SMALL`` triples."""
OPEN_PRESET = "paper"
"""For larger ones with --open-world: entity embeddings help known entities and harm new ones."""


def align(  # long, as its options and their help are in it
    context: typer.Context,
    output: Output,
    left: Annotated[str, Argument(metavar="[LEFT]", help="Triples of the left graph.")] = "",
    right: Annotated[str, Argument(metavar="[RIGHT]", help="Triples of the right graph.")] = "",
    links: Annotated[
        str,
        Option(
            help="Known links: left entity, right entity. Without a file, or with `none`, names "
            "that are surely the same are the start."
        ),
    ] = "",
    test_links: Annotated[str, Option(help="Links to evaluate on.")] = "",
    valid_links: Annotated[str, Option(help="Links to make choices by.")] = "",
    names: Annotated[
        str,
        Option(
            help="ids (names made of identifiers), none (leave names out), translated (those "
            "that dbp15k comes with) or ids+translated; default: those that the graphs come with."
        ),
    ] = "",
    left_names: Annotated[
        str, Option(help="Names of left entities: entity, name, perhaps language.")
    ] = "",
    right_names: Annotated[str, Option(help="Names of right entities.")] = "",
    left_attributes: Annotated[
        str, Option(help="Attributes of left entities: entity, attribute, value.")
    ] = "",
    right_attributes: Annotated[str, Option(help="Attributes of right entities.")] = "",
    unknown_links: Annotated[
        str,
        Option(help="Links that name unknown entities: error, or skip to leave them out."),
    ] = "error",
    holdout: Holdout = 0.1,
    format: Format = "",
    header: Header = "auto",
    columns: Columns = "",
    right_columns: Annotated[
        str,
        Option(metavar="HEAD,RELATION,TAIL", help="Those of RIGHT, if they are called otherwise."),
    ] = "",
    separator: Separator = "",
    dataset: Dataset = "",
    open_world: OpenWorld = False,
    preset: Preset = DEFAULT_PRESET,
    settings: Set = None,
    self_train: Annotated[
        bool,
        Option(
            "--self-train",
            help="Learn from found links too, in up to 3 rounds; validation links choose how many "
            "(short for --set self_training.rounds=3).",
        ),
    ] = False,
    seed: Seed = 0,
    seeds: Seeds = 0,
    device: Device = "auto",
    memory: Memory = "",
    resume: Resume = False,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Find which entity of LEFT is which entity of RIGHT, from some known links.

    decentrl align zh.tsv en.nt --links seeds.tsv -o run

    decentrl align --dataset world -o run
    """
    if names:
        check_choice("names", names, ("ids", "none", "translated", "ids+translated"))
    if names.endswith("translated") and not dataset and not resume:
        raise ConfigError(f"--names {names} is about a dataset; give files by --left-names")
    check_choice("choice for --unknown-links:", unknown_links, ("error", "skip"))
    changes = [*(["self_training.rounds=3"] * self_train), *(settings or ())]
    config = Config.from_preset(preset, changes, seed)
    needed, optional = ("left", "right"), ("links", "test_links", "valid_links")
    _start(context, config, changes, needed, optional, "LEFT and RIGHT")


def complete(
    context: typer.Context,
    output: Output,
    triples: Annotated[
        str, Argument(metavar="[TRIPLES]", help="The graph: head, relation, tail.")
    ] = "",
    valid: Annotated[str, Option(help="Triples to make choices by.")] = "",
    test: Annotated[str, Option(help="Triples to evaluate on.")] = "",
    names: Annotated[
        str,
        Option(
            help="A file of names (entity, name, perhaps language), ids (made of identifiers) or "
            "none; default: those that the graph comes with."
        ),
    ] = "",
    holdout: Holdout = 0.1,
    format: Format = "",
    header: Header = "auto",
    columns: Columns = "",
    separator: Separator = "",
    dataset: Dataset = "",
    open_world: OpenWorld = False,
    preset: Annotated[
        str,
        Option(
            help="A ready set of settings.",
            show_default=f"{SMALL_PRESET}; above 20,000 triples {DEFAULT_PRESET}, or "
            f"{OPEN_PRESET} with --open-world",
        ),
    ] = "",
    decoder: Annotated[
        str,
        Option(
            help="transe, distmult, complex, rotate, tucker or conve; default: the preset's "
            "(short for --set decoder.name=…)."
        ),
    ] = "",
    settings: Set = None,
    seed: Seed = 0,
    seeds: Seeds = 0,
    device: Device = "auto",
    memory: Memory = "",
    resume: Resume = False,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Learn to complete the triples of one graph: (h, r, ?) and (?, r, t).

    decentrl complete graph.tsv -o run

    decentrl complete --dataset world/geonames --open-world -o run
    """
    changes = [*([f"decoder.name={decoder}"] if decoder else ()), *(settings or ())]
    larger = None
    if preset:
        config = PredictionConfig.from_preset(preset, changes, seed)
    else:
        config, larger = _default(OPEN_PRESET if open_world else DEFAULT_PRESET, changes, seed)
    _start(context, config, changes, ("triples",), ("valid", "test"), "TRIPLES", larger)


def _default(
    vectors: str, changes: list[str], seed: int
) -> tuple[PredictionConfig, PredictionConfig | None]:
    """Settings where no preset is asked for, and others for a larger graph.

    Args:
        vectors: the preset of answers by vectors; changes may be about these, or about paths.
    """
    found, wrong = list[PredictionConfig](), list[ConfigError]()
    for name in (SMALL_PRESET, vectors):
        try:
            found.append(PredictionConfig.from_preset(name, changes, seed))
        except ConfigError as error:
            wrong.append(error)
    if not found:
        raise wrong[-1]
    return found[0], found[1] if len(found) > 1 else None


def _start(
    context: typer.Context,
    config: Any,
    changes: list[str],
    needed: tuple[str, ...],
    optional: tuple[str, ...],
    words: str,
    larger: Any = None,
) -> None:
    """Check where the data come from, and make the run.

    Args:
        needed: names of the options that are about files, without which there is no task; in
            help they are called ``words``.
        optional: names of the others.
        larger: other settings for a graph that is large.
    """
    asked, files = context.params, (*needed, *optional)
    dataset = asked["dataset"]
    if not asked["resume"]:
        about = [name for name in given(context, *files) if asked[name] != "none"]
        if dataset and about:
            raise ConfigError("give either --dataset or files, not both")
        for name in given(context, *READING, "holdout") if dataset else ():
            option = name.replace("_", "-")
            raise ConfigError(f"--{option} is about files; {dataset} comes as it is")
        if not dataset and not all(asked[name] for name in needed):
            raise ConfigError(f"give {words}, or --dataset NAME")
        linked = bool(dataset or asked.get("links", "given") or asked["test_links"])
        if asked["open_world"] and not linked:
            raise ConfigError("--open-world makes test links new; give --links or --test-links")
    from decentrl.cli.course import Plan
    from decentrl.data.headers import Reading
    from decentrl.runs.run import JOBS
    from decentrl.storage.kinds import kind_for

    about = [name for name in asked if name.endswith(("names", "attributes"))]
    names = (
        "dataset",
        "open_world",
        *files,
        *about,
        *(x for x in READING if x in asked),
        "holdout",
    )
    sources = JOBS[kind_for(config).name].sources(**{name: asked[name] for name in names})
    how = {name: asked[name] for name in ("device", "resume", "overwrite", "as_json", "seeds")}
    Reading.of(*(asked[name] for name in READING[:4]))  # is checked before anything is read
    named = given(context, *names, "preset", "seed")
    output = Path(asked["output"])
    Plan(sources, config, output, **how, changes=changes, named=named, larger=larger).start()


def refit(
    output: Annotated[
        Path, Option("--output", "-o", metavar="NEW", help="The folder of the new run.")
    ],
    run: Annotated[
        Path | None, Argument(metavar="[RUN]", help="The folder of a finished run.")
    ] = None,
    links: Annotated[
        str, Option(help="An aligner's run: links that have become known since.")
    ] = "",
    share: Annotated[float, Option(help="Share of the epochs of a training from scratch.")] = 0.5,
    device: Device = "auto",
    memory: Memory = "",
    resume: Resume = False,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Train again on all that is there now, starting from what RUN has learned.

    NEW is a run like those of `align` and `complete`; RUN stays as it is, and --resume needs none.

    decentrl refit run -o new
    """
    if run is None and not resume:
        raise ConfigError("give the RUN to train again, or --resume to go on with NEW")
    if not 0 < share <= 1:
        raise ConfigError(f"--share is {share}; it must be above 0 and at most 1")
    if overwrite and run is not None and run.resolve().is_relative_to(output.resolve()):
        raise InputError("would overwrite the run to start from", file=output,
                         remedy="choose another -o")  # fmt: skip
    from decentrl.cli.course import Plan
    from decentrl.runs.sources import Grown
    from decentrl.storage.bundle import open_bundle, read_bundle

    config = None  # --resume reads it, and the sources, from NEW
    if run is not None and not resume:
        opened = open_bundle(run)
        config = read_bundle(opened, opened.kind.name).config
        must_grow(config)  # before anything is printed
    sources = Grown("" if run is None else str(run), links, share)
    Plan(sources, config, output, device, resume, overwrite, as_json).start()
