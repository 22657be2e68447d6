"""Entity alignment metrics: directions × matchers × candidates × subsets of links."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from decentrl.config import MatchingConfig
from decentrl.config.memory import score_budget
from decentrl.evaluation.metrics import summary
from decentrl.evaluation.ranks import Ranks, rank, rank_pairs
from decentrl.matching.clustered import nearest_pairs
from decentrl.matching.matchers import FIELD, apply_matcher, field_matcher
from decentrl.matching.similarity import Scores, dot_products, empty_matrix
from decentrl.matching.sparse import LARGE_KEEP, SparseScores

DIRECTIONS = ("left-right", "right-left")
MOST_RANKED = 2**28
"""Pairs of a link's end and a candidate up to which all scores are ranked."""
OnTest = Callable[[Scores | SparseScores], None]
Found = dict[tuple[str, str, str], Ranks]


def evaluate_links(
    left: Tensor,
    right: Tensor,
    links: Tensor,
    config: MatchingConfig,
    *,
    unknown: Tensor | None = None,
    candidates: tuple[str, ...] = ("test", "all"),
    budget: int | None = None,
    on_test: OnTest | None = None,
) -> tuple[list[dict[str, Any]], dict[str, Ranks]]:
    """Rank the two ends of links among each other and among all entities of the other side.

    Args:
        left, right: vectors of all entities of the two graphs, [n, d] and [m, d], of length 1.
        links: int64[k, 2]. Where they have more than MOST_RANKED pairs with candidates, only the
            nearest of each entity are scored, and all others share the ranks behind these.
        unknown: bool[k], links between new entities; adds the subsets known and unknown.
        candidates: ``test`` (the other ends of ``links``), ``all`` (the whole other graph).
        on_test: called with the scores left → right among ``test`` of the configured matcher, or
            of the field's nearest to it.
    Returns:
        rows as in ``results.json``, and the ranks left → right among ``test`` by matcher.
    """
    given = left, right, links, config, candidates
    if len(links) * max(len(left), len(right)) > MOST_RANKED:
        found = _rank_nearest(*given, on_test)
    else:
        found = _rank_all(*given, score_budget() if budget is None else budget, on_test)
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
    return rows, {m: found["test", DIRECTIONS[0], m] for m in FIELD if "test" in candidates}


def _rank_all(
    left: Tensor,
    right: Tensor,
    links: Tensor,
    config: MatchingConfig,
    candidates: tuple[str, ...],
    budget: int,
    on_test: OnTest | None,
) -> Found:
    """The ranks of links among all scores, by candidates, direction and matcher."""
    found: Found = {}
    solved: dict[str, Scores] = {}
    for direction, among, cosine, targets in _cosines(left, right, links, candidates, budget):
        for matcher in FIELD:
            if among == "test" and matcher in solved:  # one matrix serves both directions
                scores = replace(solved[matcher].T, kept=cosine.kept)
            else:
                scores = apply_matcher(cosine, matcher, config)
            if among == "test" and matcher not in solved:
                solved[matcher] = replace(scores, kept=None)
                if on_test is not None and matcher == field_matcher(config.matcher):
                    on_test(scores)
            found[among, direction, matcher] = rank(scores, targets)
        del cosine, scores  # before the next matrix is made
    return found


def _rank_nearest(
    left: Tensor,
    right: Tensor,
    links: Tensor,
    config: MatchingConfig,
    candidates: tuple[str, ...],
    on_test: OnTest | None,
) -> Found:
    """The same among the nearest of each entity; all others are behind these."""
    found: Found = {}
    own, keep = torch.arange(len(links)), config.keep or LARGE_KEEP
    ends = left[links[:, 0]], right[links[:, 1]]
    if "test" in candidates:
        pairs = nearest_pairs(Scores.cosine(*ends, budget=0), keep)
        solved = {matcher: apply_matcher(pairs, matcher, config) for matcher in FIELD}
        if on_test is not None:
            on_test(solved[field_matcher(config.matcher)])
        for direction in DIRECTIONS:
            for matcher, scores in solved.items():
                one = scores if direction == DIRECTIONS[0] else scores.T
                found["test", direction, matcher] = rank_pairs(one, own, own)
        del solved, scores, one
    if "all" in candidates:
        for direction, mine, others, targets in zip(
            DIRECTIONS, ends, (right, left), (links[:, 1], links[:, 0]), strict=True
        ):
            pairs = nearest_pairs(Scores.cosine(mine, others, budget=0), keep)
            for matcher in FIELD:
                scores = apply_matcher(pairs, matcher, config)
                found["all", direction, matcher] = rank_pairs(scores, own, targets)
    return found


def rank_apart(
    ends: Sequence[Tensor],
    views: Mapping[str, slice],
    config: MatchingConfig,
    budget: int | None = None,
) -> list[dict[str, Any]]:
    """Metrics of links by some columns of their vectors alone, left to right among each other.

    Args:
        ends: the vectors of the links' left and right ends, [k, d] each.
        views: columns by name.
    """
    matcher, rows = field_matcher(config.matcher), []
    for view, kept in views.items():
        left, right = (F.normalize(side[:, kept], dim=1) for side in ends)
        own = torch.arange(len(left), device=left.device)
        if len(left) * len(right) > MOST_RANKED:
            pairs = nearest_pairs(Scores.cosine(left, right, budget=0), config.keep or LARGE_KEEP)
            found = summary(rank_pairs(apply_matcher(pairs, matcher, config), own, own))
        else:
            scores = apply_matcher(Scores.cosine(left, right, budget), matcher, config)
            found = summary(rank(scores, own))
        rows.append({"view": view, "matcher": matcher, "n": len(left), **found})
    return rows


def _cosines(
    left: Tensor, right: Tensor, links: Tensor, candidates: tuple[str, ...], budget: int
) -> Iterator[tuple[str, str, Scores, Tensor]]:
    """Cosines of the ends of links on one side with candidates of the other side.

    Both kinds of candidates share one matrix, if it keeps to the budget and no entity is in two of
    the links. Its first k columns are the other ends of the links, the rest are all other
    entities, so that the cosines among the ends are computed once for both directions.

    Yields:
        direction, ``test`` or ``all``, cosines, and the column of each link's own pair, int64[k].
    """
    k, own = len(links), torch.arange(len(links), device=left.device)
    ends, width = (left[links[:, 0]], right[links[:, 1]]), max(len(left), len(right))
    shared = None
    distinct = all(len(torch.unique(ids)) == k for ids in links.unbind(1))
    if distinct and k * width * left.element_size() <= budget:
        shared = empty_matrix(k, width, left)
        dot_products(*ends, shared[:, :k])
    for direction, (mine, theirs), others, ids in (
        (DIRECTIONS[0], ends, right, links[:, 1]),
        (DIRECTIONS[1], ends[::-1], left, links[:, 0]),
    ):
        if shared is None:
            for among, ends_of, columns in (("test", theirs, own), ("all", others, ids)):
                if among in candidates:
                    yield direction, among, Scores.cosine(mine, ends_of, budget), columns
            continue
        if direction != DIRECTIONS[0]:
            _transpose(shared[:, :k])
        if "test" in candidates:
            yield direction, "test", Scores(mine, theirs, budget, kept=shared[:, :k]), own
        if "all" in candidates:
            rest = torch.ones(len(others), dtype=torch.bool, device=others.device)
            rest[ids] = False
            everything, kept = torch.cat((theirs, others[rest])), shared[:, : len(others)]
            dot_products(mine, everything[k:], kept[:, k:])
            yield direction, "all", Scores(mine, everything, budget, kept=kept), own
            del everything, kept  # before the next ones are made


def _transpose(matrix: Tensor, size: int = 512) -> None:
    """Transpose a square matrix in place."""
    for i in range(0, len(matrix), size):
        for j in range(i, len(matrix), size):
            above, below = matrix[i : i + size, j : j + size], matrix[j : j + size, i : i + size]
            swapped = above.t().clone()
            above.copy_(below.t().clone())
            below.copy_(swapped)
