"""Matching among unlinked entities: validation, self-training links and confidence."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from decentrl.config import MatchingConfig
from decentrl.evaluation.metrics import reciprocal_rank
from decentrl.evaluation.ranks import Ranks, rank, rank_pairs
from decentrl.graph.adjacency import Ids
from decentrl.matching.assignment import mutual_nearest
from decentrl.matching.clustered import nearest_pairs
from decentrl.matching.confidence import (
    Confidence,
    choose_threshold,
    evidence,
    fit_confidence,
    linked_share,
)
from decentrl.matching.matchers import apply_matcher
from decentrl.matching.matches import best_pairs
from decentrl.matching.similarity import Scores
from decentrl.matching.sparse import LARGE_KEEP, SparseScores, top_pairs

MOST_DENSE = 2**26
"""Pairs up to which confidence is fitted on all of them."""
VALIDATED = ("hits@1", "hits@10", "mrr")
"""Metrics of a validation."""


@dataclass(frozen=True, eq=False)
class Unlinked:
    """The entities of both sides that are in no training link, in merged ids, sorted.

    A user's matches range over these, too, so validation does not depend on how many links were
    held out. Ends of test links are among them like any other entity.
    """

    left: Ids
    right: Ids

    @classmethod
    def of(cls, n_left: int, links: Ids, included: Ids, among: Ids) -> Unlinked:
        """Those of some entities that are in no link of ``links``, or in one of ``included``."""
        ids = np.union1d(np.setdiff1d(among, links), np.intersect1d(among, included))
        return cls(ids[ids < n_left], ids[ids >= n_left])

    def cosine(self, vectors: Tensor) -> Scores:
        """Cosines of the left with the right entities, from all vectors, of length 1."""
        return Scores.cosine(vectors[_on(self.left, vectors)], vectors[_on(self.right, vectors)])

    def candidates(self, vectors: Tensor, config: MatchingConfig) -> Scores | SparseScores:
        """The cosines that matchers read: all, or the best of each entity where all are too many.

        Matchers go over all cosines many times, which takes minutes where they are not kept.
        """
        cosine = self.cosine(vectors)
        return (
            cosine if cosine.kept is not None else nearest_pairs(cosine, config.keep or LARGE_KEEP)
        )

    def places(self, links: Ids, device: torch.device) -> tuple[Tensor, Tensor]:
        """Rows and columns of links in :meth:`cosine`."""
        rows = torch.from_numpy(np.searchsorted(self.left, links[:, 0])).to(device)
        return rows, torch.from_numpy(np.searchsorted(self.right, links[:, 1])).to(device)


def held_out_ranks(
    vectors: Tensor,
    unlinked: Unlinked,
    valid: Ids,
    config: MatchingConfig,
    cosine: Scores | SparseScores | None = None,
) -> Ranks:
    """Ranks of held-out links, left to right, among all unlinked entities.

    Args:
        cosine: :meth:`Unlinked.candidates`, if they are there.
    """
    cosine = unlinked.candidates(vectors, config) if cosine is None else cosine
    rows, targets = unlinked.places(valid, vectors.device)
    if isinstance(cosine, SparseScores):
        return rank_pairs(apply_matcher(cosine, config.matcher, config), rows, targets)
    return rank(apply_matcher(cosine, config.matcher, config).rows(rows), targets)


def worth_keeping(now: Ranks, best: Ranks) -> bool:
    """Whether the MRR of the same links is better, or less than one standard error below the best.

    The error is that of the mean difference, link by link: a few hundred links cannot resolve
    less. False if no rank changes.
    """
    lost = reciprocal_rank(best) - reciprocal_rank(now)
    error = lost.std(correction=0) / max(1, len(lost)) ** 0.5
    return bool(lost.mean() < error or lost.mean() < 0)


def found_links(
    vectors: Tensor, unlinked: Unlinked, mass: float, config: MatchingConfig, seed: int = 0
) -> Ids:
    """Predict links: pairs that are each other's best under Sinkhorn with at least ``mass``.

    Ties go to the first in an order shuffled by ``seed``: ids may be in the same order on both
    sides, and the lowest would then be right for a reason outside the model.

    Returns:
        links int64[n, 2], sorted.
    """
    rng = np.random.default_rng(seed)
    unlinked = Unlinked(rng.permutation(unlinked.left), rng.permutation(unlinked.right))
    if not len(unlinked.left) or not len(unlinked.right):
        return np.empty((0, 2), np.int64)
    cosine = unlinked.candidates(vectors, config)
    if isinstance(cosine, SparseScores):
        pairs = apply_matcher(cosine, "sinkhorn", config)
    else:
        pairs = top_pairs(apply_matcher(cosine, "sinkhorn", config), 1)
    columns = mutual_nearest(pairs)
    masses = (pairs.best(1)[0][:, 0] / config.temperature).exp()
    enough = (columns >= 0) & (masses >= mass)
    left = unlinked.left[enough.nonzero()[:, 0].cpu().numpy()]
    links = np.stack((left, unlinked.right[columns[enough].cpu().numpy()]), axis=1)
    return links[links[:, 0].argsort()]


def learn_confidence(
    vectors: Tensor,
    unlinked: Unlinked,
    valid: Ids,
    config: MatchingConfig,
    seed: int,
    cosine: Scores | SparseScores | None = None,
) -> Confidence:
    """Fit the confidence of matches, and its threshold, on held-out links.

    Examples of entities *without* a counterpart are made by removing the counterparts of half of
    the held-out links, then of the other half. They count as much as there seem to be entities
    without one among all (:func:`decentrl.matching.confidence.linked_share`).

    Args:
        cosine: :meth:`Unlinked.candidates`, if they are there.
    """
    cosine = unlinked.candidates(vectors, config) if cosine is None else cosine
    if isinstance(cosine, Scores) and cosine.shape[0] * cosine.shape[1] > MOST_DENSE:
        cosine = top_pairs(cosine, LARGE_KEEP)  # three problems are solved, over and over all pairs
    rows, targets = unlinked.places(valid, torch.device("cpu"))

    def examples(cosine: Scores | SparseScores, columns: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Features of all matches among some columns, of the held-out entities', and if right."""
        found, features = evidence(*best_pairs(cosine, config.matcher, config))
        return features, features[rows], columns[found[rows]] == targets

    everything = torch.arange(cosine.shape[1])
    every, facts, correct = examples(cosine, everything)
    order = torch.from_numpy(np.random.default_rng(seed).permutation(len(valid)))
    parts = []
    for gone in order.chunk(2):
        there = torch.ones(len(valid), dtype=torch.bool)
        there[gone] = False
        columns = everything[~torch.isin(everything, targets[gone])]
        if len(columns):
            chosen = columns.to(vectors.device)
            _, features, right = examples(_some_columns(cosine, chosen), columns)
            parts.append((features, right & there, there))
    if not parts:
        return fit_confidence(facts, correct)
    without, right, there = (torch.cat(part) for part in zip(*parts, strict=True))
    # As many without a counterpart as there seem to be among all that will be asked about.
    share = linked_share(facts, without[~there], every)
    counts = torch.cat((torch.full((len(facts),), share), torch.full((len(facts),), 1 - share)))
    features = torch.cat((facts, without[~there]))
    labels = torch.cat((correct, right[~there]))
    confidence = fit_confidence(features, labels, counts.double()[: len(labels)])
    weights = torch.where(there, share, 1 - share).double()
    threshold = choose_threshold(confidence(without), right, there, weights)
    return replace(confidence, threshold=threshold)


def _some_columns(cosine: Scores | SparseScores, chosen: Tensor) -> Scores | SparseScores:
    return cosine.among(chosen) if isinstance(cosine, SparseScores) else cosine.columns(chosen)


def _on(ids: Ids, like: Tensor) -> Tensor:
    return torch.from_numpy(ids).to(like.device)
