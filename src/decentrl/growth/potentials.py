"""Matching of grown graphs, with the potentials of solved problems kept for later calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from decentrl.config import MatchingConfig
from decentrl.data.vocabulary import Ids
from decentrl.errors import ConfigError
from decentrl.growth.growing_graph import Growing
from decentrl.growth.neighbours import Indexes, changed_entities
from decentrl.matching.matchers import apply_matcher
from decentrl.matching.point import COLUMNS, ROWS, CandidatePairs, End, Potentials, find_candidates
from decentrl.matching.similarity import Scores
from decentrl.storage.additions import Growth

OTHER = {"left": "right", "right": "left"}
MOST_PAIRS = 2**32
"""Largest full problem, in pairs, that is solved in order to match a single entity."""
_PREFIX = "potential."


class PotentialCache:
    """The potentials of solved matching problems, kept so that single entities match at once.

    Args:
        links: known links, int64[k, 2], left then right.
        tensors: potentials that :meth:`to_tensors` returned before.
    """

    def __init__(
        self, config: MatchingConfig, links: Ids, tensors: Mapping[str, Tensor] | None = None
    ) -> None:
        self._config, self._links = config, links
        self._solved: dict[tuple[str, str], Potentials] = {}
        self._seen: list[Growth] = []
        self._masks: dict[str, tuple[Tensor, Tensor]] = {}
        for side in OTHER:
            names = [f"{_PREFIX}{side}.own", f"{_PREFIX}{side}.other"]
            if tensors and all(name in tensors for name in names):
                solved = tensors[names[0]].clone(), tensors[names[1]].clone()
                self._solved[config.matcher, side] = Potentials(config.matcher, config, solved)

    def to_tensors(self) -> dict[str, Tensor]:
        """Potentials of the configured matcher, as far as they are solved, for a file."""
        matcher = self._config.matcher
        known = [side for side in OTHER if (matcher, side) in self._solved]
        if matcher == "cosine":
            return {}
        # Those of CSLS are the same from both sides.
        return {
            f"{_PREFIX}{side}.{name}": self._solved[matcher, side].solved[end]
            for side in (known if matcher == "sinkhorn" else known[:1])
            for end, name in ((ROWS, "own"), (COLUMNS, "other"))
        }

    def discard_outdated(self, growing: Growing) -> None:
        """Discard the potentials of entities that additions have changed since the last call."""
        now = [growth for _, growth in growing.additions]
        sizes = {side: len(graph.entities) for side, graph in growing.sides.items()}
        changed = {
            side: torch.from_numpy(changed_entities(self._seen, now, side)) for side in OTHER
        }
        for (_, side), potentials in self._solved.items():
            for end, which in ((ROWS, side), (COLUMNS, OTHER[side])):
                if len(changed[which]) or len(potentials.solved[end]) != sizes[which]:
                    potentials.discard(end, changed[which], sizes[which])
        self._seen = now

    def updated_tensors(self, growing: Growing) -> dict[str, Tensor]:
        """:meth:`to_tensors` without the potentials of entities that additions have changed."""
        self.discard_outdated(growing)
        return self.to_tensors()

    def score_unlinked(self, growing: Growing, side: str, matcher: str) -> tuple[Ids, Ids, Scores]:
        """Score all unlinked entities of ``side`` with those of the other side.

        Returns:
            ids of ``side``, ids of the other side, and their scores.
        """
        self.discard_outdated(growing)
        if matcher != "sinkhorn" and side == "right":
            theirs, mine, scores = self.score_unlinked(growing, "left", matcher)
            return mine, theirs, scores.T
        free = self._free(growing, side), self._free(growing, OTHER[side])
        ids = free[0].nonzero()[:, 0], free[1].nonzero()[:, 0]
        vectors = growing.sides[side].vectors, growing.sides[OTHER[side]].vectors
        cosine = Scores.cosine(vectors[0][ids[0]], vectors[1][ids[1]])
        known = self._solved.get((matcher, side))
        if matcher == "cosine":
            scores = cosine
        elif known is not None and all(known.covers(end, free[end]) for end in (ROWS, COLUMNS)):
            row, column = (known.solved[end][ids[end]].to(vectors[0].device) for end in (0, 1))
            scores = replace(cosine, scale=known.scale, row=row, column=column)
        else:
            scores = apply_matcher(cosine, matcher, self._config)
            sizes = len(free[0]), len(free[1])
            self._solved[matcher, side] = Potentials.from_scores(
                scores, ids, sizes, matcher, self._config
            )
        return ids[0].numpy(), ids[1].numpy(), scores

    def find_candidates(
        self,
        growing: Growing,
        indexes: Indexes,
        entities: Ids,
        side: str,
        matcher: str,
        *,
        top: int,
        rivals: bool,
        ann: bool,
    ) -> CandidatePairs:
        """Find the best candidates of some entities, int64[q], of ``side``."""
        self.discard_outdated(growing)
        own, other = (0, 1) if side == "left" else (1, 0)
        named = self._links[np.isin(self._links[:, own], entities), other]
        potentials = self._potentials(growing, side, matcher)
        left, right = (
            End(
                growing.sides[which].vectors,
                self._free(growing, which),
                indexes.get(growing, which, ann and (rivals or which != side)),
            )
            for which in (side, OTHER[side])
        )
        return find_candidates(
            potentials,
            (left, right),
            torch.from_numpy(entities),
            torch.from_numpy(named),
            top=top,
            rivals=rivals,
            near=ann,
        )

    def _potentials(self, growing: Growing, side: str, matcher: str) -> Potentials:
        """The potentials of a matcher; the full problem is solved if it was not before."""
        solved, key, other = self._solved, (matcher, side), OTHER[side]
        if key not in solved and matcher == "cosine":
            zeros = [torch.zeros(len(growing.sides[which].entities)) for which in (side, other)]
            solved[key] = Potentials(matcher, self._config, (zeros[0], zeros[1]))
        if key not in solved and matcher == "csls" and (matcher, other) in solved:
            solved[key] = solved[matcher, other].T
        if key not in solved:
            n, m = (int(self._free(growing, which).sum()) for which in (side, other))
            if n * m > MOST_PAIRS:
                raise ConfigError(
                    f"{matcher} has to match all {n:,} × {m:,} entities once before it can match "
                    "one; use the matcher cosine, or match everything first and save"
                )
            self.score_unlinked(growing, side, matcher)
            return self._potentials(growing, side, matcher)  # CSLS is solved from the left
        return solved[key]

    def _free(self, growing: Growing, side: str) -> Tensor:
        """Mask of the unlinked entities of a side that have a vector, bool[n].

        The same object as long as its values are the same: see :class:`End`.
        """
        there = growing.sides[side].has_vector()
        if side not in self._masks or self._masks[side][0] is not there:
            mask = there & self.unlinked(growing, side)
            if side in self._masks and torch.equal(mask, self._masks[side][1]):
                mask = self._masks[side][1]
            self._masks[side] = there, mask
        return self._masks[side][1]

    def unlinked(self, growing: Growing, side: str) -> Tensor:
        """Mask of the entities of a side that are in no known link, bool[n]."""
        mask = torch.ones(len(growing.sides[side].entities), dtype=torch.bool)
        mask[torch.from_numpy(self._links[:, 0 if side == "left" else 1])] = False
        return mask
