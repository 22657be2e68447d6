"""The triples of one graph by their use: training, arrived later, validation and test; ids only."""

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
    """Triples of training, later arrival, validation and test, and masks and queries of them."""

    train: Ids  # int64[·, 3], as the others
    later: Ids  # came after training
    valid: Ids
    test: Ids
    n_entities: int
    n_relations: int
    taught: Ids | None = None  # what the model was trained on, if that was another graph

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
        """Queries over train, later, valid and test triples, for filtering."""
        return self.queries(self.now, self.valid, self.test)

    @cached_property
    def known_valid(self) -> Ids:
        """The validation triples of trained entities."""
        valid: Ids = self.valid[self.seen[self.valid[:, [0, 2]]].all(axis=1)]
        return valid

    @cached_property
    def seen(self) -> npt.NDArray[np.bool_]:
        """Entities of the training triples: bool[n_entities]."""
        return entities_of(self.train, self.n_entities)

    @cached_property
    def present(self) -> npt.NDArray[np.bool_]:
        """Entities of the training and later triples: bool[n_entities]."""
        return entities_of(self.now, self.n_entities)

    @cached_property
    def trained_relations(self) -> npt.NDArray[np.bool_]:
        """Relations that the model was trained on: bool[n_relations]."""
        taught = self.train if self.taught is None else self.taught
        return relations_of(taught, self.n_relations)

    @cached_property
    def reflexive(self) -> npt.NDArray[np.bool_]:
        """The relations that join an entity to itself in training: bool[n_relations]."""
        taught = self.train if self.taught is None else self.taught
        return relations_of(taught[taught[:, 0] == taught[:, 2]], self.n_relations)
