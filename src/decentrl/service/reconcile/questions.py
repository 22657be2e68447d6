"""What a reconciliation query says, read strictly, and in words of a graph."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from decentrl.growth.growing_graph import GrowingGraph
from decentrl.growth.strangers import Stranger
from decentrl.service.failures import RequestError
from decentrl.service.options import Limits

LIMITS = Limits()
MOST = 200
"""Queries in a batch, and values of a property."""
INVERSE = "^"
"""Before a property: the entity asked for is the tail of its triples, not the head."""
Text = Annotated[str, Field(max_length=LIMITS.text)]


class EntityValue(BaseModel):
    """A value that is an entity, for instance one that was reconciled before."""

    model_config = ConfigDict(strict=True)
    id: Text
    name: Text = ""


Value = EntityValue | bool | int | float | Text


class Property(BaseModel):
    """A property and its values."""

    pid: Text
    v: Value | Annotated[list[Value], Field(max_length=MOST)]

    @property
    def values(self) -> list[Value]:
        return self.v if isinstance(self.v, list) else [self.v]


class Query(BaseModel):
    """What is asked about one row."""

    model_config = ConfigDict(extra="forbid")
    query: Text = ""
    type: Text | Annotated[list[Text], Field(max_length=20)] = ""
    limit: float = Field(5, ge=1, le=1e9)
    properties: list[Property] = Field([], max_length=MOST)
    type_strict: str = Field("should", pattern="^(any|should|all)$")

    @property
    def types(self) -> list[str]:
        found = [self.type] if isinstance(self.type, str) else self.type
        return [x for x in found if x]

    @property
    def most(self) -> int:
        """How many candidates are answered."""
        return int(min(self.limit, LIMITS.top))


_BATCH = TypeAdapter(dict[str, Query])


def parse(text: str, what: str) -> Any:
    """JSON of a parameter."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        why = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise RequestError(422, f"{what} is not JSON: {why[:100]}") from None


def read_batch(text: str) -> dict[str, Query]:
    """The queries of a batch by their keys."""
    found = parse(text, "queries")
    if not isinstance(found, dict):
        raise RequestError(422, "queries is no JSON object", 'send {"q0": {"query": "…"}}')
    if len(found) > MOST:
        raise RequestError(413, f"{len(found)} queries at once", f"send at most {MOST}")
    try:
        batch = _BATCH.validate_python(found)
    except (ValidationError, RecursionError) as error:
        raise RequestError(422, problem_of(error)) from None
    for key, query in batch.items():
        if not query.query.strip() and not query.properties:
            raise RequestError(422, f"{key[:50]}: neither a query nor properties")
    return batch


def problem_of(error: ValidationError | RecursionError) -> str:
    """The first thing that is wrong, in a line."""
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    first = error.errors()[0]
    return f"{'.'.join(map(str, first['loc']))[:200]}: {first['msg'][:200]}"


@dataclass(frozen=True)
class Meaning:
    """What properties say in words of a graph.

    Attributes:
        stranger: the triples and attributes that they are.
        unknown: properties and values that say nothing here.
    """

    stranger: Stranger
    unknown: int

    @property
    def says_something(self) -> bool:
        return bool(self.stranger.triples)


class Words:
    """The relations, attributes and entities of a graph by what they may be called."""

    def __init__(self, graph: GrowingGraph) -> None:
        relations = list(graph.trained.relations)
        self._relations = {name: i for i, name in reversed(list(enumerate(relations)))}
        folded = {name.casefold(): i for name, i in self._relations.items()}
        self._relations = folded | self._relations
        self._attributes = set(graph.trained.attributes.attributes.to_pylist())

    def relation(self, pid: str) -> tuple[int, bool] | None:
        """A relation, and whether the one who has the property is the head."""
        inverse = pid.startswith(INVERSE)
        name = pid.removeprefix(INVERSE)
        found = self._relations.get(name, self._relations.get(name.casefold()))
        return None if found is None else (found, not inverse)

    def mean(
        self,
        graph: GrowingGraph,
        query: Query,
        counterparts: Any,
    ) -> Meaning:
        """What the properties of a query say.

        Args:
            counterparts: gives the entity of this graph that is the same as one of the other
                graph, by its identifier, or None.
        """
        triples, attributes, unknown = list[tuple[int, int, bool]](), list[tuple[str, str]](), 0
        for given in query.properties:
            relation = self.relation(given.pid)
            for value in given.values:
                if relation is None and given.pid in self._attributes:
                    attributes.append((given.pid, _text(value)))
                    continue
                entity = None if relation is None else self._entity(graph, value, counterparts)
                if relation is None or entity is None:
                    unknown += 1
                    continue
                triples.append((relation[0], entity, relation[1]))
        names = [query.query] if query.query.strip() else []
        distinct = list(dict.fromkeys(triples))
        return Meaning(Stranger(distinct, names, list(dict.fromkeys(attributes))), unknown)

    @staticmethod
    def _entity(graph: GrowingGraph, value: Value, counterparts: Any) -> int | None:
        called: Sequence[str] = [_text(value)]
        if isinstance(value, EntityValue):
            called = [value.id, *([value.name] if value.name else [])]
        for place in graph.entities.find_all(called).tolist():
            if place >= 0:
                return int(place)
        if (same := counterparts(called[0])) is not None:
            return int(same)
        named = graph.names.find(called[-1])
        return int(named[0]) if len(named) == 1 else None


def _text(value: Value) -> str:
    if isinstance(value, EntityValue):
        return value.id
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
