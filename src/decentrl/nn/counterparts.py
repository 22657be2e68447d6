"""Two coordinates of a vector for how surely its entity has a counterpart already.

Self-training finds counterparts. An entity with a sure one is unlikely to be the counterpart of an
entity without, above all of one that arrives later. The two coordinates are an angle, by which an
entity without a counterpart is opposite to one with a sure one, so every matcher and index uses it.
"""

from __future__ import annotations

import torch
from torch import Tensor

WIDTH = 2


def mark_counterparts(vectors: Tensor, sureness: Tensor, weight: float) -> Tensor:
    """Write the last two coordinates of vectors, in place; the others get shorter by as much.

    The cosine of two entities becomes (1 - weight) · cos + weight · cos(a - b), where an angle is
    0 for a sure counterpart and π for none: alike adds ``weight``, opposite takes it away.

    Args:
        vectors: [n, d + 2]; the first d are of length 1, or 0 where an entity has no neighbours.
        sureness: [n], between 0 (none) and 1.
    """
    own, angle = vectors[:, :-WIDTH], vectors[:, -WIDTH:]
    there = own.any(1)
    cosine = torch.where(there, 2 * sureness - 1, 0)
    sine = torch.where(there, 2 * (sureness * (1 - sureness)).clamp(min=0).sqrt(), 0)
    angle[:, 0], angle[:, 1] = cosine, sine
    angle *= weight**0.5
    own *= (1 - weight) ** 0.5
    return vectors
