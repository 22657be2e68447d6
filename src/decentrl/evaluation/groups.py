"""Link prediction metrics, over all answers and by group of answers."""

from __future__ import annotations

from itertools import product
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
    """MRR, Hits@1, Hits@3, Hits@10 and mean rank."""
    found = summary(ranks, (1, 3, 10))
    return {name: found[name] for name in ("mrr", "hits@1", "hits@3", "hits@10", "mr")}


def metrics_by_group(
    queries: Queries, ranks: Ranks, known: Queries, new: Ids | None
) -> list[dict[str, Any]]:
    """Metrics by group: all answers, direction, category of relations, open world, relation.

    Returns a row for each group that has any answer: ``group``, ``name`` (of a relation, its id),
    ``n`` and the metrics. In the open world, answers are grouped by whether the query's entity and
    the answer are new.

    Args:
        ranks: in the order of ``queries.answers``.
        known: queries from which the categories of relations are computed.
        new: entities added after training, int64[m]; if None or empty, no open world rows.
    """
    kinds = np.repeat(queries.relations, queries.sizes)
    entities, answers = np.repeat(queries.entities, queries.sizes), queries.answers
    relations, backwards = kinds % queries.n_relations, kinds >= queries.n_relations
    groups: list[tuple[str, str | int, Mask]] = [
        ("all", "all", np.ones(len(kinds), bool)),
        ("direction", "tail", ~backwards),
        ("direction", "head", backwards),
    ]
    categories = np.array(relation_categories(known))[relations]
    groups += [("category", name, categories == name) for name in ("1-1", "1-N", "N-1", "N-N")]
    if new is not None and len(new):
        queried, answered = np.isin(entities, new), np.isin(answers, new)
        for a, q in product(("known", "new"), repeat=2):
            mask = (queried == (q == "new")) & (answered == (a == "new"))
            groups.append(("open world", f"{q} query, {a} answer", mask))
    groups += [("relation", x, relations == x) for x in np.unique(relations).tolist()]
    return [
        {"group": group, "name": name, "n": int(mask.sum())}
        | answer_metrics(ranks[torch.from_numpy(mask)])
        for group, name, mask in groups
        if mask.any()
    ]
