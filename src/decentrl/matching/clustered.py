"""Nearest pairs of very many entities: only those of near clusters are compared.

All pairs of two times half a million entities are 250 billion products of vectors: hours on a few
cores. So the vectors of both sides are put into the same clusters, and an entity is compared with
the entities of the clusters nearest to it. Which are found is approximate; their cosines are exact.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import normalize

from decentrl.matching.similarity import Scores, dot_products
from decentrl.matching.sparse import SparseScores, top_pairs, union_of_pairs

MOST_EXACT = 2**31
"""Pairs up to which all are compared."""
PROBES = 8
"""Clusters that an entity is compared with."""
SIZE = 1024
"""Entities of a side in a cluster, on average."""
_ROUNDS, _SAMPLE = 5, 32  # of k-means; entities of each side for a cluster
_BLOCK = 1 << 22  # numbers in memory at once


def nearest_pairs(cosine: Scores, k: int, probes: int = PROBES) -> SparseScores:
    """The k best pairs of each row and of each column: all of them, or of very many nearly all."""
    n, m = cosine.shape
    if n * m <= MOST_EXACT or cosine.kept is not None:
        return top_pairs(cosine, k)
    return clustered_pairs(cosine, k, max(2, max(n, m) // SIZE), probes)


def clustered_pairs(cosine: Scores, k: int, clusters: int, probes: int) -> SparseScores:
    """The k best pairs of each row and column of cosines among those that near clusters hold.

    Args:
        clusters: how many, each with entities of both sides.
        probes: the clusters nearest to an entity that it is compared with.
    """
    left, right = cosine.left, cosine.right
    centres = _centres(left, right, min(clusters, len(left) + len(right)))
    near = [_nearest_centres(side, centres, min(probes, len(centres))) for side in (left, right)]
    values, columns = _search(left, right, near[0], near[1][:, 0], k)
    of_column_values, of_column = _search(right, left, near[1], near[0][:, 0], k)
    return union_of_pairs((values, columns), (of_column_values, of_column))


def _centres(left: Tensor, right: Tensor, count: int) -> Tensor:
    """Spherical k-means of a sample of both sides, [count, d]."""
    chance = torch.Generator().manual_seed(0)  # the same centres in any process
    sample = []
    for side in (left, right):
        chosen = torch.randperm(len(side), generator=chance)[: _SAMPLE * count]
        sample.append(side[chosen.to(side.device)])
    points = torch.cat(sample)
    first = torch.randperm(len(points), generator=chance)[:count]
    centres = points[first.to(points.device)].clone()
    for _ in range(_ROUNDS):
        own = _nearest_centres(points, centres, 1)[:, 0]
        order = own.argsort(stable=True)  # sums in one order have the same bits
        ends = torch.searchsorted(own[order], torch.arange(count + 1, device=own.device))
        sums = torch.segment_reduce(points[order], "sum", offsets=ends, axis=0)
        empty = ends[1:] == ends[:-1]
        centres = torch.where(empty[:, None], centres, normalize(sums))
    return centres


def _nearest_centres(side: Tensor, centres: Tensor, probes: int) -> Tensor:
    """The nearest centres of each entity, nearest first, int64[n, probes]."""
    found = torch.empty(len(side), probes, dtype=torch.int64, device=side.device)
    step = max(1, _BLOCK // len(centres))
    for start in range(0, len(side), step):
        some = slice(start, start + step)
        found[some] = torch.mm(side[some], centres.t()).topk(probes, dim=1).indices
    return found


def _search(
    rows: Tensor, columns: Tensor, near: Tensor, home: Tensor, k: int
) -> tuple[Tensor, Tensor]:
    """The k best columns of each row among those at home in a cluster near to it.

    Returns:
        values float[n, k], padded with -inf; columns int64[n, k], padded with -1.
    """
    values = rows.new_full((len(rows), k), -torch.inf)
    found = torch.full((len(rows), k), -1, device=rows.device)
    members = home.argsort(stable=True)
    ends = torch.searchsorted(
        home[members], torch.arange(int(near.max()) + 2, device=home.device)
    ).tolist()
    askers = near.flatten().argsort(stable=True)
    starts = torch.searchsorted(
        near.flatten()[askers], torch.arange(len(ends), device=home.device)
    ).tolist()
    askers = askers // near.shape[1]
    for cluster in range(len(ends) - 1):
        theirs = members[ends[cluster] : ends[cluster + 1]]
        mine = askers[starts[cluster] : starts[cluster + 1]]
        if not len(theirs):
            continue
        there = columns[theirs]
        for some in torch.split(mine, max(1, _BLOCK // len(theirs))):
            out = rows.new_empty(len(some), len(theirs))
            block = dot_products(rows[some], there, out)
            best, places = block.topk(min(k, len(theirs)), dim=1)
            best = torch.cat((values[some], best), dim=1)
            ids = torch.cat((found[some], theirs[places]), dim=1)
            values[some], order = best.topk(k, dim=1)
            found[some] = ids.gather(1, order)
    return values, found
