"""The graph view of prediction's rivals: edges grouped by relation, and rules between relations."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property

import torch
from torch import Tensor

from decentrl.graph.adjacency import Adjacency, Ids, relation_bag
from decentrl.graph.relational import RelationalView
from decentrl.graph.view import entities_of, relations_of

CELLS = 2**24
"""Cells of an entities × relations table in memory at a time."""
RAREST = 0.01
"""A relation that others imply less often than this counts as implied so often."""


@dataclass(frozen=True, eq=False)
class BaselineView(RelationalView):
    """A relational view without the relations unseen in training, and with groups of edges.

    Edges of one entity by one relation share a group, which is an edge of ``around`` (entity ←
    relation). ``messages`` has the edges ordered by direction: row i gets the messages to i as the
    head of a triple, row n_entities + i those to i as its tail, and columns are the pairs of
    neighbour and relation, ``edges.pairs``.
    """

    around: Adjacency
    groups: Tensor  # int64[n_edges]
    messages: Adjacency
    message_edges: Tensor  # int64[n_edges]: which edge a message is
    trained_on: Ids

    @classmethod
    def of(
        cls,
        triples: Ids,
        trained_on: Ids,
        n_entities: int,
        n_relations: int,
        device: torch.device | str = "cpu",
    ) -> BaselineView:
        """The view of ``triples`` after a training on ``trained_on``, int64[n, 3] each."""
        trained = relations_of(trained_on, n_relations)
        plain = RelationalView.build(
            triples[trained[triples[:, 1]]],
            n_entities,
            n_relations,
            seen=entities_of(trained_on, n_entities),
            seen_relations=trained,
            device=device,
        )
        edges, n = plain.edges, 2 * n_relations
        relations = edges.relations.columns
        pairs, groups = torch.unique(edges.nodes.rows * n + relations, return_inverse=True)
        rows = edges.nodes.rows + n_entities * (relations >= n_relations)
        order = torch.argsort(rows, stable=True)
        columns, n_pairs = edges.edge_pair[order], edges.pairs.n_edges
        return cls(
            **{field.name: getattr(plain, field.name) for field in fields(plain)},
            around=Adjacency.from_sorted(pairs // n, pairs % n, n_entities, n),
            groups=groups,
            messages=Adjacency.from_sorted(rows[order], columns, 2 * n_entities, n_pairs),
            message_edges=order,
            trained_on=trained_on,
        )

    @cached_property
    def informative(self) -> Tensor:
        r"""How informative an edge's relation is of its entity: float32[n_edges].

        .. math::
            \frac{\mathrm{mean}_q P(r \Rightarrow q)}
            {\max_{r' \in R(i),\, r' \ne r} P(r' \Rightarrow r)}

        :math:`P(a \Rightarrow b)` is the share of the entities with a that have b too: a relation
        that implies what is asked for (q, by how many entities have it) is informative, one that
        another relation of the same entity implies adds nothing.
        """
        around, n = self.around, self.around.n_columns
        together = _implications(self.trained_on, around.n_rows, n // 2).to(self.groups.device)
        counts = together.diagonal()
        implies = together / counts.clamp(min=1)[:, None]
        implied = (implies @ counts) / counts.sum().clamp(min=1)
        rivals = implies.t().float().contiguous()
        rivals.fill_diagonal_(0)
        found, step = [counts.new_zeros(0)], max(1, CELLS // max(1, n))
        for start in range(0, around.n_edges, step):
            edges = slice(start, start + step)
            rows, own = around.rows[edges], around.columns[edges]
            first, last = int(rows[0]), int(rows[-1])
            there = _table(around, first, last + 1)
            highest = (there[rows - first] * rivals[own]).amax(1)
            # Without a second relation there is nothing to be implied by.
            highest = torch.where(highest > 0, highest.clamp(min=RAREST), 1.0)
            found.append(implied[own] / highest)
        return torch.cat(found).float()[self.groups]


def _implications(triples: Ids, n_entities: int, n_relations: int) -> Tensor:
    """How often relations stand together around an entity: float64[n, n].

    Cell (a, b) of the 2 · n_relations directed ones is the number of entities with both.
    """
    bag, n = relation_bag(triples, n_entities, n_relations), 2 * n_relations
    together = torch.zeros(n, n, dtype=torch.float64)
    step = max(1, CELLS // max(1, n))
    for start in range(0, n_entities, step):
        table = _table(bag, start, min(start + step, n_entities))
        together += (table.t() @ table).double()
    return together


def _table(graph: Adjacency, start: int, stop: int) -> Tensor:
    """Some rows written out, 1 where there is an edge: float32[stop - start, n_columns]."""
    table = torch.zeros(stop - start, graph.n_columns, device=graph.rows.device)
    inside = slice(int(graph.indptr[start]), int(graph.indptr[stop]))
    table[graph.rows[inside] - start, graph.columns[inside]] = 1
    return table
