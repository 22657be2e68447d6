"""Questions to an aligner: about some entities, or about all that no known link names."""

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
from decentrl.growth.neighbours import Indexes, touched
from decentrl.matching.matchers import apply_matcher
from decentrl.matching.point import COLUMNS, ROWS, End, Found, Potentials, ask
from decentrl.matching.similarity import Scores
from decentrl.storage.additions import Growth

OTHER = {"left": "right", "right": "left"}
MOST_PAIRS = 2**32
"""Pairs of a full problem that a question about one entity may have to solve first."""
_PREFIX = "potential."


class PotentialCache:
    """Keeps what full problems have found out, so that single questions are answered at once.

    Args:
        links: int64[k, 2], the known ones, left then right.
        tensors: what :meth:`to_tensors` gave.
    """

    def __init__(
        self, config: MatchingConfig, links: Ids, tensors: Mapping[str, Tensor] | None = None
    ) -> None:
        self._config, self._links = config, links
        self._known: dict[tuple[str, str], Potentials] = {}
        self._seen: list[Growth] = []
        self._masks: dict[str, tuple[Tensor, Tensor]] = {}
        for side in OTHER:
            names = [f"{_PREFIX}{side}.own", f"{_PREFIX}{side}.other"]
            if tensors and all(name in tensors for name in names):
                solved = tensors[names[0]].clone(), tensors[names[1]].clone()
                self._known[config.matcher, side] = Potentials(config.matcher, config, solved)

    def to_tensors(self) -> dict[str, Tensor]:
        """The potentials of the configured matcher, as far as they are known, for a file."""
        matcher = self._config.matcher
        known = [side for side in OTHER if (matcher, side) in self._known]
        if matcher == "cosine":
            return {}
        # Those of CSLS are the same from both sides.
        return {
            f"{_PREFIX}{side}.{name}": self._known[matcher, side].solved[end]
            for side in (known if matcher == "sinkhorn" else known[:1])
            for end, name in ((ROWS, "own"), (COLUMNS, "other"))
        }

    def follow(self, growing: Growing) -> None:
        """Forget the potentials of entities that are no longer what they were."""
        now = [growth for _, growth in growing.additions]
        sizes = {side: len(graph.entities) for side, graph in growing.sides.items()}
        changed = {side: torch.from_numpy(touched(self._seen, now, side)) for side in OTHER}
        for (_, side), potentials in self._known.items():
            for end, which in ((ROWS, side), (COLUMNS, OTHER[side])):
                if len(changed[which]) or len(potentials.solved[end]) != sizes[which]:
                    potentials.forget(end, changed[which], sizes[which])
        self._seen = now

    def settled(self, growing: Growing) -> dict[str, Tensor]:
        """:meth:`to_tensors` of the state in which all that was added is part of the bundle."""
        self.follow(growing)
        return self.to_tensors()

    # Everything

    def whole(self, growing: Growing, side: str, matcher: str) -> tuple[Ids, Ids, Scores]:
        """Ids of ``side`` and of the other one that no known link names, and all their scores."""
        self.follow(growing)
        if matcher != "sinkhorn" and side == "right":
            theirs, mine, scores = self.whole(growing, "left", matcher)
            return mine, theirs, scores.T
        free = self._free(growing, side), self._free(growing, OTHER[side])
        ids = free[0].nonzero()[:, 0], free[1].nonzero()[:, 0]
        vectors = growing.sides[side].vectors, growing.sides[OTHER[side]].vectors
        cosine = Scores.cosine(vectors[0][ids[0]], vectors[1][ids[1]])
        known = self._known.get((matcher, side))
        if matcher == "cosine":
            scores = cosine
        elif known is not None and all(known.covers(end, free[end]) for end in (ROWS, COLUMNS)):
            row, column = (known.solved[end][ids[end]].to(vectors[0].device) for end in (0, 1))
            scores = replace(cosine, scale=known.scale, row=row, column=column)
        else:
            scores = apply_matcher(cosine, matcher, self._config)
            sizes = len(free[0]), len(free[1])
            self._known[matcher, side] = Potentials.of(scores, ids, sizes, matcher, self._config)
        return ids[0].numpy(), ids[1].numpy(), scores

    # Some

    def ask(
        self,
        growing: Growing,
        indexes: Indexes,
        asked: Ids,
        side: str,
        matcher: str,
        *,
        top: int,
        rivals: bool,
        ann: bool,
    ) -> Found:
        """The best candidates of the entities ``asked``, int64[q], of ``side``."""
        self.follow(growing)
        own, other = (0, 1) if side == "left" else (1, 0)
        named = self._links[np.isin(self._links[:, own], asked), other]
        potentials = self._potentials(growing, side, matcher)
        left, right = (
            End(
                growing.sides[which].vectors,
                self._free(growing, which),
                indexes.get(growing, which, ann and (rivals or which != side)),
            )
            for which in (side, OTHER[side])
        )
        return ask(
            potentials,
            (left, right),
            torch.from_numpy(asked),
            torch.from_numpy(named),
            top=top,
            rivals=rivals,
            near=ann,
        )

    def _potentials(self, growing: Growing, side: str, matcher: str) -> Potentials:
        if (matcher, side) in self._known:
            return self._known[matcher, side]
        if matcher == "cosine":
            n, m = (len(growing.sides[which].entities) for which in (side, OTHER[side]))
            nothing = torch.zeros(n), torch.zeros(m)
            self._known[matcher, side] = Potentials(matcher, self._config, nothing)
            return self._known[matcher, side]
        if matcher == "csls" and (matcher, OTHER[side]) in self._known:
            self._known[matcher, side] = self._known[matcher, OTHER[side]].T
            return self._known[matcher, side]
        n, m = (int(self._free(growing, which).sum()) for which in (side, OTHER[side]))
        if n * m > MOST_PAIRS:
            raise ConfigError(
                f"{matcher} has to match all {n:,} × {m:,} entities once before it can tell of "
                "one; use the matcher cosine, or match everything first and save"
            )
        self.whole(growing, side, matcher)
        return self._potentials(growing, side, matcher)

    def _free(self, growing: Growing, side: str) -> Tensor:
        """bool[n], the entities of a side that have a vector and that no known link names."""
        there = growing.sides[side].has_vector()
        if side not in self._masks or self._masks[side][0] is not there:
            mask = there & self.unlinked(growing, side)
            if side in self._masks and torch.equal(mask, self._masks[side][1]):
                mask = self._masks[side][1]
            self._masks[side] = there, mask
        return self._masks[side][1]

    def unlinked(self, growing: Growing, side: str) -> Tensor:
        """bool[n], the entities of a side that no known link names."""
        mask = torch.ones(len(growing.sides[side].entities), dtype=torch.bool)
        mask[torch.from_numpy(self._links[:, 0 if side == "left" else 1])] = False
        return mask
