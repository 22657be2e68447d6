"""The graph view of prediction's rivals: edges grouped by relation, and rules between relations."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from decentrl.graph.adjacency import Adjacency, Ids
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
        edges, n_directed = plain.edges, 2 * n_relations
        codes = edges.relations.rows * n_directed + edges.relations.columns
        pairs, groups = torch.unique(codes, return_inverse=True)
        rows = edges.nodes.rows + n_entities * (edges.relations.columns >= n_relations)
        order = torch.argsort(rows, stable=True)
        messages = Adjacency.with_transpose(
            rows[order], edges.edge_pair[order], 2 * n_entities, edges.pairs.n_edges
        )
        parts = {field.name: getattr(plain, field.name) for field in fields(plain)}
        return cls(
            **parts,
            around=Adjacency.with_transpose(
                pairs // n_directed, pairs % n_directed, n_entities, n_directed
            ),
            groups=groups,
            messages=messages,
            message_edges=order,
            trained_on=trained_on,
        )

    @cached_property
    def informative(self) -> Tensor:
        """How informative an edge's relation is of its entity, float32[n_edges]; see
        :func:`informative`."""
        n_entities, n_directed = self.around.n_rows, self.around.n_columns
        together = implications(self.trained_on, n_entities, n_directed // 2)
        return informative(self.around, together.to(self.groups.device))[self.groups]


def implications(triples: Ids, n_entities: int, n_relations: int) -> Tensor:
    """How often relations stand together around an entity: float64[n, n].

    Cell (a, b) of the 2 · n_relations directed ones is the number of entities with both.
    """
    n_directed = 2 * n_relations
    rows = np.concatenate((triples[:, 0], triples[:, 2]))
    columns = np.concatenate((triples[:, 1], triples[:, 1] + n_relations))
    codes = torch.from_numpy(np.unique(rows * n_directed + columns))
    together = torch.zeros(n_directed, n_directed, dtype=torch.float64)
    step = max(1, CELLS // n_directed)
    for start in range(0, n_entities, step):
        table = torch.zeros(min(step, n_entities - start), n_directed)
        inside = codes[(codes >= start * n_directed) & (codes < (start + len(table)) * n_directed)]
        table.view(-1)[inside - start * n_directed] = 1
        together += (table.t() @ table).double()
    return together


def informative(around: Adjacency, together: Tensor) -> Tensor:
    r"""How informative every relation around an entity is: float32[n_edges of ``around``].

    .. math::
        \frac{\mathrm{mean}_q P(r \Rightarrow q)}
        {\max_{r' \in R(i),\, r' \ne r} P(r' \Rightarrow r)}

    :math:`P(a \Rightarrow b)` is the share of the entities with a that have b too: a relation that
    implies what is asked for (q, by how many entities have it) is informative, one that
    another relation of the same entity implies adds nothing.

    Args:
        around: entity ← relation, distinct.
        together: see :func:`implications`.
    """
    counts = together.diagonal()
    implies = together / counts.clamp(min=1)[:, None]
    implied = (implies @ counts) / counts.sum().clamp(min=1)
    rivals = implies.t().float().contiguous()
    rivals.fill_diagonal_(0)
    n_directed, found = around.n_columns, []
    step = max(1, CELLS // max(1, n_directed))
    for start in range(0, around.n_edges, step):
        edges = torch.arange(start, min(start + step, around.n_edges), device=rivals.device)
        first, last = int(around.rows[edges[0]]), int(around.rows[edges[-1]])
        inside = slice(int(around.indptr[first]), int(around.indptr[last + 1]))
        there = torch.zeros(last - first + 1, n_directed, dtype=rivals.dtype, device=rivals.device)
        there[around.rows[inside] - first, around.columns[inside]] = 1
        own = around.columns[edges]
        highest = (there[around.rows[edges] - first] * rivals[own]).amax(1)
        # Without a second relation there is nothing to be implied by.
        highest = torch.where(highest > 0, highest.clamp(min=RAREST), 1.0)
        found.append(implied[own] / highest)
    return torch.cat(found).float() if found else counts.new_zeros(0).float()
