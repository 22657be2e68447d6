"""What graph networks have in common that read an entity's own embedding too."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from decentrl.config import Config
from decentrl.graph.adjacency import Adjacency, Ids
from decentrl.graph.merged import MergedGraph
from decentrl.nn.aggregate import gather
from decentrl.nn.losses import contrastive_alignment_loss, join, joined_dots
from decentrl.nn.running import eval_mode
from decentrl.views.base import LinkObjective, Rows, TrainingData, View
from studies.rivals.centralised_view import CentralisedView

Parts = list[Tensor]
"""The parts of every entity's vector before normalisation, [n_entities, …] each."""
Wrong = tuple[Tensor, Tensor]
"""What replaces the left ends of links, and the right ends: int64[b, negatives] each."""


class CentralisedModel(View):
    """An input embedding for every entity, of length 1 at first, and layers over them.

    An entity that is unseen in training keeps the embedding it began with, and it is read like
    any other: this is how such a network meets an open world.

    Attributes:
        functional: weigh neighbours by how functional the relations between are.
        two_hop: read two-hop neighbours, too.
        reads_links: a triple between two linked entities counts in the other graph too.
        negatives: wrong counterparts for either end of a link.
        margin: how far apart wrong pairs should be.
        hardness: draw so many times as many wrong counterparts and keep the nearest ones.
        nearest_to_kept: these are near the end that stays, not the one that is replaced.
    """

    functional: ClassVar[bool] = False
    two_hop: ClassVar[bool] = False
    negatives: ClassVar[int] = 10
    margin: ClassVar[float] = 1.5
    hardness: ClassVar[int] = 50
    nearest_to_kept: ClassVar[bool] = False

    def __init__(self, config: Config, n_entities: int, n_relations: int) -> None:
        super().__init__()
        self.config, model = config, config.model
        self.entities = nn.Parameter(F.normalize(torch.randn(n_entities, model.dim), dim=1))
        self.layers = nn.ModuleList(self.make_layers(model))
        self.dim = sum(self.widths(model))

    def make_layers(self, model: Any) -> Iterable[nn.Module]:
        """One module a layer; none if the layers have nothing to learn."""
        return ()

    def widths(self, model: Any) -> list[int]:
        """Width of each part of an entity's vector."""
        return [model.dim] * (model.layers + 1)

    def forward(self, structure: CentralisedView) -> Parts:
        """The input embedding and the outputs of all layers."""
        parts: Parts = [self.entities]
        for layer in self.layers:
            parts.append(layer(parts[-1], structure))
        return parts

    def read(
        self, graph: MergedGraph, trained_on: MergedGraph, device: torch.device
    ) -> CentralisedView:
        return CentralisedView.build(
            graph,
            functional=self.functional,
            two_hop=self.two_hop,
            counterparts=self.reads_links,
            trained_on=trained_on,
        ).to(device)

    @torch.no_grad()
    def encode(self, structure: CentralisedView, links: Tensor, out: Tensor | None = None) -> Rows:
        with eval_mode(self):
            vectors = join(self(structure))
        return Rows(vectors if out is None else out.copy_(vectors))

    def objective(self, structure: CentralisedView, data: TrainingData) -> CentralisedObjective:
        return CentralisedObjective(self, structure, data)

    def loss(self, parts: Parts, view: CentralisedView, links: Tensor, wrong: Wrong) -> Tensor:
        """Linked pairs, int64[b, 2], together, and wrong pairs a margin apart."""
        n = len(view.seen)
        ends = join([gather(part, links.t().reshape(-1)) for part in parts])
        first, second = ends.chunk(2)
        left, right = wrong
        pairs = torch.cat((_beside(left, links[:, 1]), _beside(right, links[:, 0]).flip(0)), 1)
        pairs = pairs[:, torch.argsort(pairs[0], stable=True)]
        return contrastive_alignment_loss(
            (first * second).sum(-1),
            joined_dots(parts, Adjacency.from_sorted(pairs[0], pairs[1], n, n)),
            margin=self.margin,
        )


class CentralisedObjective(LinkObjective):
    """A wrong counterpart takes the place of either end of a link, several times each.

    With a ``hardness`` above 1 so many times as many are drawn in a step, and each end is replaced
    by the nearest of them: AliNet's truncated sampling, in which replacements come from the nearest
    share of all entities, without a list of these that would become outdated.
    """

    model: CentralisedModel

    def loss(self, batch: Ids, rng: np.random.Generator) -> Tensor:
        parts: Parts = self.model(self.structure)
        links = torch.from_numpy(batch).to(self.model.entities.device)
        return self.model.loss(parts, self.structure, links, self._wrong(parts, links, rng))

    def _wrong(self, parts: Parts, links: Tensor, rng: np.random.Generator) -> Wrong:
        model = self.model
        found = []
        for side, among in enumerate((self.seen_left, self.seen_right)):
            if model.hardness == 1:
                drawn = rng.choice(among, (len(links), model.negatives))
                found.append(torch.from_numpy(drawn).to(links.device))
                continue
            size = min(len(among), model.negatives * model.hardness)
            pool = rng.choice(among, size, replace=False, shuffle=False)
            to = 1 - side if model.nearest_to_kept else side
            found.append(self._nearest(parts, links, side, to, torch.from_numpy(pool)))
        return found[0], found[1]

    @torch.no_grad()
    def _nearest(self, parts: Parts, links: Tensor, side: int, to: int, pool: Tensor) -> Tensor:
        """Of a pool of one side, int64[p], those nearest to each link's end ``to``, but not the
        link's own end of that side."""
        pool = pool.to(links.device)
        cosine = join([p[links[:, to]] for p in parts]) @ join([p[pool] for p in parts]).t()
        cosine.masked_fill_(links[:, side, None] == pool, -2.0)
        count = min(self.model.negatives, len(pool))
        nearest: Tensor = pool[cosine.topk(count, sorted=False).indices]
        return nearest


def _beside(wrong: Tensor, ends: Tensor) -> Tensor:
    """Pairs of each replacement, [b, k], and the end that stays, [b]: [2, b · k]."""
    return torch.stack((wrong, ends[:, None].expand_as(wrong))).flatten(1)


def linear(inputs: int, outputs: int, bias: bool = False) -> nn.Linear:
    """A map with Glorot's initial weights."""
    layer = nn.Linear(inputs, outputs, bias=bias)
    nn.init.xavier_uniform_(layer.weight)
    if bias:
        nn.init.zeros_(layer.bias)
    return layer
