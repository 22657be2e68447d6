"""Entity alignment metrics: directions × matchers × candidates × subsets of links."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from decentrl.config import MatchingConfig
from decentrl.evaluation.metrics import summary
from decentrl.evaluation.ranks import Ranks, rank
from decentrl.matching.matchers import MATCHERS, apply_matcher
from decentrl.matching.similarity import DEFAULT_BUDGET, Scores

DIRECTIONS = ("left-right", "right-left")


def evaluate_links(
    left: Tensor,
    right: Tensor,
    links: Tensor,
    config: MatchingConfig,
    *,
    unknown: Tensor | None = None,
    candidates: tuple[str, ...] = ("test", "all"),
    budget: int = DEFAULT_BUDGET,
    on_test: Callable[[Scores], None] | None = None,
) -> tuple[list[dict[str, Any]], dict[str, Ranks]]:
    """Rank the two ends of links among each other and among all entities of the other side.

    Args:
        left, right: vectors of all entities of the two graphs, [n, d] and [m, d], of length 1.
        links: int64[k, 2].
        unknown: bool[k], links between new entities; adds the subsets known and unknown.
        candidates: ``test`` (the other ends of ``links``), ``all`` (the whole other graph).
        on_test: called with the configured matcher's scores, left → right among ``test``.
    Returns:
        rows as in ``results.json``, and the ranks left → right among ``test`` by matcher.
    """
    found: dict[tuple[str, str, str], Ranks] = {}
    solved: dict[str, Scores] = {}
    for direction, among, cosine, targets in _cosines(left, right, links, candidates, budget):
        for matcher in MATCHERS:
            if among == "test" and matcher in solved:  # one matrix serves both directions
                scores = replace(solved[matcher].T, kept=cosine.kept)
            else:
                scores = apply_matcher(cosine, matcher, config)
            if among == "test" and matcher not in solved:
                solved[matcher] = replace(scores, kept=None)
                if on_test is not None and matcher == config.matcher:
                    on_test(scores)
            found[among, direction, matcher] = rank(scores, targets)
        del cosine, scores  # before the next matrix is made
    subsets = {"all": torch.ones(len(links), dtype=torch.bool)}
    if unknown is not None:
        subsets |= {"known": ~unknown.cpu(), "unknown": unknown.cpu()}
    rows = [
        {"direction": direction, "matcher": matcher, "candidates": among, "subset": subset}
        | {"n": int(chosen.sum()), **summary(found[among, direction, matcher][chosen])}
        for among, direction, matcher in sorted(found, key=lambda place: place[0] != "test")
        for subset, chosen in subsets.items()
        if chosen.any()
    ]
    return rows, {m: found["test", DIRECTIONS[0], m] for m in MATCHERS if "test" in candidates}


def _cosines(
    left: Tensor, right: Tensor, links: Tensor, candidates: tuple[str, ...], budget: int
) -> Iterator[tuple[str, str, Scores, Tensor]]:
    """Cosines of the ends of links on one side with candidates of the other side.

    Yields:
        direction, ``test`` or ``all``, cosines, and the column of each link's own pair, int64[k].
    """
    own = torch.arange(len(links), device=left.device)
    ends = left[links[:, 0]], right[links[:, 1]]
    for direction, (mine, theirs), others, ids in (
        (DIRECTIONS[0], ends, right, links[:, 1]),
        (DIRECTIONS[1], ends[::-1], left, links[:, 0]),
    ):
        for among, vectors, columns in (("test", theirs, own), ("all", others, ids)):
            if among in candidates:
                yield direction, among, Scores.cosine(mine, vectors, budget), columns
