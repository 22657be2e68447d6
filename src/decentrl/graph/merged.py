"""Two graphs in one id space: right ids start where left ids end."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from decentrl.graph.adjacency import Ids
from decentrl.graph.relational import RelationalView
from decentrl.graph.texts import Texts
from decentrl.graph.view import GraphView, counterpart_triples, seen_in


@dataclass(frozen=True, eq=False)
class MergedGraph:
    """Triples of two graphs, and links between them, in merged ids.

    Attributes:
        left, right: triples int64[n, 3].
        links: the training links int64[n, 2].
        n_left, n_right: how many entities each graph has.
        n_relations: of both graphs together.
        n_left_relations: of the left one, which come first.
        texts: names and attributes of each graph's entities, if both have the one or the other.
    """

    left: Ids
    right: Ids
    links: Ids
    n_left: int
    n_right: int
    n_relations: int
    n_left_relations: int
    texts: tuple[Texts, Texts] | None = None

    @classmethod
    def merge(
        cls,
        left: Ids,
        right: Ids,
        links: Ids,
        entities: tuple[int, int],
        relations: tuple[int, int],
    ) -> MergedGraph:
        """From triples and links that count each graph's ids from 0."""
        shift = np.array([entities[0], relations[0], entities[0]])
        return cls(
            left,
            right + shift,
            links + np.array([0, entities[0]]),
            entities[0],
            entities[1],
            relations[0] + relations[1],
            relations[0],
        )

    @property
    def n_entities(self) -> int:
        return self.n_left + self.n_right

    def triples(self) -> Ids:
        return np.concatenate((self.left, self.right))

    def grown(self, left: Ids, right: Ids) -> MergedGraph:
        """The same graphs with more triples (in merged ids)."""
        return replace(
            self,
            left=np.concatenate((self.left, left)),
            right=np.concatenate((self.right, right)),
        )

    def relational_view(
        self, trained_on: MergedGraph | None = None, device: torch.device | str = "cpu"
    ) -> RelationalView:
        """What the relational encoder reads; ``trained_on`` as in :meth:`view`."""
        sizes = self.n_entities, self.n_relations
        seen = seen_in((trained_on or self).triples(), *sizes)
        return RelationalView.build(self.triples(), *sizes, device=device, **seen)

    def view(self, *, trained_on: MergedGraph | None = None, **settings: Any) -> GraphView:
        """What a DAN reads: triples between two linked entities are copied to the other graph.

        Args:
            trained_on: the graph known in training, if this one has grown since; entities and
                relations that it lacks are unseen.
            settings: as for :meth:`GraphView.build`.
        """
        n, n_relations = self.n_entities, self.n_relations
        seen = seen_in((trained_on or self).triples(), n, n_relations)
        graphs = counterpart_triples(self.left, self.right, self.links)
        return GraphView.build(graphs, n, n_relations, **seen, **settings)
