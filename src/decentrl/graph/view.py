"""The graph view of the DAN: one adjacency a layer, without edges that read untrained vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from decentrl.graph.adjacency import Adjacency, Ids, neighbours, relation_bag
from decentrl.graph.hops import Growth, two_hop_neighbours


@dataclass(frozen=True, eq=False)
class GraphView:
    """The graphs that a K-layer decentralised encoder reads.

    ``first`` feeds the neighbour context g⁰, ``layers[k - 1]`` feeds layer k, ``relations`` joins
    entities to the relations around them. Edges that would read a vector that is not known (the
    input embedding of an unseen entity, or what was made of nothing else) are already left out.
    """

    first: Adjacency
    layers: tuple[Adjacency, ...]
    relations: Adjacency
    seen: torch.Tensor  # bool[n_entities]: has a triple in the training graph

    @classmethod
    def build(
        cls,
        graphs: Sequence[Ids],
        n_entities: int,
        n_relations: int,
        *,
        layers: int,
        two_hop: bool = False,
        self_entity: bool = False,
        seen: NDArray[np.bool_] | None = None,
        seen_relations: NDArray[np.bool_] | None = None,
        frozen: NDArray[np.bool_] | None = None,
        growth: Growth | None = None,
    ) -> GraphView:
        """Make the view of one or more graphs over shared entity and relation ids.

        Args:
            graphs: triples int64[n, 3] of each graph.
            layers: K.
            two_hop: let layers 1, 3, … read two-hop neighbours (the context g⁰ reads one-hop ones).
            seen: entities that have a trained input embedding; default: those in ``graphs``.
            seen_relations: relations that have one; default: all.
            frozen: entities whose vectors are known already, whatever their edges are.
            growth: how two-hop neighbours are read of one graph that has grown.
        """
        triples = np.concatenate(list(graphs)) if graphs else np.empty((0, 3), np.int64)
        one = neighbours(triples, n_entities, self_entity)
        hops = [one]
        if two_hop:
            hops.append(two_hop_neighbours(graphs, n_entities, growth))
        trained = torch.from_numpy(entities_of(triples, n_entities) if seen is None else seen)
        bag = relation_bag(triples, n_entities, n_relations)
        if seen_relations is not None:
            bag = bag.keep_columns(torch.from_numpy(seen_relations).repeat(2))

        first, views = _readable(one, hops, trained, layers, frozen)
        return cls(first, views, bag, trained)

    @classmethod
    def from_edges(
        cls,
        edges: torch.Tensor,
        n_entities: int,
        *,
        layers: int,
        seen: torch.Tensor | None = None,
    ) -> GraphView:
        """The view of directed edges without relations, on the device they lie on.

        Args:
            edges: int64[2, n], from a node that is read to the one that reads it; loops and
                duplicates are left out.
            layers: K.
            seen: bool[n_entities], entities that have a trained input; default: all.
        """
        source, target = edges[:, edges[0] != edges[1]]
        one = Adjacency.from_pairs(target, source, n_entities, n_entities, distinct=True)
        trained = edges.new_ones(n_entities, dtype=torch.bool) if seen is None else seen
        nothing = edges.new_empty(0)
        bag = Adjacency.from_sorted(nothing, nothing, n_entities, 0)
        first, views = _readable(one, [one], trained, layers)
        return cls(first, views, bag, trained)

    def to(self, device: torch.device | str) -> GraphView:
        # One-hop and two-hop graphs serve several layers.
        moved = {id(graph): graph.to(device) for graph in (self.first, *self.layers)}
        first, *rest = (moved[id(graph)] for graph in (self.first, *self.layers))
        return GraphView(first, tuple(rest), self.relations.to(device), self.seen.to(device))


def _readable(
    one: Adjacency,
    hops: Sequence[Adjacency],
    trained: torch.Tensor,
    layers: int,
    frozen: NDArray[np.bool_] | None = None,
) -> tuple[Adjacency, tuple[Adjacency, ...]]:
    """The graph of g⁰ and those of the layers, without edges that read what is not known."""
    first = one.keep_columns(trained)
    there = torch.zeros_like(trained) if frozen is None else torch.from_numpy(frozen)
    # Of g⁰, g¹, …: the entities whose vector is made of something.
    known = [there | (first.degrees() > 0)]
    views: list[Adjacency] = []
    for k in range(1, layers + 1):
        readable = trained if k == 1 else known[k - 2]
        views.append(hops[k % len(hops)].keep_columns(readable))
        known.append(known[-1] | (views[-1].degrees() > 0))
    return first, tuple(views)


def entities_of(triples: Ids, n_entities: int) -> NDArray[np.bool_]:
    """bool[n_entities]: which entities occur in a triple."""
    mask = np.zeros(n_entities, bool)
    mask[triples[:, 0]] = mask[triples[:, 2]] = True
    return mask


def relations_of(triples: Ids, n_relations: int) -> NDArray[np.bool_]:
    """bool[n_relations]: which relations occur in a triple."""
    mask = np.zeros(n_relations, bool)
    mask[triples[:, 1]] = True
    return mask


def seen_in(triples: Ids, n_entities: int, n_relations: int) -> dict[str, Any]:
    """Masks of what was known in training, as the ``build`` of a view takes them."""
    return {
        "seen": entities_of(triples, n_entities),
        "seen_relations": relations_of(triples, n_relations),
    }


def counterpart_triples(left: Ids, right: Ids, links: Ids) -> tuple[Ids, Ids]:
    """Both graphs with the triples between linked entities copied into the other one.

    A triple whose two ends are both linked is added between their counterparts, with its own
    relation. All ids are those of the merged graph.
    """
    return (
        np.concatenate((left, _translate(right, links[:, ::-1]))),
        np.concatenate((right, _translate(left, links))),
    )


def _translate(triples: Ids, links: Ids) -> Ids:
    size = int(max(triples[:, [0, 2]].max(initial=0), links.max(initial=0))) + 1
    counterpart = np.full(size, -1, np.int64)
    counterpart[links[:, 0]] = links[:, 1]
    heads, tails = counterpart[triples[:, 0]], counterpart[triples[:, 2]]
    both = (heads >= 0) & (tails >= 0)
    return np.stack((heads[both], triples[both, 1], tails[both]), axis=1)
