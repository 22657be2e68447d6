"""``decentrl add | undo | log | compact | explain | neighbours | drift | refit | export``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from decentrl.cli.options import Ann, Device, Json, Run, check_side
from decentrl.cli.start import start_run
from decentrl.errors import ConfigError, InputError

app = typer.Typer()
PANEL = "A graph that grows"

Entity = Annotated[str, typer.Argument(metavar="ENTITY", help="Its label.")]
Side = Annotated[
    str,
    typer.Option(help="The entity's graph: left (the default) or right; of an aligner's run only."),
]
Top = Annotated[int, typer.Option(help="How many.", min=1)]


@app.command(rich_help_panel=PANEL)
def add(
    run: Run,
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="New triples, as for `align` and `complete`."),
    ],
    side: Annotated[
        str, typer.Option(help="An aligner's run: which graph they belong to, left or right.")
    ] = "",
    strict: Annotated[
        bool, typer.Option("--strict", help="Add nothing if training has not seen a relation.")
    ] = False,
    refresh: Annotated[
        bool,
        typer.Option("--refresh", help="Encode all anew afterwards, see `decentrl compact`."),
    ] = False,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Take new triples and entities into a run, without training; they are kept.

    New entities have vectors at once and can be asked about. No vector of a trained entity changes,
    unless --refresh. Each file is one addition, kept whole or not at all; `decentrl undo` takes the
    last one back. Triples of relations that training has not seen are left out, and told.

    decentrl add run tuesday.tsv --side left
    """
    from decentrl.cli import grow

    grow.add(run, files, side, strict, refresh, device, as_json)


@app.command(rich_help_panel=PANEL)
def undo(run: Run) -> None:
    """Take back the last addition to a run, unless it is in the bundle by now."""
    from decentrl.cli import grow

    grow.undo(run)


@app.command(rich_help_panel=PANEL)
def log(run: Run, as_json: Json = False) -> None:
    """What was added to a run, when, and from where."""
    from decentrl.cli import grow

    grow.log(run, as_json)


@app.command(rich_help_panel=PANEL)
def compact(
    run: Run,
    refresh: Annotated[
        bool,
        typer.Option(
            "--refresh",
            help="Encode all entities anew, with all that was added: every vector may change.",
        ),
    ] = False,
    device: Device = "auto",
) -> None:
    """Make what was added part of the run's bundle, which then is as quick to load as a new one.

    Vectors stay as they are, unless --refresh. What is in the bundle cannot be undone.
    """
    from decentrl.cli import grow

    grow.compact(run, refresh, device)


@app.command(rich_help_panel=PANEL)
def explain(
    run: Run,
    entity: Entity,
    side: Side = "",
    top: Top = 10,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Which neighbours and relations an entity's vector is made of, the weightiest neighbour first.

    "weight" is the share of the encoder's attention, "moves" how far the vector would move without
    the neighbour (1 - cosine), "role" what the entity is in the triple.
    """
    from decentrl.cli import asking

    asking.explain(run, entity, side, top, device, as_json)


@app.command(rich_help_panel=PANEL)
def neighbours(
    run: Run,
    entity: Entity,
    side: Side = "",
    among: Annotated[
        str, typer.Option(help="An aligner's run: search left or right; default: the entity's.")
    ] = "",
    top: Top = 10,
    ann: Ann = False,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """The entities whose vectors are nearest to an entity's, by cosine."""
    from decentrl.cli import asking

    asking.neighbours(run, entity, side, among, top, ann, device, as_json)


@app.command(rich_help_panel=PANEL)
def drift(
    run: Run,
    links: Annotated[
        str, typer.Option(help="An aligner's run: links to check confidence by.")
    ] = "",
    triples: Annotated[
        str, typer.Option(help="A predictor's run: triples to check probabilities by.")
    ] = "",
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """How far a run has grown away from what was trained, and what to do about it."""
    from decentrl.cli import asking

    asking.drift(run, links, triples, device, as_json)


@app.command(rich_help_panel=PANEL)
def refit(
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="NEW", help="The folder of the new run.")
    ],
    run: Annotated[
        Path | None, typer.Argument(metavar="[RUN]", help="The folder of a finished run.")
    ] = None,
    links: Annotated[
        str, typer.Option(help="An aligner's run: links that have become known since.")
    ] = "",
    share: Annotated[
        float, typer.Option(help="Share of the epochs of a training from scratch.")
    ] = 0.5,
    device: Device = "auto",
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with an interrupted NEW; RUN is not needed.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace NEW if it exists.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Train again on all that is there now, starting from what RUN has learned.

    NEW is a run like those of `align` and `complete`; RUN stays as it is.

    decentrl refit run -o new
    """
    if run is None and not resume:
        raise ConfigError("give the RUN to train again, or --resume to go on with NEW")
    if not 0 < share <= 1:
        raise ConfigError(f"--share is {share}; it must be above 0 and at most 1")
    if overwrite and run is not None and run.resolve().is_relative_to(output.resolve()):
        raise InputError("would overwrite the run to start from", file=output,
                         remedy="choose another -o")  # fmt: skip
    from decentrl.cli import grow

    job, sources, config = grow.refit(run, output, links, share, resume)
    start_run(
        job, sources, config, output,
        seeds=0, device=device, resume=resume, overwrite=overwrite, as_json=as_json,
    )  # fmt: skip


@app.command(rich_help_panel=PANEL)
def export(
    run: Run,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="A .parquet, .npy, .txt or .vec file.")
    ],
    format: Annotated[
        str, typer.Option(help="parquet, npy or word2vec, whatever the extension says.")
    ] = "",
    side: Annotated[
        str,
        typer.Option(help="An aligner's run: left or right; only parquet can hold both."),
    ] = "",
) -> None:
    """Write the vectors of all entities to a file for other tools.

    .parquet has the columns entity, vector (and side); .npy is a matrix for NumPy, with the labels
    line by line in a .labels.txt beside it; .txt and .vec are word2vec's text, as Gensim reads it.
    """
    if side:
        check_side(side)
    from decentrl.cli import asking

    asking.export(run, output, format, side)
