"""Matches from scores: the best candidates, assignments, abstentions, and their table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch
from torch import Tensor

from decentrl.config import MatchingConfig
from decentrl.errors import ConfigError
from decentrl.matching.assignment import mutual_nearest, one_to_one
from decentrl.matching.clustered import nearest_pairs
from decentrl.matching.confidence import evidence
from decentrl.matching.matchers import apply_matcher
from decentrl.matching.similarity import Scores
from decentrl.matching.sparse import SparseScores, top_pairs

Ids = npt.NDArray[np.int64]
Objects = npt.NDArray[Any]
Threshold = Literal["fitted", "precise"]
KEPT = 5  # of each entity's best pairs; evidence needs two
ASSIGNMENTS: dict[str, Callable[[SparseScores], Tensor] | None] = {
    "nearest": None,
    "mutual": mutual_nearest,
    "one-to-one": one_to_one,
}


class Judge(Protocol):
    """What says how sure matches are, and from when on they count."""

    def of(self, found: Tensor, features: Tensor) -> Tensor: ...
    def least(self, found: Tensor, precise: bool = True) -> Tensor: ...


@dataclass(frozen=True, eq=False)
class Answers:
    """The candidates of every row, best first, on the CPU."""

    columns: Tensor  # int64[n, top], -1 for none
    scores: Tensor  # float32[n, top], NaN for none
    confidence: Tensor  # float32[n], how likely the first one is right, NaN where unknown

    def spread(self, rows: Ids, there: npt.NDArray[np.bool_]) -> Answers:
        """The answers of ``rows`` at the positions where ``there`` is true; none elsewhere."""
        shape, places = (len(there), self.columns.shape[1]), torch.from_numpy(there)
        columns, scores = torch.full(shape, -1), torch.full(shape, torch.nan)
        sure, chosen = torch.full(shape[:1], torch.nan), torch.from_numpy(rows)
        columns[places], scores[places] = self.columns[chosen], self.scores[chosen]
        sure[places] = self.confidence[chosen]
        return Answers(columns, scores, sure)


def best_pairs(
    cosine: Scores | SparseScores, matcher: str, config: MatchingConfig, top: int = KEPT
) -> tuple[SparseScores, SparseScores]:
    """The best pairs of every row and column by a matcher, and the cosines of the same pairs.

    With ``config.keep``, or of stored pairs, the matcher itself reads no other cosines.
    """
    if isinstance(cosine, SparseScores):
        return apply_matcher(cosine, matcher, config), cosine
    if config.keep:
        cosines = nearest_pairs(cosine, max(config.keep, top))
        return apply_matcher(cosines, matcher, config), cosines
    scores = apply_matcher(cosine, matcher, config)
    pairs = top_pairs(scores, top)
    values = pairs.values
    if scores.row is not None and scores.column is not None:
        values = values - scores.row[pairs.rows] - scores.column[pairs.columns]
    return pairs, replace(pairs, values=values / scores.scale)


def matches_table(
    labels: Objects, counterparts: Objects, answers: Answers, swapped: bool
) -> pa.Table:
    """Table of matches: left, right, rank, score, confidence; one row for each unmatched entity.

    Args:
        labels: object[n], the entities that were matched.
        counterparts: object[n, top], None for none.
        swapped: whether ``labels`` are those of the right graph.
    """
    size = counterparts.shape
    ranks = np.broadcast_to(np.arange(1, size[1] + 1, dtype=np.int32), size)
    shown = (answers.columns.numpy() >= 0) | (ranks == 1)
    sure = np.where(ranks == 1, answers.confidence.numpy()[:, None], np.float32(np.nan))
    ends = np.broadcast_to(labels[:, None], size), counterparts
    left, right = (pa.array(end[shown], pa.string()) for end in (ends[::-1] if swapped else ends))
    score, confidence = (
        pa.array(values[shown], from_pandas=True) for values in (answers.scores.numpy(), sure)
    )
    names = ["left", "right", "rank", "score", "confidence"]
    return pa.table([left, right, ranks[shown], score, confidence], names)


def answer(
    pairs: SparseScores,
    cosines: SparseScores,
    *,
    top: int = 1,
    assign: str = "nearest",
    confidence: Judge | None = None,
    threshold: float | Threshold | None = None,
) -> Answers:
    """Choose the matches of every row from scored pairs.

    Args:
        pairs, cosines: from :func:`best_pairs`.
        top: how many candidates; 1 unless ``assign`` is ``nearest``.
        assign: a key of ``ASSIGNMENTS``.
        confidence: model of the probability that a match is right.
        threshold: rows with a lower confidence get no match; ``fitted`` is what gives the best F1,
            ``precise`` is for newcomers rather right than wrong.
    """
    scores, columns = (part.cpu() for part in pairs.best(top))
    sure = torch.full((len(columns),), torch.nan, dtype=torch.float64)
    if confidence is not None:
        found, features = evidence(pairs, cosines)
        sure = confidence.of(found, features)
        if isinstance(threshold, str):
            least = confidence.least(found, precise=threshold == "precise")
    if (choose := ASSIGNMENTS[assign]) is not None:
        taken, best = choose(pairs), columns[:, 0]
        own = pairs.columns == taken[pairs.rows]
        scores[pairs.rows[own].cpu(), 0] = pairs.values[own].cpu()
        scores, columns = scores[:, :1], taken.cpu()[:, None]
        # The confidence was computed for the best candidate, not for the assigned one.
        sure = sure.where(columns[:, 0] == best, torch.nan)
    if threshold is not None:
        if not isinstance(threshold, str):
            least = torch.full_like(sure, threshold)
        # Compared in float32, as returned, so that a returned confidence can be the threshold.
        unsure = ~(sure.float() >= least.float())
        columns[unsure] = -1
    scores = scores.where(columns >= 0, torch.nan)
    return Answers(columns, scores.float(), sure.float())


def check_question(top: int, assign: str) -> None:
    """Raise ``ConfigError`` if ``top`` and ``assign`` are invalid or do not go together."""
    if top < 1:
        raise ConfigError(f"top is {top}; it must be at least 1")
    if assign not in ASSIGNMENTS:
        raise ConfigError(f"no assignment {assign!r}; there are: {', '.join(ASSIGNMENTS)}")
    if assign != "nearest" and top > 1:
        raise ConfigError(f"{assign} assignment has one match for each; use top=1")


def threshold_of(
    minimum: float | Literal["fitted"] | None, confidence: Judge | None
) -> float | Threshold | None:
    """The least confidence that a match must have; None if all are returned."""
    if minimum is None:
        return None
    if confidence is None:
        raise ConfigError(
            "no confidence was learned for these matches, so none can be left out; train with "
            "validation links (training.valid) and match with the run's own matcher"
        )
    if minimum == "fitted":
        return "precise"
    if isinstance(minimum, str) or not 0 <= minimum <= 1:
        raise ConfigError(f"the least confidence is {minimum}; it must be between 0 and 1")
    return minimum
