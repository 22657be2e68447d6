"""Link prediction metrics, over all answers and by group of answers, and the frequency baseline."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from decentrl.evaluation.metrics import ANSWERS, summary
from decentrl.evaluation.ranks import Ranks
from decentrl.graph.adjacency import Ids
from decentrl.graph.queries import Queries

Mask = npt.NDArray[np.bool_]


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
        | summary(ranks[torch.from_numpy(mask)], ANSWERS)
        for group, name, mask in groups
        if mask.any()
    ]


def relation_categories(known: Queries) -> list[str]:
    """Category of each relation, ``1-1``, ``1-N``, ``N-1`` or ``N-N``; N: above 1.5 on average."""

    def many(kinds: range) -> list[str]:
        sizes = (known.sizes[known.relations == kind] for kind in kinds)
        return ["N" if len(x) and x.mean() > 1.5 else "1" for x in sizes]

    n = known.n_relations
    return [f"{h}-{t}" for h, t in zip(many(range(n, 2 * n)), many(range(n)), strict=True)]


def frequency_scores(known: Queries, n_entities: int) -> Tensor:
    """Frequency baseline: how often entities answer relations, [2 · n_relations, n_entities]."""
    counts = np.zeros((2 * known.n_relations, n_entities), np.float32)
    np.add.at(counts, (np.repeat(known.relations, known.sizes), known.answers), 1)
    return torch.from_numpy(counts)
