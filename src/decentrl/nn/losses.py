"""Alignment losses: linked entities near each other, others apart."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from decentrl.graph.adjacency import Adjacency
from decentrl.nn.aggregate import edge_dots, take

_CELLS = 1 << 25  # of the comparison of links and others, in memory at once


def joined_dots(parts: Sequence[Tensor], pairs: Adjacency, constant_length: bool = False) -> Tensor:
    """Dot products of joined vectors, one a pair, without making the joined vectors.

    An entity's vector is its parts, each of length 1, concatenated and scaled to length 1 again;
    a part of length 0 stays 0. So a dot product is a mean of the parts' cosines.

    Args:
        parts: [n_entities, d] each, not normalised.
        pairs: n_entities × n_entities.
        constant_length: the parts' lengths do not depend on any parameter (they come from a layer
            normalisation), so no gradient has to flow through them.
    Returns:
        [n_pairs].
    """
    total: Tensor | float = 0.0
    present = torch.zeros(len(parts[0]), dtype=parts[0].dtype, device=parts[0].device)
    for part in parts:
        length = torch.linalg.vector_norm(part.detach() if constant_length else part, dim=-1)
        inverse = 1 / length.clamp(min=1e-12)
        dots = edge_dots(part, part, pairs)
        total = total + dots * take(inverse, pairs.rows) * take(inverse, pairs.columns)
        present = present + (length.detach() > 0)
    scale = present.clamp(min=1).rsqrt()
    return total * scale[pairs.rows] * scale[pairs.columns]


def contrastive_alignment_loss(
    near: Tensor, far: Tensor, *, margin: float = 1.5, weight: float = 0.1
) -> Tensor:
    r"""Linked pairs together, sampled pairs at least a margin apart.

    .. math::
        L = \sum_{(i,j) \in S^+} \|g_i - g_j\|^2 +
            \alpha \sum_{(i',j') \in S^-} [\lambda - \|g_{i'} - g_{j'}\|^2]_+

    The distances are squared, as in the authors' code.

    Args:
        near: dot products of the two vectors of each training link, which have length 1, so that
            ‖a - b‖² = 2 - 2 a·b.
        far: the same of sampled pairs.
        margin: λ.
        weight: α.
    """
    pull, push = (2 - 2 * near).sum(), F.relu(margin - (2 - 2 * far)).sum()
    return pull + weight * push


def hard_sample_loss(
    left: Tensor,
    right: Tensor,
    others: Tensor,
    own: Tensor,
    scale: float = 30.0,
    hardest: int = 64,
) -> Tensor:
    r"""Linked entities nearer to each other than to other entities, weighing the nearest most.

    .. math::
        \ell_j = \|l - r\|^2 - \|l - j\|^2, \quad
        z = \frac{\ell - \mathrm{mean}(\ell)}{\mathrm{std}(\ell)}, \quad
        L = \log \sum_j \exp(s z_j)

    and the same from r; mean over the links. Mean and deviation are those of the row and carry no
    gradient. So only the hardest others have any to speak of, and the sum runs over these: the
    rest is compared once, without a backward pass.

    Args:
        left, right: vectors of linked entities, [b, d] each.
        others: vectors of other entities, the negatives, [m, d].
        own: bool[b, m], where an other is one of the link's own two entities; these do not count.
        scale: s, how much harder ones count more.
        hardest: how many others of each row make the sum.
    """
    near = (left - right).square().sum(-1)
    lengths = others.square().sum(-1)
    step = max(1, _CELLS // max(1, len(others)))
    total = near.new_zeros(())
    for side in (left, right):
        rows = [
            _hardest(side[i], near[i], others, lengths, own[i], scale, hardest)
            for i in (slice(start, start + step) for start in range(0, len(side), step))
        ]
        total = total + torch.cat(rows).mean() if rows else total
    return total


def _hardest(
    side: Tensor,
    near: Tensor,
    others: Tensor,
    lengths: Tensor,
    own: Tensor,
    scale: float,
    hardest: int,
) -> Tensor:
    """log Σ exp(s z) of one side of some links, over the hardest others: [b]."""
    mine = own.nonzero(as_tuple=True)
    counted = len(others) - torch.bincount(mine[0], minlength=len(own))
    counted = counted.to(near.dtype).clamp(min=1)
    apart = near - side.square().sum(-1)
    with torch.no_grad():
        # ℓ without what is constant along a row, which leaves z alone.
        margins = torch.addmm(-lengths, side, others.t(), alpha=2)
        margins[mine] = 0
        mean = margins.sum(1) / counted
        margins -= mean[:, None]
        margins[mine] = 0
        deviation = torch.linalg.vector_norm(margins, dim=1) / counted.sqrt()
        deviation.clamp_(min=1e-6)
        margins[mine] = -torch.inf
        columns = highest_columns(margins, min(hardest, len(others)))
    dots = edge_dots(side, others, Adjacency.regular(columns, len(others))).view_as(columns)
    z = 2 * dots - take(lengths, columns) + (apart - apart.detach() - mean)[:, None]
    z = (z * (scale / deviation)[:, None]).masked_fill(own.gather(1, columns), -torch.inf)
    # A row without others, in a tiny graph, has nothing to learn from.
    found: Tensor = z.logsumexp(1).nan_to_num(neginf=0.0)
    return found


def highest_columns(scores: Tensor, k: int) -> Tensor:
    """The columns of the k highest scores of every row, [n, m] → int64[n, k], ascending."""
    n, m = scores.shape
    if scores.device.type == "cpu" and 0 < k < m and n * m >= 1 << 20:
        # NumPy finds the k-th highest in a quarter of the time that torch takes.
        with ThreadPoolExecutor(torch.get_num_threads()) as pool:
            parts = pool.map(
                lambda part: np.partition(part.numpy(), m - k)[:, m - k], scores.chunk(2)
            )
            least = torch.from_numpy(np.concatenate(list(parts)))
        columns = (scores >= least[:, None]).nonzero()[:, 1]
        if len(columns) == n * k:  # otherwise some scores are the same
            return columns.view(n, k)
    return scores.topk(k, sorted=False).indices.sort(1).values


def join(parts: list[Tensor], constant_length: bool = False) -> Tensor:
    """Normalise each part, concatenate, normalise again: [n, d] each → [n, parts · d].

    With ``constant_length`` every row of every part has the length √d already (or is 0), and one
    multiplication does all of it.
    """
    if constant_length:
        scale: float = (len(parts) * parts[0].shape[-1]) ** -0.5
        return torch.cat(parts, -1) * scale
    return F.normalize(torch.cat([F.normalize(part, dim=-1) for part in parts], -1), dim=-1)
