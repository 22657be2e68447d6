"""What a relational encoder reads: every edge with its relation, in both directions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from decentrl.graph.adjacency import Adjacency, Ids, neighbours, relation_bag, unique_pairs
from decentrl.graph.view import entities_of


@dataclass(frozen=True, eq=False)
class RelationalEdges:
    """Edges i ←(r)– j of some rows; relation r seen from its tail is n_relations + r.

    ``nodes`` (i ← j) and ``relations`` (i ← r) list the same edges in the same order. Edges that
    share neighbour and relation share what is computed of the two: ``pairs`` (j ← r) are those
    that occur, ``edge_pair`` says which one an edge has. ``entities`` are the rows' entities, None
    if the rows are all entities.
    """

    nodes: Adjacency
    relations: Adjacency
    pairs: Adjacency
    edge_pair: Tensor  # int64[n_edges]
    entities: Tensor | None = None

    @classmethod
    def build(cls, triples: Ids, n_entities: int, n_relations: int) -> RelationalEdges:
        """Both directions of triples int64[n, 3], without those from an entity to itself."""
        rows, columns, kinds = directed_edges(triples, n_relations)
        apart = rows != columns
        rows, columns, kinds = rows[apart], columns[apart], kinds[apart]
        codes, edge_pair = np.unique(columns * (2 * n_relations) + kinds, return_inverse=True)
        pairs = codes // (2 * n_relations), codes % (2 * n_relations)
        return cls(
            nodes=Adjacency.from_sorted(rows, columns, n_entities, n_entities),
            relations=Adjacency.from_sorted(rows, kinds, n_entities, 2 * n_relations),
            pairs=Adjacency.from_sorted(*pairs, n_entities, 2 * n_relations),
            edge_pair=torch.from_numpy(edge_pair.reshape(-1)),
        )

    def of(self, entities: Tensor) -> RelationalEdges:
        """The edges of some entities, int64[k], in rows 0 … k - 1."""
        nodes, chosen = self.nodes.take_rows(entities)
        pairs, edge_pair = torch.unique(self.edge_pair[chosen], return_inverse=True)
        return RelationalEdges(
            nodes,
            self.relations.take_edges(chosen, nodes),
            self.pairs.keep_edges(pairs),
            edge_pair,
            entities,
        )

    def to(self, device: torch.device | str) -> RelationalEdges:
        return RelationalEdges(
            self.nodes.to(device),
            self.relations.to(device),
            self.pairs.to(device),
            self.edge_pair.to(device),
            None if self.entities is None else self.entities.to(device),
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
    ) -> RelationalView:
        """Make the view of triples int64[n, 3].

        Args:
            seen: entities that have a trained input embedding; default: those in ``triples``.
            seen_relations: relations that have one; default: all.
        """
        if seen is None:
            seen = entities_of(triples, n_entities)
        if seen_relations is None:
            seen_relations = np.ones(n_relations, bool)
        directions = np.concatenate((seen_relations, seen_relations))
        return cls(
            RelationalEdges.build(triples, n_entities, n_relations),
            first=neighbours(triples, n_entities).keep_columns(seen),
            bag=relation_bag(triples, n_entities, n_relations).keep_columns(directions),
            seen=torch.from_numpy(seen),
            seen_relations=torch.from_numpy(directions),
        )

    def to(self, device: torch.device | str) -> RelationalView:
        return RelationalView(
            self.edges.to(device),
            self.first.to(device),
            self.bag.to(device),
            self.seen.to(device),
            self.seen_relations.to(device),
        )


@dataclass(frozen=True, eq=False)
class PropagationView:
    """What seeds travel along: ``edges`` i ← j with their relation ``kinds``, int64[n_edges], and
    which entities are ``heads`` (relation ← entity) and ``tails`` (entity ← relation) of each
    directed relation."""

    edges: Adjacency
    kinds: Tensor
    heads: Adjacency
    tails: Adjacency

    @classmethod
    def build(cls, triples: Ids, n_entities: int, n_relations: int) -> PropagationView:
        """Make the view of triples int64[n, 3]."""
        rows, columns, kinds = directed_edges(triples, n_relations)
        heads = unique_pairs(kinds, rows, n_entities)
        tails = unique_pairs(columns, kinds, 2 * n_relations)
        return cls(
            edges=Adjacency.from_sorted(rows, columns, n_entities, n_entities),
            kinds=torch.from_numpy(kinds),
            heads=Adjacency.from_sorted(*heads, 2 * n_relations, n_entities),
            tails=Adjacency.from_sorted(*tails, n_entities, 2 * n_relations),
        )

    def to(self, device: torch.device | str) -> PropagationView:
        return PropagationView(
            self.edges.to(device),
            self.kinds.to(device),
            self.heads.to(device),
            self.tails.to(device),
        )


def directed_edges(triples: Ids, n_relations: int) -> tuple[Ids, Ids, Ids]:
    """Both directions of every triple as rows, columns, relations, sorted in that order."""
    heads, kinds, tails = triples.T
    rows, columns = np.concatenate((heads, tails)), np.concatenate((tails, heads))
    kinds = np.concatenate((kinds, kinds + n_relations))
    order = np.lexsort((kinds, columns, rows))
    return rows[order], columns[order], kinds[order]
