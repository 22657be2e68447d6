"""Which pairs of entities a match is chosen from, over graphs as they are now."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from decentrl.config import MatchingConfig
from decentrl.data.vocabulary import Ids
from decentrl.errors import ConfigError
from decentrl.growth.growing_graph import Growing
from decentrl.growth.neighbours import Indexes
from decentrl.growth.potentials import OTHER, PotentialCache
from decentrl.matching.matchers import apply_matcher
from decentrl.matching.matches import KEPT, best_pairs
from decentrl.matching.point import rescore
from decentrl.matching.similarity import Scores
from decentrl.matching.sparse import SparseScores, top_pairs
from decentrl.training.unlinked import Unlinked

Pairs = tuple[Ids, Ids, SparseScores, SparseScores]
"""Ids of a side and of the other one, and the scores and cosines of their best pairs."""


@dataclass(frozen=True, eq=False)
class Candidates:
    """Finds the best pairs of entities of the two graphs.

    Attributes:
        links: known links, left then right, int64[n, 2]: their entities are no candidates.
    """

    growing: Growing
    potentials: PotentialCache
    indexes: Indexes
    config: MatchingConfig
    links: Ids

    def of(
        self,
        side: str,
        asked: Ids | None,
        matcher: str,
        assign: str,
        *,
        top: int,
        rivals: bool,
        ann: bool,
    ) -> Pairs:
        """The best pairs of some entities of ``side``, or of all that no known link names.

        Given entities are matched alone where their scores do not depend on each other.
        """
        alone = assign == "nearest" and (matcher == "cosine" or not self.config.keep)
        if ann and (asked is None or not alone):
            raise ConfigError(
                "an approximate index is for questions about given entities, each by its nearest; "
                "name them, use assign=nearest, and the matcher cosine if matching.keep is set"
            )
        if asked is None or not alone:
            kept = max(top, 50 if assign == "one-to-one" else KEPT)
            return self.together(side, asked, matcher, kept)
        found = self.potentials.find_candidates(
            self.growing,
            self.indexes,
            np.unique(asked),
            side,
            matcher,
            top=top,
            rivals=rivals,
            ann=ann,
        )
        return found.rows.numpy(), found.columns.numpy(), found.pairs, found.cosines

    def together(self, side: str, asked: Ids | None, matcher: str, kept: int) -> Pairs:
        """The best pairs when all unlinked entities, and those asked for, are matched at once."""
        config, own = self.config, self.links[:, 0 if side == "left" else 1]
        if not config.keep and (asked is None or not np.isin(own, asked).any()):
            mine, theirs, scores = self.potentials.score_unlinked(self.growing, side, matcher)
            return mine, theirs, *rescore(top_pairs(scores, kept), scores)
        mine, theirs, cosine = self._unlinked(side, asked)
        if config.keep:
            return mine, theirs, *best_pairs(cosine, matcher, config, kept)
        scores = apply_matcher(cosine, matcher, config)
        return mine, theirs, *rescore(top_pairs(scores, kept), scores)

    def _unlinked(self, side: str, asked: Ids | None) -> tuple[Ids, Ids, Scores]:
        """Ids of both sides that matches range over, and their cosines."""
        sizes = [len(graph.entities) for graph in self.growing.sides.values()]
        n_left, links = sizes[0], self.links + np.array([0, sizes[0]])
        named = links[:0]
        if asked is not None:
            ids = asked if side == "left" else asked + n_left
            named = links[np.isin(links, ids).any(axis=1)]
        pool = Unlinked.of(n_left, sum(sizes), links, named)
        pools, vectors = {"left": pool.left, "right": pool.right - n_left}, []
        for name, graph in self.growing.sides.items():
            pools[name] = pools[name][graph.has_vector().numpy()[pools[name]]]
            vectors.append(graph.vectors[torch.from_numpy(pools[name]).to(graph.vectors.device)])
        cosine = Scores.cosine(vectors[0], vectors[1])
        return pools[side], pools[OTHER[side]], cosine if side == "left" else cosine.T
