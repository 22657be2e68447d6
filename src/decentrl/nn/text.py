"""Vectors of names: hashed n-grams, weighted by rarity, and a map from one language to another.

Nothing here is trained by gradients, and nothing has to be fetched.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from decentrl.graph.adjacency import Adjacency
from decentrl.graph.texts import TextRows
from decentrl.nn.aggregate import segment_sum, weighted_sum

RIDGE = 0.5
"""Penalty of the map between two languages."""
MOST_LINKS = 5000
"""Links that the map is learned from, at most."""
MISSING = 0.2
"""Cosine of two names where one is missing: more than that of most wrong ones, less than right."""
_COLUMNS = 128  # of a product that are made at once
_ROWS = 2**14  # of random signs that are made at once


def missing_names(named: Tensor, *, left: bool) -> tuple[Tensor, Tensor]:
    r"""What makes a pair of names of which one is missing have the cosine MISSING = m, nearly.

    Two more numbers stand behind a name's vector of length 1, times s = 1/√(1 + m²):
    s · (0, m) on the left and s · (m, 0) on the right. Without a name they are (1, 0) on the left
    and s · (m, 1) on the right. All have length 1; the product of a left and a right one is
    s² · cosine if both have names, and s² · m or s · m otherwise.

    Args:
        named: bool[n].

    Returns:
        Factors of the vectors of names, [n], and the two numbers, [n, 2].
    """
    scale = (1 + MISSING**2) ** -0.5
    there, gone = named.float(), 1 - named.float()
    if left:
        beside = torch.stack((gone, there * (MISSING * scale)), 1)
    else:
        beside = torch.stack((torch.full_like(there, MISSING * scale), gone * scale), 1)
    return there * scale, beside


def rarity(rows: TextRows, n_buckets: int) -> Tensor:
    r"""How rare each n-gram is among entities with a name: 1 + log((1 + n) / (1 + n_b)).

    Returns:
        float32[n_buckets]; an n-gram that no entity has counts like one that only one has.
    """
    found = torch.from_numpy(np.bincount(rows.buckets, minlength=n_buckets)).float()
    n = int(rows.named().sum())
    return 1 + torch.log((1 + n) / (1 + found.clamp(min=1)))


def shared_rarity(left: TextRows, right: TextRows, n_buckets: int) -> Tensor:
    """:func:`rarity` over two graphs; 0 for n-grams that only one of them has.

    No counterpart that is there has these, and they would only shorten the others' weights.
    """
    both = rarity(TextRows.joined((left, right)), n_buckets)
    there = [
        torch.from_numpy(np.bincount(side.buckets, minlength=n_buckets)) > 0
        for side in (left, right)
    ]
    return both.where(there[0] == there[1], 0.0)


@dataclass(frozen=True, eq=False)
class Weighted:
    r"""Rows of weighted n-grams, each of length 1: norm((1 + log c) · rare).

    Attributes:
        buckets: int64[k], the n-grams that occur and have a weight.
        graph: rows ← places in ``buckets``.
        weights: [n_edges].
        lengths: of the rows before, [n]: how much they say.
    """

    buckets: Tensor
    graph: Adjacency
    weights: Tensor
    lengths: Tensor

    @classmethod
    def of(cls, rows: TextRows, rare: Tensor) -> Weighted:
        """Weigh rows by ``rare``, [n_buckets], on the device to work on."""
        device = rare.device
        owners = np.repeat(np.arange(len(rows)), np.diff(rows.indptr))
        kept = rare.cpu().numpy()[rows.buckets] > 0
        used, places = np.unique(rows.buckets[kept], return_inverse=True)
        buckets = torch.from_numpy(used).to(device)
        graph = Adjacency.from_sorted(
            torch.from_numpy(owners[kept]).to(device),
            torch.from_numpy(places.reshape(-1)).to(device),
            len(rows),
            len(used),
        )
        weights = 1 + torch.from_numpy(rows.counts[kept]).to(device).log()
        weights = weights * rare[buckets][graph.columns]
        lengths = segment_sum(weights.square(), graph).sqrt()
        return cls(buckets, graph, weights / lengths[graph.rows], lengths)

    @cached_property
    def transposed(self) -> tuple[Adjacency, Tensor]:
        """The same edges, n-grams ← rows, and their weights."""
        columns, order = self.graph.columns.sort(stable=True)
        rows = self.graph.rows[order]
        graph = Adjacency.from_sorted(columns, rows, len(self.buckets), self.graph.n_rows)
        return graph, self.weights[order]

    def only(self, buckets: Tensor) -> Weighted:
        """The same rows with the weights that they have, of these n-grams alone."""
        kept = torch.isin(self.buckets, buckets)
        edges = kept[self.graph.columns].nonzero()[:, 0]
        places = kept.cumsum(0) - 1
        graph = self.graph.keep_edges(edges)
        graph = Adjacency(graph.indptr, places[graph.columns], graph.rows, int(kept.sum()))
        return Weighted(self.buckets[kept], graph, self.weights[edges], self.lengths)

    def spread(self, buckets: Tensor, values: Tensor) -> Tensor:
        """Values of this object's own n-grams, [k, d], for other n-grams; 0 where it has none."""
        out = values.new_zeros(len(buckets), values.shape[1])
        if len(self.buckets):
            places = torch.searchsorted(self.buckets, buckets).clamp(max=len(self.buckets) - 1)
            known = self.buckets[places] == buckets
            out[known] = values[places[known]]
        return out

    def times(self, values: Tensor) -> Tensor:
        """Σ over a row's n-grams of weight · values[n-gram], [k, d] → [n, d]."""
        return weighted_sum(self.weights, values, self.graph)


def name_vectors(rows: Weighted, width: int) -> Tensor:
    r"""Random projections of the n-grams of names, [n, width], of length 1 (0 without a name).

    .. math::
        t_i = \mathrm{norm}\Big(\sum_b w_{ib} P_b\Big)

    P_b are random signs, a hash of b. So cosines are those of the n-grams themselves, give or take
    :math:`1 / \sqrt{\mathrm{width}}`.
    """
    out = torch.empty(rows.graph.n_rows, width, device=rows.weights.device)
    for start in range(0, width, _COLUMNS):
        stop = min(start + _COLUMNS, width)
        out[:, start:stop] = rows.times(_signs(rows.buckets, start, stop))
    return F.normalize(out, dim=-1)


def _signs(buckets: Tensor, start: int, stop: int) -> Tensor:
    """Columns of a random matrix of -1 and 1 that is the same everywhere, [k, stop - start]."""
    columns = torch.arange(start, stop, device=buckets.device) * 0x1B873593 + 0x3C6EF372FE94F82A
    signs = torch.empty(len(buckets), stop - start, device=buckets.device)
    for some, out in zip(torch.split(buckets, _ROWS), torch.split(signs, _ROWS), strict=True):
        code = some[:, None] * 0x2545F4914F6CDD1D + columns
        for factor in (0x14057B7EF767814F, 0x5851F42D4C957F2D):
            code = (code ^ (code >> 29)) * factor
        out.copy_(1 - 2 * ((code >> 40) & 1))
    return signs


def learn_translation(linked: Weighted, targets: Tensor) -> Tensor:
    r"""Coefficients of kernel ridge regression from left names to right vectors, [k, width].

    .. math::
        C = (K + \lambda I)^{-1} Y, \quad K = X X^\top

    X are the left names of the links as rows of n-grams, Y the vectors of their right names. The
    vector that a left name x is mapped to is then :math:`x X^\top C`: every n-gram has a
    translation, a row of :math:`X^\top C`.

    Args:
        linked: X.
        targets: Y, [k, width].
    """
    n = linked.graph.n_rows
    kernel = torch.empty(n, n, dtype=torch.float64, device=targets.device)
    eye = torch.zeros(n, _COLUMNS, device=targets.device)
    graph, weights = linked.transposed
    for start in range(0, n, _COLUMNS):
        stop = min(start + _COLUMNS, n)
        eye.zero_()
        eye[torch.arange(start, stop), torch.arange(stop - start)] = 1
        kernel[:, start:stop] = linked.times(weighted_sum(weights, eye, graph))[:, : stop - start]
    kernel.diagonal().add_(RIDGE)
    return torch.cholesky_solve(targets.double(), torch.linalg.cholesky(kernel)).float()


def translated(rows: Weighted, linked: Weighted, coefficients: Tensor) -> Tensor:
    """Names mapped by :func:`learn_translation`, [n, width], of length 1 (0 where unknown)."""
    out = torch.empty(rows.graph.n_rows, coefficients.shape[1], device=coefficients.device)
    linked = linked.only(rows.buckets)  # few names have few n-grams
    graph, weights = linked.transposed
    for start in range(0, out.shape[1], _COLUMNS):
        part = coefficients[:, start : start + _COLUMNS].contiguous()
        translations = linked.spread(rows.buckets, weighted_sum(weights, part, graph))
        out[:, start : start + _COLUMNS] = rows.times(translations)
    return F.normalize(out, dim=-1)
