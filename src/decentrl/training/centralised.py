"""The training objective of centralised rivals: links together, wrong counterparts apart."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from decentrl.graph.adjacency import Adjacency, Ids
from decentrl.graph.centralised import CentralisedView
from decentrl.nn.aggregate import gather
from decentrl.nn.alignment import join
from decentrl.nn.losses import contrastive_alignment_loss, joined_dots, ranking_loss
from decentrl.nn.rivals.alinet import relation_loss
from decentrl.nn.rivals.centralised import CentralisedModel
from decentrl.training.alignment import LinkObjective


class CentralisedObjective(LinkObjective):
    """A wrong counterpart takes the place of either end of a link, ``loss.negatives`` times each.

    With ``loss.kind = "ranking"`` the last layer as it is counts, otherwise the whole unit vector.

    With ``loss.hardness`` above 1 so many times as many are drawn in a step, and each end is
    replaced by the nearest of them: AliNet's truncated sampling, in which replacements come from
    the nearest share of all entities, without a list of these that would grow old. They are near
    the end that they replace or, with ``loss.nearest_to = "kept"``, near its counterpart, which
    stays: the entities that this one is most easily linked to by mistake.
    """

    model: CentralisedModel
    view: CentralisedView

    def loss(self, batch: Ids, rng: np.random.Generator) -> Tensor:
        settings, device = self.config.loss, self.model.entities.device
        parts: list[Tensor] = self.model(self.view)
        links = torch.from_numpy(batch).to(device)
        left, right = self._wrong(parts, links, rng)
        if settings.kind == "ranking":
            loss = ranking_loss(parts[-1], links, left, right, settings.margin)
        else:
            loss = self._contrastive(parts, links, left, right)
        if settings.relations:
            loss = loss + settings.relations * relation_loss(parts, self.view)
        return loss

    def _contrastive(
        self, parts: list[Tensor], links: Tensor, left: Tensor, right: Tensor
    ) -> Tensor:
        settings, n = self.config.loss, len(self.view.seen)
        ends = join([gather(part, links.t().reshape(-1)) for part in parts])
        first, second = ends.chunk(2)
        pairs = torch.cat((_beside(left, links[:, 1]), _beside(right, links[:, 0]).flip(0)), 1)
        pairs = pairs[:, torch.argsort(pairs[0], stable=True)]
        return contrastive_alignment_loss(
            (first * second).sum(-1),
            joined_dots(parts, Adjacency.with_transpose(pairs[0], pairs[1], n, n)),
            margin=settings.margin,
            weight=settings.weight,
            squared=settings.squared,
        )

    def _wrong(
        self, parts: list[Tensor], links: Tensor, rng: np.random.Generator
    ) -> tuple[Tensor, Tensor]:
        """Entities to replace left ends with, and right ends: int64[b, negatives] each."""
        settings = self.config.loss
        found = []
        for side, among in enumerate((self.seen_left, self.seen_right)):
            if settings.hardness == 1:
                drawn = rng.choice(among, (len(links), settings.negatives))
                found.append(torch.from_numpy(drawn).to(links.device))
                continue
            size = min(len(among), settings.negatives * settings.hardness)
            pool = rng.choice(among, size, replace=False, shuffle=False)
            to = side if settings.nearest_to == "replaced" else 1 - side
            found.append(self._nearest(parts, links, side, to, torch.from_numpy(pool)))
        return found[0], found[1]

    @torch.no_grad()
    def _nearest(
        self, parts: list[Tensor], links: Tensor, side: int, to: int, pool: Tensor
    ) -> Tensor:
        """Of a pool of one side, int64[p], those nearest to each link's end ``to``, but not the
        link's own end of that side."""
        pool = pool.to(links.device)
        cosine = join([p[links[:, to]] for p in parts]) @ join([p[pool] for p in parts]).t()
        cosine.masked_fill_(links[:, side, None] == pool, -2.0)
        count = min(self.config.loss.negatives, len(pool))
        nearest: Tensor = pool[cosine.topk(count, sorted=False).indices]
        return nearest


def _beside(wrong: Tensor, ends: Tensor) -> Tensor:
    """Pairs of each replacement, [b, k], and the end that stays, [b]: [2, b · k]."""
    return torch.stack((wrong, ends[:, None].expand_as(wrong))).flatten(1)
