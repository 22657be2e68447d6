"""The matchers by name: cosine, CSLS and Sinkhorn."""

from __future__ import annotations

from typing import TypeVar

from decentrl.config import MatchingConfig
from decentrl.matching.similarity import Scores, csls, sinkhorn
from decentrl.matching.sparse import SparseScores, sparse_csls, sparse_sinkhorn

MATCHERS = ("cosine", "csls", "sinkhorn")
AnyScores = TypeVar("AnyScores", Scores, SparseScores)


def apply_matcher(cosine: AnyScores, matcher: str, config: MatchingConfig) -> AnyScores:
    """Turn the cosines of all pairs, or of stored pairs, into the scores of a matcher."""
    if matcher == "csls":
        k = config.csls_k
        return csls(cosine, k) if isinstance(cosine, Scores) else sparse_csls(cosine, k)
    if matcher == "sinkhorn":
        steps = config.temperature, config.iterations
        if isinstance(cosine, Scores):
            return sinkhorn(cosine, *steps)
        return sparse_sinkhorn(cosine, *steps)
    return cosine
