"""One graph with triples held out for validation and test."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from decentrl.data.headers import Reading
from decentrl.data.knowledge_graph import DisjointSets, KnowledgeGraph, as_graph, hash_arrays
from decentrl.data.memory import Source
from decentrl.data.readers import read_table, source_name
from decentrl.data.vocabulary import Ids, Vocabulary, did_you_mean
from decentrl.errors import InputError, UnknownLabelError


@dataclass(frozen=True, eq=False)
class GraphTask:
    """A graph of training triples, and triples int64[n, 3] to predict.

    The graph's vocabularies hold all entities and relations. In an open world ``auxiliary`` are the
    triples int64[n, 3] that arrive after training, with the entities ``new_entities``, int64[m].
    ``elsewhere`` is another graph with the same relations to test on besides; bundles lack it.
    """

    name: str
    graph: KnowledgeGraph
    valid: Ids
    test: Ids
    auxiliary: Ids | None = None
    new_entities: Ids | None = None
    elsewhere: GraphTask | None = None

    def __repr__(self) -> str:
        valid, test = len(self.valid), len(self.test)
        return f"GraphTask({self.name!r}, {self.graph}, {valid} to validate, {test} to test)"

    @property
    def open_world(self) -> bool:
        return self.auxiliary is not None

    @classmethod
    def from_graph(
        cls,
        name: str,
        graph: KnowledgeGraph | Source,
        valid: float = 0.1,
        test: float = 0.1,
        seed: int = 0,
    ) -> GraphTask:
        """Hold out random shares of the triples.

        A triple leaves training only if its entities and its relation still occur there without
        it; where too few such triples exist, fewer are held out.
        """
        if not (valid >= 0 and test >= 0 and valid + test < 1):  # nor NaN
            raise InputError(
                f"cannot hold out {valid} and {test} of the triples",
                remedy="give shares of 0 or more that leave something for training",
            )
        graph = as_graph(graph)
        sizes = [round(share * len(graph.triples)) for share in (test, valid)]
        order = np.random.default_rng(seed).permutation(len(graph.triples))
        held = _removable(graph, order, sum(sizes))
        cut = round(len(held) * sizes[0] / max(1, sum(sizes)))
        triples = graph.triples
        train = replace(graph, triples=np.delete(triples, held, axis=0))
        return cls(name, train, triples[np.sort(held[cut:])], triples[np.sort(held[:cut])])

    @classmethod
    def read(
        cls,
        triples: KnowledgeGraph | Source,
        valid: float | Source = 0.1,
        test: float | Source = 0.1,
        format: str | Reading | None = None,
        *,
        seed: int = 0,
    ) -> GraphTask:
        """Read training triples, and those to validate and to test on, from files or memory.

        Args:
            valid, test: triples, or the random share of the training triples to hold out.
            format: of files, where their extensions do not say it, or how they are read.
        """
        given: dict[str, Any] = {"validation": valid, "test": test}
        shares = [x if isinstance(x, float | int) else 0 for x in given.values()]
        given = {what: x for what, x in given.items() if not isinstance(x, float | int)}
        if isinstance(triples, KnowledgeGraph) and not given:  # keeps its ids
            return cls.from_graph("graph", triples, shares[0], shares[1], seed)
        given = {"training": triples} | given
        tables = {what: read_table(source, format=format) for what, source in given.items()}
        graph = KnowledgeGraph.of_labels(tables.values())
        if isinstance(triples, KnowledgeGraph):  # what a table does not hold
            places = graph.entities.find_all(triples.entities)
            names, attributes = triples.names.moved(places), triples.attributes.moved(places)
            graph = replace(graph, names=names, attributes=attributes)
        sets = DisjointSets("triple", graph.columns)
        rows = {what: sets.add(table, what) for what, table in tables.items()}
        train = graph.holding(tables["training"])
        task = cls.from_graph(source_name(triples, "graph"), train, shares[0], shares[1], seed)
        held = rows.get("validation", task.valid), rows.get("test", task.test)
        return replace(task, valid=held[0], test=held[1])

    def read_triples(self, source: Source) -> Ids:
        """Other triples of the same entities and relations, int64[n, 3]."""
        return DisjointSets("triple", self.graph.columns).add(read_table(source), "test")

    def with_relations(self, relations: Vocabulary) -> GraphTask:
        """The same task with the ids of relations that another graph has.

        A relation that is not among them is an error.
        """
        ids = relations.find_all(list(self.graph.relations))
        if unknown := [self.graph.relations[i] for i in np.flatnonzero(ids < 0).tolist()]:
            some = ", ".join(map(repr, unknown[:5])) + ", …" * (len(unknown) > 5)
            raise UnknownLabelError(
                f"training has not seen these relations of {self.name}: {some}",
                remedy=did_you_mean(unknown[0], relations) or "leave their triples out",
            )

        def moved(rows: Ids) -> Ids:
            return np.stack((rows[:, 0], ids[rows[:, 1]], rows[:, 2]), axis=1)

        graph = replace(self.graph, relations=relations).with_triples(moved(self.graph.triples))
        later = None if self.auxiliary is None else moved(self.auxiliary)
        valid, test = moved(self.valid), moved(self.test)
        return replace(self, graph=graph, auxiliary=later, valid=valid, test=test)

    def content_hash(self) -> str:
        """SHA-256 over the graph, the splits and, in an open world, what arrives later."""
        parts = (self.valid, self.test, self.auxiliary, self.new_entities)
        return hash_arrays(self.graph.content_hash(), parts)


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
