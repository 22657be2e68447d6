"""What an addition says, in ids of a graph: triples, new entities, names and attributes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from decentrl.data.knowledge_graph import KnowledgeGraph, distinct_rows
from decentrl.data.literals import Literals, of_literals, read_names
from decentrl.data.memory import Source
from decentrl.data.names import names_from_ids
from decentrl.data.readers import as_table
from decentrl.data.table import Table
from decentrl.data.vocabulary import Ids, Vocabulary, did_you_mean
from decentrl.errors import InputError, UnknownLabelError
from decentrl.storage.addition import Growth


@dataclass(frozen=True, eq=False)
class Arriving:
    """Distinct triples int64[n, 3], labels of new entities, what is known of entities besides.

    New entities have the ids after those of the graph. ``size`` is the number of triples before
    repeated ones are dropped, ``facts`` are counts of what was left out.
    """

    triples: Ids
    size: int
    labels: list[str]
    literals: Literals
    facts: dict[str, Any]


def read_arriving(
    source: Source,
    names: Source | None,
    entities: Vocabulary,
    relations: Vocabulary,
    strict: bool,
) -> Arriving:
    """Read an addition to a graph of these entities and relations; see GrowingModel.add."""
    table = as_table(source)
    heads, called, tails = (column.to_pylist() for column in table.columns)
    if names is not None and not heads:
        raise InputError("names alone cannot be added", remedy="give triples of their entities")
    found = relations.find_all(called)
    unknown = Counter(name for name, r in zip(called, found, strict=True) if r < 0)
    if unknown and strict:
        name = next(iter(unknown))
        raise UnknownLabelError(
            f"the relation {name!r} is unknown: training has not seen it",
            remedy=did_you_mean(name, relations),
        )
    kept = np.flatnonzero(found >= 0).tolist()
    ends = [label for i in kept for label in (heads[i], tails[i])]
    ids = entities.find_all(ends)
    unseen = ids < 0
    new, places = np.unique(np.array(ends, object)[unseen], return_inverse=True)
    ids[unseen] = len(entities) + places
    rows = np.stack((ids[::2], found[kept], ids[1::2]), axis=1)
    n, labels = len(entities) + len(new), new.tolist()
    literals = _literals(source, table, names, entities, labels, ids)
    facts = {
        "ignored": sum(unknown.values()),
        "ignored_relations": dict(unknown.most_common(5)),
        "names": len(literals.names),
        "attributes": len(literals.attributes),
        "literals": literals.left_out,
    }
    distinct = distinct_rows(rows, (n, len(relations), n))
    return Arriving(distinct, len(kept), labels, literals, facts)


def _literals(
    source: Source,
    table: Table,
    names: Source | None,
    entities: Vocabulary,
    new: list[str],
    ends: Ids,
) -> Literals:
    """Names and attributes: those that come with the triples, and names of their entities."""
    graph = source if isinstance(source, KnowledgeGraph) else None
    if table.literals is None and names is None and graph is None:
        return Literals()
    now = entities.copy()
    now.append(new)
    if graph is not None:
        places = now.find_all(graph.entities)
        found = Literals(graph.names.moved(places), graph.attributes.moved(places))
    else:
        found = of_literals([] if table.literals is None else [table.literals], now)
    if names is None:
        return found
    if isinstance(names, str) and names in ("ids", "none"):
        made = names_from_ids(Vocabulary(new if names == "ids" else ()))
        return replace(found, names=replace(made, entities=made.entities + len(entities)))
    own = read_names(names, now, none=True).names.take(np.unique(ends))
    return replace(found, names=own)


def called(source: Source, otherwise: str) -> str:
    """What the log calls a source: a file by its name, what is in memory by another word."""
    return Path(source).name if isinstance(source, str | PathLike) else otherwise


def check_growth(growth: Growth, entities: Vocabulary, n_relations: int) -> None:
    """A :class:`ValueError` unless an addition that was read goes with these labels."""
    relations, labels = growth.triples[:, 1], growth.labels
    if len(relations) and not 0 <= relations.min() <= relations.max() < n_relations:
        raise ValueError("a relation is none")
    if len(set(labels)) != len(labels) or any(label in entities for label in labels):
        raise ValueError("a label occurs twice")
