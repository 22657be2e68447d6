"""Metrics of all ranked answers, and of every group of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from decentrl.evaluation.frequency import relation_categories
from decentrl.evaluation.metrics import summary
from decentrl.evaluation.ranks import Ranks
from decentrl.graph.adjacency import Ids
from decentrl.graph.queries import Queries

Mask = npt.NDArray[np.bool_]


def answer_metrics(ranks: Ranks) -> dict[str, float]:
    found = summary(ranks, (1, 3, 10))
    return {name: found[name] for name in ("mrr", "hits@1", "hits@3", "hits@10", "mr")}


def metrics_by_group(
    asked: Queries, ranks: Ranks, known: Queries, new: Ids | None
) -> list[dict[str, Any]]:
    """A row for all answers, each direction, category of relations, cell of the open world and
    relation that has any: ``group``, ``name`` (of a relation, its id), ``n`` and the metrics.

    Args:
        ranks: in the order of ``asked.answers``.
        known: tells the categories of relations.
        new: who came after training, int64[m]; where nobody did there are no cells.
    """
    kinds = np.repeat(asked.relations, asked.sizes)
    entities, answers = np.repeat(asked.entities, asked.sizes), asked.answers
    relations, backwards = kinds % asked.n_relations, kinds >= asked.n_relations
    groups: list[tuple[str, str | int, Mask]] = [
        ("all", "all", np.ones(len(kinds), bool)),
        ("direction", "tail", ~backwards),
        ("direction", "head", backwards),
    ]
    categories = np.array(relation_categories(known))[relations]
    for name in ("1-1", "1-N", "N-1", "N-N"):
        groups.append(("category", name, categories == name))
    if new is not None and len(new):
        query, answer = np.isin(entities, new), np.isin(answers, new)
        groups += [
            ("open world", "known query, known answer", ~query & ~answer),
            ("open world", "new query, known answer", query & ~answer),
            ("open world", "known query, new answer", ~query & answer),
            ("open world", "new query, new answer", query & answer),
        ]
    for relation in np.unique(relations).tolist():
        groups.append(("relation", relation, relations == relation))
    return [
        {"group": group, "name": name, "n": int(mask.sum())}
        | answer_metrics(ranks[torch.from_numpy(mask)])
        for group, name, mask in groups
        if mask.any()
    ]
