"""Vectors of entities that come later, from a frozen model: nothing is trained.

What is made of a new entity is a *row*: its vector, and what entities that come after it will read
of it (the encoder's states, its input embedding, the propagated seeds). Rows of all others are read
from memory and stay as they are, so a row costs what the entity's own triples cost.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from decentrl.config import Config, PredictionConfig
from decentrl.graph.adjacency import Ids
from decentrl.graph.arrivals import Neighbourhood
from decentrl.nn.counterparts import WIDTH as COUNTERPART
from decentrl.scorers.model import PredictionModel
from decentrl.views.base import Attention
from decentrl.views.fused import FusedViews
from decentrl.views.part import Mask, Part

Take = Callable[[str, Ids], Tensor]
"""Rows of a memory by its name and the ids of entities: float32[k, width]."""
Made = dict[str, Tensor]
"""The parts of rows by their names, [n, width] each."""

VECTORS = "vectors"
SMALL = 1000
"""Triples up to which one thread works alone."""


class Newcomers(ABC):
    """Makes rows of new entities with a frozen model.

    Args:
        seen_relations: bool[n_relations], those that training has seen.
        device: where the model works.

    Attributes:
        widths: how wide each part of a row is, in their order; the vector comes first.
        reach: how many steps through new entities the effect of a triple goes.
        reads_two_hops: whether an entity reads its neighbours' neighbours.
        model: the frozen encoder; None where there is none.
    """

    widths: dict[str, int]
    reach: int
    reads_two_hops = False
    model: Any

    def __init__(
        self, seen_relations: Mask, device: torch.device, shared: Mapping[str, Tensor]
    ) -> None:
        self.seen_relations, self.device, self.shared = seen_relations, device, shared

    @property
    def width(self) -> int:
        """Width of a row."""
        return sum(self.widths.values())

    def split(self, rows: Tensor) -> Made:
        """The parts of rows, [k, width], by their names."""
        parts = torch.split(rows, list(self.widths.values()), dim=1)
        return dict(zip(self.widths, parts, strict=True))

    def rows(self, hood: Neighbourhood, trained: Mask, take: Take) -> Tensor:
        """Rows of ``hood.made``, [k, width].

        Args:
            trained: bool[n], which of ``hood.entities`` training has seen.
            take: reads rows of the entities that are not new.
        """
        with _one_thread_if(len(hood.triples) <= SMALL):
            part = self._part(hood, trained, take)
            made = self.make(part)
            return torch.cat([made[name][part.new] for name in self.widths], 1).cpu()

    @abstractmethod
    def make(self, part: Part) -> Made:
        """The rows of all entities of a part."""

    def attention(self, hood: Neighbourhood, trained: Mask, take: Take) -> list[Attention]:
        """Which neighbours new rows are made of; the weights of a row sum to 1 in all.

        Every attention layer of the encoder has the same share.
        """
        return self.attentions(self._part(hood, trained, take))

    @abstractmethod
    def attentions(self, part: Part) -> list[Attention]:
        """:meth:`attention` of a part."""

    def students(self, states: Tensor) -> Tensor:
        """What the self-distillation head reads of an entity's states, [k, …]."""
        return states

    def _part(self, hood: Neighbourhood, trained: Mask, take: Take) -> Part:
        known = ~hood.new

        def read(name: str) -> Tensor:
            rows = torch.zeros(len(hood.entities), self.widths[name])
            if known.any():
                rows[torch.from_numpy(known)] = take(name, hood.entities[known])
            return rows.to(self.device)

        return Part(hood, trained, self.seen_relations, read, self.shared, self.device)


class AlignmentNewcomers(Newcomers):
    """Rows of new entities of either of two graphs.

    Args:
        weights: of the encoder.
        shared: memories that do not belong to one entity.
        seen_relations: of both graphs, the left one's first; triples use these ids.
        marked: vectors have coordinates about counterparts; a new entity has none yet.
    """

    def __init__(
        self,
        config: Config,
        weights: Mapping[str, Tensor],
        shared: Mapping[str, Tensor],
        seen_relations: Mask,
        device: torch.device,
        marked: bool,
    ) -> None:
        super().__init__(seen_relations, device, shared)
        self.views, self.marked = FusedViews(config, 1, len(seen_relations)), marked
        self.views.load(weights, with_entities=False)
        self.model = self.views.encoder
        if self.model is not None:
            self.model.to(device)
        views = [view for view, _ in self.views.parts]
        self.reach = max(view.reach for view in views)
        self.reads_two_hops = any(view.reads_two_hops for view in views)
        vectors = self.views.dim + (COUNTERPART if marked else 0)
        self.widths = {VECTORS: vectors, **self.views.memories}

    def make(self, part: Part) -> Made:
        vectors, rows, _ = self.views.newcomers(part, self.marked)
        return {VECTORS: vectors, **rows.memory}

    def attentions(self, part: Part) -> list[Attention]:
        _, _, made = self.views.newcomers(part, self.marked)
        return self.views.attentions(part, made)

    def students(self, states: Tensor) -> Tensor:
        return states if self.model is None else self.model.students(states)


@contextmanager
def _one_thread_if(few: bool) -> Iterator[None]:
    """One thread for little work: several wait longer for each other than they work."""
    threads = torch.get_num_threads()
    if not few or threads == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


class PredictionNewcomers(Newcomers):
    """Rows of new entities of the one graph of a predictor."""

    def __init__(
        self,
        config: PredictionConfig,
        weights: Mapping[str, Tensor],
        seen_relations: Mask,
        device: torch.device,
    ) -> None:
        super().__init__(seen_relations, device, {})
        self.model: PredictionModel = PredictionModel(1, len(seen_relations), config)
        self.model.load_frozen(weights)
        self.model.to(device)
        self.widths = {VECTORS: config.width, **self.model.encoder.memories}
        self.reach = self.model.encoder.reach

    def make(self, part: Part) -> Made:
        rows = self.model.newcomers(part)
        return {VECTORS: rows.vectors, **rows.memory}

    def attentions(self, part: Part) -> list[Attention]:
        return self.model.attentions(part)

    def students(self, states: Tensor) -> Tensor:
        return self.model.encoder.students(states)
