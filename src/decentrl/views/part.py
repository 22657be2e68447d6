"""A part of a graph in which new entities get their rows while all other rows stay as they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from decentrl.graph.adjacency import Ids
from decentrl.graph.arrivals import Neighbourhood
from decentrl.graph.hops import Growth
from decentrl.graph.relational import PropagationView, RelationalView
from decentrl.graph.texts import Texts
from decentrl.graph.view import GraphView
from decentrl.nn.running import FrozenStates

Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Part:
    """New entities, their neighbours, and what is known of these.

    Attributes:
        hood: the triples in local ids, and which entities are new.
        trained: bool[n], the entities that training has seen.
        seen_relations: bool[n_relations], those that training has seen.
        memory: reads the rows of a memory by its name, [n, width]; 0 for new entities.
        shared: memories that do not belong to one entity.
        texts: names and attributes of the new entities, if the model reads them.
        side: of the graph, ``left`` or ``right``.
    """

    hood: Neighbourhood
    trained: Mask
    seen_relations: Mask
    memory: Callable[[str], Tensor]
    shared: Mapping[str, Tensor]
    device: torch.device
    texts: Texts | None = None
    side: str = ""

    @cached_property
    def new(self) -> Tensor:
        """bool[n], the entities to be made."""
        return torch.from_numpy(self.hood.new).to(self.device)

    def frozen(self, states: Tensor, stages: int) -> FrozenStates:
        """The states of the others, [n, stages · width], as an encoder reads them."""
        return FrozenStates(~self.new, states.chunk(stages, 1))

    @cached_property
    def few_relations(self) -> tuple[Ids, Tensor]:
        """The triples with only the relations that occur, and which directed ones these are.

        There are thousands in a graph and a handful around an entity.
        """
        used, local = np.unique(self.hood.triples[:, 1], return_inverse=True)
        triples = self.hood.triples.copy()
        triples[:, 1] = local.reshape(-1)
        directed = np.concatenate((used, used + len(self.seen_relations)))
        return triples, torch.from_numpy(directed).to(self.device)

    def graph_view(self, states: Tensor, **settings: Any) -> GraphView:
        """What a DAN reads of the part; ``settings`` as for :meth:`GraphView.build`."""
        hood = self.hood
        there = (states.abs().amax(1) > 0).cpu().numpy() & ~hood.new
        dropped = hood.dropped
        growth = None if dropped is None else Growth(self.trained, hood.later, dropped)
        return GraphView.build(
            [hood.triples],
            len(hood.entities),
            len(self.seen_relations),
            seen=self.trained,
            seen_relations=self.seen_relations,
            frozen=there,
            growth=growth,
            **settings,
        ).to(self.device)

    def relational_view(self) -> RelationalView:
        """What a relational encoder reads of the part, with the relations that occur."""
        triples, directed = self.few_relations
        used = directed[: len(directed) // 2].cpu().numpy()
        seen, known = self.trained, self.seen_relations[used]
        return RelationalView.build(
            triples, len(seen), len(used), seen=seen, seen_relations=known, device=self.device
        )

    def propagation_view(self) -> PropagationView:
        """What seed propagation reads of the part, with the relations that occur."""
        triples, directed = self.few_relations
        n_entities, n_relations = len(self.hood.entities), len(directed) // 2
        return PropagationView.build(triples, n_entities, n_relations, self.device)
