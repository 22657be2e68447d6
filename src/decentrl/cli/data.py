"""``decentrl data list | info | split | make | fetch | sparql``: datasets, files, endpoints."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.table import Table
from typer import Argument, Option, Typer

from decentrl.cli.console import plain_console, plain_table, print_json, print_lines
from decentrl.cli.options import Json
from decentrl.errors import ConfigError, InputError

if TYPE_CHECKING:
    from decentrl.data.knowledge_graph import KnowledgeGraph

app = Typer(
    help="Datasets: list them, look into them, split them for the open world, make and fetch them.",
    no_args_is_help=True,
)

Dataset = Annotated[
    str,
    Argument(metavar="NAME|FOLDER|FILE", help="A dataset's name or folder, or a file of triples."),
]


@app.command("list")
def list_command(as_json: Json = False) -> None:
    """All datasets that have a name, and whether their files are here."""
    from decentrl.data.registry import data_root, list_datasets

    datasets = list_datasets()
    if as_json:
        names = ("name", "kind", "entities", "open_world", "present")
        rows = [(x.name, x.kind, list(x.entities), x.open_world, x.present()) for x in datasets]
        print_json([dict(zip(names, row, strict=True)) for row in rows])
        return
    table = plain_table("", "dataset", "kind", "entities", "open world", "files")
    for info in datasets:
        entities = " + ".join(f"{n:,}" for n in info.entities)
        world = "yes" if info.open_world else "by split"
        table.add_row(
            info.name, info.kind, entities, world, "here" if info.present() else "missing"
        )
    _print(table, f"Root folder: {data_root()}")


@app.command()
def info(
    name: Dataset,
    open_world: Annotated[bool, Option("--open-world", help="With the open-world split.")] = False,
    as_json: Json = False,
) -> None:
    """What is in a dataset or a file of triples: entities, relations, triples, links, degrees."""
    from decentrl.data.graph_task import GraphTask
    from decentrl.data.registry import is_source, load_dataset

    if not open_world and is_source(name):
        facts = _facts(GraphTask.read(name, 0.0, 0.0))
    else:
        facts = _facts(load_dataset(name, open_world))
    if as_json:
        print_json(facts)
        return
    title, graphs = facts.pop("name"), facts.pop("graphs")
    table = plain_table("", "", *graphs, numbers=list(graphs))
    for key in next(iter(graphs.values())):
        table.add_row(key.replace("_", " "), *(_number(graph[key]) for graph in graphs.values()))
    rest = [f"{key.replace('_', ' ')}: {_number(value)}" for key, value in facts.items()]
    _print(title, table, *rest)


@app.command()
def split(
    name: Dataset,
    output: Annotated[str, Option("--output", "-o", help="The new folder.")],
    right: Annotated[
        str, Argument(metavar="[RIGHT]", help="A second file, to align with the first one.")
    ] = "",
    links: Annotated[str, Option(help="The links between the two files.")] = "",
    holdout: Annotated[
        float, Option(help="Of files: the share of links or triples to test.")
    ] = 0.1,
    share: Annotated[float, Option(help="Share of test links or entities made new.")] = 0.2,
    seed: Annotated[int, Option(help="Seed of the choice.", min=0, max=2**32 - 1)] = 0,
) -> None:
    """Write a dataset, or own files, with an open-world split to a new folder.

    With an alignment dataset a share of the test links becomes new, with one graph a share of its
    entities; the triples that touch them arrive after training.
    """
    from decentrl.data.alignment_task import AlignmentTask
    from decentrl.data.graph_task import GraphTask
    from decentrl.data.open_world import split_alignment, split_graph
    from decentrl.data.registry import is_source, load_dataset
    from decentrl.data.writers import write_alignment_folder, write_graph_folder

    task: AlignmentTask | GraphTask
    if right or links:
        if not (right and links):
            raise ConfigError("give two files of triples and --links between them")
        task = AlignmentTask.read(name, right, links).hold_out(holdout, seed, into="test")
    elif is_source(name):
        task = GraphTask.read(name, holdout, holdout, seed=seed)
    else:
        task = load_dataset(name)
    if isinstance(task, AlignmentTask):
        aligned = split_alignment(task, share, seed)
        assert aligned.unknown is not None
        write_alignment_folder(aligned, output)
        new = f"{int(aligned.unknown.sum()):,} of {len(aligned.test):,} test links"
    else:
        graph = split_graph(task, share, seed)
        assert graph.new_entities is not None
        write_graph_folder(graph, output)
        new = f"{len(graph.new_entities):,} of {len(graph.graph.entities):,} entities"
    _print(f"{output}: {new} are new")


@app.command()
def make(
    output: Annotated[str, Option("--output", "-o", help="The new folder.")],
    entities: Annotated[int, Option(help="Entities of each graph in the beginning.", min=10)],
    triples: Annotated[float, Option(help="Triples for each entity.", min=1, max=1000)] = 6.0,
    batches: Annotated[int, Option(help="How often both graphs grow later.", min=0, max=99)] = 3,
    seed: Annotated[int, Option(help="Seed of the pair.", min=0, max=2**32 - 1)] = 0,
) -> None:
    """Generate two graphs that grow, with names and all true links, of any size.

    `decentrl align --dataset FOLDER` reads what is there in the beginning, `decentrl add` the
    batches. The same numbers always give the same files.
    """
    import numpy as np

    from decentrl.data.generated_files import write_world
    from decentrl.data.generator import Shape, generate

    shape = Shape(entities, triples, batches, seed)
    world = generate(shape)
    links = write_world(world, shape, output)
    sides = (world.left, world.right)
    table = plain_table("", "", "triples", "new entities", "links", numbers=["triples"])
    for batch in range(batches + 1):
        rows, new = (
            " + ".join(f"{np.count_nonzero(getattr(side, what) == batch):,}" for side in sides)
            for what in ("arrived", "entities")
        )
        place = f"batch{batch}" if batch else "base"
        files = {name.split("/")[1]: len(x) for name, x in links.items() if place in name}
        said = (f"{name.split('_')[0]} {n:,}" for name, n in files.items())
        table.add_row(place, rows, new, "\n".join(said))
    _print(table, f"Next: decentrl align --dataset {output} -o RUN")


@app.command()
def fetch(
    names: Annotated[list[str], Argument(metavar="NAME...", help="Datasets to fetch.")],
    base_url: Annotated[
        str | None,
        Option(envvar="DECENTRL_DATA_URL", help="Address of a folder with the published files."),
    ] = None,
    timeout: Annotated[
        float | None, Option(help="Seconds for all of it. [default: by their sizes]")
    ] = None,
) -> None:
    """Download datasets, check them, and continue what was interrupted."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

    from decentrl.data.fetch import fetch as fetch_files
    from decentrl.data.registry import data_root

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    with Progress(*columns, console=plain_console(stderr=True), transient=True) as bar:
        tasks: dict[str, Any] = {}

        def progress(file: str, size: int, total: int | None) -> None:
            if file not in tasks:
                tasks[file] = bar.add_task(file)
            bar.update(tasks[file], completed=size, total=total)

        done = fetch_files(names, base_url, progress=progress, timeout=timeout)
    _print(f"{len(done)} file(s) downloaded to {data_root()}, all others were there already")


@app.command()
def sparql(
    url: Annotated[str, Argument(metavar="URL", help="The address of a SPARQL endpoint.")],
    query: Annotated[
        Path,
        Option(
            help="A file with a SELECT query of three variables (subject, predicate, object), or "
            "of two (links)."
        ),
    ],
    output: Annotated[Path, Option("--output", "-o", metavar="FILE.nt", help="The new file.")],
    page: Annotated[int, Option(help="How many rows to ask for at a time.", min=1)] = 10_000,
    timeout: Annotated[float, Option(help="Seconds for all of it.")] = 600,
) -> None:
    """Ask an endpoint for triples or links and write them to an N-Triples file.

    decentrl data sparql https://query.wikidata.org/sparql --query rivers.rq -o rivers.nt
    """
    from decentrl.cli.console import wide_console
    from decentrl.data.readers import read_bytes
    from decentrl.data.sparql import ask_endpoint
    from decentrl.storage.files import whole_files

    if output.suffix != ".nt":
        raise InputError("an endpoint's rows become N-Triples", file=output,
                         remedy="give a name that ends in .nt")  # fmt: skip
    if not output.parent.is_dir():
        raise InputError("no such folder", file=output.parent, remedy="make it first")
    try:
        text = read_bytes(query).decode()
    except UnicodeDecodeError:
        raise InputError("this is no text in UTF-8", file=query, remedy="convert it") from None
    count = 0
    with (
        wide_console(stderr=True).status("asking …") as status,
        whole_files(output) as (part,),
        part.open("wb") as file,
    ):
        for block in ask_endpoint(
            url, text, page, timeout, lambda rows: status.update(f"{rows:,} rows")
        ):
            file.write(block)
            count += block.count(b"\n")
    _print(f"{output}: {count:,} statements")


def _facts(task: Any) -> dict[str, Any]:
    """What a task holds, in numbers."""
    from decentrl.storage.kinds import kind_for

    kind = kind_for(task)
    arrays = kind.task_arrays(task)
    facts: dict[str, Any] = {"name": task.name, "open_world": task.open_world, "kind": kind.about}
    facts["graphs"] = {name: _graph_counts(getattr(task, name)) for name in kind.graphs}
    for name, counts in facts["graphs"].items():
        later = "auxiliary" + f".{name}" * kind.two_graphs
        if later in arrays:
            counts["auxiliary_triples"] = len(arrays[later])
    words = {"train": "training", "valid": "validation", "test": "test"}
    for name in kind.arrays:
        facts[f"{words[name]}_{'links' if kind.two_graphs else 'triples'}"] = len(arrays[name])
    if "unknown" in arrays:
        facts["new_test_links"] = int(arrays["unknown"].sum())
    if "new_entities" in arrays:
        facts["new_entities"] = len(arrays["new_entities"])
    return facts


def _graph_counts(graph: KnowledgeGraph) -> dict[str, float]:
    import numpy as np

    degree = np.bincount(graph.triples[:, [0, 2]].ravel(), minlength=len(graph.entities))
    return {
        "entities": len(graph.entities),
        "relations": len(graph.relations),
        "training_triples": len(graph.triples),
        "mean_degree": round(float(degree.mean()), 2),
        "median_degree": float(np.median(degree)),
        "largest_degree": int(degree.max()),
        "unseen_entities": int((degree == 0).sum()),
        "names": len(graph.names),
        "attribute_values": len(graph.attributes),
    }


def _number(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _print(*things: str | Table) -> None:
    print_lines(plain_console(), *things)
