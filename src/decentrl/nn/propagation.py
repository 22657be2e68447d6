"""Seed propagation: entity features from known links, without training.

Every known link gets a random vector, on both its entities; the vectors travel along edges and
relations of either graph. Two entities are alike if they meet the same links on the same paths.
Nothing of an entity's own enters, so one that arrives later has its features at once.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from decentrl.config.alignment import Propagation
from decentrl.graph.relational import PropagationView
from decentrl.nn.aggregate import pool, weighted_sum
from decentrl.nn.running import FrozenStates

_AT_ONCE = 4
_ROWS = 1 << 15


class SeedPropagation:
    r"""Features of entities and relations from the links around them.

    .. math::
        R^{k+1} = \mathrm{norm}(A_{re} E^k), \quad
        E^{k+1} = \mathrm{norm}((A_{ee} + 2D) E^k + A_{er} R^k)

    E⁰ is one random unit vector a link and 0 elsewhere, R⁰ is 0: what relations carry arrives a
    round later than what edges do. A_ee counts edges, D is the degree, A_re joins a directed
    relation to its heads and A_er an entity to the relations it is a tail of; norm makes rows of
    length 1. The idea is that of LightEA (label propagation in three views).

    Args:
        view: the graph, on the device to work on.
        links: int64[n, 2], entities that are the same.
        dim: width of the random vectors.
        rounds: how far they travel.
        seed: of everything random here.
    """

    def __init__(
        self, view: PropagationView, links: Tensor, *, dim: int, rounds: int, seed: int
    ) -> None:
        self.view = view
        self._random = torch.Generator().manual_seed(seed)
        device = view.directed_relations.device
        seeds = F.normalize(self._normal(len(links), dim), dim=-1)
        entities = torch.zeros(view.edges.n_rows, dim, device=device)
        for side in links.to(device).T:
            entities.index_add_(0, side, seeds)
            linked, times = side.unique(return_counts=True)
            several = linked[times > 1]  # entities in several links have a part of each
            entities[several] = F.normalize(entities[several], dim=-1)
        relations = [torch.zeros(view.heads.n_rows, dim, device=device)]
        # Rounds 0 … K side by side, [n_entities, (rounds + 1) · dim] and [2 · n_relations, …].
        # Of a large graph they are most of the memory, so they are made in their place.
        self.entities = entities.new_empty(len(entities), (rounds + 1) * dim)
        self.entities[:, :dim] = entities
        for k in range(1, rounds + 1):
            moved = _moved(entities, relations[-1], view)
            relations.append(F.normalize(pool(entities, view.heads, "sum"), dim=-1))
            self.entities[:, k * dim : (k + 1) * dim] = entities = moved
            del moved
        self.entities.div_(self.entities.norm(dim=-1, keepdim=True).clamp_min(1e-12))
        self.relations = torch.cat(relations, -1)

    def features(self, relation_dim: int, width: int, out: Tensor | None = None) -> Tensor:
        r"""What links an entity meets beyond which relations: [n_entities, relation_dim · width].

        .. math::
            u_i = \Big\Vert_k \sum_{(r, j) \in N(i)} (Q^\top R_r)_k \, P_k^\top E_j

        Q and P_k are random projections to ``relation_dim`` and ``width`` coordinates: u is a
        sketch of :math:`\sum R_r \otimes E_j`. Rows have length 1 (or 0).

        Args:
            out: where to put the result.
        """
        projection = self._normal(self.relations.shape[1], relation_dim) / relation_dim**0.5
        by_relation = F.normalize(self.relations, dim=-1) @ projection
        edges, directed = self.view.edges, self.view.directed_relations
        if out is None:
            out = self.entities.new_empty(len(self.entities), relation_dim * width)
        drawn = [self._normal(self.entities.shape[1], width) for _ in range(relation_dim)]
        for first in range(0, relation_dim, _AT_ONCE):  # fewer passes over all entities
            some = torch.cat(drawn[first : first + _AT_ONCE], 1) / width**0.5
            for k, values in enumerate((self.entities @ some).split(width, dim=1), first):
                weights = by_relation[:, k].contiguous()[directed]
                values = values.contiguous()
                out[:, k * width : (k + 1) * width] = weighted_sum(weights, values, edges)
        return out.div_(out.norm(dim=-1, keepdim=True).clamp(min=1e-12))

    def _normal(self, *shape: int) -> Tensor:
        """Random on the CPU, so that every device sees the same numbers."""
        return torch.randn(*shape, generator=self._random).to(self.view.directed_relations.device)


class GrownPropagation:
    """:class:`SeedPropagation` of entities that come later, while all others stay as they are.

    Args:
        relations: of the propagation before them.
        n_links: how many links it had: its random numbers are drawn again.
        settings, seed: as it had.
    """

    def __init__(self, relations: Tensor, n_links: int, settings: Propagation, seed: int) -> None:
        self.relations, self.rounds, self.width = relations, settings.rounds, settings.width
        size, relation_dim, width = relations.shape[1], settings.relation_dim, settings.width
        random = torch.Generator().manual_seed(seed)
        torch.randn(n_links, settings.dim, generator=random)
        projection = torch.randn(size, relation_dim, generator=random) / relation_dim**0.5
        self.by_relation = F.normalize(relations, dim=-1) @ projection.to(relations.device)
        drawn = (torch.randn(size, width, generator=random) for _ in range(relation_dim))
        self.projection = (torch.cat(list(drawn), 1) / width**0.5).to(relations.device)

    def entities(self, view: PropagationView, frozen: FrozenStates, directed: Tensor) -> Tensor:
        """Rounds 0 … K side by side, [n_entities, (rounds + 1) · dim].

        Args:
            frozen: its states have one stage, all rounds in one.
            directed: int64[k], which directed relations those of ``view`` are.
        """
        (known,) = frozen.states
        before = [F.normalize(part, dim=-1) for part in known.chunk(self.rounds + 1, 1)]
        relations = self.relations[directed].chunk(self.rounds + 1, 1)
        steps = [frozen.mask[:, None] * before[0]]  # no link names an entity that comes later
        for k in range(1, self.rounds + 1):
            moved = _moved(steps[-1], relations[k - 1], view)
            steps.append(torch.where(frozen.mask[:, None], before[k], moved))
        return F.normalize(torch.cat(steps, -1), dim=-1)

    def features(
        self, view: PropagationView, entities: Tensor, new: Tensor, directed: Tensor
    ) -> tuple[Tensor, Tensor]:
        """As :meth:`SeedPropagation.features`, of the entities ``new``, bool[n], alone.

        There all edges are gone over once for each coordinate; here they are few, and gone over
        once, some at a time.

        Returns:
            the features, and how much every edge brings to them: [n_edges], 0 for others.
        """
        graph, values = view.edges, entities @ self.projection
        out, lengths = torch.zeros_like(values), values.new_zeros(graph.n_edges)
        every = new[graph.rows].nonzero()[:, 0]
        for edges in every.tensor_split(1 + graph.n_edges // 512):
            weights = self.by_relation[directed[view.directed_relations[edges]]][:, :, None]
            parts = values[graph.columns[edges]].view(*weights.shape[:2], self.width)
            parts = parts.mul_(weights).flatten(1)
            out.index_add_(0, graph.rows[edges], parts)
            lengths[edges] = parts.norm(dim=1)
        return out.div_(out.norm(dim=-1, keepdim=True).clamp(min=1e-12)), lengths


def _moved(entities: Tensor, relations: Tensor, view: PropagationView) -> Tensor:
    """One round further: E from E and R of the round before."""
    degrees = view.edges.degrees()[:, None].to(entities.dtype)
    moved = pool(entities, view.edges, "sum")
    for some in _blocks(len(moved)):
        moved[some] += 2 * degrees[some] * entities[some]
    moved += pool(relations, view.tails, "sum")
    return moved.div_(moved.norm(dim=-1, keepdim=True).clamp_min(1e-12))


def _blocks(n: int) -> Iterator[slice]:
    """Slices of many rows, so that what is made for a time is small."""
    return (slice(start, start + _ROWS) for start in range(0, n, _ROWS))


def same_relations(features: Tensor, n_left: int, threshold: float) -> Tensor:
    """Relations of two graphs that are each other's nearest, as a representative for each.

    Args:
        features: [2 · n_relations, d], the relations of the left graph first, from their heads;
            then the same from their tails (:attr:`SeedPropagation.relations`).
        n_left: how many relations the left graph has.
        threshold: cosine from which on two relations may be the same.
    Returns:
        int64[2 · n_relations]: a right relation's left counterpart, any other relation itself.
    """
    half = len(features) // 2
    representative = torch.arange(len(features), device=features.device)
    if n_left in (0, half):
        return representative
    both = F.normalize(torch.cat((features[:half], features[half:]), -1), dim=-1)
    cosine = both[:n_left] @ both[n_left:].t()
    nearest = cosine.argmax(1)
    left = torch.arange(n_left, device=features.device)
    best = cosine[left, nearest]
    # Relations that met no link have no direction; they have no counterpart.
    mutual = (cosine.argmax(0)[nearest] == left) & (best >= threshold) & (best > 0)
    right = nearest[mutual] + n_left
    representative[right] = left[mutual]
    representative[right + half] = left[mutual] + half
    return representative
