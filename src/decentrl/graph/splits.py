"""Everything that was told about a graph, in ids: to learn from, to see later, to be tested on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from decentrl.graph.adjacency import Ids
from decentrl.graph.queries import Queries
from decentrl.graph.view import entities_of, relations_of


@dataclass(frozen=True, eq=False)
class Splits:
    train: Ids  # int64[·, 3], as the others
    later: Ids  # came after training
    valid: Ids
    test: Ids
    n_entities: int
    n_relations: int

    def queries(self, *triples: Ids) -> Queries:
        return Queries.of(np.concatenate(triples), self.n_relations)

    def true(self, asked: Ids) -> Queries:
        """Everything that is not a wrong answer: known, held out, or asked."""
        return self.queries(self.now, self.valid, self.test, asked)

    @cached_property
    def now(self) -> Ids:
        """All triples that questions may see."""
        return np.concatenate((self.train, self.later)) if len(self.later) else self.train

    @cached_property
    def known(self) -> Queries:
        """What questions may see."""
        return self.queries(self.now)

    @cached_property
    def every(self) -> Queries:
        """No news for anybody."""
        return self.queries(self.now, self.valid, self.test)

    @cached_property
    def seen(self) -> npt.NDArray[np.bool_]:
        """Who was there in training: bool[n_entities]."""
        return entities_of(self.train, self.n_entities)

    @cached_property
    def present(self) -> npt.NDArray[np.bool_]:
        """Who is there now: bool[n_entities]."""
        return entities_of(self.now, self.n_entities)

    @cached_property
    def trained_relations(self) -> npt.NDArray[np.bool_]:
        """bool[n_relations]."""
        return relations_of(self.train, self.n_relations)

    @cached_property
    def reflexive(self) -> npt.NDArray[np.bool_]:
        """The relations that join an entity to itself in training: bool[n_relations]."""
        h, _, t = self.train.T
        return relations_of(self.train[h == t], self.n_relations)
