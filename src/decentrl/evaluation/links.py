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
    found: dict[tuple[str, str, str], Ranks] = {}
    solved: dict[str, Scores] = {}
    cosines = _Cosines((left, right), links, budget)
    for direction in DIRECTIONS:
        for among in ("test", "all"):
            if among not in candidates:
                continue
            cosine, targets = cosines.among_ends() if among == "test" else cosines.among_all()
            for matcher in MATCHERS:
                if among == "test" and matcher in solved:  # one matrix serves both directions
                    scores = replace(solved[matcher].T, kept=cosine.kept)
                else:
                    scores = apply_matcher(cosine, matcher, config)
                if among == "test" and matcher not in solved:
                    solved[matcher] = replace(scores, kept=None)
                    if on_test is not None:
                        on_test(matcher, scores)
                found[among, direction, matcher] = rank(scores, targets)
            del cosine, scores  # before the next matrix is made
        cosines.turn()
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


class _Cosines:
    """Cosines of the ends of links on one side with all entities of the other side.

    Both kinds of candidates share one matrix, if it keeps to the budget and no entity is in two of
    the links. Its first k columns are the other ends of the links, the rest are all other
    entities, so that the cosines among the ends are computed once for both directions.
    """

    def __init__(self, sides: tuple[Tensor, Tensor], links: Tensor, budget: int) -> None:
        self.sides, self.links, self.budget = sides, links, budget
        self.own = torch.arange(len(links), device=sides[0].device)
        k, width = len(links), max(len(side) for side in sides)
        self.shared: Tensor | None = None
        distinct = all(len(torch.unique(ends)) == k for ends in links.unbind(1))
        if distinct and fits(k, width, sides[0], budget):
            self.shared = empty_matrix(k, width, sides[0])
        self.square = False  # whether the first k columns are filled

    def among_ends(self) -> tuple[Scores, Tensor]:
        """Cosines among the ends of links, k × k, and the column of each link's own pair."""
        mine, theirs = (side[ends] for side, ends in zip(self.sides, self.links.T, strict=True))
        if self.shared is None:
            return Scores.cosine(mine, theirs, self.budget), self.own
        kept = self.shared[:, : len(mine)]
        if not self.square:
            torch.mm(mine, theirs.t(), out=kept)
            self.square = True
        return Scores(mine, theirs, self.budget, kept=kept), self.own

    def among_all(self) -> tuple[Scores, Tensor]:
        """Cosines with all entities, k × m, and the column of each link's own pair, int64[k]."""
        others, ids = self.sides[1], self.links[:, 1]
        if self.shared is None:
            mine = self.sides[0][self.links[:, 0]]
            return Scores.cosine(mine, others, self.budget), ids
        square, own = self.among_ends()
        rest = torch.ones(len(others), dtype=torch.bool, device=others.device)
        rest[ids] = False
        kept = self.shared[:, : len(others)]
        everything = torch.cat((square.right, others[rest]))
        torch.mm(square.left, everything[len(ids) :].t(), out=kept[:, len(ids) :])
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
