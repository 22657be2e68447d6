"""``decentrl evaluate | match | predict | info | neighbours | export``: asking a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

from rich.errors import NotRenderableError
from typer import Argument, Option

from decentrl.cli.console import (
    plain_console,
    print_answers,
    print_json,
    print_lines,
    wide_console,
)
from decentrl.cli.options import (
    Ann,
    Device,
    Entity,
    Graph,
    Json,
    Language,
    Links,
    Memory,
    Run,
    Side,
    Top,
    Triples,
    open_sides,
    open_test,
)
from decentrl.cli.output import TABLES, check_output
from decentrl.cli.printers import PRINTERS, print_unfinished, relation_table
from decentrl.config import must_have_vectors
from decentrl.errors import BundleError, ConfigError, InputError
from decentrl.storage.files import put_aside

RESULTS = {
    "dataset", "open_world", "task", "preset", "seed", "device", "seconds", "peak_memory_bytes",
    "results", "matches", "apart", "self_training", "started_from_names", "frequency", "confidence",
}  # fmt: skip
"""What ``results.json`` holds."""
FORMATS = {".parquet": "parquet", ".npy": "npy", ".txt": "word2vec", ".vec": "word2vec"}
"""What the extension of an exported file means."""
PRETRAINED = "pretrained"
"""The format that is a folder."""


def evaluate(
    run: Run,
    links: Links = "",
    triples: Triples = "",
    relations: Annotated[
        bool, Option("--relations", help="A predictor's run: each relation on its own, too.")
    ] = False,
    graph: Graph = "",
    test: Annotated[str, Option(help="Triples of that graph to test on.")] = "",
    among: Annotated[
        str,
        Option(help="A predictor's run: rank answers among all entities, or only new or known."),
    ] = "all",
    negatives: Annotated[
        int,
        Option(help="Rank each answer among so many wrong ones, drawn once; 0: all.", min=0),
    ] = 0,
    device: Device = "auto",
    memory: Memory = "",
    as_json: Json = False,
) -> None:
    """Rank the test links or triples of a finished run again, or others, from its bundle alone.

    decentrl evaluate run --graph other.tsv --test asked.tsv --negatives 50
    """
    opened, others = open_test(run, links, triples)
    kind = opened.kind
    if kind.two_graphs and (relations or graph or test or negatives or among != "all"):
        wrong = {"relations": relations, "graph": graph, "test": test, "negatives": negatives}
        first = next((name for name, value in wrong.items() if value), "among")
        raise ConfigError(f"this run is about alignment; leave out --{first}")
    if test and not graph:
        raise ConfigError("--test is about another graph (--graph); give --triples instead")
    from decentrl.runs.run import about
    from decentrl.runs.sources import load_model

    model = load_model(opened, device)
    if graph:
        model = model.on(graph, test or None)
    how = {} if kind.two_graphs else {"among": among, "negatives": negatives}
    rows = model.evaluate(**others, **how).rows
    results = {**about(model), "results": rows}
    if kind.two_graphs:
        results["matches"] = model.evaluate_matches(**others)
    else:
        # A frequency among other candidates says nothing beside these ranks.
        plain = among == "all" and not negatives
        results["frequency"] = model.frequency(**others) if plain else {}
    if as_json:
        print_json(results)
        return
    console = wide_console()
    PRINTERS[kind.name].results(console, results)
    if relations:
        console.print(relation_table(rows))


def match(
    run: Run,
    entities: Annotated[
        list[str] | None, Argument(metavar="[ENTITY]...", help="Entities to match.")
    ] = None,
    top: Annotated[int, Option(help="How many matches for each.", min=1)] = 1,
    side: Annotated[str, Option(help="The side of the entities: left or right.")] = "left",
    matcher: Annotated[
        str | None, Option(help="cosine, csls, sinkhorn or blend; default: the run's own.")
    ] = None,
    assign: Annotated[
        str,
        Option(
            help="nearest: each entity's best; mutual: only pairs that are each other's best; "
            "one-to-one: every entity at most once."
        ),
    ] = "nearest",
    abstain: Annotated[
        bool,
        Option(
            "--abstain", help="No match below the confidence that was chosen on validation links."
        ),
    ] = False,
    min_confidence: Annotated[
        float | None, Option(help="No match below this confidence, 0 to 1.")
    ] = None,
    since: Annotated[int | None, Option(help="What came after this addition.", min=0)] = None,
    ann: Ann = False,
    language: Language = "",
    output: Annotated[
        Path | None,
        Option("--output", "-o", help="Write to a .tsv, .parquet, .nt, .sssom.tsv or .rdf file."),
    ] = None,
    device: Device = "auto",
    memory: Memory = "",
    as_json: Json = False,
) -> None:
    """The counterparts of some entities, or of all that have no known link.

    The confidence is how likely the best match is right. In an .nt file matches are owl:sameAs
    statements, in .sssom.tsv SSSOM/TSV, in .rdf the Alignment format of the OAEI. Entities without
    a match are left out of .nt and .rdf, sssom:NoTermFound in SSSOM, and empty elsewhere.
    """
    if abstain and min_confidence is not None:
        raise ConfigError("give either --abstain or --min-confidence, not both")
    if entities and since is not None:
        raise ConfigError("give either entities or --since, not both")
    if min_confidence is not None and not 0 <= min_confidence <= 1:
        raise ConfigError(f"--min-confidence is {min_confidence}; it must be between 0 and 1")
    if output is not None:
        check_output(output, top)
    from decentrl.aligner import Aligner

    asked: dict[str, Any] = {"top": top, "side": side, "matcher": matcher, "assign": assign}
    asked |= {"min_confidence": "fitted" if abstain else min_confidence, "ann": ann}
    asked["language"] = language
    aligner = Aligner.load(run, device)
    named = (entities or None) if since is None else aligner.arrived_since(since, side)
    table = aligner.match(named, **asked)
    none = table["right" if side == "left" else "left"].null_count
    written = f"{table.num_rows - none:,} matches"
    written += f", {none:,} entities without one" if none else ""
    print_answers(table, output=output, written=written, as_json=as_json, file="matches.tsv")


def predict(
    run: Run,
    head: Annotated[str | None, Option(help="The head of the triple.")] = None,
    relation: Annotated[str | None, Option(help="Its relation.")] = None,
    tail: Annotated[str | None, Option(help="Its tail.")] = None,
    batch: Annotated[
        str,
        Option(
            metavar="FILE",
            help="Many questions: a .tsv file of head, relation, tail, one of them empty or ?.",
        ),
    ] = "",
    top: Annotated[int, Option(help="How many answers for each question.", min=1)] = 10,
    known: Annotated[
        bool, Option("--known", help="Also answers that the graph already holds.")
    ] = False,
    graph: Graph = "",
    language: Language = "",
    output: Annotated[
        Path | None, Option("--output", "-o", help="Write to a .tsv or .parquet file.")
    ] = None,
    device: Device = "auto",
    memory: Memory = "",
    as_json: Json = False,
) -> None:
    """What completes a triple: give two of its parts, the third is asked for.

    decentrl predict run --head Germany --relation borders --top 5

    decentrl predict run --batch questions.tsv -o answers.parquet
    """
    parts = (head, relation, tail)
    given = sum(part is not None for part in parts)
    if batch and given:
        raise ConfigError("give either --batch or parts of one triple, not both")
    if not batch and given != 2:
        raise ConfigError("give two of --head, --relation and --tail; the third is asked for")
    if output is not None:
        check_output(output, suffixes=TABLES)
    from decentrl.data.questions import read_questions
    from decentrl.predictor import Predictor

    predictor = Predictor.load(run, device)
    if graph:
        predictor = predictor.on(graph)
    questions = read_questions(batch, predictor.task.graph) if batch else [parts]
    table = predictor.predict_all(questions, top=top, known=known, language=language)
    written = f"{table.num_rows:,} answers to {len(questions):,} questions"
    empty = (
        "no new answer; --known also shows the answers that the graph already holds (of an "
        "entity without a triple there are none)"
    )
    print_answers(
        table, output=output, written=written, as_json=as_json, file="answers.tsv", empty=empty
    )


def info(run: Run, as_json: Json = False) -> None:
    """What a run is made of, how good it was when trained, and how much was added since."""
    from decentrl.cli.grow import count_added
    from decentrl.runs.unfinished import describe_unfinished
    from decentrl.storage.bundle import open_bundle, read_card
    from decentrl.storage.card import QUALITY
    from decentrl.storage.kinds import kind_about

    if (facts := describe_unfinished(run)) is not None:
        print_json(facts) if as_json else print_unfinished(wide_console(), run, facts)
        return
    results = read_results(run)
    opened = open_bundle(run) if (run / "bundle").is_dir() else None
    if since := count_added(run, opened) if opened else {}:
        results["added"] = since
    if as_json:
        print_json(results)
        return
    console = wide_console()
    if opened:
        text = read_card(opened).split(QUALITY)[0].split("```")[0].rstrip()
        console.print(text, markup=False)
    seconds = ", ".join(f"{name} {value:.1f} s" for name, value in results["seconds"].items())
    memory = results["peak_memory_bytes"] / 2**20
    print_lines(console, f"- {results['device']}: {seconds}; peak memory {memory:,.0f} MiB")
    if since:
        console.print(
            f"- added since: {since['triples']:,} triples and {since['entities']:,} entities; "
            + (f"{since['links']:,} links; " if since["links"] else "")
            + f"additions: {since['additions']:,}, {since['in_the_bundle']:,} of them in the bundle"
        )
    console.print()
    try:
        PRINTERS[kind_about(results.get("task")).name].results(console, results)
    except (LookupError, ValueError, TypeError, AttributeError, NotRenderableError) as error:
        raise BundleError(f"{run / 'results.json'}: damaged, it has other results") from error


def read_results(folder: Path) -> dict[str, Any]:
    """``results.json`` of a finished run."""
    from decentrl.storage.bundle import seal_of

    path = folder / "results.json"
    if not path.is_file():
        if aside := put_aside(folder):
            raise BundleError(f"{folder}: {aside}")
        raise InputError(
            "no finished run here", file=folder, remedy="give one made by `align` or `complete`"
        )
    try:
        results = dict(json.loads(path.read_bytes()))
        seal = results.pop("sha256", None)
        # Runs of before have no seal; a damaged name of it is none of theirs.
        if set(results) - RESULTS if seal is None else seal != seal_of(results):
            raise ValueError("its checksum differs")
        _ = [value + 0.0 for value in results["seconds"].values()]
        _ = [dict(row) for row in results["results"]], results["peak_memory_bytes"] + 0
        _ = results["device"] + ""
        results |= {} if seal is None else {"sha256": seal}
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise BundleError(
            f"{path}: damaged, it is not the JSON that a run writes ({error}); copy the run again"
        ) from error
    return results


def neighbours(
    run: Run,
    entity: Entity,
    side: Side = "",
    among: Annotated[
        str, Option(help="An aligner's run: search left or right; default: the entity's.")
    ] = "",
    top: Top = 10,
    ann: Ann = False,
    language: Language = "",
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """The entities whose vectors are nearest to an entity's, by cosine."""
    from decentrl.runs.sources import load_model

    opened, where = open_sides(run, side=side, among=among)
    with load_model(opened, device) as model:
        table = model.neighbours(entity, **where, top=top, ann=ann, language=language)
    print_answers(table, as_json=as_json)


def export(
    run: Run,
    output: Annotated[Path, Option("--output", "-o", help="A .parquet, .npy, .txt or .vec file.")],
    format: Annotated[
        str,
        Option(
            help="parquet, npy or word2vec, in place of what the extension means; pretrained: a "
            "folder like those of Hugging Face."
        ),
    ] = "",
    dim: Annotated[
        int | None,
        Option(help="Write so many numbers of each vector (principal axes); default: all.", min=1),
    ] = None,
    side: Annotated[
        str,
        Option(help="An aligner's run: left or right; only parquet can hold both."),
    ] = "",
) -> None:
    """Write the vectors of all entities to a file for other tools.

    .parquet has the columns entity, vector (and side); .npy is a matrix for NumPy, with the labels
    line by line in a .labels.txt beside it; .txt and .vec are word2vec's text, as Gensim reads it.
    """
    from decentrl.runs.sources import load_model
    from decentrl.storage.bundle import CARD
    from decentrl.storage.export import Part, export_vectors
    from decentrl.storage.narrow import narrowed
    from decentrl.storage.pretrained import save_pretrained

    opened, where = open_sides(run, side=side)
    if not format and output.suffix not in FORMATS:
        raise InputError(
            f"no format is known for {output.suffix or 'a name without an extension'}",
            file=output,
            remedy=f"use {', '.join(FORMATS)}, or --format npy | parquet | word2vec | pretrained",
        )
    with load_model(opened, "cpu") as model:
        must_have_vectors(model.config)
        parts = [
            Part(graph.entities, graph.vectors, name or None)
            for name, graph in model.growing.sides.items()
            if not where or name == side
        ]
        parts = narrowed(parts, dim) if dim else parts
        if format == PRETRAINED:
            card = (opened.folder / CARD).read_text("utf-8")
            done = save_pretrained(parts, output, card)
        else:
            done = export_vectors(parts, output, format or FORMATS[output.suffix])
    text = f"{', '.join(map(str, done.files))}: {done.written:,} vectors"
    text += f", {done.without:,} entities without one left out" if done.without else ""
    print_lines(plain_console(stderr=True), text)
