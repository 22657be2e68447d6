"""Graph views with self-loops, for baseline networks such as GCN-Align.

Unlike in a decentralised network, an entity's own embedding takes part in its vector. Nothing is
masked: an entity not seen in training keeps the random input embedding that it started with.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from decentrl.graph.adjacency import Adjacency, Ids, neighbours
from decentrl.graph.hops import two_hop_neighbours
from decentrl.graph.merged import MergedGraph
from decentrl.graph.view import counterpart_triples, entities_of

LEAST = 0.3
"""Lower bound of functionality, as in GCN-Align: without it hubs would pass on almost nothing."""


@dataclass(frozen=True, eq=False)
class CentralisedView:
    """Neighbourhoods with self-loops, of two graphs in one id space.

    Attributes:
        near: one-hop neighbours and the entity itself.
        weights: weights of the edges of ``near``, normalised symmetrically.
        far: two-hop neighbours and the entity itself; no edges without ``two_hop``.
        triples: head ← tail, one edge per triple.
        shares: 1 / number of triples of the relation, for each edge of ``triples``.
        offsets: relation ← entity, two edges per triple, to its head and its tail.
        signed: share of the triple for each edge of ``offsets``; negative for tails.
        seen: bool[n_entities], whether an entity has a triple in the training graph.
    """

    near: Adjacency
    weights: Tensor
    far: Adjacency
    triples: Adjacency
    shares: Tensor
    offsets: Adjacency
    signed: Tensor
    seen: Tensor

    @classmethod
    def build(
        cls,
        graph: MergedGraph,
        *,
        functional: bool = False,
        two_hop: bool = False,
        counterparts: bool = False,
        trained_on: MergedGraph | None = None,
    ) -> CentralisedView:
        """Build the view of a merged graph.

        Args:
            functional: weight neighbours by the functionality of their relations (GCN-Align).
            two_hop: fill ``far``.
            counterparts: copy triples between two linked entities to the other graph.
            trained_on: the graph of training, if this one has grown since.
        """
        n, left, right = graph.n_entities, graph.left, graph.right
        if counterparts:
            left, right = counterpart_triples(left, right, graph.links)
        triples = np.concatenate((left, right))
        if functional:
            near, values = _functional(triples, n, graph.n_relations)
        else:
            near = _with_self_loops(neighbours(triples, n))
            values = np.ones(near.n_edges)
        none = np.empty(0, np.int64)
        far = Adjacency.from_pairs(none, none, n, n)
        if two_hop:
            far = _with_self_loops(two_hop_neighbours((left, right), n))
        h, r, t = triples[np.lexsort((triples[:, 2], triples[:, 0]))].T
        shares = 1 / np.bincount(r, minlength=graph.n_relations)[r]
        offsets, signed = _valued(
            np.concatenate((r, r)),
            np.concatenate((h, t)),
            np.concatenate((shares, -shares)),
            (graph.n_relations, n),
        )
        return cls(
            near,
            _floats(_normalised(near, values)),
            far,
            Adjacency.from_pairs(h, t, n, n),
            _floats(shares),
            offsets,
            _floats(signed),
            torch.from_numpy(entities_of((trained_on or graph).triples(), n)),
        )

    def to(self, device: torch.device | str) -> CentralisedView:
        return CentralisedView(*(getattr(self, f.name).to(device) for f in fields(self)))


def functionality(
    triples: Ids, n_relations: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Functionality and inverse functionality of each relation, float64[n_relations] each.

    Number of distinct heads (tails) / number of triples; 1 for a relation without triples.
    """
    r = triples[:, 1]
    counts = np.bincount(r, minlength=n_relations)

    def share(ends: Ids) -> NDArray[np.float64]:
        distinct = np.unique(np.stack((r, ends), 1), axis=0)[:, 0]
        found = np.bincount(distinct, minlength=n_relations) / np.maximum(counts, 1)
        return np.where(counts > 0, found, 1.0)

    return share(triples[:, 0]), share(triples[:, 2])


def _functional(triples: Ids, n: int, n_relations: int) -> tuple[Adjacency, NDArray[np.float64]]:
    """GCN-Align's adjacency matrix, weighted by functionality.

    a_ij = Σ of ifun(r) over triples (i, r, j) + Σ of fun(r) over triples (j, r, i); a_ii = 1.
    """
    fun, ifun = (np.maximum(LEAST, kind) for kind in functionality(triples, n_relations))
    h, r, t = triples[triples[:, 0] != triples[:, 2]].T
    own = np.arange(n)
    return _valued(
        np.concatenate((h, t, own)),
        np.concatenate((t, h, own)),
        np.concatenate((ifun[r], fun[r], np.ones(n))),
        (n, n),
    )


def _valued(
    rows: Ids, columns: Ids, values: NDArray[np.float64], shape: tuple[int, int]
) -> tuple[Adjacency, NDArray[np.float64]]:
    """A graph with one value per edge; values of parallel edges are summed."""
    codes, which = np.unique(rows * shape[1] + columns, return_inverse=True)
    graph = Adjacency.from_pairs(codes // shape[1], codes % shape[1], *shape)
    total = np.bincount(which.reshape(-1), weights=values, minlength=len(codes))
    return graph, np.asarray(total, np.float64)


def _normalised(graph: Adjacency, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Symmetrically normalised values, D^-½ A D^-½, where D holds the sums of rows."""
    rows, columns = graph.rows.numpy(), graph.columns.numpy()
    scale = np.bincount(rows, values, graph.n_rows) ** -0.5
    result: NDArray[np.float64] = values * scale[rows] * scale[columns]
    return result


def _with_self_loops(graph: Adjacency) -> Adjacency:
    own = np.arange(graph.n_rows)
    rows = np.concatenate((graph.rows.numpy(), own))
    columns = np.concatenate((graph.columns.numpy(), own))
    return Adjacency.from_pairs(rows, columns, graph.n_rows, graph.n_columns)


def _floats(values: NDArray[np.float64]) -> Tensor:
    return torch.from_numpy(values).float()
