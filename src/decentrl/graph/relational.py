"""Views of a graph in which every edge has its relation, in both directions."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from decentrl.graph.adjacency import Adjacency, Ids
from decentrl.graph.view import entities_of


def directed_edges(
    triples: Ids, n_relations: int, device: torch.device | str
) -> tuple[Tensor, Tensor, Tensor]:
    """Rows, columns and directed relations of both directions of every triple, int64[n_edges] each.

    A triple (h, r, t) is the edges h ←(r)– t and t ←(n_relations + r)– h. They are sorted by row,
    column and relation.
    """
    heads, relations, tails = torch.from_numpy(triples).to(device).unbind(1)
    rows, columns = torch.cat((heads, tails)), torch.cat((tails, heads))
    directed = torch.cat((relations, relations + n_relations))
    order = torch.argsort(columns * (2 * n_relations) + directed, stable=True)
    order = order[torch.argsort(rows[order], stable=True)]
    return rows[order], columns[order], directed[order]


@dataclass(frozen=True, eq=False)
class RelationalEdges:
    """Edges i ←(r)– j of some rows; relation r seen from its tail is n_relations + r.

    ``nodes`` (i ← j) and ``relations`` (i ← r) list the same edges in the same order. Edges that
    share neighbour and relation share what is computed of the two: ``pairs`` (j ← r) are those
    that occur, ``edge_pair`` is the place of an edge's pair.
    """

    nodes: Adjacency
    relations: Adjacency
    pairs: Adjacency
    edge_pair: Tensor  # int64[n_edges]

    @classmethod
    def build(
        cls, rows: Tensor, columns: Tensor, relations: Tensor, n_entities: int, n: int
    ) -> RelationalEdges:
        """Those of :func:`directed_edges` but from an entity to itself; n directed relations."""
        apart = rows != columns
        rows, columns, relations = rows[apart], columns[apart], relations[apart]
        pairs, edge_pair = torch.unique(columns * n + relations, return_inverse=True)
        nodes = Adjacency.from_sorted(rows, columns, n_entities, n_entities)
        return cls(
            nodes,
            nodes.reading(relations, n),
            Adjacency.from_sorted(pairs // n, pairs % n, n_entities, n),
            edge_pair,
        )

    def of(self, entities: Tensor) -> RelationalEdges:
        """The edges of some entities, int64[k], in rows 0 … k - 1."""
        nodes, chosen = self.nodes.take_rows(entities)
        pairs, edge_pair = torch.unique(self.edge_pair[chosen], return_inverse=True)
        return RelationalEdges(
            nodes,
            nodes.reading(self.relations.columns[chosen], self.relations.n_columns),
            self.pairs.keep_edges(pairs),
            edge_pair,
        )


@dataclass(frozen=True, eq=False)
class RelationalView:
    """One or more graphs as a relational encoder reads them.

    ``first`` joins an entity to the distinct neighbours whose input embedding was trained, ``bag``
    to the distinct trained relations around it. An entity is never its own neighbour.
    """

    edges: RelationalEdges
    first: Adjacency
    bag: Adjacency
    seen: Tensor  # bool[n_entities]: has a triple in the training graph
    seen_relations: Tensor  # bool[2 · n_relations]

    @classmethod
    def build(
        cls,
        triples: Ids,
        n_entities: int,
        n_relations: int,
        *,
        seen: NDArray[np.bool_] | None = None,
        seen_relations: NDArray[np.bool_] | None = None,
        device: torch.device | str = "cpu",
    ) -> RelationalView:
        """Make the view of triples int64[n, 3] where it will be used.

        Args:
            seen: entities that have a trained input embedding; default: those in ``triples``.
            seen_relations: relations that have one; default: all.
        """
        if seen is None:
            seen = entities_of(triples, n_entities)
        if seen_relations is None:
            seen_relations = np.ones(n_relations, bool)
        trained = torch.from_numpy(seen).to(device)
        trained_relations = torch.from_numpy(seen_relations).to(device).repeat(2)
        rows, columns, relations = directed_edges(triples, n_relations, device)
        n, known = 2 * n_relations, trained_relations[relations]
        edges = RelationalEdges.build(rows, columns, relations, n_entities, n)
        return cls(
            edges,
            _distinct(edges.nodes, trained),
            Adjacency.from_pairs(rows[known], relations[known], n_entities, n, distinct=True),
            trained,
            trained_relations,
        )

    def reading(self, readable: Tensor) -> RelationalView:
        """The same view where ``first`` has the entities of a mask, bool[n_entities]."""
        return replace(self, first=_distinct(self.edges.nodes, readable))


def _distinct(nodes: Adjacency, readable: Tensor) -> Adjacency:
    """The distinct neighbours of every entity that may be read."""
    n, kept = nodes.n_rows, readable[nodes.columns]
    return Adjacency.from_pairs(nodes.rows[kept], nodes.columns[kept], n, n, distinct=True)


@dataclass(frozen=True, eq=False)
class PropagationView:
    """The graph that seed propagation reads.

    ``edges`` i ← j with their ``directed_relations``, int64[n_edges], and which entities are
    ``heads`` (relation ← entity) and ``tails`` (entity ← relation) of each directed relation.
    """

    edges: Adjacency
    directed_relations: Tensor
    heads: Adjacency
    tails: Adjacency

    @classmethod
    def build(
        cls, triples: Ids, n_entities: int, n_relations: int, device: torch.device | str = "cpu"
    ) -> PropagationView:
        """Make the view of triples int64[n, 3] where it will be used."""
        rows, columns, relations = directed_edges(triples, n_relations, device)
        n = 2 * n_relations
        return cls(
            Adjacency.from_sorted(rows, columns, n_entities, n_entities),
            relations,
            Adjacency.from_pairs(relations, rows, n, n_entities, distinct=True),
            Adjacency.from_pairs(columns, relations, n_entities, n, distinct=True),
        )
