"""Names in training: how much they weigh, and links to start from where none is known."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import torch
from torch import Tensor

from decentrl.config import Config
from decentrl.graph.adjacency import Ids
from decentrl.matching.assignment import mutual_nearest
from decentrl.matching.sparse import top_pairs
from decentrl.training.unlinked import Unlinked

WEIGHTS = tuple(x / 10 for x in range(9))
TRANSLATIONS = 0.0, 0.25, 0.5, 0.75, 1.0
ALIKE, MARGIN = 0.7, 0.1
"""Cosine of two names that may be the same, and by how much it must beat all others of either."""


def settled_names(config: Config, there: bool) -> Config:
    """The settings without a weight still to be chosen: the usual ones, or 0 without names."""
    names = config.names
    if not there:
        chosen = max(0.0, names.weight), max(0.0, names.translation)
    else:
        weight, share = names.USUAL
        chosen = (
            weight if names.weight < 0 else names.weight,
            share if names.translation < 0 else names.translation,
        )
    return replace(config, names=replace(names, weight=chosen[0], translation=chosen[1]))


def best_name_weights(
    config: Config,
    others: Tensor,
    names: tuple[Tensor, Tensor],
    unlinked: Unlinked,
    valid: Ids,
) -> Config:
    """The weights under which held-out links are likeliest among all unlinked entities.

    The likelihood of a link is the softmax of its ends' scores over the temperature of Sinkhorn,
    from the left end and from the right one. Weights that the settings give stay as they are.

    Args:
        others: vectors of all entities by the other views, [n, d].
        names: vectors of names as they are and translated; the right side's are the same in both.
    """
    direct, translated = names
    left, right = (torch.from_numpy(x).to(others.device) for x in (unlinked.left, unlinked.right))
    rows, columns = unlinked.places(valid, others.device)
    each = torch.arange(len(valid), device=others.device)
    ends = (left[rows], right, 1, each, columns), (left, right[columns], 0, rows, each)
    pairs = (others, others), (direct, direct), (translated, direct)
    questions: list[Any] = [
        (a, b, dim, i, j, *(x[a] @ y[b].t() for x, y in pairs)) for a, b, dim, i, j in ends
    ]
    named = direct.any(1)

    def likelihood(weight: float, share: float) -> float:
        length = ((1 - share) * direct + share * translated).norm(dim=1).clamp(min=1e-12)
        factor = torch.where(named, (1 - weight) ** 0.5, 1.0)
        total = 0.0
        for a, b, dim, i, j, other, plain, mapped in questions:
            scores = ((1 - share) * plain + share * mapped).div_(length[a, None]).mul_(weight)
            scores += other * factor[a, None] * factor[b]
            total += (scores / config.matching.temperature).log_softmax(dim)[i, j].mean().item()
        return total

    settings = config.names
    weights = WEIGHTS if settings.weight < 0 else (settings.weight,)
    shares = TRANSLATIONS if settings.translation < 0 else (settings.translation,)
    options = [(w, share) for w, share in product(weights, shares) if w or share == shares[0]]
    weight, share = max(options, key=lambda option: likelihood(*option))
    return replace(config, names=replace(settings, weight=weight, translation=share))


def same_names(vectors: Tensor, pool: Unlinked) -> Ids:
    """Pairs of entities whose names are alike, and like no other: int64[n, 2], sorted.

    Each must be the other's nearest, and nearer than the second by a margin on both sides.
    """
    if not len(pool.left) or not len(pool.right):
        return np.empty((0, 2), np.int64)
    pairs = top_pairs(pool.cosine(vectors), 2)
    columns = mutual_nearest(pairs).cpu()
    values, _ = (part.cpu() for part in pairs.best(2))
    others, _ = (part.cpu() for part in pairs.T.best(2))
    sure = (columns >= 0) & (values[:, 0] >= ALIKE)
    left = sure.nonzero()[:, 0]
    right = columns[left]
    first, second = values[left].clamp(min=0).unbind(1)
    rival = others[right, 1].clamp(min=0)
    margin = first - torch.maximum(second, rival)
    kept = (margin >= MARGIN).numpy()
    links = np.stack((pool.left[left.numpy()], pool.right[right.numpy()]), axis=1)[kept]
    found: Ids = links[links[:, 0].argsort()]
    return found
