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

from decentrl.graph.adjacency import Adjacency, Ids
from decentrl.graph.hops import two_hop_neighbours
from decentrl.graph.merged import MergedGraph
from decentrl.graph.view import counterpart_triples, entities_of

Floats = NDArray[np.float64]

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
        near, values = _near(triples, n, graph.n_relations)
        if not functional:
            values = np.ones_like(values)
        far = near.keep_edges(near.indptr[:0])
        if two_hop:
            far, own = two_hop_neighbours((left, right), n), torch.arange(n)
            ends = torch.cat((far.rows, own)), torch.cat((far.columns, own))
            far = Adjacency.from_pairs(*ends, n, n)
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


def functionality(triples: Ids, n_relations: int) -> list[Floats]:
    """Functionality and inverse functionality of each relation, float64[n_relations] each.

    Number of distinct heads (tails) / number of triples; 1 for a relation without triples.
    """
    counts = np.bincount(triples[:, 1], minlength=n_relations)
    found = []
    for end in (0, 2):
        relations = np.unique(triples[:, [1, end]], axis=0)[:, 0]
        share = np.bincount(relations, minlength=n_relations) / np.maximum(counts, 1)
        found.append(np.where(counts > 0, share, 1.0))
    return found


def _near(triples: Ids, n: int, n_relations: int) -> tuple[Adjacency, Floats]:
    """One-hop neighbours and the entity itself, with GCN-Align's weights by functionality.

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
    rows: Ids, columns: Ids, values: Floats, shape: tuple[int, int]
) -> tuple[Adjacency, Floats]:
    """A graph with one value per edge; values of parallel edges are summed."""
    codes, which = np.unique(rows * shape[1] + columns, return_inverse=True)
    graph = Adjacency.from_pairs(codes // shape[1], codes % shape[1], *shape)
    return graph, np.asarray(np.bincount(which.reshape(-1), values, len(codes)), np.float64)


def _normalised(graph: Adjacency, values: Floats) -> Floats:
    """Symmetrically normalised values, D^-½ A D^-½, where D holds the sums of rows."""
    rows, columns = graph.rows.numpy(), graph.columns.numpy()
    scale = np.bincount(rows, values, graph.n_rows) ** -0.5
    result: Floats = values * scale[rows] * scale[columns]
    return result


def _floats(values: Floats) -> Tensor:
    return torch.from_numpy(values).float()
