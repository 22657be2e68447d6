"""The paths that made an answer likely: a beam search along the slopes of its score."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from decentrl.graph.adjacency import Ids
from decentrl.graph.messages import Messages

BEAM = 512
"""Partial paths that are followed from layer to layer."""

Edge = tuple[int, int, int]
"""From an entity, by a directed relation, to an entity."""


class Path(NamedTuple):
    """A path from the entity of a question to an answer, and its share in what all paths give."""

    edges: tuple[Edge, ...]
    share: float


@dataclass(frozen=True, eq=False)
class _Beam:
    """Partial paths that end at the answer: where each begins, its weight and its edges."""

    nodes: Ids
    weights: np.ndarray
    edges: list[tuple[Edge, ...]]


def best_paths(
    graph: Messages, slopes: list[tuple[Tensor, Tensor, Tensor]], head: int, answer: int, top: int
) -> list[Path]:
    """The paths without a circle that a score owes most to.

    An edge that a layer reads counts for the slope of the score by its weight; a path for the sum
    of its edges', in whichever layers it takes them.

    Args:
        slopes: what :meth:`~decentrl.nn.paths.PathNetwork.slopes` gives.
    """
    steps = distances(graph, head, len(slopes))
    beam = _Beam(np.array([answer]), np.zeros(1), [()])
    for left, layer in reversed(list(enumerate(slopes))):
        beam = _extended(beam, graph, layer, steps <= left)
    found: dict[tuple[Edge, ...], float] = defaultdict(float)
    for weight, edges in zip(beam.weights.tolist(), beam.edges, strict=True):
        ends = [head, *(v for _, _, v in edges)]
        if edges and len(set(ends)) == len(ends):
            found[edges] += weight
    kept = {edges: weight for edges, weight in found.items() if weight > 0}
    total = sum(kept.values())
    best = sorted(kept, key=lambda edges: (-kept[edges], len(edges), edges))[:top]
    return [Path(edges, kept[edges] / total) for edges in best]


def distances(graph: Messages, head: int, most: int) -> Ids:
    """How many edges each entity is away from one, ``most`` + 1 if more: int64[n]."""
    rows, _, columns = (x.cpu() for x in graph.edges)
    found = torch.full((graph.groups.n_rows,), most + 1)
    found[head] = 0
    for step in range(1, most + 1):
        reached = rows[found[columns] == step - 1]
        found[reached] = found[reached].clamp(max=step)
    return found.numpy()


def _extended(
    beam: _Beam, graph: Messages, layer: tuple[Tensor, Tensor, Tensor], near: np.ndarray
) -> _Beam:
    """Partial paths with one more edge at their beginning, or none in this layer.

    Args:
        near: bool[n], the entities from which the rest of the layers can come.
    """
    stays = np.flatnonzero(near[beam.nodes])
    nodes, weights = [beam.nodes[stays]], [beam.weights[stays]]
    origin, added = [stays], list[Edge | None]([None] * len(stays))
    for v in np.unique(beam.nodes).tolist():
        sources, relations, counts = _edges_to(graph, layer, v, near)
        for i in np.flatnonzero(beam.nodes == v).tolist():
            nodes.append(sources)
            weights.append(beam.weights[i] + counts)
            origin.append(np.full(len(sources), i))
            pairs = zip(sources.tolist(), relations.tolist(), strict=True)
            added += [(u, r, v) for u, r in pairs]
    every, heavy, whence = (np.concatenate(parts) for parts in (nodes, weights, origin))
    best = np.argsort(-heavy, kind="stable")[:BEAM]
    edges = []
    for k in best.tolist():
        edge, rest = added[k], beam.edges[int(whence[k])]
        edges.append(rest if edge is None else (edge, *rest))
    return _Beam(every[best], heavy[best], edges)


def _edges_to(
    graph: Messages, layer: tuple[Tensor, Tensor, Tensor], v: int, near: np.ndarray
) -> tuple[Ids, Ids, np.ndarray]:
    """The weightiest edges that end at v: where they begin, their relations and weights."""
    x, w, slope = layer
    ends = graph.sources.indptr[graph.groups.indptr[v : v + 2]].tolist()
    some = slice(int(ends[0]), int(ends[1]))
    sources = graph.sources.columns[some]
    relations = graph.groups.columns[graph.sources.rows[some]]
    # x[u] ⊙ w[ρ] · slope[v], a relation's part first.
    parts = (w * slope[v])[relations]
    counts = (x[sources].float() * parts.float()).sum(1)
    kept = torch.from_numpy(near).to(sources.device)[sources]
    sources, relations, counts = sources[kept], relations[kept], counts[kept]
    order = counts.argsort(descending=True, stable=True)[:BEAM]
    return sources[order].cpu().numpy(), relations[order].cpu().numpy(), counts[order].cpu().numpy()
