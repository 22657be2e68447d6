"""The whole table of an alignment: directions × matchers × candidates × subsets."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from decentrl.config import MatchingConfig
from decentrl.evaluation.metrics import summary
from decentrl.evaluation.ranks import Ranks, rank
from decentrl.matching.matchers import MATCHERS, apply_matcher
from decentrl.matching.similarity import DEFAULT_BUDGET, Scores


def evaluate_links(
    left: Tensor,
    right: Tensor,
    links: Tensor,
    config: MatchingConfig,
    *,
    unknown: Tensor | None = None,
    candidates: tuple[str, ...] = ("test", "all"),
    budget: int = DEFAULT_BUDGET,
) -> tuple[list[dict[str, Any]], dict[str, Ranks]]:
    """Rank the two ends of links among each other and among all entities of the other side.

    Args:
        left, right: vectors of all entities of the two graphs, [n, d] and [m, d], of length 1.
        links: int64[k, 2].
        unknown: bool[k], links between new entities; adds the subsets known and unknown.
        candidates: ``test`` (the other ends of ``links``), ``all`` (the whole other graph).
    Returns:
        rows as in ``results.json``, and the ranks left → right among ``test`` by matcher.
    """
    rows: list[dict[str, Any]] = []
    first: dict[str, Ranks] = {}
    ends = {"left-right": (left, right, links), "right-left": (right, left, links.flip(1))}

    def record(direction: str, matcher: str, among: str, ranks: Ranks) -> None:
        place = {"direction": direction, "matcher": matcher, "candidates": among}
        for subset, chosen in _subsets(len(links), unknown):
            found = ranks[chosen]
            if len(found):
                rows.append({**place, "subset": subset, "n": len(found), **summary(found)})

    if "test" in candidates:
        own = torch.arange(len(links), device=left.device)
        cosine = Scores.cosine(left[links[:, 0]], right[links[:, 1]], budget)
        for matcher in MATCHERS:
            scores = apply_matcher(cosine, matcher, config)
            first[matcher] = rank(scores, own)
            record("left-right", matcher, "test", first[matcher])
            record("right-left", matcher, "test", rank(scores.T, own))
        del cosine
    if "all" in candidates:
        for direction, (queries, others, pairs) in ends.items():
            cosine = Scores.cosine(queries[pairs[:, 0]], others, budget)
            for matcher in MATCHERS:
                scores = apply_matcher(cosine, matcher, config)
                record(direction, matcher, "all", rank(scores, pairs[:, 1]))
    order = {"left-right": 0, "right-left": 1, "test": 0, "all": 1}
    rows.sort(key=lambda row: (order[row["candidates"]], order[row["direction"]]))
    return rows, first


def _subsets(n: int, unknown: Tensor | None) -> list[tuple[str, Tensor]]:
    everything = ("all", torch.ones(n, dtype=torch.bool))
    if unknown is None:
        return [everything]
    unknown = unknown.cpu()
    return [everything, ("known", ~unknown), ("unknown", unknown)]
