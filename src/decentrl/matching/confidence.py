"""How likely a match is right, and which entities are better given no match at all.

Every real graph has entities without a counterpart in the other one; their best candidate is
always wrong, and the evidence around it tells.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from decentrl.matching.sparse import SparseScores

FEATURES = ("score", "margin", "cosine", "preference")
CAP = 1.0
"""Largest margin and preference, in the unit of a cosine: as if a rival stood so far behind."""
PENALTY = 0.1
"""Of squared standardised weights: few examples must not make anybody certain."""


@dataclass(frozen=True, eq=False)
class Evidence:
    """What speaks for each row's best pair.

    ``found`` is int64[n], the best column, -1 where there is none. ``features`` is float64[n, F],
    as named by ``FEATURES``, NaN where nothing was found.
    """

    found: Tensor
    features: Tensor


def evidence(scores: SparseScores, cosine: SparseScores) -> Evidence:
    """Each row's best column j by ``scores``, and what speaks for it.

    Features: score(i, j); its margin over the second best score of row i; cos(i, j); its margin
    over the best score of *another* row for column j, which is negative if another row has a
    better claim. Both margins are at most ``CAP``, also where there is nobody to compare with.

    Args:
        scores, cosine: of the same pairs, n × m.
    """
    assert scores.shape == cosine.shape
    assert len(scores) == len(cosine)
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
    return Evidence(found.cpu(), features.cpu())


@dataclass(frozen=True, eq=False)
class Confidence:
    """P(right) = 1 / (1 + exp(-w·z - b)) with z = (features - mean) / scale.

    ``weights``, ``mean`` and ``scale`` are float64[F]. An answer is given if the confidence is at
    least ``threshold``.
    """

    weights: Tensor
    bias: float
    mean: Tensor
    scale: Tensor
    threshold: float

    def __call__(self, features: Tensor) -> Tensor:
        """Probability that the found match is right, float64[n]; 0 where nothing was found."""
        logit = (features - self.mean) / self.scale @ self.weights + self.bias
        return logit.sigmoid().nan_to_num(0.0)

    def to_tensors(self) -> dict[str, Tensor]:
        """Everything as float64 tensors, for a file."""
        return {
            "weights": self.weights,
            "bias": torch.tensor(self.bias, dtype=torch.float64),
            "mean": self.mean,
            "scale": self.scale,
            "threshold": torch.tensor(self.threshold, dtype=torch.float64),
        }

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor]) -> Confidence:
        return cls(
            weights=tensors["weights"],
            bias=tensors["bias"].item(),
            mean=tensors["mean"],
            scale=tensors["scale"],
            threshold=tensors["threshold"].item(),
        )


def fit_confidence(features: Tensor, correct: Tensor) -> Confidence:
    """Logistic regression: the minimum of Σ log(1 + exp(∓logit)) + penalty / 2 · (|w|² + b²).

    The bias is penalised too, or it had no minimum where all labels are equal. Examples where
    nothing was found (NaN) are left out. The threshold is 1/2 until one is chosen.

    Args:
        features: float64[n, F].
        correct: bool[n], whether the found match is right.
    """
    found = ~features.isnan().any(1)
    features, labels = features[found].double(), correct[found].double()
    mean, scale = _standard(features)
    ones = features.new_ones(len(features), 1)
    weights = _logistic(torch.cat(((features - mean) / scale, ones), dim=1), labels)
    return Confidence(weights[:-1], weights[-1].item(), mean, scale, threshold=0.5)


def choose_threshold(confidence: Tensor, correct: Tensor, has_counterpart: Tensor) -> float:
    """The threshold that gives the answers of these examples the highest F1.

    F1 = 2 · right answers / (answers + entities with a counterpart), where answers are given if
    confidence ≥ threshold. Of equally good thresholds the highest; 1 if no answer is right.

    Args:
        confidence: float[n].
        correct: bool[n], whether the found match is right.
        has_counterpart: bool[n], whether there is anything to find.
    """
    if not correct.any():
        return 1.0
    confidence, order = confidence.sort(descending=True)
    right = correct[order].double().cumsum(0)
    answers = torch.arange(1, len(order) + 1, device=order.device)
    f1 = 2 * right / (answers + has_counterpart.sum())
    # Examples of equal confidence are answered together: only the last of them counts.
    together = torch.zeros_like(f1, dtype=torch.bool)
    together[:-1] = confidence[:-1] == confidence[1:]
    f1[together] = -1.0
    return confidence[(f1 == f1.max()).nonzero()[0, 0]].item()


def expected_calibration_error(confidence: Tensor, correct: Tensor, bins: int = 15) -> float:
    """Σ (size / n) · |mean confidence - mean correct| over bins of equal size, by confidence.

    Examples of equal confidence share their mean of ``correct``, so that their order, which means
    nothing, changes nothing.
    """
    if not len(confidence):
        return 0.0
    values, which, counts = np.unique(
        confidence.double().cpu().numpy(), return_inverse=True, return_counts=True
    )
    shared = np.bincount(which, correct.cpu().numpy()) / counts
    gap = (values - shared)[np.sort(which)]
    return float(sum(abs(part.sum()) for part in np.array_split(gap, bins)) / len(gap))


def answer_scores(
    found_right: Tensor, answered: Tensor, has_counterpart: Tensor
) -> dict[str, float]:
    """Precision, recall and F1 of answers, and of saying that an entity has no counterpart.

    ``precision`` is right answers / answers, ``recall`` right answers / entities with a
    counterpart. With ``none_``: predicted is who got no answer, true who has no counterpart. An
    empty denominator gives 0.

    Args:
        found_right, answered, has_counterpart: bool[n].
    """
    none, lonely = ~answered, ~has_counterpart
    rows = {
        "": (found_right & answered, answered, has_counterpart),
        "none_": (none & lonely, none, lonely),
    }
    result: dict[str, float] = {}
    for name, masks in rows.items():
        hits, predicted, true = (int(mask.sum()) for mask in masks)
        result[f"{name}precision"] = hits / max(predicted, 1)
        result[f"{name}recall"] = hits / max(true, 1)
        result[f"{name}f1"] = 2 * hits / max(predicted + true, 1)
    return result


def _standard(features: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of each feature, float64[F]; 1 for one that is constant."""
    if not len(features):
        return features.new_zeros(features.shape[1]), features.new_ones(features.shape[1])
    mean, scale = features.mean(0), features.std(0, correction=0)
    # The mean of equal numbers may be a rounding error away from them.
    constant = scale <= 1e-12 * features.abs().amax(0)
    return mean, scale.where(~constant, 1.0)


def _logistic(inputs: Tensor, labels: Tensor) -> Tensor:
    """Weights float64[F] of the least penalised loss, by Newton's method with halved steps."""
    weights = inputs.new_zeros(inputs.shape[1])
    penalty = PENALTY * torch.eye(len(weights), dtype=inputs.dtype)

    def loss(weights: Tensor) -> float:
        logits = inputs @ weights
        fit = torch.logaddexp(logits, torch.zeros_like(logits)) - labels * logits
        return (fit.sum() + PENALTY / 2 * weights.square().sum()).item()

    for _ in range(100):
        chances = (inputs @ weights).sigmoid()
        slope = inputs.t() @ (chances - labels) + PENALTY * weights
        curvature = (inputs.t() * (chances * (1 - chances))) @ inputs + penalty
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
