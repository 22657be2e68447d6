"""Sparse adjacency matrices: compressed rows and their transpose, ids only."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Ids = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Adjacency:
    """Edges row ← column, sorted by row; parallel edges may occur.

    The edges of row i are ``indptr[i]:indptr[i + 1]``; ``columns`` and ``rows`` name their ends.
    The transpose holds the same edges sorted by column: its k-th edge is edge ``t_order[k]``.
    """

    indptr: Tensor  # int64[n_rows + 1]
    columns: Tensor  # int64[n_edges]
    rows: Tensor  # int64[n_edges]
    t_indptr: Tensor  # int64[n_columns + 1]
    t_rows: Tensor  # int64[n_edges], = rows[t_order]
    t_order: Tensor  # int64[n_edges]

    @classmethod
    def from_pairs(cls, rows: Ids, columns: Ids, n_rows: int, n_columns: int) -> Adjacency:
        """Any order of edges is taken; the result does not depend on it."""
        order = np.lexsort((columns, rows))
        return cls.with_transpose(
            torch.from_numpy(rows[order]), torch.from_numpy(columns[order]), n_rows, n_columns
        )

    @classmethod
    def with_transpose(
        cls, rows: Tensor, columns: Tensor, n_rows: int, n_columns: int
    ) -> Adjacency:
        """Edges that are sorted by row already, made on the device they lie on."""
        return _transposed(_counted(rows, n_rows), columns, rows, n_columns)

    @classmethod
    def regular(cls, columns: Tensor, n_columns: int) -> Adjacency:
        """Every row has as many edges as the next: row a reads ``columns[a]``, int64[n, k]."""
        n, k = columns.shape
        indptr = torch.arange(0, n * k + 1, k, device=columns.device)
        rows = torch.arange(n, device=columns.device).repeat_interleave(k, output_size=n * k)
        return _transposed(indptr, columns.reshape(-1), rows, n_columns)

    @property
    def n_rows(self) -> int:
        return len(self.indptr) - 1

    @property
    def n_columns(self) -> int:
        return len(self.t_indptr) - 1

    @property
    def n_edges(self) -> int:
        return len(self.columns)

    def degrees(self) -> Tensor:
        """Edges of each row: int64[n_rows]."""
        return self.indptr.diff()

    def keep_columns(self, mask: NDArray[np.bool_]) -> Adjacency:
        """The same graph without the edges that read a column outside ``mask``."""
        rows, columns = self.rows.cpu().numpy(), self.columns.cpu().numpy()
        kept = mask[columns]
        if kept.all():
            return self
        return Adjacency.from_pairs(rows[kept], columns[kept], self.n_rows, self.n_columns)

    def take_rows(self, chosen: Tensor) -> tuple[Adjacency, Tensor]:
        """Some rows, int64[k], as a graph of their own, and which edges these are, int64[e].

        Row a of the result is row ``chosen[a]``; columns keep their ids.
        """
        counts = self.degrees()[chosen]
        indptr = torch.cat((counts.new_zeros(1), counts.cumsum(0)))
        size = int(indptr[-1])
        rows = torch.repeat_interleave(counts, output_size=size)
        edges = torch.arange(size, device=rows.device) + (self.indptr[chosen] - indptr[:-1])[rows]
        return _transposed(indptr, self.columns[edges], rows, self.n_columns), edges

    def keep_edges(self, chosen: Tensor) -> Adjacency:
        """The same rows and columns with the edges ``chosen``, increasing int64[e], alone."""
        rows = self.rows[chosen]
        return _transposed(_counted(rows, self.n_rows), self.columns[chosen], rows, self.n_columns)

    def take_edges(self, chosen: Tensor, like: Adjacency) -> Adjacency:
        """The edges ``chosen`` of this graph in the rows that ``like`` gives them."""
        return _transposed(like.indptr, self.columns[chosen], like.rows, self.n_columns)

    def reached(self) -> NDArray[np.bool_]:
        """bool[n_rows]: the rows that have at least one edge."""
        return (self.degrees() > 0).cpu().numpy()

    def to(self, device: torch.device | str) -> Adjacency:
        return Adjacency(*(getattr(self, f.name).to(device) for f in fields(self)))


def _transposed(indptr: Tensor, columns: Tensor, rows: Tensor, n_columns: int) -> Adjacency:
    """The rest of a graph whose rows are known, made where they lie."""
    if n_columns < 1 << 16 and not columns.is_cuda:
        short = columns.numpy().astype(np.uint16)  # which NumPy sorts by counting, much faster
        order = torch.from_numpy(np.argsort(short, kind="stable"))
    else:
        order = torch.argsort(columns, stable=True)
    return Adjacency(indptr, columns, rows, _counted(columns, n_columns), rows[order], order)


def _counted(ids: Tensor, size: int) -> Tensor:
    """Where each id's edges begin and end once sorted: int64[size + 1]."""
    counts = torch.bincount(ids, minlength=size)
    return torch.cat((counts.new_zeros(1), counts.cumsum(0)))


def unique_pairs(rows: Ids, columns: Ids, n_columns: int) -> tuple[Ids, Ids]:
    """Drop repeated (row, column) pairs; the result is sorted."""
    codes = np.unique(rows * n_columns + columns)
    return codes // n_columns, codes % n_columns


def neighbours(triples: Ids, n_entities: int, self_entity: bool = False) -> Adjacency:
    """N(i): the distinct entities joined to i by a triple of either direction, never i itself.

    With ``self_entity`` each entity that has a neighbour also gets itself, which is what the
    paper's ablation of the decentralised idea adds back.
    """
    heads, tails = triples[:, 0], triples[:, 2]
    rows = np.concatenate((heads, tails))
    columns = np.concatenate((tails, heads))
    apart = rows != columns
    rows, columns = unique_pairs(rows[apart], columns[apart], n_entities)
    if self_entity:
        own = np.unique(rows)
        rows, columns = np.concatenate((rows, own)), np.concatenate((columns, own))
    return Adjacency.from_pairs(rows, columns, n_entities, n_entities)


def relation_bag(triples: Ids, n_entities: int, n_relations: int) -> Adjacency:
    """Entity × relation: the distinct relations an entity takes part in.

    Column r is relation r seen from its head, column n_relations + r the same from its tail.
    """
    rows = np.concatenate((triples[:, 0], triples[:, 2]))
    columns = np.concatenate((triples[:, 1], triples[:, 1] + n_relations))
    rows, columns = unique_pairs(rows, columns, 2 * n_relations)
    return Adjacency.from_pairs(rows, columns, n_entities, 2 * n_relations)
