"""Edges with relations, grouped for sums over them, and the edges that a batch must not see."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from decentrl.graph.adjacency import Adjacency, Ids

Hide = Literal["pair", "triple"]


@dataclass(frozen=True, eq=False)
class Messages:
    """Edges v ←(ρ)– u, sorted by v, then ρ, then u.

    Edges that share v and ρ are a *group*: what they bring is multiplied by the same w[ρ], so it
    can be summed first. There are far fewer groups than edges, at most one a relation even where
    a hundred thousand edges meet.

    Attributes:
        groups: v ← ρ, each group once; entity v has the groups ``indptr[v]:indptr[v + 1]``.
        sources: group ← u, every edge once.
        back: of each relation its reciprocal, int64, if every edge is there in both directions.
    """

    groups: Adjacency
    sources: Adjacency
    back: Tensor | None = None

    @classmethod
    def of_edges(
        cls,
        rows: Tensor,
        relations: Tensor,
        columns: Tensor,
        sizes: tuple[int, int, int],
        back: Tensor | None = None,
    ) -> Messages:
        """Of edges that are sorted already, int64[n_edges] each.

        Args:
            sizes: numbers of rows, relations and columns.
        """
        n_rows, n_relations, n_columns = sizes
        first = torch.ones_like(rows, dtype=torch.bool)
        first[1:] = (rows[1:] != rows[:-1]) | (relations[1:] != relations[:-1])
        group, starts = first.cumsum(0) - 1, first.nonzero()[:, 0]
        groups = Adjacency.from_sorted(rows[starts], relations[starts], n_rows, n_relations)
        indptr = torch.cat((starts, starts.new_tensor([len(rows)])))
        return cls(groups, Adjacency(indptr, columns, group, n_columns), back)

    @classmethod
    def of_triples(
        cls, triples: Ids, n_entities: int, n_relations: int, device: torch.device | str = "cpu"
    ) -> Messages:
        """Both directions of triples int64[n, 3]: t ←(r)– h, and h ←(n_relations + r)– t."""
        h, r, t = torch.from_numpy(triples).to(device).unbind(1)
        rows, columns = torch.cat((t, h)), torch.cat((h, t))
        relations = torch.cat((r, r + n_relations))
        sizes = n_entities, 2 * n_relations, n_entities
        order = torch.argsort((rows * sizes[1] + relations) * sizes[2] + columns)
        back = torch.arange(sizes[1], device=rows.device).roll(n_relations)
        return cls.of_edges(rows[order], relations[order], columns[order], sizes, back)

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Numbers of rows, relations and columns."""
        return self.groups.n_rows, self.groups.n_columns, self.sources.n_columns

    @cached_property
    def edges(self) -> tuple[Tensor, Tensor, Tensor]:
        """Row, relation and column of every edge, int64[n_edges] each."""
        group = self.sources.rows
        return self.groups.rows[group], self.groups.columns[group], self.sources.columns

    def degrees(self) -> Tensor:
        """How many edges end at each row: int64[n_rows]."""
        ends: Tensor = self.sources.indptr[self.groups.indptr]
        return ends.diff()

    @cached_property
    def transposed(self) -> Messages:
        """The edges u ←(ρ)– v.

        Where every edge is there in both directions these are the same edges, each with the
        reciprocal relation: nothing has to be sorted.
        """
        if self.back is not None:
            relations = self.back[self.groups.columns]
            return replace(self, groups=self.groups.reading(relations, self.groups.n_columns))
        rows, relations, columns = self.edges
        n_rows, n_relations, n_columns = self.sizes
        order = torch.argsort((columns * n_relations + relations) * n_rows + rows)
        sizes = n_columns, n_relations, n_rows
        return Messages.of_edges(columns[order], relations[order], rows[order], sizes)

    def keep(self, kept: Tensor) -> Messages:
        """The same rows with some edges alone, bool[n_edges]."""
        chosen = kept.nonzero()[:, 0]
        rows, relations, columns = (x[chosen] for x in self.edges)
        return Messages.of_edges(rows, relations, columns, self.sizes, self.back)

    def among(self, entities: Tensor) -> Messages:
        """The edges between some entities, increasing int64[k], which are renumbered."""
        bounds = self.sources.indptr[self.groups.indptr[torch.stack((entities, entities + 1))]]
        edges, rows = stretches(bounds[0], bounds[1])
        ends = self.sources.columns[edges]
        columns = torch.searchsorted(entities, ends).clamp(max=len(entities) - 1)
        kept = (entities[columns] == ends).nonzero()[:, 0]
        relations = self.groups.columns[self.sources.rows[edges[kept]]]
        sizes = len(entities), self.groups.n_columns, len(entities)
        return Messages.of_edges(rows[kept], relations, columns[kept], sizes, self.back)

    def blocks(self, most: int) -> Iterator[tuple[slice, slice]]:
        """Rows and their groups, at most so many groups at a time, or those of a single row."""
        ends, row, n = self._ends, 0, self.groups.n_rows
        while row < n:
            stop = int(np.searchsorted(ends, ends[row] + most, "right")) - 1
            stop = min(n, max(row + 1, stop))
            yield slice(row, stop), slice(int(ends[row]), int(ends[stop]))
            row = stop

    @cached_property
    def _ends(self) -> Ids:
        found: Ids = self.groups.indptr.cpu().numpy()
        return found


def stretches(starts: Tensor, stops: Tensor) -> tuple[Tensor, Tensor]:
    """The numbers of stretches start … stop - 1, and of each which stretch it is of."""
    sizes = stops - starts
    places = torch.repeat_interleave(sizes)
    firsts = starts - (sizes.cumsum(0) - sizes)
    return torch.arange(len(places), device=places.device) + firsts[places], places


class Hiding:
    """Which edges of a graph join questions with their answers.

    Args:
        messages: both directions of every triple.
        how: ``triple`` means the edge that is asked for and its reciprocal; ``pair`` every edge
            between the two entities, whatever its relation.
    """

    def __init__(self, messages: Messages, how: Hide) -> None:
        self.how, self.sizes = how, messages.sizes
        rows, relations, columns = (x.cpu().numpy() for x in messages.edges)
        codes = self._codes(rows, relations, columns)
        self.order = np.argsort(codes, kind="stable")
        self.codes = codes[self.order]

    def _codes(self, rows: Ids, relations: Ids, columns: Ids) -> Ids:
        """A number for each edge that does not depend on its direction."""
        n, n_relations, _ = self.sizes
        half = n_relations // 2
        low, high = np.minimum(rows, columns), np.maximum(rows, columns)
        if self.how == "pair":
            return np.asarray(low * n + high)
        forth = relations < half
        heads, tails = np.where(forth, columns, rows), np.where(forth, rows, columns)
        return np.asarray((heads * half + relations % half) * n + tails)

    def kept(self, entities: Ids, relations: Ids, answers: Ids) -> Tensor:
        """bool[n_edges]: the edges that join no question with its answer, int64[b] each."""
        codes = self._codes(answers, relations, entities)
        first, last = (np.searchsorted(self.codes, codes, side) for side in ("left", "right"))
        sizes = last - first
        places = np.arange(sizes.sum()) + np.repeat(first - np.cumsum(sizes) + sizes, sizes)
        mask = np.ones(len(self.order), bool)
        mask[self.order[places]] = False
        return torch.from_numpy(mask)
