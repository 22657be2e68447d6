"""Makes tasks of what ``fit`` takes: tasks, names of datasets, files, and data in memory."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TypeVar

from decentrl.data.alignment_task import AlignmentTask
from decentrl.data.graph_task import GraphTask
from decentrl.data.knowledge_graph import KnowledgeGraph
from decentrl.data.memory import Source
from decentrl.data.registry import load_dataset
from decentrl.errors import InputError

AnyTask = TypeVar("AnyTask", AlignmentTask, GraphTask)


def load_task(kind: type[AnyTask], name: str, open_world: bool = False) -> AnyTask:
    """The dataset of a name or folder; one for the other job is an error."""
    task = load_dataset(name, open_world)
    if not isinstance(task, kind):
        is_one = isinstance(task, GraphTask)
        problem = "one graph, alignment needs two" if is_one else "two graphs, prediction needs one"
        job = "alignment" if is_one else "prediction"
        raise InputError(
            f"{name} is {problem}", remedy=f"`decentrl data list` shows the datasets for {job}"
        )
    return task


def as_alignment_task(
    left: AlignmentTask | KnowledgeGraph | Source,
    right: KnowledgeGraph | Source | None = None,
    links: Source | None = None,
    test_links: Source | None = None,
    valid_links: Source | None = None,
) -> AlignmentTask:
    """The task of two graphs and links, of a dataset (``left`` alone), or a ready one as it is."""
    if right is not None and links is not None and not isinstance(left, AlignmentTask):
        return AlignmentTask.read(left, right, links, test_links, valid_links)
    alone = all(x is None for x in (right, links, test_links, valid_links))
    if isinstance(left, AlignmentTask) and alone:
        return left
    if isinstance(left, str | PathLike) and alone and not Path(left).is_file():
        return load_task(AlignmentTask, str(left))
    raise InputError(
        "alignment needs two graphs and links",
        remedy="give left, right and links, or a task or the name of a dataset alone",
    )


def as_graph_task(
    source: GraphTask | KnowledgeGraph | Source,
    valid: float | Source = 0.1,
    test: float | Source = 0.0,
    seed: int = 0,
) -> GraphTask:
    """The task of a graph, a file or a dataset, or a ready one as it is.

    Args:
        valid, test: of triples that come without splits, the random share to hold out, or the
            triples themselves.
        seed: of the random choice.
    """
    if isinstance(source, GraphTask):
        return source
    if isinstance(source, str | PathLike) and not Path(source).is_file():
        return load_task(GraphTask, str(source))
    held_out = {"valid": valid, "test": test}
    shares = {x: float(y) for x, y in held_out.items() if isinstance(y, float | int)}
    if isinstance(source, KnowledgeGraph) and len(shares) == 2:
        return GraphTask.from_graph("graph", source, seed=seed, **shares)  # keeps its ids
    given = {x: y for x, y in held_out.items() if x not in shares}
    given |= {f"{x}_share": y for x, y in shares.items()}
    return GraphTask.read(source, seed=seed, **given)  # type: ignore[arg-type]
