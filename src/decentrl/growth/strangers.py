"""Entities that are in no graph: what a model would make of them, without taking them in."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import torch

from decentrl.data.attributes import Attributes
from decentrl.data.literals import Literals
from decentrl.data.names import Names
from decentrl.data.vocabulary import Ids
from decentrl.growth.growing import Growing
from decentrl.growth.matching_model import MatchingModel
from decentrl.storage.addition import Addition, Growth

M = TypeVar("M")


@dataclass(frozen=True)
class Stranger:
    """What is known of an entity that is in no graph.

    Attributes:
        triples: (relation, neighbour, whether the stranger is the head), ids of the graph.
        names: what it is called.
        attributes: (attribute, value).
    """

    triples: Sequence[tuple[int, int, bool]] = ()
    names: Sequence[str] = ()
    attributes: Sequence[tuple[str, str]] = field(default=())


def with_strangers(model: M, side: str, strangers: Sequence[Stranger]) -> tuple[M, Ids]:
    """A model in which strangers have arrived, and their ids; the given one stays as it is.

    The two share all that was learned, so the copy costs what the strangers cost. It is to be asked
    and then thrown away, before the given model changes.
    """
    other: Any = copy(model)
    other._derived = {}
    other._growing = growing = other.growing.fork()
    if isinstance(model, MatchingModel):
        growing.learned = model.solved_for("left" if side == "left" else "right")
    graph = growing.sides[side]
    first = len(graph.entities)
    labels = _labels(len(strangers), graph.entities)
    ids = np.arange(first, first + len(strangers))
    rows = [
        (own, relation, neighbour) if head else (neighbour, relation, own)
        for own, stranger in zip(ids.tolist(), strangers, strict=True)
        for relation, neighbour, head in stranger.triples
    ]
    triples = np.array(rows, np.int64).reshape(-1, 3)
    literals = _literals(ids, strangers)
    graph.arrive(triples, labels, literals)
    made = _rows(growing, side, ids)
    growth = Growth(side, triples, labels, first, ids, made.numpy(), literals)
    graph.put(ids, made)
    number = growing.last + 1
    growing.additions.append((Addition.of(growth, number, "strangers", {}), growth))
    growing.version += 1
    return other, ids


def prepare(model: Any) -> None:
    """Make ahead what the first addition would have to make; nothing is added."""
    growing = model.growing.fork()
    for side, graph in growing.sides.items():
        own = len(graph.entities)
        triples = graph.trained.triples[:1].copy()
        triples[:, 0] = own
        graph.arrive(triples, _labels(1, graph.entities), Literals())
        if len(triples):
            _rows(growing, side, np.array([own]))


def _rows(growing: Growing, side: str, ids: Ids) -> torch.Tensor:
    graph, model = growing.sides[side], growing.model
    hood = graph.arrivals.neighbourhood(ids, model.reads_two_hops)
    return model.rows(growing.part(graph, hood))


def _labels(n: int, entities: Any) -> list[str]:
    """Labels that no entity has, in ascending order."""
    start = "?"
    while any(f"{start}{i:06}" in entities for i in range(n)):
        start += "?"
    return [f"{start}{i:06}" for i in range(n)]


def _literals(ids: Ids, strangers: Sequence[Stranger]) -> Literals:
    own = list(zip(ids.tolist(), strangers, strict=True))
    names = [(i, text) for i, stranger in own for text in stranger.names]
    said = [(i, *pair) for i, stranger in own for pair in stranger.attributes]
    found = Literals()
    if names:
        places, texts = zip(*names, strict=True)
        found = Literals(Names.of_rows(np.array(places, np.int64), list(texts)), found.attributes)
    if said:
        places, attributes, values = zip(*said, strict=True)
        rows = np.array(places, np.int64), list(attributes), list(values)
        found = Literals(found.names, Attributes.of_rows(*rows))
    return found
