"""The matchers by name: what turns cosines into the scores that matches are ranked by."""

from __future__ import annotations

from decentrl.config import MatchingConfig
from decentrl.matching.similarity import Scores, csls, sinkhorn

MATCHERS = ("cosine", "csls", "sinkhorn")


def apply_matcher(cosine: Scores, matcher: str, config: MatchingConfig) -> Scores:
    """Turn cosines into the scores of a matcher."""
    if matcher == "csls":
        return csls(cosine, config.csls_k)
    if matcher == "sinkhorn":
        return sinkhorn(cosine, config.temperature, config.iterations)
    return cosine
