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
        given = balance_of(cosine, k), k, *steps
        return blend(cosine, *given) if isinstance(cosine, Scores) else sparse_blend(cosine, *given)
    return cosine


def field_matcher(matcher: str) -> Literal["cosine", "csls", "sinkhorn"]:
    """The field's matcher that is nearest to one: Sinkhorn for a blend, else itself."""
    return next((name for name in FIELD if name == matcher), "sinkhorn")


def balance_of(cosine: Scores | SparseScores, k: int) -> float:
    """The weight of Sinkhorn in a blend, by how many entities seem to have a counterpart.

    These tend to be each other's best under CSLS. Where nearly all have one, the sums of rows and
    columns that Sinkhorn asks for are true; where few have one, they take matches away.
    """
    if isinstance(cosine, Scores):
        mutual = mutual_share(csls(cosine, k))
    else:
        found = int((mutual_nearest(sparse_csls(cosine, k)) >= 0).sum())
        mutual = 2 * found / max(1, sum(cosine.shape))
    return min(MOST, LEAST + STEP * max(0.0, mutual - FEW))
