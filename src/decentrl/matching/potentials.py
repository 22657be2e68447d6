"""Potentials of solved matching problems, from which single entities are matched later.

Every matcher's score is scale · cos(i, j) + row[i] + column[j]. The two vectors, its potentials,
are kept from the full problem; matching one entity then takes one pass over its candidates. An
entity that was not in the full problem, because it is new or in a known link, gets its potential
by one half-step of the matcher against the potentials that are known.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from decentrl.config import MatchingConfig
from decentrl.matching.similarity import mean_of_finite

OTHER = {"left": "right", "right": "left"}
_BLOCK = 32 << 20  # bytes of scores at once


def scale_of(matcher: str) -> float:
    """What a matcher multiplies cosines by."""
    return 2.0 if matcher == "csls" else 1.0


class Potentials:
    """The vectors that a matcher adds to the scaled cosines, one for the entities of each side.

    Attributes:
        rows: the side that was normalised last; it matters for Sinkhorn only.
        scale: of the cosine.
        solved: float32[n] of the full problem by side, NaN for entities not in it.
        balance: of a blend: the weight of Sinkhorn in its terms.
    """

    def __init__(
        self,
        matcher: str,
        config: MatchingConfig,
        rows: str,
        solved: Mapping[str, Tensor],
        balance: float = 1.0,
    ) -> None:
        self.matcher, self.config, self.rows, self.balance = matcher, config, rows, balance
        self.scale = scale_of(matcher)
        self.solved = dict(solved)
        # With those that were computed since; 0 where unknown.
        self._known = {side: ~values.isnan() for side, values in solved.items()}
        self._values = {side: values.nan_to_num(0.0) for side, values in solved.items()}
        # The last masks asked for, by side: to go through half a million potentials takes longer
        # than to search them. Masks are never changed in place.
        self._filled: dict[str, Tensor] = {}
        self._covers: dict[str, tuple[Tensor, bool]] = {}

    def discard(self, side: str, ids: Tensor, n: int) -> None:
        """Discard the potentials of changed entities, int64[k], and make room for n entities."""
        kept, changed = min(n, len(self.solved[side])), ids[ids < n]
        for held, unknown in ((self.solved, torch.nan), (self._known, False), (self._values, 0.0)):
            new = torch.full((n,), unknown)
            new[:kept] = held[side][:kept]
            new[changed] = unknown
            held[side] = new
        self._filled, self._covers = {}, {}

    def covers(self, side: str, mask: Tensor) -> bool:
        """Whether the entities of the full problem are those in a mask, bool[n]."""
        if side not in self._covers or self._covers[side][0] is not mask:
            self._covers[side] = mask, torch.equal(~self.solved[side].isnan(), mask)
        return self._covers[side][1]

    def values(
        self, side: str, free: Tensor, more: Tensor, vectors: Tensor, others: Tensor
    ) -> Tensor:
        """Potentials of a side, float32[n], valid for the entities ``free``, bool[n], and ``more``.

        Read only. A missing potential is computed by a half-step and kept: of a column
        t·log(n / m) - t·log Σᵢ exp((cos + row[i]) / t) for Sinkhorn, minus the mean of the k best
        cosines for CSLS; over the n rows of the full problem of n × m. See :meth:`term`.

        Args:
            more: int64[k].
            vectors, others: of all entities of the side, and of the other one.
        """
        known, lacking = self._known[side], more[~self._known[side][more]]
        if self._filled.get(side) is not free:
            lacking = torch.cat((lacking, (free & ~known).nonzero()[:, 0]))
        if len(lacking):
            made = self.terms(vectors[lacking], others, self.solved[OTHER[side]])
            if self.matcher in ("sinkhorn", "blend") and side != self.rows:
                n, m = (int((~self.solved[s].isnan()).sum()) for s in (self.rows, side))
                target = self.config.temperature * math.log(max(1, n) / max(1, m))
                made += self.balance * target
            self._values[side][lacking] = made
            known[lacking] = True
        self._filled[side] = free
        return self._values[side]

    def terms(
        self, vectors: Tensor, others: Tensor, bias: Tensor, cosines: Tensor | None = None
    ) -> Tensor:
        """Compute the matcher's additive term of vectors [k, d], by those of others, [n, d].

        ``bias``, float32[n], are the potentials of the others; NaN for those to leave out.
        ``cosines``, float32[k, n], are overwritten where they are given.
        """
        made = torch.zeros(len(vectors))
        if self.matcher == "cosine":
            return made
        bias = bias.where(~bias.isnan(), -torch.inf).to(others.device)
        size = max(1, _BLOCK // (4 * max(1, len(others))))
        for start in range(0, len(vectors), size):
            some = slice(start, start + size)
            known = torch.matmul(vectors[some], others.t()) if cosines is None else cosines[some]
            made[some] = self.term(known, bias).cpu()
        return made

    def term(self, cosine: Tensor, bias: Tensor) -> Tensor:
        """Compute the additive term of each row of cosines [b, n], which are overwritten.

        CSLS: minus the mean of the k best cosines; Sinkhorn: -t·log Σⱼ exp((cos + bias[j]) / t);
        blend: a share of the latter, and for the rest half of the former; 0 where all are left
        out. ``bias`` is [n] or [b, n], -inf for those to leave out.
        """
        made = torch.zeros(len(cosine), device=cosine.device)
        if self.matcher == "cosine":
            return made
        share = {"csls": 0.0, "blend": self.balance}.get(self.matcher, 1.0)
        if share < 1:
            known = cosine + bias.where(bias.isinf(), 0.0)
            k = min(self.config.csls_k, known.shape[1])
            made = -mean_of_finite(known.topk(k, dim=1).values)
            if not share:
                return made
            made *= (1 - share) / 2
        temperature = self.config.temperature
        sums = -temperature * (cosine.add_(bias) / temperature).logsumexp(1)
        return made + share * sums.where(sums.isfinite(), 0.0)
