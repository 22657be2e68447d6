"""Names in training: how much they weigh, and links to start from where none is known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import numpy as np
import torch
from torch import Tensor

from decentrl.config import Config
from decentrl.graph.adjacency import Ids
from decentrl.matching.assignment import mutual_nearest
from decentrl.matching.clustered import nearest_pairs
from decentrl.nn.text import missing_names
from decentrl.training.unlinked import Unlinked

WEIGHTS = tuple(x / 10 for x in range(9))
TRANSLATIONS = 0.0, 0.25, 0.5, 0.75, 1.0
SURE, TRUSTED = 0.8, 0.5
"""Sinkhorn mass of a pair that structure is sure of; what names weigh at most, less their doubt."""
ITERATIONS, MOST_SURE = 10, 2000
"""Of that Sinkhorn, enough for sure pairs; and how many of these are compared with names."""
ALIKE, MARGIN = 0.7, 0.1
"""Cosine of two names that may be the same, and by how much it must beat all others of either."""
_AT_ONCE = 2**23  # scores of held-out links and candidates


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
        names: vectors of names as they are and translated, [n, d]; the right side's are the same.
    """
    direct, translated = names
    settings, temperature = config.names, config.matching.temperature
    weights = WEIGHTS if settings.weight < 0 else (settings.weight,)
    shares = TRANSLATIONS if settings.translation < 0 else (settings.translation,)
    options = [(w, share) for w, share in product(weights, shares) if w or share == shares[0]]
    lengths = {share: ((1 - share) * direct + share * translated).norm(dim=1) for share in shares}
    known = others.square().sum(1)  # less than 1 where one of the other views has no vector
    missing = {share: _missing(lengths[share] > 0, known > 0, unlinked) for share in shares}
    likelihood = [0.0] * len(options)
    for ends, there, truths, (own, theirs) in _asked(names, unlinked, valid):
        other = others[ends] @ others[there].t()
        plain, mapped = direct[ends] @ direct[there].t(), own[ends] @ theirs[there].t()
        places = torch.arange(len(ends), device=other.device)
        for i, (weight, share) in enumerate(options):
            # As FusedViews does it.
            length, (factors, beside) = lengths[share].clamp(min=1e-12), missing[share]
            some = (factors > 0) | beside.any(1)
            whole = (weight * some + (1 - weight) * known).sqrt().clamp(min=1e-12)
            scores = ((1 - share) * plain).add_(mapped, alpha=share)
            scores.mul_((factors / length)[ends, None]).mul_((factors / length)[there])
            scores.addmm_(beside[ends], beside[there].t())
            scores.mul_(weight).add_(other, alpha=1 - weight)
            scores.div_(whole[ends, None] * temperature).div_(whole[there])
            likelihood[i] += scores.log_softmax(1)[places, truths].double().sum().item()
    weight, share = options[likelihood.index(max(likelihood))]
    return replace(config, names=replace(settings, weight=weight, translation=share))


def _missing(named: Tensor, known: Tensor, unlinked: Unlinked) -> tuple[Tensor, Tensor]:
    """:func:`missing_names` of all entities that another view knows; others are as they are."""
    factors, beside = named.float(), torch.zeros(len(named), 2, device=named.device)
    for side, left in ((unlinked.left, True), (unlinked.right, False)):
        ids = torch.from_numpy(side).to(named.device)
        ids = ids[known[ids]]
        factors[ids], beside[ids] = missing_names(named[ids], left=left)
    return factors, beside


def doubted_names(config: Config, names: Tensor, unlinked: Unlinked, sure: Ids) -> Config:
    """The settings with a smaller weight of names if these contradict pairs that are surely links.

    The doubt is by how much the name nearest to a left end is nearer than that of its right end,
    on average over all pairs.

    Args:
        names: vectors of names, [n, d]; all ends of pairs have one.
        sure: pairs that are links by structure alone, int64[k, 2], k > 0.
    """
    left, right = torch.from_numpy(sure).to(names.device).unbind(1)
    there = names[torch.from_numpy(unlinked.right).to(names.device)]
    doubt = 0.0
    for rows, columns in zip(
        *(torch.split(x, max(1, _AT_ONCE // len(there))) for x in (left, right)), strict=True
    ):
        own = (names[rows] * names[columns]).sum(1)
        doubt += ((names[rows] @ there.t()).amax(1) - own).sum().item() / len(sure)
    weight = max(0.0, min(config.names.weight, TRUSTED - doubt))
    return replace(config, names=replace(config.names, weight=weight))


def _asked(
    names: tuple[Tensor, Tensor], unlinked: Unlinked, valid: Ids
) -> Iterator[tuple[Tensor, Tensor, Tensor, tuple[Tensor, Tensor]]]:
    """Ends of some links, all candidates, which of these are right, and names of both to compare.

    First left ends, then right ones; the names are those with the left side's translated.
    """
    direct, translated = names
    left, right = (torch.from_numpy(x).to(direct.device) for x in (unlinked.left, unlinked.right))
    rows, columns = unlinked.places(valid, direct.device)
    for ends, there, truths, compared in (
        (left[rows], right, columns, (translated, direct)),
        (right[columns], left, rows, (direct, translated)),
    ):
        size = max(1, _AT_ONCE // len(there))
        for some, right_ones in zip(
            torch.split(ends, size), torch.split(truths, size), strict=True
        ):
            yield some, there, right_ones, compared


def same_names(vectors: Tensor, pool: Unlinked) -> Ids:
    """Pairs of entities whose names are alike, and like no other: int64[n, 2], sorted.

    Each must be the other's nearest, and nearer than the second by a margin on both sides.
    """
    if not len(pool.left) or not len(pool.right):
        return np.empty((0, 2), np.int64)
    pairs = nearest_pairs(pool.cosine(vectors), 2)
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
