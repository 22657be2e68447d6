"""Entities called by their names: in what is asked, and beside identifiers in what is answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Protocol

import pyarrow as pa

from decentrl.data.called import NAME
from decentrl.data.names import Names
from decentrl.data.vocabulary import Ids, Vocabulary, did_you_mean
from decentrl.errors import InputError, UnknownLabelError


class Named(Protocol):
    """A graph whose entities may have names."""

    @property
    def entities(self) -> Vocabulary: ...

    @property
    def names(self) -> Names: ...


def entity_ids(
    graph: Named, called: Sequence[str], graphs: Mapping[str, Named] | None = None
) -> Ids:
    """The ids of entities, int64[n], by their identifiers or else by their names.

    A name that several entities have is an error, and so is what no entity is called.

    Args:
        called: identifiers or names; a text alone is one.
        graphs: both graphs by their sides, to say if the entity is on the other one.
    """
    called = [called] if isinstance(called, str) else list(called)
    ids = graph.entities.find_all(called)
    for place in (ids < 0).nonzero()[0].tolist():
        ids[place] = _named(graph, called[place], graphs or {})
    return ids


def _named(graph: Named, name: str, graphs: Mapping[str, Named]) -> int:
    """The id of the entity with a name."""
    found = graph.names.find(name)
    if len(found) == 1:
        return int(found[0])
    if len(found):
        some = ", ".join(map(repr, graph.entities.take(found[:5]))) + ", …" * (len(found) > 5)
        raise InputError(
            f"{len(found):,} entities are called {name!r}", remedy=f"give an identifier: {some}"
        )
    for side, other in graphs.items():
        if other is not graph and (name in other.entities or len(other.names.find(name))):
            raise UnknownLabelError(
                f"the label {name!r} is unknown in this graph",
                remedy=f"it is in the {side} one: ask for the side {side} (--side {side})",
            )
    known = chain(graph.entities, graph.names.texts.to_pylist())
    raise UnknownLabelError(f"the label {name!r} is unknown", remedy=did_you_mean(name, known))


def add_names(table: pa.Table, graphs: Mapping[str, Named], language: str = "") -> pa.Table:
    """A table with the names of the entities in some of its columns, each in a column at its end.

    Args:
        graphs: that of the entities in each of these columns; one without names adds none.
        language: of the names, where there are some in it.
    """
    for column, graph in graphs.items():
        if graph.names:
            labels = table[column].to_pylist()
            texts = graph.names.shown(graph.entities.find_all(labels), language)
            values = pa.array([text or None for text in texts], pa.string())
            table = table.append_column(f"{column}{NAME}", values)
    return table
