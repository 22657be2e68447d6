"""Confidence in matches: features of a match, their calibration, and the threshold to abstain.

Real graphs have entities without a counterpart in the other one. Their best candidate is always
wrong, so a match whose confidence is too low is better left out.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from torch import Tensor

from decentrl.matching.sparse import SparseScores

FEATURES = ("score", "margin", "cosine", "preference")
CAP = 1.0
"""Largest margin and preference, in the unit of a cosine; also their value without a rival."""
Z = 1.645
"""Standard deviations below which one in twenty of normally distributed numbers is."""
PENALTY = 0.1
"""L2 penalty on standardised weights, so that few examples do not give extreme confidences."""


def evidence(scores: SparseScores, cosine: SparseScores) -> tuple[Tensor, Tensor]:
    """Find each row's best column j by ``scores``, and the features of that pair.

    Features: score(i, j); its margin over the second best score of row i; cos(i, j); its margin
    over the best score of *another* row for column j, which is negative if another row has a
    better claim. Both margins are at most ``CAP``, also without anything to compare with.

    Args:
        scores, cosine: of the same pairs, n × m.
    Returns:
        j, int64[n], -1 where there is none, and the features, float64[n, F], named as in
        ``FEATURES``, NaN where nothing was found.
    """
    assert (scores.shape, len(scores)) == (cosine.shape, len(cosine))
    places = scores.places(2)
    known = places[:, 0] >= 0
    first, second = places[known].unbind(1)
    column, best = scores.columns[first], scores.values[first].double()
    next_best = scores.values[second].double().where(second >= 0, -torch.inf)
    claims, claimants = scores.T.best(2)
    own = scores.rows[first]
    rival = torch.where(claimants[column, 0] == own, claims[column, 1], claims[column, 0])
    features = best.new_full((len(known), len(FEATURES)), torch.nan)
    features[known] = torch.stack(
        (
            best,
            (best - next_best).clamp(max=CAP),
            cosine.values[first].double(),
            (best - rival.double()).clamp(max=CAP),
        ),
        dim=1,
    )
    found = places.new_full((len(places),), -1)
    found[known] = column
    return found.cpu(), features.cpu()


@dataclass(frozen=True, eq=False)
class Confidence:
    """A logistic model of the probability that a match is right.

    P(right) = 1 / (1 + exp(-w·z - b)) with z = (features - mean) / scale.
    ``weights``, ``mean`` and ``scale`` are float64[F]. An answer is given if the confidence is at
    least ``threshold``, or ``precise`` where that was chosen and answers are to be right.
    """

    weights: Tensor
    bias: float
    mean: Tensor
    scale: Tensor
    threshold: float
    precise: float | None = None

    def __call__(self, features: Tensor) -> Tensor:
        """Probability that the found match is right, float64[n]; 0 where nothing was found."""
        logit = (features - self.mean) / self.scale @ self.weights + self.bias
        return logit.sigmoid().nan_to_num(0.0)

    def of(self, found: Tensor, features: Tensor) -> Tensor:
        """The same for each row and the column that was found for it."""
        return self(features)

    def least(self, found: Tensor, precise: bool = True) -> Tensor:
        """The confidence below which a match is none, for each row."""
        return torch.full(found.shape, self.threshold, dtype=torch.float64)

    def to_tensors(self) -> dict[str, Tensor]:
        """Parameters as float64 tensors, for a file."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        known = {name: value for name, value in values.items() if value is not None}
        return {n: torch.as_tensor(value, dtype=torch.float64) for n, value in known.items()}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor]) -> Confidence:
        """The inverse of :meth:`to_tensors`; other tensors are ignored."""
        found: dict[str, Any] = {x.name: tensors[x.name] for x in fields(cls) if x.name in tensors}
        return cls(**{n: t if t.dim() else t.item() for n, t in found.items()})


def fit_confidence(features: Tensor, correct: Tensor, weights: Tensor | None = None) -> Confidence:
    """Fit confidence by logistic regression on examples of right and wrong matches.

    Minimises Σ weight · log(1 + exp(∓logit)) + penalty / 2 · (|w|² + b²). The bias is penalised
    too, or there would be no minimum where all labels are equal. Examples where nothing was found
    (NaN) are left out. The threshold is 1/2 until one is chosen. ``features`` is float64[n, F],
    ``correct`` is bool[n], whether the found match is right; ``weights``
    are float64[n], how often each example counts, once by default.
    """
    found = ~features.isnan().any(1)
    features, labels = features[found].double(), correct[found].double()
    counts = torch.ones_like(labels) if weights is None else weights[found]
    mean, scale = features.new_zeros(features.shape[1]), features.new_ones(features.shape[1])
    if len(features):
        mean, scale = features.mean(0), features.std(0, correction=0)
        # The mean of equal numbers may be a rounding error away from them.
        constant = scale <= 1e-12 * features.abs().amax(0)
        scale = scale.where(~constant, 1.0)
    ones = features.new_ones(len(features), 1)
    found_weights = _logistic(torch.cat(((features - mean) / scale, ones), dim=1), labels, counts)
    return Confidence(found_weights[:-1], found_weights[-1].item(), mean, scale, threshold=0.5)


def linked_share(with_one: Tensor, without: Tensor, every: Tensor) -> float:
    """Estimate the share of entities that have a counterpart, from the features of best matches.

    A logistic regression tells entities with a counterpart from those without by the features,
    float64[·, F]; the share is the one under which it expects just that share among ``every``
    entity, found by expectation maximisation. Held-out links are examples of those with one; of
    those without, once their counterparts are taken away.
    """
    examples = torch.cat((with_one, without))
    labels = torch.arange(len(examples)) < len(with_one)
    weights = torch.where(labels, len(examples) / max(1, len(with_one)), 1.0).double()
    weights = weights.where(labels, len(examples) / max(1, len(without)))
    chance = fit_confidence(examples, labels, weights / 2)(every[~every.isnan().any(1)])
    share = 0.5
    for _ in range(200 if len(chance) else 0):
        linked, others = share * chance, (1 - share) * (1 - chance)
        share = (linked / (linked + others)).mean().item()
    return share


def choose_threshold(
    confidence: Tensor,
    correct: Tensor,
    has_counterpart: Tensor,
    weights: Tensor | None = None,
) -> float:
    """Choose the confidence threshold with the highest F1 on these examples.

    F1 = 2 · right answers / (answers + entities with a counterpart), where answers are given if
    confidence ≥ threshold. Of equally good thresholds the highest; 1 if no answer is right. All
    arguments are [n]; ``correct`` says whether the found match is right, ``weights`` how often an
    example counts.
    """
    if not correct.any():
        return 1.0
    counts = torch.ones_like(confidence) if weights is None else weights
    confidence, order = confidence.sort(descending=True)
    right = (correct * counts)[order].double().cumsum(0)
    answers = counts[order].double().cumsum(0)
    f1 = 2 * right / (answers + (has_counterpart * counts).sum())
    # A threshold accepts all examples of equal confidence: only the last of them counts.
    together = torch.zeros_like(f1, dtype=torch.bool)
    together[:-1] = confidence[:-1] == confidence[1:]
    f1[together] = -1.0
    return confidence[(f1 == f1.max()).nonzero()[0, 0]].item()


def precise_threshold(
    confidence: Tensor, correct: Tensor, precision: float, weights: Tensor
) -> float:
    """The lowest threshold from which on answers are right with a precision, on these examples.

    So often at least, with 95 %: by the lower bound of Wilson's interval, in which examples count
    as much as their weights are worth, (Σ w)² / Σ w². 1 if there is no such threshold. All tensors
    are [n].
    """
    confidence, order = confidence.sort(descending=True)
    counts = weights[order].double()
    mass = counts.cumsum(0)
    share = (counts * correct[order]).cumsum(0) / mass
    spread = Z**2 / (mass**2 / counts.square().cumsum(0))
    error = (spread * (share * (1 - share) + spread / 4)).sqrt()
    enough = (share + spread / 2 - error) / (1 + spread) >= precision
    enough[:-1] &= confidence[:-1] != confidence[1:]  # examples of equal confidence go together
    places = enough.nonzero()[:, 0]
    return confidence[places[-1]].item() if len(places) else 1.0


def expected_calibration_error(confidence: Tensor, correct: Tensor, bins: int = 15) -> float:
    """Expected calibration error over bins of equal size, by confidence.

    Σ (size / n) · |mean confidence - mean correct|. Examples of equal confidence share their mean
    of ``correct``, so that their order does not matter.
    """
    if not len(confidence):
        return 0.0
    values, which, counts = np.unique(
        confidence.double().cpu().numpy(), return_inverse=True, return_counts=True
    )
    shared = np.bincount(which, correct.cpu().numpy()) / counts
    gap = (values - shared)[np.sort(which)]
    return float(sum(abs(part.sum()) for part in np.array_split(gap, bins)) / len(gap))


def calibration(confidence: Tensor, correct: Tensor) -> dict[str, float]:
    """Expected calibration error ``ece``, ``mean`` confidence, and the share ``right``."""
    return {
        "ece": expected_calibration_error(confidence, correct),
        "mean": confidence.mean().item(),
        "right": correct.double().mean().item(),
    }


def _logistic(inputs: Tensor, labels: Tensor, counts: Tensor) -> Tensor:
    """Weights float64[F] of penalised logistic regression, by Newton's method, steps halved."""
    weights = inputs.new_zeros(inputs.shape[1])
    penalty = PENALTY * torch.eye(len(weights), dtype=inputs.dtype)

    def loss(weights: Tensor) -> float:
        logits = inputs @ weights
        fit = torch.logaddexp(logits, torch.zeros_like(logits)) - labels * logits
        return (counts @ fit + PENALTY / 2 * weights.square().sum()).item()

    for _ in range(100):
        chances = (inputs @ weights).sigmoid()
        slope = inputs.t() @ (counts * (chances - labels)) + PENALTY * weights
        curvature = (inputs.t() * (counts * chances * (1 - chances))) @ inputs + penalty
        step = torch.linalg.solve(curvature, slope)
        if slope @ step < 1e-20:
            break
        # Near the minimum losses differ by rounding errors only, and full steps are right.
        bound = loss(weights) * (1 + 1e-12)
        share = 1.0
        while share > 1e-9 and loss(weights - share * step) > bound:
            share /= 2
        weights = weights - share * step
    return weights
