"""The interface of a view: what it reads, how it trains, its vectors, and those of newcomers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from decentrl.graph.adjacency import Ids
from decentrl.graph.merged import MergedGraph
from decentrl.nn.dan import NeighbourAttention, RelationContext
from decentrl.nn.reflection import ReflectionLayer
from decentrl.nn.running import eval_mode
from decentrl.views.part import Part

STATES, INPUTS = "states", "inputs"
"""Names of memories: the layers of an encoder, and its input embeddings."""


class Attention(NamedTuple):
    """Weights of edges row ← column in local ids, each with its directed relation.

    Column or relation is -1 where it does not count: a neighbour by any relation, or a relation to
    any neighbour.
    """

    rows: Tensor
    columns: Tensor
    relations: Tensor
    weights: Tensor


@dataclass(frozen=True, eq=False)
class Rows:
    """What a view makes of entities.

    Attributes:
        vectors: [n, d], of length 1, or 0 where nothing known reaches an entity.
        memory: what newcomers will read of each entity, [n, width] by name.
        shared: what newcomers will read that does not belong to one entity, by name.
    """

    vectors: Tensor
    memory: dict[str, Tensor] = field(default_factory=dict)
    shared: dict[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class TrainingData:
    """What a view learns from.

    Attributes:
        graph: the training graph.
        links: known and found links in merged ids, int64[n, 2].
        relation_features: makes the relations' features by seed propagation, [2 · n_relations, d].
    """

    graph: MergedGraph
    links: Ids
    relation_features: Callable[[], Tensor]


class Objective(Protocol):
    """What the training loop minimises."""

    @property
    def model(self) -> nn.Module: ...

    def batches(self, rng: np.random.Generator) -> Iterable[Any]: ...

    def loss(self, batch: Any, rng: np.random.Generator) -> Tensor: ...


class Encoder(nn.Module, ABC):
    """What encoders of both jobs have in common.

    A subclass has the constructor arguments ``(config, n_entities, n_relations)``; its parameters
    are what training learns and what a bundle keeps. Everything else (training, saving, growing,
    explaining) knows it by the methods of :class:`View` or ``PredictionEncoder`` alone.

    Attributes:
        entity_tables: names of parameters with a row for each entity.
        memories: what newcomers read of other entities, the width of each by its name.
        reach: how many steps through new entities the effect of a new triple goes.
    """

    entity_tables: ClassVar[tuple[str, ...]] = ()
    memories: Mapping[str, int] = MappingProxyType({})
    reach: int = 0

    def newcomers(self, part: Part) -> Any:
        """What it makes of a part, in which entities that are not new stay as they are."""
        raise NotImplementedError(f"{type(self).__name__} makes no newcomers")

    def students(self, states: Tensor) -> Tensor:
        """What the self-distillation head reads of an entity's states, [k, …]."""
        return states


class View(Encoder):
    """A way to see the entities of two graphs; :meth:`newcomers` makes :class:`Rows`.

    Attributes:
        dim: width of its vectors.
        reads_links: whether what it reads of a graph depends on the links.
        reads_two_hops: whether an entity reads its neighbours' neighbours.
        called: what explanations call its part of a cosine.
    """

    called: ClassVar[str] = "encoder"
    dim: int
    reads_links: ClassVar[bool] = False
    entity_tables: ClassVar[tuple[str, ...]] = ("entities",)
    reads_two_hops: bool = False

    @abstractmethod
    def read(self, graph: MergedGraph, trained_on: MergedGraph, device: torch.device) -> Any:
        """What it reads of a graph, after training on another (often the same) one."""

    def objective(self, structure: Any, data: TrainingData) -> Objective | None:
        """What training minimises, given what :meth:`read` returned; None to train nothing."""
        return None

    @abstractmethod
    def encode(self, structure: Any, links: Tensor, out: Tensor | None = None) -> Rows:
        """Rows of all entities of a graph, with dropout off.

        Args:
            links: known and found links, int64[n, 2].
            out: where to put the vectors, [n, dim].
        """

    def memory_of(self, structure: Any, links: Tensor) -> Rows:
        """:meth:`encode` without the vectors, where these need not be made for the rest."""
        return self.encode(structure, links)

    def attentions(self, part: Part, rows: Rows) -> list[Attention]:
        """Which neighbours the new vectors of a part are made of; weights of a row sum to 1.

        By default the weights in its attention layers of :mod:`decentrl.nn`, if it has any.

        Args:
            rows: what :meth:`newcomers` has made of the part.
        """
        return layer_attentions(self, part)


def load_weights(
    model: nn.Module, weights: Mapping[str, Tensor], without: Collection[str] = ()
) -> None:
    """Load weights, all but those named; newcomers lack the tables with rows of entities."""
    own = model.state_dict()
    kept = {name: own[name] for name in without if name in own}
    model.load_state_dict({k: v for k, v in weights.items() if k not in without} | kept)


@torch.no_grad()
def layer_attentions(encoder: Encoder, part: Part) -> list[Attention]:
    """Weights in the attention layers that make newcomers; every layer has the same share."""
    found: list[Attention] = []

    def record(layer: Any, inputs: tuple[Any, ...], _: Any) -> None:
        by_relation, reflects = (
            isinstance(layer, RelationContext),
            isinstance(layer, ReflectionLayer),
        )
        weights = (layer.attention if by_relation else layer).weights(*inputs)
        edges = inputs[2].nodes if reflects else inputs[2]
        columns, relations = edges.columns, torch.full_like(edges.rows, -1)
        if reflects:
            relations = part.few_relations[1][inputs[2].relations.columns]
        elif by_relation:
            columns, relations = relations, columns
        found.append(Attention(edges.rows, columns, relations, weights))

    kinds = NeighbourAttention, RelationContext, ReflectionLayer
    layers = [layer for layer in encoder.modules() if isinstance(layer, kinds)]
    handles = [layer.register_forward_hook(record) for layer in layers]
    try:
        with eval_mode(encoder):
            encoder.newcomers(part)
    finally:
        for handle in handles:
            handle.remove()
    return [one._replace(weights=one.weights / len(found)) for one in found]


class LinkObjective:
    """Base of objectives that learn from links between entities with training triples.

    Entities without a training triple have no vector worth learning from: they stay out of the
    training links and out of the samples.

    Args:
        structure: what the view reads; ``structure.seen`` is bool[n_entities].
    """

    always_shuffles: ClassVar[bool] = False  # also all links at once
    most_steps: ClassVar[int] = 0  # of an epoch, with larger batches where there are more links

    def __init__(self, model: Any, structure: Any, data: TrainingData) -> None:
        self.model, self.structure, self.config = model, structure, model.config
        n_left, seen = data.graph.n_left, structure.seen.cpu().numpy()
        self.links: Ids = data.links[seen[data.links].all(axis=1)]
        self.seen = np.flatnonzero(seen)
        self.seen_left = self.seen[self.seen < n_left]
        self.seen_right = self.seen[self.seen >= n_left]

    def batches(self, rng: np.random.Generator) -> list[Ids]:
        """The links in random order, some at a time, or all at once in their order."""
        links, size = self.links, self.config.training.batch or max(1, len(self.links))
        if self.most_steps:
            size = max(size, -(-len(links) // self.most_steps))
        if size < len(links) or self.always_shuffles:
            links = links[rng.permutation(len(links))]
        return [links[start : start + size] for start in range(0, len(links), size)]
