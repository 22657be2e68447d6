"""One graph with triples held out for validation and test."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from decentrl.data.knowledge_graph import KnowledgeGraph
from decentrl.data.vocabulary import Ids
from decentrl.errors import InputError


@dataclass(frozen=True, eq=False)
class GraphTask:
    """A graph of training triples, and triples int64[n, 3] to predict.

    The graph's vocabularies hold all entities and relations. In an open world ``auxiliary`` are the
    triples int64[n, 3] that arrive after training, with the entities ``new_entities``, int64[m].
    """

    name: str
    graph: KnowledgeGraph
    valid: Ids
    test: Ids
    auxiliary: Ids | None = None
    new_entities: Ids | None = None

    @property
    def open_world(self) -> bool:
        return self.auxiliary is not None

    @classmethod
    def from_graph(
        cls, name: str, graph: KnowledgeGraph, valid: float = 0.1, test: float = 0.1, seed: int = 0
    ) -> GraphTask:
        """Hold out random shares of the triples.

        A triple leaves training only if its entities and its relation still occur there without
        it; where too few such triples exist, fewer are held out.
        """
        if min(valid, test) < 0 or valid + test >= 1:
            raise InputError(
                f"cannot hold out {valid} and {test} of the triples",
                remedy="give shares of 0 or more that leave something for training",
            )
        sizes = [round(share * len(graph.triples)) for share in (test, valid)]
        order = np.random.default_rng(seed).permutation(len(graph.triples))
        held = _removable(graph, order, sum(sizes))
        cut = round(len(held) * sizes[0] / max(1, sum(sizes)))
        triples = graph.triples
        train = graph.with_triples(np.delete(triples, held, axis=0))
        return cls(name, train, triples[np.sort(held[cut:])], triples[np.sort(held[:cut])])

    def content_hash(self) -> str:
        """SHA-256 over the graph, the splits and, in an open world, what arrives later."""
        digest = hashlib.sha256(self.graph.content_hash().encode())
        for part in (self.valid, self.test, self.auxiliary, self.new_entities):
            if part is not None:
                digest.update(np.array([len(part)], "<i8").tobytes())
                digest.update(np.ascontiguousarray(part, "<i8").tobytes())
        return digest.hexdigest()


def _removable(graph: KnowledgeGraph, order: Ids, limit: int) -> Ids:
    """The first ``limit`` triples of ``order`` whose removal, one by one, loses nothing."""
    uses = np.bincount(graph.triples[:, [0, 2]].ravel(), minlength=len(graph.entities)).tolist()
    relation_uses = np.bincount(graph.triples[:, 1], minlength=len(graph.relations)).tolist()
    held: list[int] = []
    for i, (head, relation, tail) in zip(
        order.tolist(), graph.triples[order].tolist(), strict=True
    ):
        if len(held) == limit:
            break
        # A triple from an entity to itself uses it twice.
        needed = 2 + (head == tail)
        if min(uses[head], uses[tail]) >= needed and relation_uses[relation] >= 2:
            uses[head] -= 1
            uses[tail] -= 1
            relation_uses[relation] -= 1
            held.append(i)
    return np.array(held, np.int64)
