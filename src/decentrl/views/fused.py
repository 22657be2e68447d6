"""Several views of an entity as one vector, whose cosine is the weighted mean of theirs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from decentrl.config import Config
from decentrl.graph.merged import MergedGraph
from decentrl.nn.text import missing_names
from decentrl.views.base import Attention, Rows, View, load_weights
from decentrl.views.part import Part
from decentrl.views.propagation import SeedView
from decentrl.views.registry import make_view
from decentrl.views.text import NameView


@dataclass(eq=False)
class Structures:
    """What the views read of a graph, each made when it is first asked for."""

    graph: MergedGraph
    trained_on: MergedGraph
    device: torch.device
    _found: dict[type[View], Any] = field(default_factory=dict)

    def of(self, view: View) -> Any:
        """What one view reads."""
        kind = type(view)
        if kind not in self._found:
            self._found[kind] = view.read(self.graph, self.trained_on, self.device)
        return self._found[kind]


class FusedViews:
    """The encoder that the settings name, if any, and what else has a weight: seeds and names.

    Attributes:
        encoder: the trained view; None where seed propagation is all there is.
        seeds: the view by seed propagation; also where it has no weight, for its features.
        names: the view by names, if it has a weight.
        parts: the views that vectors are made of, and their weights, which sum to 1.
    """

    def __init__(self, config: Config, n_entities: int, n_relations: int) -> None:
        self.encoder = make_view(config, n_entities, n_relations)
        self.seeds = SeedView(config)
        self.weigh(config)

    def weigh(self, config: Config) -> None:
        """Weigh the views as these settings say, from now on."""
        self.config = config
        named = max(0.0, config.names.weight)  # below 0 it is still to be chosen
        weight = 1.0 if self.encoder is None else config.propagation.weight
        self.names = NameView(config) if named else None
        weights = [(self.encoder, (1 - weight) * (1 - named)), (self.seeds, weight * (1 - named))]
        weights.append((self.names, named))
        self.parts = [(view, share) for view, share in weights if view is not None and share]

    @property
    def dim(self) -> int:
        """Width of a vector."""
        return sum(self._width(view) for view, _ in self.parts)

    def _width(self, view: View) -> int:
        """Columns of a view; two more for names beside others, see :func:`missing_names`."""
        return view.dim + 2 * (view is self.names and len(self.parts) > 1)

    @property
    def spans(self) -> dict[str, slice]:
        """Which columns of a vector each view has, by what explanations call it.

        What a missing name counts as is in none of them.
        """
        found, start = {}, 0
        for view, _ in self.parts:
            found[view.called] = slice(start, start + view.dim)
            start += self._width(view)
        return found

    @property
    def memories(self) -> dict[str, int]:
        """Width of each memory of all views by its name."""
        return {name: width for view, _ in self.parts for name, width in view.memories.items()}

    def encode(self, structures: Structures, links: Tensor) -> Tensor:
        """Vectors of all entities of a graph, [n, dim]."""
        vectors = torch.empty(structures.graph.n_entities, self.dim, device=structures.device)
        start = 0
        for view, weight in self.parts:
            place = vectors[:, start : start + view.dim]
            view.encode(structures.of(view), links, place)
            if weight != 1:
                place.mul_(weight**0.5)
            start += self._width(view)
        if self.names is not None:
            n_left = structures.graph.n_left
            for side, is_left in ((vectors[:n_left], True), (vectors[n_left:], False)):
                for block in torch.split(side, 2**14):
                    self._complete(block, left=is_left)
        return vectors

    def _complete(self, vectors: Tensor, *, left: bool) -> None:
        """Add what a missing name counts as, and make all lengths 1, in place.

        An entity with a name and nothing else has its name's vector.
        """
        names, weight = self.parts[-1]
        if len(self.parts) > 1:
            start = vectors.shape[1] - self._width(names)
            others, own, beside = vectors.tensor_split((start, start + names.dim), 1)
            known = others.any(1)
            factors, numbers = missing_names(own.any(1), left=left)
            own.mul_(factors.where(known, 1.0)[:, None])
            torch.mul(numbers, (known * weight**0.5)[:, None], out=beside)
        vectors.div_(vectors.norm(dim=1, keepdim=True).clamp(min=1e-12))

    def memory(self, structures: Structures, links: Tensor) -> Rows:
        """What newcomers will read of all entities; no vectors."""
        found = Rows(torch.empty(0))
        for view, _ in self.parts:
            rows = view.memory_of(structures.of(view), links)
            found.memory.update(rows.memory)
            found.shared.update(rows.shared)
        return found

    def newcomers(self, part: Part) -> Rows:
        """Vectors of a part's entities, and their memories."""
        made = [view.newcomers(part) for view, _ in self.parts]
        scaled = [
            rows.vectors if weight == 1 else rows.vectors * weight**0.5
            for rows, (_, weight) in zip(made, self.parts, strict=True)
        ]
        memory = {name: rows for one in made for name, rows in one.memory.items()}
        vectors = torch.cat(scaled, 1)
        if self.names is not None:
            vectors = F.pad(vectors, (0, self.dim - vectors.shape[1]))
            self._complete(vectors, left=part.side != "right")
        return Rows(vectors, memory)

    def attentions(self, part: Part) -> list[Attention]:
        """Which neighbours new vectors are made of, each view with its weight."""
        return [
            attention._replace(weights=weight * attention.weights)
            for view, weight in self.parts
            for attention in view.attentions(part, view.newcomers(part))
        ]

    def load(self, weights: Mapping[str, Tensor], *, with_entities: bool = True) -> None:
        """Load the encoder's weights.

        Args:
            with_entities: also tables with a row for each entity, which newcomers do without.
        """
        if self.encoder is not None:
            load_weights(self.encoder, weights, () if with_entities else self.encoder.entity_tables)
