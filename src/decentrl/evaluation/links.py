"""Entity alignment metrics: directions × matchers × candidates × subsets of links."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from decentrl.config import MatchingConfig
from decentrl.evaluation.metrics import summary
from decentrl.evaluation.ranks import Ranks, rank
from decentrl.matching.matchers import MATCHERS, apply_matcher
from decentrl.matching.similarity import DEFAULT_BUDGET, Scores, empty_matrix, fits

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
    on_test: Callable[[str, Scores], None] | None = None,
) -> tuple[list[dict[str, Any]], dict[str, Ranks]]:
    """Rank the two ends of links among each other and among all entities of the other side.

    Args:
        left, right: vectors of all entities of the two graphs, [n, d] and [m, d], of length 1.
        links: int64[k, 2].
        unknown: bool[k], links between new entities; adds the subsets known and unknown.
        candidates: ``test`` (the other ends of ``links``), ``all`` (the whole other graph).
        on_test: called with each matcher and its scores, left → right among ``test``.
    Returns:
        rows as in ``results.json``, and the ranks left → right among ``test`` by matcher.
    """
    rows: list[dict[str, Any]] = []
    found: dict[tuple[str, str, str], Ranks] = {}
    cosines = _Cosines((left, right), links, budget)
    own = torch.arange(len(links), device=left.device)
    solved: dict[str, Scores] = {}
    for direction in DIRECTIONS:
        if "test" in candidates:
            cosine = cosines.among_ends()
            for matcher in MATCHERS:
                if direction == "left-right":
                    scores = solved[matcher] = apply_matcher(cosine, matcher, config)
                    if on_test is not None:
                        on_test(matcher, scores)
                else:
                    scores = replace(solved[matcher].T, kept=cosine.kept)
                found[direction, matcher, "test"] = rank(scores, own)
            solved = {matcher: replace(scores, kept=None) for matcher, scores in solved.items()}
            del cosine, scores
        if "all" in candidates:
            cosine, targets = cosines.among_all()
            for matcher in MATCHERS:
                scores = apply_matcher(cosine, matcher, config)
                found[direction, matcher, "all"] = rank(scores, targets)
            del cosine, scores
        cosines.turn()
    test_first = sorted(found.items(), key=lambda item: item[0][2] != "test")
    for (direction, matcher, among), ranks in test_first:
        place = {"direction": direction, "matcher": matcher, "candidates": among}
        rows += [{**place, **row} for row in _metrics_by_subset(ranks, unknown)]
    return rows, {m: found[DIRECTIONS[0], m, "test"] for m in MATCHERS if "test" in candidates}


class _Cosines:
    """Cosines of the ends of links on one side with all entities of the other side.

    Both kinds of candidates share one matrix, if it keeps to the budget and no entity is in two of
    the links. Its first k columns are the other ends of the links, the rest are all other
    entities, so that the cosines among the ends are computed once for both directions.
    """

    def __init__(self, sides: tuple[Tensor, Tensor], links: Tensor, budget: int) -> None:
        self.sides, self.links, self.budget = sides, links, budget
        k, width = len(links), max(len(side) for side in sides)
        self.shared: Tensor | None = None
        distinct = all(len(torch.unique(ends)) == k for ends in links.unbind(1))
        if distinct and fits(k, width, sides[0], budget):
            self.shared = empty_matrix(k, width, sides[0])
        self.square = False  # whether the first k columns are filled

    def ends(self) -> tuple[Tensor, Tensor]:
        """Vectors of the two ends of the links, [k, d] each."""
        return self.sides[0][self.links[:, 0]], self.sides[1][self.links[:, 1]]

    def among_ends(self) -> Scores:
        """Cosines among the ends of links, k × k; link i's own pair is (i, i)."""
        mine, theirs = self.ends()
        if self.shared is None:
            return Scores.cosine(mine, theirs, self.budget)
        kept = self.shared[:, : len(mine)]
        if not self.square:
            torch.mm(mine, theirs.t(), out=kept)
            self.square = True
        return Scores(mine, theirs, self.budget, kept=kept)

    def among_all(self) -> tuple[Scores, Tensor]:
        """Cosines with all entities, k × m, and the column of each link's own pair, int64[k]."""
        others, ids = self.sides[1], self.links[:, 1]
        if self.shared is None:
            return Scores.cosine(self.ends()[0], others, self.budget), ids
        square = self.among_ends()
        rest = torch.ones(len(others), dtype=torch.bool, device=others.device)
        rest[ids] = False
        kept = self.shared[:, : len(others)]
        everything = torch.cat((square.right, others[rest]))
        torch.mm(square.left, everything[len(ids) :].t(), out=kept[:, len(ids) :])
        own = torch.arange(len(ids), device=others.device)
        return replace(square, right=everything, kept=kept), own

    def turn(self) -> None:
        """Swap the two sides."""
        self.sides, self.links = (self.sides[1], self.sides[0]), self.links.flip(1)
        if self.square and self.shared is not None:
            _transpose(self.shared[:, : len(self.links)])


def _transpose(matrix: Tensor, size: int = 512) -> None:
    """Transpose a square matrix in place."""
    for i in range(0, len(matrix), size):
        for j in range(i, len(matrix), size):
            above, below = matrix[i : i + size, j : j + size], matrix[j : j + size, i : i + size]
            swapped = above.t().clone()
            above.copy_(below.t().clone())
            below.copy_(swapped)


def _metrics_by_subset(ranks: Ranks, unknown: Tensor | None) -> list[dict[str, Any]]:
    """Metrics of all ranks, and of those of links between known and between new entities."""
    everything = torch.ones(len(ranks), dtype=torch.bool)
    subsets = {"all": everything}
    if unknown is not None:
        subsets |= {"known": ~unknown.cpu(), "unknown": unknown.cpu()}
    return [
        {"subset": subset, "n": int(chosen.sum()), **summary(ranks[chosen])}
        for subset, chosen in subsets.items()
        if chosen.any()
    ]
