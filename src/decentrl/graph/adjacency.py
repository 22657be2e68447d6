"""Sparse adjacency matrices: compressed rows and their transpose, ids only."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Ids = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Adjacency:
    """Edges row ← column, sorted by row; parallel edges may occur.

    The edges of row i are ``indptr[i]:indptr[i + 1]``; ``columns`` and ``rows`` name their ends.
    The transpose holds the same edges sorted by column: its k-th edge is edge ``t_order[k]``. It is
    made when first asked for, on the device of the edges.
    """

    indptr: Tensor  # int64[n_rows + 1]
    columns: Tensor  # int64[n_edges]
    rows: Tensor  # int64[n_edges]
    n_columns: int

    @classmethod
    def from_pairs(
        cls,
        rows: Ids | Tensor,
        columns: Ids | Tensor,
        n_rows: int,
        n_columns: int,
        distinct: bool = False,
    ) -> Adjacency:
        """Edges in any order, which makes no difference; each once with ``distinct``."""
        codes = torch.as_tensor(rows) * n_columns + torch.as_tensor(columns)
        codes = torch.unique(codes) if distinct else codes.sort().values
        return cls.from_sorted(codes // n_columns, codes % n_columns, n_rows, n_columns)

    @classmethod
    def from_sorted(cls, rows: Tensor, columns: Tensor, n_rows: int, n_columns: int) -> Adjacency:
        """Edges that are sorted by row already, on the device they lie on."""
        return cls(_ends(rows, n_rows), columns, rows, n_columns)

    @classmethod
    def regular(cls, columns: Tensor, n_columns: int) -> Adjacency:
        """Every row has as many edges as the next: row a reads ``columns[a]``, int64[n, k]."""
        n, k = columns.shape
        indptr = torch.arange(0, n * k + 1, k, device=columns.device)
        rows = torch.arange(n, device=columns.device).repeat_interleave(k, output_size=n * k)
        return cls(indptr, columns.reshape(-1), rows, n_columns)

    @property
    def n_rows(self) -> int:
        return len(self.indptr) - 1

    @property
    def n_edges(self) -> int:
        return len(self.columns)

    @cached_property
    def t_indptr(self) -> Tensor:
        """int64[n_columns + 1]"""
        return _ends(self.columns, self.n_columns)

    @cached_property
    def t_order(self) -> Tensor:
        """int64[n_edges]"""
        if self.n_columns < 1 << 16 and not self.columns.is_cuda:
            short = self.columns.numpy().astype(np.uint16)  # NumPy sorts these by counting: faster
            return torch.from_numpy(np.argsort(short, kind="stable"))
        return torch.argsort(self.columns, stable=True)

    @cached_property
    def t_rows(self) -> Tensor:
        """int64[n_edges]"""
        return self.rows[self.t_order]

    def degrees(self) -> Tensor:
        """Edges of each row: int64[n_rows]."""
        return self.indptr.diff()

    def reading(self, columns: Tensor, n_columns: int) -> Adjacency:
        """The same edges in the same rows, each with another column, int64[n_edges]."""
        return Adjacency(self.indptr, columns, self.rows, n_columns)

    def keep_columns(self, mask: Tensor) -> Adjacency:
        """The same graph without the edges that read a column outside ``mask``, bool[n_columns]."""
        kept = mask[self.columns]
        return self if bool(kept.all()) else self.keep_edges(kept.nonzero()[:, 0])

    def keep_edges(self, chosen: Tensor) -> Adjacency:
        """The same rows and columns with the edges ``chosen``, increasing int64[e], alone."""
        return Adjacency.from_sorted(
            self.rows[chosen], self.columns[chosen], self.n_rows, self.n_columns
        )

    def take_rows(self, chosen: Tensor) -> tuple[Adjacency, Tensor]:
        """Some rows, int64[k], as a graph of their own, and which edges these are, int64[e].

        Row a of the result is row ``chosen[a]``; columns keep their ids.
        """
        counts = self.degrees()[chosen]
        indptr = torch.cat((counts.new_zeros(1), counts.cumsum(0)))
        size = int(indptr[-1])
        rows = torch.repeat_interleave(counts, output_size=size)
        edges = torch.arange(size, device=rows.device) + (self.indptr[chosen] - indptr[:-1])[rows]
        return Adjacency(indptr, self.columns[edges], rows, self.n_columns), edges

    def to(self, device: torch.device | str) -> Adjacency:
        indptr, columns, rows = (x.to(device) for x in (self.indptr, self.columns, self.rows))
        return Adjacency(indptr, columns, rows, self.n_columns)


def _ends(ids: Tensor, size: int) -> Tensor:
    """Where each id's edges begin and end once sorted: int64[size + 1]."""
    counts = torch.bincount(ids, minlength=size)
    return torch.cat((counts.new_zeros(1), counts.cumsum(0)))


def neighbours(triples: Ids, n_entities: int, self_entity: bool = False) -> Adjacency:
    """N(i): the distinct entities joined to i by a triple of either direction, never i itself.

    With ``self_entity`` each entity that has a neighbour also gets itself, which is what the
    paper's ablation of the decentralised idea adds back.
    """
    joined = triples[triples[:, 0] != triples[:, 2]]
    rows, columns = joined[:, [0, 2]].T.reshape(-1), joined[:, [2, 0]].T.reshape(-1)
    if self_entity:
        rows, columns = np.concatenate((rows, rows)), np.concatenate((columns, rows))
    return Adjacency.from_pairs(rows, columns, n_entities, n_entities, distinct=True)


def relation_bag(triples: Ids, n_entities: int, n_relations: int) -> Adjacency:
    """Entity × relation: the distinct relations an entity takes part in.

    Column r is relation r seen from its head, column n_relations + r the same from its tail.
    """
    rows = triples[:, [0, 2]].T.reshape(-1)
    columns = np.concatenate((triples[:, 1], triples[:, 1] + n_relations))
    return Adjacency.from_pairs(rows, columns, n_entities, 2 * n_relations, distinct=True)
