"""Manifest, suggestions, previews and extensions of the reconciliation API."""

from __future__ import annotations

import re
from html import escape
from typing import Annotated, Any

from pydantic import BaseModel, Field, ValidationError

from decentrl._version import __version__
from decentrl.growth.growing_graph import GrowingGraph
from decentrl.service.entities import degrees_of, in_words, search, shown
from decentrl.service.failures import RequestError
from decentrl.service.reconcile.candidates import ENTITY, type_of
from decentrl.service.reconcile.questions import INVERSE, MOST, Text, parse, problem_of
from decentrl.service.served_run import ServedRun

NAME = "decentrl:name"
"""The property that is an entity's names."""
SHOWN = 12
_WIDTH, _HEIGHT = 420, 260


def manifest(run: ServedRun, base: str, place: str) -> dict[str, Any]:
    """What the service offers.

    Args:
        base: the address of the service, without a slash at its end.
        place: the path of reconciliation under it.
    """
    sides = ["right", "left"] if run.two_graphs else [""]
    suggested = {
        kind: {
            "service_url": base,
            "service_path": f"{place}/suggest/{kind}",
            "flyout_service_url": base,
            "flyout_service_path": f"{place}/flyout/{kind}?id=${{id}}",
        }
        for kind in ("entity", "type", "property")
    }
    view = "side=right&" if run.two_graphs else ""
    return {
        "versions": ["0.2"],
        "name": f"decentRL: {run.name}",
        "identifierSpace": f"{base}/v1/runs/{run.name}/entities/",
        "schemaSpace": f"{base}/v1/runs/{run.name}/relations/",
        "serviceVersion": __version__,
        "defaultTypes": [type_of(side) for side in sides],
        "view": {"url": f"{base}/#/entity?{view}id={{{{id}}}}"},
        "suggest": suggested,
        "preview": {
            "url": f"{base}{place}/preview?id={{{{id}}}}",
            "width": _WIDTH,
            "height": _HEIGHT,
        },
        "extend": {
            "propose_properties": {"service_url": base, "service_path": f"{place}/properties"},
            "property_settings": [
                {
                    "name": "limit",
                    "label": "Limit",
                    "type": "number",
                    "default": 0,
                    "help_text": "The most values of a row (0 for all)",
                }
            ],
        },
    }


def types(run: ServedRun, prefix: str) -> list[dict[str, str]]:
    """Types whose names have a text in them."""
    found = [type_of(side) for side in (("right", "left") if run.two_graphs else ("",))]
    return [x for x in found if prefix.casefold() in f"{x['id']} {x['name']}".casefold()]


def side_of(run: ServedRun, type: str) -> str:
    """The graph of a type."""
    if not run.two_graphs:
        return ""
    return type if type in ("left", "right") else "right"


def properties(run: ServedRun, prefix: str, sides: list[str]) -> list[dict[str, str]]:
    """Relations, both ways, and attributes of graphs whose names have a text in them."""
    found: dict[str, dict[str, str]] = {}
    for side in sides:
        graph = run.model.growing.sides[side]
        where = f" of the {side} graph" if side else ""
        for name in graph.trained.relations:
            shown_as = in_words(name)
            found.setdefault(
                name, {"id": name, "name": shown_as, "description": f"relation{where}"}
            )
            back = {"name": f"{shown_as} (of it)", "description": f"relation{where}, backwards"}
            found.setdefault(INVERSE + name, {"id": INVERSE + name, **back})
        for name in _attributes(run, side):
            about = {"name": in_words(name), "description": f"attribute{where}"}
            found.setdefault(name, {"id": name, **about})
    sought = prefix.casefold()
    return [x for x in found.values() if sought in f"{x['id']} {x['name']}".casefold()]


def _attributes(run: ServedRun, side: str) -> list[str]:
    """The attributes of a graph."""
    trained = run.model.growing.sides[side].trained

    def make() -> list[str]:
        return sorted(set(trained.attributes.attributes.to_pylist()))

    return run.keep(f"attributes {side}", make)


def entities(run: ServedRun, prefix: str, most: int) -> list[dict[str, Any]]:
    """Entities by the beginnings of words in their names, those of the default target first."""
    found: list[dict[str, Any]] = []
    for side in ("right", "left") if run.two_graphs else ("",):
        graph = run.model.growing.sides[side]
        ids = search(run, side).find(graph, prefix, most - len(found))
        for i, name in zip(ids, shown(graph, ids), strict=True):
            about = described(run, graph, side, i)
            line = {"id": graph.entities[i], "name": name, "description": about}
            found.append({**line, "notable": [type_of(side)]})
        if len(found) >= most:
            break
    return found


def described(run: ServedRun, graph: GrowingGraph, side: str, place: int) -> str:
    """An entity in a line."""
    count = int(degrees_of(run, side)[place])
    return f"{graph.entities[place]}, in {count} triples" + (f", {side} graph" if side else "")


def find(run: ServedRun, label: str) -> tuple[str, int]:
    """The graph and id of an identifier; of two graphs the right one first."""
    for side in ("right", "left") if run.two_graphs else ("",):
        place = int(run.model.growing.sides[side].entities.find_all([label])[0])
        if place >= 0:
            return side, place
    raise RequestError(404, f"no entity has the identifier {label[:200]!r}")


def preview(run: ServedRun, label: str) -> str:
    """A small page about an entity; all that comes from the graph is escaped."""
    side, place = find(run, label)
    graph = run.model.growing.sides[side]
    (name,) = shown(graph, [place])
    rows = graph.arrivals.about(place)[:SHOWN].tolist()
    ends = dict(zip(ids := sorted({x for h, _, t in rows for x in (h, t)}), shown(graph, ids),
                    strict=True))  # fmt: skip
    lines = "".join(
        f"<li>{escape(ends[h])} – {escape(in_words(graph.trained.relations[r]))} → "
        f"{escape(ends[t])}</li>"
        for h, r, t in rows
    )
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        f"<title>{escape(name)}</title><h1>{escape(name)}</h1>"
        f"<p>{escape(described(run, graph, side, place))}</p><ul>{lines}</ul></html>"
    )


def flyout(run: ServedRun, kind: str, label: str) -> dict[str, str]:
    """A few words about an entity, type or property, as HTML."""
    if kind == "entity":
        side, place = find(run, label)
        about = described(run, run.model.growing.sides[side], side, place)
    elif kind == "type":
        about = type_of(side_of(run, label))["name"] if label != ENTITY else ENTITY
    else:
        about = f"{in_words(label)}: a relation or attribute of the graph"
    return {"id": label, "html": f"<p>{escape(about)}</p>"}


# Extension


class Wanted(BaseModel):
    """A property whose values are asked for."""

    id: Text
    settings: dict[str, Any] = Field({}, max_length=20)

    @property
    def most(self) -> int | None:
        """How many values; None for all."""
        try:
            limit = int(float(str(self.settings.get("limit", 0))))
        except (ValueError, OverflowError):
            return None
        return limit if limit > 0 else None


class Extension(BaseModel):
    """Entities and the properties that describe them."""

    ids: Annotated[list[Text], Field(max_length=1000)]
    properties: Annotated[list[Wanted], Field(max_length=MOST)]


def read_extension(text: str) -> Extension:
    """What an extension asks for."""
    found = parse(text, "extend")
    try:
        return Extension.model_validate(found)
    except (ValidationError, RecursionError) as error:
        raise RequestError(422, problem_of(error)) from None


def extend(run: ServedRun, asked: Extension) -> dict[str, Any]:
    """The values of properties of entities; of what is unknown there are none."""
    rows: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for label in asked.ids:
        try:
            side, place = find(run, label)
        except RequestError:
            rows[label] = {wanted.id: [] for wanted in asked.properties}
            continue
        graph = run.model.growing.sides[side]
        triples = graph.arrivals.about(place).tolist()
        rows[label] = {
            wanted.id: _values(graph, place, triples, wanted.id)[: wanted.most]
            for wanted in asked.properties
        }
    meta = [_meta(run, wanted.id) for wanted in asked.properties]
    return {"meta": meta, "rows": rows}


def _meta(run: ServedRun, pid: str) -> dict[str, Any]:
    if pid == NAME:
        return {"id": pid, "name": "name"}
    name = pid.removeprefix(INVERSE)
    found: dict[str, Any] = {"id": pid, "name": in_words(name)}
    for side in ("right", "left") if run.two_graphs else ("",):
        if name in run.model.growing.sides[side].trained.relations:
            return found | {"type": type_of(side)}
    return found


def _values(
    graph: GrowingGraph, place: int, triples: list[list[int]], pid: str
) -> list[dict[str, Any]]:
    if pid == NAME:
        return [{"str": text} for text, _ in graph.names.of(place)]
    relations = graph.trained.relations
    if (name := pid.removeprefix(INVERSE)) in relations:
        own, other = (2, 0) if pid.startswith(INVERSE) else (0, 2)
        r = relations.id(name)
        ids = [row[other] for row in triples if row[1] == r and row[own] == place]
        names = shown(graph, ids)
        return [{"id": graph.entities[i], "name": x} for i, x in zip(ids, names, strict=True)]
    said = graph.literals.attributes.of(place)
    return [_literal(value, kind) for name, value, kind in said if name == pid]


_DATE = re.compile(r"^(-?(?:[1-9][0-9]*)?[0-9]{4})-(1[0-2]|0[1-9])-(3[01]|0[1-9]|[12][0-9])$")


def _literal(value: str, kind: str) -> dict[str, Any]:
    """A value as the API has it."""
    try:
        if kind == "integer" and len(value) < 300:
            return {"int": int(value)}
        if kind in ("float", "decimal", "number") and abs(float(value)) < 1e300:
            return {"float": float(value)}
    except ValueError:
        pass
    if _DATE.match(value):
        return {"date": f"{value}T00:00:00Z"}
    return {"str": value}
