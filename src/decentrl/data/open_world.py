"""Open-world splits: entities that arrive after training, and the triples that come with them.

The splits are those of the paper: the new ones are the first entries of a seeded permutation, so
those of a smaller share are among those of a larger one.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from decentrl.data.alignment_task import AlignmentTask
from decentrl.data.graph_task import GraphTask
from decentrl.data.knowledge_graph import KnowledgeGraph
from decentrl.data.vocabulary import Ids
from decentrl.errors import InputError


def split_alignment(task: AlignmentTask, share: float, seed: int) -> AlignmentTask:
    """Make both entities of a random ``share`` of the test links new.

    Every triple that touches a new entity becomes auxiliary. Where an entity has several links,
    the training and validation links of a new one are dropped: training cannot know them.
    """
    _check(task.open_world, share, task.name)
    chosen = _first(len(task.test), share, seed, "test links")
    new = [np.zeros(len(graph.entities), bool) for graph in (task.left, task.right)]
    for side in (0, 1):
        new[side][task.test[chosen, side]] = True
    left, left_auxiliary = _divide(task.left, new[0])
    right, right_auxiliary = _divide(task.right, new[1])
    return replace(
        task,
        left=left,
        right=right,
        train=task.train[~_touches(task.train, new)],
        valid=task.valid[~_touches(task.valid, new)],
        auxiliary=(left_auxiliary, right_auxiliary),
        unknown=_touches(task.test, new),
    )


def split_graph(task: GraphTask, share: float, seed: int) -> GraphTask:
    """Make a random ``share`` of all entities new; every training triple of theirs auxiliary."""
    _check(task.open_world, share, task.name)
    chosen = _first(len(task.graph.entities), share, seed, "entities")
    new = np.zeros(len(task.graph.entities), bool)
    new[chosen] = True
    graph, auxiliary = _divide(task.graph, new)
    return replace(task, graph=graph, auxiliary=auxiliary, new_entities=np.sort(chosen))


def _first(n: int, share: float, seed: int, what: str) -> Ids:
    """The first int(share * n) entries of a seeded permutation of 0..n-1."""
    size = int(share * n)
    if size == 0:
        raise InputError(
            f"a share of {share} of {n} {what} is none", remedy="give a larger share or more data"
        )
    # RandomState, not default_rng: its stream is frozen, and the published splits came from it.
    return np.random.RandomState(seed).permutation(n)[:size].astype(np.int64)


def _divide(graph: KnowledgeGraph, new: npt.NDArray[np.bool_]) -> tuple[KnowledgeGraph, Ids]:
    """The graph without the triples that touch a new entity, and these triples."""
    touched = new[graph.triples[:, 0]] | new[graph.triples[:, 2]]
    if touched.all():
        raise InputError("no training triple would be left", remedy="give a smaller share")
    return graph.with_triples(graph.triples[~touched]), graph.triples[touched]


def _touches(links: Ids, new: list[npt.NDArray[np.bool_]]) -> npt.NDArray[np.bool_]:
    result: npt.NDArray[np.bool_] = new[0][links[:, 0]] | new[1][links[:, 1]]
    return result


def _check(already: bool, share: float, name: str) -> None:
    if already:
        raise InputError(
            f"{name} is already split for the open world", remedy="split the conventional dataset"
        )
    if not 0 < share < 1:
        raise InputError(f"the share {share} is impossible", remedy="give one between 0 and 1")
