"""Vectors of entities that come later, from a frozen model: never any training.

What is made of a new entity is a *row*: its vector, and what entities that come after it will read
of it (the encoder's states, its input embedding, the propagated seeds). Rows of all others are read
from memory and stay as they are, so a row costs what the entity's own triples cost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from decentrl.config import Config, PredictionConfig
from decentrl.graph.adjacency import Ids
from decentrl.graph.arrivals import Neighbourhood
from decentrl.graph.hops import Growth
from decentrl.graph.relational import PropagationView, RelationalView
from decentrl.graph.view import GraphView
from decentrl.nn.alignment import AlignmentModel, join
from decentrl.nn.counterparts import WIDTH as COUNTERPART
from decentrl.nn.counterparts import tell_counterparts
from decentrl.nn.dan import NeighbourAttention, RelationContext
from decentrl.nn.dropout import eval_mode
from decentrl.nn.frozen_states import FrozenStates
from decentrl.nn.prediction import PredictionModel
from decentrl.nn.propagation import GrownPropagation
from decentrl.nn.reflection import ReflectionLayer
from decentrl.nn.relational import RelationalModel, unit_rows

Mask = NDArray[np.bool_]
Take = Callable[[str, Ids], Tensor]
"""Rows of a memory by its name and the ids of entities: float32[k, width]."""

VECTORS, STATES, INPUTS, PROPAGATION = "vectors", "states", "inputs", "propagation"
SHARED = ("relations", "length")
"""What a memory holds that is not a row an entity."""


SMALL = 1000
"""Triples that one thread works on alone."""


class Attention(NamedTuple):
    """Weights of edges row ← column in local ids; ``kinds`` are directed relations.

    Either is -1 where it does not count: a neighbour by whatever relation, or a relation to
    whatever neighbour.
    """

    rows: Tensor
    columns: Tensor
    kinds: Tensor
    weights: Tensor


class Induction:
    """What both jobs have in common.

    Args:
        seen_relations: bool[n_relations], those that training has seen.
        device: where the model works.

    Attributes:
        widths: how wide each part of a row is, in their order.
        reach: how many steps through new entities the effect of a triple goes.
        around: whether an entity reads its neighbours' neighbours.
    """

    widths: dict[str, int]
    reach: int
    around = False
    model: Any  # the frozen encoder; None where seeds are all there is

    def __init__(self, seen_relations: Mask, device: torch.device) -> None:
        self.seen_relations, self.device = seen_relations, device

    @property
    def width(self) -> int:
        return sum(self.widths.values())

    def split(self, rows: Tensor) -> dict[str, Tensor]:
        """The parts of rows, [k, width], by their names."""
        parts = torch.split(rows, list(self.widths.values()), dim=1)
        return dict(zip(self.widths, parts, strict=True))

    def rows(self, part: Neighbourhood, trained: Mask, take: Take) -> Tensor:
        """Rows of ``part.made``, [k, width].

        Args:
            trained: bool[n], which of ``part.entities`` training has seen.
            take: reads the rows of entities that are given.
        """
        with _few_threads(len(part.triples)):
            made = self._made(part, trained, self._reader(part, take))
            new = torch.from_numpy(part.new).to(self.device)
            return torch.cat([made[name][new] for name in self.widths], 1).cpu()

    def students(self, states: Tensor) -> Tensor:
        """What self-distillation reads of an entity, from its states: [k, ...]."""
        return states

    def attention(self, part: Neighbourhood, trained: Mask, take: Take) -> list[Attention]:
        """What these rows are made of, in shares: the weights of a row sum to 1 in all.

        Every attention of the encoder, in every layer and view, has the same share.
        """
        return self._attention(part, trained, take)[0]

    def _attention(
        self, part: Neighbourhood, trained: Mask, take: Take
    ) -> tuple[list[Attention], dict[str, Tensor]]:
        """:meth:`attention`, and what was made meanwhile."""
        heard: list[tuple[Any, tuple[Any, ...]]] = []

        def listen(module: torch.nn.Module, inputs: tuple[Any, ...], _: Any) -> None:
            heard.append((module, inputs))

        handles = [
            module.register_forward_hook(listen)
            for module in (() if self.model is None else self.model.modules())
            if isinstance(module, ReflectionLayer | NeighbourAttention | RelationContext)
        ]
        try:
            made = self._made(part, trained, self._reader(part, take))
        finally:
            for handle in handles:
                handle.remove()
        found: list[Attention] = []
        if self.model is None:
            return found, made
        _, which = self._with_few_relations(part)
        with torch.no_grad(), eval_mode(self.model):
            for module, inputs in heard:
                if isinstance(module, RelationContext):
                    edges = inputs[2]
                    columns, kinds = torch.full_like(edges.rows, -1), edges.columns
                    weights = module.attention.weights(*inputs)
                elif isinstance(module, ReflectionLayer):
                    edges, kinds = inputs[2].nodes, which[inputs[2].relations.columns]
                    columns, weights = edges.columns, module.weights(*inputs)
                else:
                    edges = inputs[2]
                    columns, kinds = edges.columns, torch.full_like(edges.rows, -1)
                    weights = module.weights(*inputs)
                found.append(Attention(edges.rows, columns, kinds, weights / len(heard)))
        return found, made

    def _made(
        self, part: Neighbourhood, trained: Mask, read: Callable[[str], Tensor]
    ) -> dict[str, Tensor]:
        raise NotImplementedError

    def _reader(self, part: Neighbourhood, take: Take) -> Callable[[str], Tensor]:
        """Local memories: [n, width], 0 for the entities to be made."""
        given = ~part.new

        def read(name: str) -> Tensor:
            rows = torch.zeros(len(part.entities), self.widths[name])
            if given.any():
                rows[torch.from_numpy(given)] = take(name, part.entities[given])
            return rows.to(self.device)

        return read

    def _given(self, part: Neighbourhood, states: Tensor, stages: int) -> FrozenStates:
        mask = torch.from_numpy(~part.new).to(self.device)
        return FrozenStates(mask, states.chunk(stages, 1))

    def _graph_view(
        self, part: Neighbourhood, trained: Mask, states: Tensor, **settings: Any
    ) -> GraphView:
        """For a DAN."""
        there = (states.abs().amax(1) > 0).cpu().numpy() & ~part.new
        growth = None
        if part.dropped is not None:
            growth = Growth(trained, part.later, part.dropped)
        return GraphView.build(
            [part.triples],
            len(part.entities),
            len(self.seen_relations),
            seen=trained,
            seen_relations=self.seen_relations,
            frozen=there,
            growth=growth,
            **settings,
        ).to(self.device)

    def _relational_view(self, part: Neighbourhood, trained: Mask, kinds: Tensor) -> RelationalView:
        n_relations = len(kinds) // 2
        return RelationalView.build(
            part.triples,
            len(part.entities),
            n_relations,
            seen=trained,
            seen_relations=self.seen_relations[kinds[:n_relations].cpu().numpy()],
            device=self.device,
        )

    def _with_few_relations(self, part: Neighbourhood) -> tuple[Neighbourhood, Tensor]:
        """The same with only the relations that occur, and which directed ones these are.

        There are thousands in a graph and a handful around an entity.
        """
        used, local = np.unique(part.triples[:, 1], return_inverse=True)
        triples = part.triples.copy()
        triples[:, 1] = local.reshape(-1)
        kinds = np.concatenate((used, used + len(self.seen_relations)))
        return replace(part, triples=triples), torch.from_numpy(kinds).to(self.device)


class AlignmentInduction(Induction):
    """Rows of new entities of either of two graphs.

    Args:
        weights: of the encoder.
        memory: what is not a row an entity: ``relations`` of the propagation, ``length`` of input
            embeddings.
        n_links: how many links the propagation started from.
        seen_relations: of both graphs, the left one's first; triples use these ids.
        told: how much a vector tells of a counterpart; a new entity has none yet.
    """

    def __init__(
        self,
        config: Config,
        weights: Mapping[str, Tensor],
        memory: Mapping[str, Tensor],
        n_links: int,
        seen_relations: Mask,
        device: torch.device,
        told: float = 0.0,
    ) -> None:
        super().__init__(seen_relations, device)
        self.config, model, settings = config, config.model, config.propagation
        self.told = told
        self.model: AlignmentModel | RelationalModel | None = None
        self.widths = {VECTORS: 0}
        self.reach = 0
        self.weight = settings.weight if model.encoder != "none" else 1.0
        if model.encoder == "dan":
            self.model = AlignmentModel(1, len(seen_relations), model, config.distillation)
            self.around = model.hops == "alternating"
            self.widths |= {STATES: (model.layers + 1) * model.dim, INPUTS: model.dim}
            self.widths[VECTORS] = self.model.dim
            self.reach = (model.layers + 1) * (2 if self.around else 1)
        elif model.encoder == "reflection":
            self.model = RelationalModel(1, len(seen_relations), model, config.distillation)
            self.length = memory["length"].to(device)
            size = self.model.encoder.dim
            self.widths |= {VECTORS: size, STATES: size, INPUTS: model.dim}
            self.reach = model.layers + 1
        if self.model is not None:
            _load(self.model, weights, ("entities", "encoder.entities"))
            self.model.to(device)
        if isinstance(self.model, RelationalModel):
            self.relations = self.model.encoder.relation_table().detach()
        if self.weight:
            self.propagation = GrownPropagation(
                memory["relations"].to(device),
                n_links,
                dim=settings.dim,
                rounds=settings.rounds,
                seed=config.seed,
                relation_dim=settings.relation_dim,
                width=settings.width,
            )
            self.widths[VECTORS] += settings.relation_dim * settings.width
            self.widths[PROPAGATION] = (settings.rounds + 1) * settings.dim
            self.reach = max(self.reach, settings.rounds + 1)
        if told:
            self.widths[VECTORS] += COUNTERPART

    def _made(
        self, part: Neighbourhood, trained: Mask, read: Callable[[str], Tensor]
    ) -> dict[str, Tensor]:
        made: dict[str, Tensor] = {}
        parts = []
        few, kinds = self._with_few_relations(part)
        if isinstance(self.model, AlignmentModel):
            model, states, inputs = self.config.model, read(STATES), read(INPUTS)
            view = self._graph_view(
                part, trained, states,
                layers=model.layers,
                order=self.model.dan.order,
                two_hop=self.around,
                residual=model.residual,
                self_entity=model.self_entity,
            )  # fmt: skip
            given = self._given(part, states, model.layers + 1)
            encoded, layers = self.model.encode_with_states(view, inputs, given)
            made |= {STATES: torch.cat(layers, 1), INPUTS: inputs}
            parts.append(encoded)
        elif self.model is not None:
            stages = 2 * (self.config.model.layers + 1)
            made[STATES], made[INPUTS] = self.model.grown(
                self._relational_view(few, trained, kinds),
                read(INPUTS),
                torch.from_numpy(trained).to(self.device),
                self._given(part, read(STATES), stages),
                self.length,
                self.relations[kinds],
            )
            parts.append(unit_rows(made[STATES].clone()))
        if self.weight:
            edges, kinds = self._propagation_view(part)
            given = self._given(part, read(PROPAGATION), 1)
            made[PROPAGATION] = self.propagation.entities(edges, given, kinds)
            features = self.propagation.features(edges, made[PROPAGATION], ~given.mask, kinds)
            parts = [encoded * (1 - self.weight) ** 0.5 for encoded in parts]
            parts.append(features * self.weight**0.5)
        made[VECTORS] = torch.cat(parts, 1)
        if self.told:
            vectors = F.pad(made[VECTORS], (0, COUNTERPART))
            none = vectors.new_zeros(len(vectors))
            made[VECTORS] = tell_counterparts(vectors, none, self.told)
        return made

    def _attention(
        self, part: Neighbourhood, trained: Mask, take: Take
    ) -> tuple[list[Attention], dict[str, Tensor]]:
        found, made = super()._attention(part, trained, take)
        if not self.weight:
            return found, made
        # Seeds are summed up, not attended to: an edge counts by how much it brings.
        found = [a._replace(weights=(1 - self.weight) * a.weights) for a in found]
        edges, kinds = self._propagation_view(part)
        new = torch.from_numpy(part.new).to(self.device)
        lengths = self.propagation.lengths(edges, made[PROPAGATION], new, kinds)
        total = torch.zeros(len(new), device=self.device).index_add_(0, edges.edges.rows, lengths)
        share = self.weight * lengths / total.clamp(min=1e-12)[edges.edges.rows]
        ends = edges.edges.rows, edges.edges.columns, kinds[edges.directed_relations]
        return [*found, Attention(*ends, share)], made

    def _propagation_view(self, part: Neighbourhood) -> tuple[PropagationView, Tensor]:
        few, kinds = self._with_few_relations(part)
        n = len(part.entities)
        return PropagationView.build(few.triples, n, len(kinds) // 2, self.device), kinds

    def students(self, states: Tensor) -> Tensor:
        if not isinstance(self.model, AlignmentModel):
            return states
        layers = states.chunk(self.config.model.layers + 1, 1)[self.model.first_part :]
        parts = list(layers)
        if self.model.with_input:  # it is told, not read
            parts.append(torch.zeros_like(parts[0]))
        return join(parts)


class PredictionInduction(Induction):
    """Rows of new entities of the one graph."""

    def __init__(
        self,
        config: PredictionConfig,
        weights: Mapping[str, Tensor],
        seen_relations: Mask,
        device: torch.device,
    ) -> None:
        super().__init__(seen_relations, device)
        self.config, model = config, config.model
        self.model: PredictionModel = PredictionModel(1, len(seen_relations), config)
        _load(self.model, weights, ("inputs", "reflection.entities", "own", "table"))
        self.model.to(device)
        self.stages = (model.layers + 1) * (2 if model.encoder == "reflection" else 1)
        self.widths = {VECTORS: config.width}
        self.reach = 0
        if model.encoder != "none":
            self.widths |= {STATES: self.stages * model.dim, INPUTS: model.dim}
            self.reach = model.layers + 1
        if self.model.reflection is not None:
            self.relations = self.model.reflection.relation_table().detach()

    def _made(
        self, part: Neighbourhood, trained: Mask, read: Callable[[str], Tensor]
    ) -> dict[str, Tensor]:
        model, n = self.config.model, len(part.entities)
        if model.encoder == "none":  # nothing but its own embedding would tell of an entity
            return {VECTORS: torch.zeros(n, self.config.width, device=self.device)}
        states, inputs = read(STATES), read(INPUTS)
        view: GraphView | RelationalView
        relations: Tensor | None = None
        if model.encoder == "dan":
            view = self._graph_view(part, trained, states, layers=model.layers)
        else:
            few, kinds = self._with_few_relations(part)
            view, relations = self._relational_view(few, trained, kinds), self.relations[kinds]
        given = self._given(part, states, self.stages)
        vectors, made = self.model.grown(view, inputs, given, relations)
        return {VECTORS: vectors, STATES: torch.cat(made, 1), INPUTS: inputs}

    def students(self, states: Tensor) -> Tensor:
        if self.config.model.encoder == "dan":
            return states.chunk(self.stages, 1)[-1]
        return states


@contextmanager
def _few_threads(triples: int) -> Iterator[None]:
    """One thread for little work: several wait longer for each other than they work."""
    threads = torch.get_num_threads()
    if triples > SMALL or threads == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _load(model: torch.nn.Module, weights: Mapping[str, Tensor], tables: tuple[str, ...]) -> None:
    """Load all weights but the tables of a row an entity, which no new entity has a row in."""
    own = model.state_dict()
    rest = {name: tensor for name, tensor in weights.items() if name not in tables}
    model.load_state_dict(rest | {name: own[name] for name in tables if name in own})
