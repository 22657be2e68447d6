"""Who has a counterpart already, as two coordinates of a vector.

Self-training finds counterparts. Who has a firm one is hardly that of an entity without: of one
that arrives later, above all. So that every matcher, index and file knows of it, it is said in the
vectors: an angle, by which an entity without a counterpart is opposite to one with a sure one.
"""

from __future__ import annotations

import torch
from torch import Tensor

WIDTH = 2


def tell_counterparts(vectors: Tensor, sureness: Tensor, weight: float) -> Tensor:
    """Write the last two coordinates of vectors, in place; the others get shorter by as much.

    The cosine of two entities becomes (1 - weight) · cos + weight · cos(a - b), where an angle is
    0 for a sure counterpart and π for none: alike adds ``weight``, opposite takes it away.

    Args:
        vectors: [n, d + 2]; the first d are of length 1, or 0 where nothing tells of an entity.
        sureness: [n], between 0 (none) and 1.
    """
    own, told = vectors[:, :-WIDTH], vectors[:, -WIDTH:]
    there = own.any(1)
    cosine = torch.where(there, 2 * sureness - 1, 0)
    sine = torch.where(there, 2 * (sureness * (1 - sureness)).clamp(min=0).sqrt(), 0)
    told[:, 0], told[:, 1] = cosine, sine
    told *= weight**0.5
    own *= (1 - weight) ** 0.5
    return vectors
