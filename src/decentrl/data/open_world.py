"""Open-world splits: entities that arrive after training, and the triples that come with them.

The splits are those of the paper: the new ones are the first entries of a seeded permutation, so
those of a smaller share are among those of a larger one.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from decentrl.data.alignment_task import AlignmentTask, check_share
from decentrl.data.graph_task import GraphTask
from decentrl.data.knowledge_graph import KnowledgeGraph
from decentrl.data.vocabulary import Ids
from decentrl.errors import InputError

SHARE = 0.2
"""Of test links or entities that are new, where nothing else is said."""


def split_alignment(task: AlignmentTask, share: float, seed: int) -> AlignmentTask:
    """Make both entities of a random ``share`` of the test links new.

    Every triple that touches a new entity becomes auxiliary. Where an entity has several links,
    the training and validation links of a new one are dropped: training cannot know them.
    """
    chosen = _choose(task, len(task.test), share, seed, "test links")
    new = [np.zeros(len(graph.entities), bool) for graph in (task.left, task.right)]
    for side in (0, 1):
        new[side][task.test[chosen, side]] = True
    left, left_auxiliary = _divide(task.left, new[0])
    right, right_auxiliary = _divide(task.right, new[1])
    train, valid, test = (
        new[0][links[:, 0]] | new[1][links[:, 1]] for links in (task.train, task.valid, task.test)
    )
    return replace(
        task,
        left=left,
        right=right,
        train=task.train[~train],
        valid=task.valid[~valid],
        auxiliary=(left_auxiliary, right_auxiliary),
        unknown=test,
    )


def split_graph(task: GraphTask, share: float, seed: int) -> GraphTask:
    """Make a random ``share`` of all entities new; every training triple of theirs auxiliary."""
    chosen = _choose(task, len(task.graph.entities), share, seed, "entities")
    new = np.zeros(len(task.graph.entities), bool)
    new[chosen] = True
    graph, auxiliary = _divide(task.graph, new)
    return replace(task, graph=graph, auxiliary=auxiliary, new_entities=np.sort(chosen))


def _choose(task: AlignmentTask | GraphTask, n: int, share: float, seed: int, what: str) -> Ids:
    """The first int(share * n) entries of a seeded permutation of 0..n-1."""
    if task.open_world:
        raise InputError(
            f"{task.name} is already split for the open world",
            remedy="split the conventional dataset",
        )
    check_share(share)
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
