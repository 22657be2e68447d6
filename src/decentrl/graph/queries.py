"""Questions (entity, relation, ?) and their answers, each question once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from decentrl.graph.adjacency import Ids


@dataclass(frozen=True, eq=False)
class Queries:
    """Distinct questions, sorted, with all their answers in ``triples``.

    A triple (h, r, t) answers two: (h, r, ?) with t, and, by the reciprocal relation,
    (t, n_relations + r, ?) with h. Triples that share a question share the work of scoring it.
    """

    entities: Ids  # int64[n]
    relations: Ids  # int64[n], below 2 · n_relations
    indptr: Ids  # int64[n + 1]: the answers of question i are answers[indptr[i]:indptr[i + 1]]
    answers: Ids  # int64[m], sorted within a question
    n_relations: int

    @classmethod
    def of(cls, triples: Ids, n_relations: int) -> Queries:
        """The questions of triples int64[n, 3] in both directions."""
        h, r, t = triples.T
        rows = np.concatenate((np.stack((h, r, t), 1), np.stack((t, r + n_relations, h), 1)))
        rows = np.unique(rows, axis=0)
        new = np.ones(len(rows), bool)
        new[1:] = (rows[1:, :2] != rows[:-1, :2]).any(axis=1)
        starts = np.flatnonzero(new)
        indptr = np.append(starts, len(rows)).astype(np.int64)
        firsts = rows[starts]
        return cls(firsts[:, 0], firsts[:, 1], indptr, rows[:, 2].copy(), n_relations)

    def __len__(self) -> int:
        return len(self.entities)

    @property
    def sizes(self) -> Ids:
        """How many answers each question has: int64[n]."""
        return np.diff(self.indptr)

    def with_answers(self, allowed: NDArray[np.bool_]) -> Queries:
        """The same questions with those of their answers that are allowed, bool[n_entities]."""
        kept = allowed[self.answers]
        if kept.all():
            return self
        rows = np.repeat(np.arange(len(self)), self.sizes)[kept]
        sizes = np.bincount(rows, minlength=len(self))
        some, indptr = np.flatnonzero(sizes), np.append(0, np.cumsum(sizes[sizes > 0]))
        answers = self.answers[kept]
        return Queries(self.entities[some], self.relations[some], indptr, answers, self.n_relations)

    def places(self, chosen: Ids) -> tuple[Ids, Ids]:
        """Where the answers of some questions lie.

        Returns:
            for each answer its place in ``chosen``, and its index into ``answers``: int64[k] each.
        """
        sizes = self.sizes[chosen]
        rows = np.repeat(np.arange(len(chosen)), sizes)
        ends = np.cumsum(sizes)
        index = np.arange(len(rows)) - np.repeat(ends - sizes, sizes)
        return rows, index + np.repeat(self.indptr[chosen], sizes)

    def held(self, entities: Ids, relations: Ids) -> tuple[Ids, Ids]:
        """Of every answer of some questions the question's place in these, and the answer."""
        wanted = entities * (2 * self.n_relations) + relations
        places = np.searchsorted(self._codes, wanted)
        has = np.flatnonzero(places < np.searchsorted(self._codes, wanted, "right"))
        rows, index = self.places(places[has])
        return has[rows], self.answers[index]

    @cached_property
    def _codes(self) -> Ids:
        """A number for each question, increasing: int64[n]."""
        return self.entities * (2 * self.n_relations) + self.relations
