"""Why an entity has the vector it has: which neighbours and relations it is made of."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from decentrl.data.vocabulary import Ids
from decentrl.errors import InputError
from decentrl.graph.arrivals import Neighbourhood
from decentrl.growth.growing_graph import Growing, GrowingGraph
from decentrl.growth.newcomers import VECTORS


@dataclass(frozen=True)
class Reason:
    """One neighbour, by one relation.

    Attributes:
        neighbour: its label.
        relation: its label; empty for a neighbour's neighbour.
        role: what the explained entity is in the triple, ``head`` or ``tail``.
        weight: how much attention the neighbour gets by this relation; all weights sum to 1.
        moves: how far the vector would move without this neighbour: 1 - cos; None if not asked.
        arrived: whether the triple came after training.
    """

    neighbour: str
    relation: str
    role: str
    weight: float
    moves: float | None
    arrived: bool


def explain(growing: Growing, side: str, entity: int, moved: int = 5) -> list[Reason]:
    """What an entity's vector is made of, of all triples there are now.

    The neighbour with the most weight comes first, by all its relations together.

    The weight of an edge is the mean of what the encoder's attentions give it, in every layer and
    view; where seed propagation takes part, so does the share that the edge has in that.

    Args:
        moved: for so many of the weightiest neighbours, and for the last, tell how far the vector
            moves without them.
    """
    graph = growing.sides[side]
    if set(growing.model.widths) == {VECTORS}:
        raise InputError(
            "this model reads no neighbours: a vector is the entity's own embedding",
            remedy="train with model.encoder=dan or reflection to have it explained",
        )
    part = _around(growing, graph, entity)
    own = int(np.searchsorted(part.entities, entity))
    edges = _edges(part.triples, own)
    if not edges:
        return []
    weights = _weights(growing, graph, part, own, edges)
    of_neighbour: dict[int, float] = {}
    for edge, weight in weights.items():
        of_neighbour[edge[0]] = of_neighbour.get(edge[0], 0.0) + weight
    order = sorted(edges, key=lambda edge: (-of_neighbour[edge[0]], edge[0], -weights[edge]))
    neighbours = list(dict.fromkeys(neighbour for neighbour, _, _ in order))
    asked = {*neighbours[:moved], *neighbours[-1:]} if moved else set()
    shifts = {n: _shift(growing, graph, part, n) for n in asked}
    arrived = {tuple(row) for row in graph.arrivals.triples.tolist()}
    relations = graph.trained.graph.relations
    reasons = []
    for neighbour, relation, role in order:
        other = int(part.entities[neighbour])
        triple = (entity, relation, other) if role == "head" else (other, relation, entity)
        reasons.append(
            Reason(
                graph.entities[other],
                relations[relation] if relation >= 0 else "",
                role,
                weights[neighbour, relation, role],
                shifts.get(neighbour),
                triple in arrived,
            )
        )
    return reasons


Edge = tuple[int, int, str]
"""A neighbour in local ids, a relation, and the role of the entity itself."""


def _around(growing: Growing, graph: GrowingGraph, entity: int) -> Neighbourhood:
    """The entity, as if it were to be made now, among its neighbours."""
    if not graph.arrivals.is_trained(np.array([entity]))[0]:
        return graph.arrivals.neighbourhood(np.array([entity]), growing.model.reads_two_hops)
    triples = graph.arrivals.about(entity)
    if growing.model.reads_two_hops:
        near = np.setdiff1d(triples[:, [0, 2]], [entity])
        more = [graph.arrivals.about(int(end)) for end in near]
        triples = np.unique(np.concatenate((triples, *more)), axis=0)
    entities = np.union1d(triples[:, [0, 2]], [entity])
    local = triples.copy()
    local[:, [0, 2]] = np.searchsorted(entities, triples[:, [0, 2]])
    dropped = graph.arrivals.dropped if growing.model.reads_two_hops else None
    # All that is known of it counts, whenever it came.
    return Neighbourhood(entities, local, entities == entity, np.zeros(len(local), bool), dropped)


def _edges(triples: Ids, own: int) -> list[Edge]:
    found: dict[Edge, None] = {}
    for head, relation, tail in triples.tolist():
        if head == own and tail != own:
            found[tail, relation, "head"] = None
        if tail == own and head != own:
            found[head, relation, "tail"] = None
    return list(found)


def _weights(
    growing: Growing, graph: GrowingGraph, part: Neighbourhood, own: int, edges: list[Edge]
) -> dict[Edge, float]:
    """Of every edge; neighbours' neighbours that the encoder reads are added to ``edges``."""
    model, shift = growing.model, graph.trained.shift
    n_relations = len(model.seen_relations)
    by_neighbour: dict[int, list[Edge]] = {}
    by_relation: dict[tuple[int, str], list[Edge]] = {}
    for edge in edges:
        by_neighbour.setdefault(edge[0], []).append(edge)
        by_relation.setdefault(edge[1:], []).append(edge)
    total = dict.fromkeys(edges, 0.0)
    for attention in growing.attention(graph, part):
        mine = attention.rows == own
        columns, kinds = attention.columns[mine].tolist(), attention.relations[mine].tolist()
        for neighbour, kind, weight in zip(
            columns, kinds, attention.weights[mine].tolist(), strict=True
        ):
            if neighbour == own:  # who is joined to itself tells nothing new
                continue
            role = "head" if kind < n_relations else "tail"
            same = [(neighbour, kind % n_relations - shift, role)]
            if kind < 0:  # a neighbour, by whatever relation
                same = by_neighbour.get(neighbour, [(neighbour, -1, "head")])
            elif neighbour < 0:  # a relation, to whatever neighbour
                same = by_relation.get((kind % n_relations - shift, role), [])
            for edge in same:
                total[edge] = total.get(edge, 0.0) + weight / len(same)
    edges[:] = list(total)
    scale = sum(total.values())  # an attention that found nobody to attend to has no weights
    if not scale:
        raise InputError(
            f"nothing known reaches {graph.entities[int(part.entities[own])]!r}, so it has no "
            "vector to explain",
            remedy="add triples that join it to known entities",
        )
    return {edge: weight / scale for edge, weight in total.items()}


def _shift(growing: Growing, graph: GrowingGraph, part: Neighbourhood, neighbour: int) -> float:
    """How far the vector moves without a neighbour: 1 - cos."""
    apart = (part.triples[:, [0, 2]] != neighbour).all(axis=1)
    fewer = replace(part, triples=part.triples[apart], later=part.later[apart])
    with_it, without = (_vector(growing, graph, p) for p in (part, fewer))
    return 1 - F.cosine_similarity(with_it, without, dim=0).item()


def _vector(growing: Growing, graph: GrowingGraph, part: Neighbourhood) -> Tensor:
    rows = growing.make(graph, part)
    vector: Tensor = growing.model.split(rows)[VECTORS][0].to(torch.float64)
    return vector
