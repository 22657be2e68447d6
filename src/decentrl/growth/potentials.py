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
from decentrl.matching.matches import KEPT, best_pairs
from decentrl.matching.point import COLUMNS, ROWS, End, Potentials, find_candidates, rescore
from decentrl.matching.similarity import Scores
from decentrl.matching.sparse import SparseScores, top_pairs
from decentrl.storage.additions import Growth

OTHER = {"left": "right", "right": "left"}
MOST_PAIRS = 2**32
"""Largest full problem, in pairs, that is solved in order to match a single entity."""
Pairs = tuple[Ids, Ids, SparseScores, SparseScores]
"""Ids of a side and of the other one, and the scores and cosines of their best pairs."""


class Matching:
    """Finds the best pairs of entities of two graphs as they are now.

    The potentials of solved problems are kept, so that single entities match at once.

    Args:
        links: known links, int64[k, 2], left then right: their entities are no candidates.
        tensors: potentials that :meth:`to_tensors` returned before.
    """

    def __init__(
        self,
        growing: Growing,
        indexes: Indexes,
        config: MatchingConfig,
        links: Ids,
        tensors: Mapping[str, Tensor],
    ) -> None:
        self._growing, self._indexes, self._config = growing, indexes, config
        self._links = dict(zip(OTHER, links.T, strict=True))
        self._solved: dict[tuple[str, str], Potentials] = {}
        self._seen: list[Growth] = []
        self._masks: dict[str, tuple[Tensor, Tensor]] = {}
        for side in OTHER:
            names = [f"potential.{side}.{end}" for end in ("own", "other")]
            if all(name in tensors for name in names):
                solved = tensors[names[0]].clone(), tensors[names[1]].clone()
                self._solved[config.matcher, side] = Potentials(config.matcher, config, solved)

    def to_tensors(self) -> dict[str, Tensor]:
        """Potentials of the configured matcher, as far as they are solved, for a file.

        Those of entities that additions have changed since are left out.
        """
        self._discard_outdated()
        matcher = self._config.matcher
        known = [side for side in OTHER if (matcher, side) in self._solved]
        if matcher == "cosine":
            return {}
        # Those of CSLS are the same from both sides.
        return {
            f"potential.{side}.{name}": self._solved[matcher, side].solved[end]
            for side in (known if matcher == "sinkhorn" else known[:1])
            for end, name in ((ROWS, "own"), (COLUMNS, "other"))
        }

    def _discard_outdated(self) -> None:
        """Discard the potentials of entities that additions have changed since the last call."""
        now = self._growing.growths
        sizes = {side: len(graph.entities) for side, graph in self._growing.sides.items()}
        changed = {
            side: torch.from_numpy(changed_entities(self._seen, now, side)) for side in OTHER
        }
        for (_, side), potentials in self._solved.items():
            for end, which in ((ROWS, side), (COLUMNS, OTHER[side])):
                if len(changed[which]) or len(potentials.solved[end]) != sizes[which]:
                    potentials.discard(end, changed[which], sizes[which])
        self._seen = now

    # Single entities

    def pairs(
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
        alone = assign == "nearest" and (matcher == "cosine" or not self._config.keep)
        if ann and (asked is None or not alone):
            raise ConfigError(
                "an approximate index is for questions about given entities, each by its nearest; "
                "name them, use assign=nearest, and the matcher cosine if matching.keep is set"
            )
        if asked is None or not alone:
            kept = max(top, 50 if assign == "one-to-one" else KEPT)
            return self.pairs_together(side, asked, matcher, kept)
        self._discard_outdated()
        entities, sides = np.unique(asked), (side, OTHER[side])
        counterparts = self._links[sides[1]][np.isin(self._links[side], entities)]
        potentials = self._potentials(side, matcher)
        own, other = (
            End(
                self._growing.sides[which].vectors,
                self._free(which),
                self._indexes.get(which, ann and (rivals or which != side)),
            )
            for which in sides
        )
        found = find_candidates(
            potentials,
            (own, other),
            torch.from_numpy(entities),
            torch.from_numpy(counterparts),
            top=top,
            rivals=rivals,
            near=ann,
        )
        return found.rows.numpy(), found.columns.numpy(), found.pairs, found.cosines

    def _potentials(self, side: str, matcher: str) -> Potentials:
        """The potentials of a matcher; the full problem is solved if it was not before."""
        solved, key, other = self._solved, (matcher, side), OTHER[side]
        if key not in solved and matcher == "cosine":
            sizes = [len(self._growing.sides[which].entities) for which in (side, other)]
            ends = torch.zeros(sizes[0]), torch.zeros(sizes[1])
            solved[key] = Potentials(matcher, self._config, ends)
        if key not in solved and matcher == "csls" and (matcher, other) in solved:
            solved[key] = solved[matcher, other].T
        if key not in solved:
            n, m = (int(self._free(which).sum()) for which in (side, other))
            if n * m > MOST_PAIRS:
                raise ConfigError(
                    f"{matcher} has to match all {n:,} × {m:,} entities once before it can match "
                    "one; use the matcher cosine, or match everything first and save"
                )
            self._score_unlinked(side, matcher)
            return self._potentials(side, matcher)  # CSLS is solved from the left
        return solved[key]

    # All at once

    def pairs_together(self, side: str, asked: Ids | None, matcher: str, kept: int) -> Pairs:
        """The best pairs when all unlinked entities, and those asked for, are matched at once."""
        named = np.isin(self._links[side], [] if asked is None else asked)
        if not self._config.keep and not named.any():
            self._discard_outdated()
            mine, theirs, scores = self._score_unlinked(side, matcher)
        else:
            # A linked entity that is asked for takes part, and its counterpart too.
            ends = {}
            for which, graph in self._growing.sides.items():
                mask, linked = self._free(which).clone(), self._links[which][named]
                mask[linked] = graph.has_vector()[linked]
                ends[which] = mask.nonzero()[:, 0]
            mine, theirs = ends[side], ends[OTHER[side]]
            cosine = self._cosine("left", ends["left"], ends["right"])
            cosine = cosine if side == "left" else cosine.T
            if self._config.keep:
                pairs = best_pairs(cosine, matcher, self._config, kept)
                return mine.numpy(), theirs.numpy(), *pairs
            scores = apply_matcher(cosine, matcher, self._config)
        return mine.numpy(), theirs.numpy(), *rescore(top_pairs(scores, kept), scores)

    def _score_unlinked(self, side: str, matcher: str) -> tuple[Tensor, Tensor, Scores]:
        """Ids of the unlinked entities of ``side`` and of the other side, and their scores."""
        if matcher != "sinkhorn" and side == "right":
            theirs, mine, scores = self._score_unlinked("left", matcher)
            return mine, theirs, scores.T
        free = self._free(side), self._free(OTHER[side])
        ids = free[0].nonzero()[:, 0], free[1].nonzero()[:, 0]
        cosine, known = self._cosine(side, *ids), self._solved.get((matcher, side))
        if matcher == "cosine":
            scores = cosine
        elif known is not None and all(known.covers(end, free[end]) for end in (ROWS, COLUMNS)):
            row, column = (known.solved[end][ids[end]].to(cosine.left.device) for end in (0, 1))
            scores = replace(cosine, scale=known.scale, row=row, column=column)
        else:
            scores = apply_matcher(cosine, matcher, self._config)
            sizes = len(free[0]), len(free[1])
            self._solved[matcher, side] = Potentials.from_scores(
                scores, ids, sizes, matcher, self._config
            )
        return *ids, scores

    def _cosine(self, side: str, mine: Tensor, theirs: Tensor) -> Scores:
        """Cosines of entities of ``side`` and of the other side."""
        left, right = (self._growing.sides[which].vectors for which in (side, OTHER[side]))
        return Scores.cosine(left[mine], right[theirs])

    def _free(self, side: str) -> Tensor:
        """Mask of the unlinked entities of a side that have a vector, bool[n].

        The same object as long as its values are the same: see :class:`End`.
        """
        there = self._growing.sides[side].has_vector()
        if side not in self._masks or self._masks[side][0] is not there:
            mask = there & self.unlinked(side)
            if side in self._masks and torch.equal(mask, self._masks[side][1]):
                mask = self._masks[side][1]
            self._masks[side] = there, mask
        return self._masks[side][1]

    def unlinked(self, side: str) -> Tensor:
        """Mask of the entities of a side that are in no known link, bool[n]."""
        mask = torch.ones(len(self._growing.sides[side].entities), dtype=torch.bool)
        mask[torch.from_numpy(self._links[side])] = False
        return mask
