"""The matchers by name: cosine, CSLS, Sinkhorn, and the blend of the last two."""

from __future__ import annotations

from typing import Literal, TypeVar

from decentrl.config import MatchingConfig
from decentrl.matching.assignment import mutual_nearest
from decentrl.matching.similarity import Scores, blend, csls, mutual_share, sinkhorn
from decentrl.matching.sparse import SparseScores, sparse_blend, sparse_csls, sparse_sinkhorn

FIELD: tuple[Literal["cosine", "csls", "sinkhorn"], ...] = ("cosine", "csls", "sinkhorn")
"""The matchers that the field reports."""
MATCHERS = (*FIELD, "blend")
LEAST, MOST = 0.7, 0.95
"""Limits of the weight of Sinkhorn in a blend."""
FEW, STEP = 0.58, 1.8
"""Share of mutual bests up to which that weight is the least, and what it gains by more of them."""
BLEND = 15
"""Turns of a blend, at most: each brings it nearer by the square of the balance."""
AnyScores = TypeVar("AnyScores", Scores, SparseScores)


def apply_matcher(cosine: AnyScores, matcher: str, config: MatchingConfig) -> AnyScores:
    """Turn the cosines of all pairs, or of stored pairs, into the scores of a matcher."""
    k = config.csls_k
    steps: tuple[float, int] = (config.temperature, config.iterations)
    if matcher == "csls":
        return csls(cosine, k) if isinstance(cosine, Scores) else sparse_csls(cosine, k)
    if matcher == "sinkhorn":
        if isinstance(cosine, Scores):
            return sinkhorn(cosine, *steps)
        return sparse_sinkhorn(cosine, *steps)
    if matcher == "blend":
        given = config.temperature, min(config.iterations, BLEND)
        if isinstance(cosine, Scores):
            scaled = csls(cosine, k)
            return blend(cosine, scaled, balance_of(scaled), *given)
        stored = sparse_csls(cosine, k)
        return sparse_blend(cosine, stored, balance_of(stored), *given)
    return cosine


def field_matcher(matcher: str) -> Literal["cosine", "csls", "sinkhorn"]:
    """The field's matcher that is nearest to one: Sinkhorn for a blend, else itself."""
    return next((name for name in FIELD if name == matcher), "sinkhorn")


def balance_of(scaled: Scores | SparseScores) -> float:
    """The weight of Sinkhorn in a blend, by how many entities seem to have a counterpart.

    These tend to be each other's best under CSLS, whose scores are given. Where nearly all have
    one, the sums of rows and columns that Sinkhorn asks for are true; where few have one, they take
    matches away.
    """
    if isinstance(scaled, Scores):
        mutual = mutual_share(scaled)
    else:
        found = int((mutual_nearest(scaled) >= 0).sum())
        mutual = 2 * found / max(1, sum(scaled.shape))
    return min(MOST, LEAST + STEP * max(0.0, mutual - FEW))
