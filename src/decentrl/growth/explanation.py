"""Explanations of vectors: the weight of each neighbour and relation in an entity's vector."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace

import numpy as np
import torch.nn.functional as F
from torch import Tensor

from decentrl.errors import InputError
from decentrl.graph.arrivals import Neighbourhood
from decentrl.growth.growing import Growing
from decentrl.growth.growing_graph import GrowingGraph
from decentrl.growth.neighbours import no_vector
from decentrl.growth.newcomers import VECTORS


@dataclass(frozen=True)
class Reason:
    """The weight of one neighbour, by one relation, in an entity's vector.

    Attributes:
        neighbour: its label.
        relation: its label; empty for a neighbour's neighbour.
        role: what the explained entity is in the triple, ``head`` or ``tail``.
        weight: how much attention the neighbour gets by this relation; all weights sum to 1.
        moves: how far the vector would move without this neighbour: 1 - cos; None if not computed.
        arrived: whether the triple was added after training.
        neighbour_name: "" where there is none.
    """

    neighbour: str
    relation: str
    role: str
    weight: float
    moves: float | None
    arrived: bool
    neighbour_name: str = ""


def explain(
    growing: Growing, side: str, entity: int, moved: int = 5, language: str = ""
) -> list[Reason]:
    """Explain an entity's vector by its neighbours, over all triples there are now.

    The neighbour with the most weight, over all its relations together, comes first.

    The weight of an edge is the mean of its attention weights in every layer and view, and of its
    share in seed propagation, where that takes part.

    Args:
        moved: compute how far the vector moves without a neighbour for this many of the
            weightiest neighbours, and for the last one.
        language: of the neighbours' names.
    """
    graph = growing.sides[side]
    if set(growing.model.widths) == {VECTORS}:
        raise InputError(
            "this model reads no neighbours: a vector is the entity's own embedding",
            remedy="train with model.encoder=dan or reflection to have it explained",
        )
    part = around(growing, graph, entity)
    weights = _weights(growing, graph, part, int(np.searchsorted(part.entities, entity)))
    if weights and not any(weights.values()):
        raise no_vector(graph, entity)
    of_neighbour = _of_neighbour(weights)
    order = sorted(weights, key=lambda edge: (-of_neighbour[edge[0]], edge[0], -weights[edge]))
    neighbours = list(dict.fromkeys(neighbour for neighbour, _, _ in order))
    measured = {*neighbours[:moved], *neighbours[-1:]} if moved else set()
    shifts: dict[int, float] = {}
    if measured:
        whole = remade(growing, graph, part)
        shifts = {n: 1 - cosine(whole, remade(growing, graph, part, n)) for n in measured}
    arrived = {tuple(row) for row in graph.arrivals.triples.tolist()}
    relations = graph.trained.relations

    names = dict(
        zip(neighbours, graph.names.shown(part.entities[neighbours], language), strict=True)
    )

    def reason(edge: Edge) -> Reason:
        neighbour, relation, role = edge
        other = int(part.entities[neighbour])
        triple = (entity, relation, other) if role == "head" else (other, relation, entity)
        name = relations[relation] if relation >= 0 else ""
        move, is_new = shifts.get(neighbour), triple in arrived
        label, called = graph.entities[other], names[neighbour]
        return Reason(label, name, role, weights[edge], move, is_new, called)

    return [reason(edge) for edge in order]


Edge = tuple[int, int, str]
"""A neighbour in local ids, a relation, and the role of the explained entity."""


def neighbour_weights(
    growing: Growing, graph: GrowingGraph, part: Neighbourhood, entity: int
) -> dict[int, float]:
    """The weight of each neighbour in an entity's vector, over all its relations, by its id.

    They sum to 1, or there are none where a vector is made of no neighbours.

    Args:
        part: the neighbourhood of the entity, from :func:`around`.
    """
    weights = _weights(growing, graph, part, int(np.searchsorted(part.entities, entity)))
    found = _of_neighbour(weights).items()
    return {int(part.entities[n]): weight for n, weight in found if any(weights.values())}


def _of_neighbour(weights: dict[Edge, float]) -> dict[int, float]:
    """The weight of each neighbour over all its relations."""
    found: dict[int, float] = defaultdict(float)
    for (neighbour, _, _), weight in weights.items():
        found[neighbour] += weight
    return found


def around(growing: Growing, graph: GrowingGraph, entity: int) -> Neighbourhood:
    """The neighbourhood of an entity from which its vector would be computed now."""
    two_hops, own = growing.model.reads_two_hops, np.array([entity])
    if not graph.arrivals.is_trained(own)[0]:
        return graph.arrivals.neighbourhood(own, two_hops)
    triples = graph.arrivals.about(entity)
    if two_hops:
        near = np.setdiff1d(triples[:, [0, 2]], [entity])
        more = [graph.arrivals.about(int(end)) for end in near]
        triples = np.unique(np.concatenate((triples, *more)), axis=0)
    # Triples from before and after training count alike.
    return Neighbourhood.of(triples, own, 0, graph.arrivals.dropped if two_hops else None)


def _weights(
    growing: Growing, graph: GrowingGraph, part: Neighbourhood, own: int
) -> dict[Edge, float]:
    """Weight of every edge of the entity ``own``, also to two-hop neighbours that are read.

    They sum to 1, or are 0 where no attention has any weight.
    """
    model, shift = growing.model, graph.shift
    n_relations = len(model.seen_relations)
    total: dict[Edge, float] = {}
    for head, relation, tail in part.triples.tolist():
        if own in (head, tail) and head != tail:
            edge = (tail, relation, "head") if head == own else (head, relation, "tail")
            total[edge] = 0.0
    if not total:
        return {}
    by_neighbour: dict[int, list[Edge]] = defaultdict(list)
    by_relation: dict[tuple[int, str], list[Edge]] = defaultdict(list)
    for edge in total:
        by_neighbour[edge[0]].append(edge)
        by_relation[edge[1:]].append(edge)
    for attention in model.frozen.attentions(growing.part(graph, part)):
        mine = attention.rows == own
        columns = (attention.columns, attention.relations, attention.weights)
        for neighbour, kind, weight in zip(*(x[mine].tolist() for x in columns), strict=True):
            if neighbour == own:  # a self-loop is no neighbour
                continue
            relation, role = kind % n_relations - shift, "head" if kind < n_relations else "tail"
            same = [(neighbour, relation, role)]
            if kind < 0:  # a neighbour, by any relation
                same = by_neighbour.get(neighbour, [(neighbour, -1, "head")])
            elif neighbour < 0:  # a relation, to any neighbour
                same = by_relation.get((relation, role), [])
            for edge in same:
                total[edge] = total.get(edge, 0.0) + weight / len(same)
    scale = sum(total.values()) or 1.0
    return {edge: weight / scale for edge, weight in total.items()}


def remade(
    growing: Growing, graph: GrowingGraph, part: Neighbourhood, without: int | None = None
) -> Tensor:
    """The vector of an entity as if it came now, float64[d], perhaps without a neighbour.

    Args:
        part: the neighbourhood of the entity, from :func:`around`.
        without: a neighbour in local ids: no triple of it is read.
    """
    if without is not None:
        apart = (part.triples[:, [0, 2]] != without).all(axis=1)
        part = replace(part, triples=part.triples[apart], later=part.later[apart])
    rows = growing.model.rows(growing.part(graph, part))
    return growing.model.split(rows)[VECTORS][0].double()


def cosine(one: Tensor, other: Tensor) -> float:
    """The cosine of two vectors, 0 if one of them is 0."""
    return F.cosine_similarity(one, other, dim=0).item()
