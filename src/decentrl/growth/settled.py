"""Matches that stay: what training was sure of, and what was decided.

What arrives later does not take such a match away; only a later decision does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from decentrl.data.vocabulary import Ids
from decentrl.growth.decided import NO_LINKS, DecidedPairs
from decentrl.growth.growing_graph import Growing
from decentrl.growth.potentials import Matching
from decentrl.matching.confidence import Confidence
from decentrl.matching.matches import KEPT, Answers, answer

SURE = 0.8
"""Confidence from which a match stays."""
NONE = torch.empty(0)


@dataclass(frozen=True, eq=False)
class Settled:
    """Pairs of left and right entities that are matched with each other, whatever else there is.

    Their entities are no candidates for others, like those of known links. Pairs that were each
    other's best and surely right in training are settled once more has arrived than there was then;
    pairs that were accepted are settled at once, with confidence 1 and without a score (NaN).
    """

    pairs: Ids  # int64[n, 2]
    scores: Tensor  # float32[n]
    confidence: Tensor  # float32[n]
    triples: int  # how many there were in both graphs

    @classmethod
    def of(
        cls, growing: Growing, matching: Matching, matcher: str, confidence: Confidence
    ) -> Settled:
        """Those of graphs as they are."""
        rows, columns, *pairs = matching.pairs_together("left", None, matcher, KEPT)
        made = answer(*pairs, assign="mutual", confidence=confidence, threshold=SURE)
        kept = made.columns[:, 0] >= 0
        ids = rows[kept.numpy()], columns[made.columns[kept, 0].numpy()]
        scores, sure = made.scores[kept, 0], made.confidence[kept]
        return cls(np.stack(ids, axis=1), scores, sure, count_triples(growing))

    def after(self, decided: DecidedPairs) -> Settled:
        """The same with accepted pairs, without what decisions contradict."""
        stays = torch.from_numpy(decided.leaves(self.pairs))
        accepted = torch.ones(len(decided.accepted))
        return Settled(
            np.concatenate((self.pairs[stays.numpy()], decided.accepted)),
            torch.cat((self.scores[stays], accepted * torch.nan)),
            torch.cat((self.confidence[stays], accepted)),
            self.triples,
        )

    def to_tensors(self) -> dict[str, Tensor]:
        """As tensors, for a file."""
        return {
            "settled": torch.from_numpy(self.pairs),
            "settled.score": self.scores,
            "settled.confidence": self.confidence,
            "settled.triples": torch.tensor(float(self.triples), dtype=torch.float64),
        }

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> Settled | None:
        """The inverse of :meth:`to_tensors`; None if they are not among these."""
        if "settled" not in tensors:
            return None
        scores, sure, triples = (
            tensors[f"settled.{x}"] for x in ("score", "confidence", "triples")
        )
        return cls(tensors["settled"].numpy(), scores, sure, int(triples.item()))

    def put(self, side: int, listed: Ids, theirs: Ids, answers: Answers) -> tuple[Ids, Answers]:
        """Answers about ``listed`` entities in which those that are settled have their match.

        Args:
            side: 0 if they are left entities, 1 if right ones.
            theirs: ids of the columns that answers name.
        Returns:
            such ids, with those of settled entities, and answers.
        """
        order = self.pairs[:, side].argsort()
        known = self.pairs[order, side]
        place = np.minimum(np.searchsorted(known, listed), max(0, len(known) - 1))
        mine = known[place] == listed if len(known) else np.zeros(len(listed), bool)
        chosen = order[place[mine]]
        rows, ids = torch.from_numpy(mine), np.concatenate((theirs, self.pairs[chosen, 1 - side]))
        partner = torch.arange(len(theirs), len(ids))[:, None]
        columns, scores = answers.columns.clone(), answers.scores.clone()
        others, values = columns[rows], scores[rows]
        # The others stay behind it in their order; the partner is among them if it was a candidate.
        own = torch.from_numpy(theirs)[others.clamp(min=0)] if len(theirs) else others
        right = torch.from_numpy(self.pairs[chosen, 1 - side])[:, None]
        same = (own == right) & (others >= 0)
        behind = same.long().argsort(dim=1, stable=True)
        others, values = others.gather(1, behind), values.gather(1, behind)
        others = others.where(~same.gather(1, behind), -1)
        values = values.where(others >= 0, torch.nan)
        top = columns.shape[1]
        columns[rows] = torch.cat((partner, others), dim=1)[:, :top]
        scores[rows] = torch.cat((self.scores[chosen, None], values), dim=1)[:, :top]
        sure = answers.confidence.clone()
        sure[rows] = self.confidence[chosen]
        return ids, Answers(columns, scores, sure)


def count_triples(growing: Growing) -> int:
    """How many triples both graphs have now."""
    return sum(
        len(side.trained.triples) + len(side.arrivals.triples) for side in growing.sides.values()
    )


def settled_by(decided: DecidedPairs, settled: Settled | None) -> Settled:
    """What is settled after decisions; ``settled`` is what was before them."""
    return (settled or Settled(NO_LINKS, NONE, NONE, 0)).after(decided)
