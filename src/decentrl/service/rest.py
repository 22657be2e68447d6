"""REST, read-only: what a run is, its entities, matches, neighbours and explanations."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field
from starlette.responses import JSONResponse

from decentrl._version import __version__
from decentrl.service import examples
from decentrl.service.entities import brief, described, entity_id, search, shown
from decentrl.service.matches import KeptMatches
from decentrl.service.parameters import (
    LIMITS,
    Id,
    Language,
    Run,
    Side,
    Top,
    alignment,
    prediction,
    reply,
)
from decentrl.service.served_run import ServedRun

router = APIRouter()


def about(run: ServedRun) -> dict[str, Any]:
    """What a run is."""
    growing = run.model.growing
    sides = growing.sides
    counts = {name or "all": len(graph.entities) for name, graph in sides.items()}
    relations = {name or "all": list(graph.trained.relations) for name, graph in sides.items()}
    least = run.model.thresholds() if run.two_graphs else None
    results: list[Any] = []
    with suppress(OSError, ValueError, LookupError, TypeError):
        results = json.loads((run.folder / "results.json").read_text("utf-8"))["results"][:12]
    return {
        "name": run.name,
        "job": run.job,
        "preset": str(getattr(run.model.config, "preset", "")),
        "version": __version__,
        "state": run.version,
        "entities": counts,
        "relations": relations if run.two_graphs else relations["all"],
        "additions": len(growing.additions) + len(growing.past),
        "writable": run.writable,
        "threshold": None if least is None else least[0],
        "results": results,
        "language": "",
    }


@router.get("/run", responses=examples.RUN)
async def get_run(run: Run) -> JSONResponse:
    """What is served: a run, its graphs, and how good it is."""
    return reply(plain(await run.ask(lambda: about(run))))


@router.get("/relations", responses=examples.RELATIONS)
async def get_relations(run: Run, side: Side = "") -> JSONResponse:
    """The relations of a graph that training has seen."""
    which = run.side(side)
    names = list(run.model.growing.sides[which].trained.relations)
    return reply({"side": which, "relations": names})


@router.get("/entities", responses=examples.ENTITIES)
async def get_entities(
    run: Run,
    q: Annotated[str, Query(max_length=300, description="Words, or their beginnings.")] = "",
    side: Side = "",
    limit: Annotated[int, Query(ge=1, le=LIMITS.top)] = 20,
    language: Language = "",
) -> JSONResponse:
    """Entities whose names or identifier have all the words that are asked for.

    Words may be given by their beginnings, in any case and without accents. Exact names come first,
    then those that begin with what is asked for, then entities in many triples.
    """
    which = run.side(side)

    def find() -> list[dict[str, Any]]:
        graph = run.model.growing.sides[which]
        return brief(run, which, search(run, which).find(graph, q, limit), language)

    return reply({"entities": await run.ask(find)})


@router.get("/entity", responses=examples.ENTITY)
async def get_entity(run: Run, id: Id, side: Side = "", language: Language = "") -> JSONResponse:
    """An entity with its names, attributes and triples."""
    which = run.side(side)

    def find() -> dict[str, Any]:
        return described(run, which, entity_id(run, which, id), language)

    return reply(await run.ask(find))


# Matches


def _kept(request: Request, run: ServedRun) -> KeptMatches:
    kept: KeptMatches = request.app.state.matches[alignment(run).name]
    return kept


@router.get("/matches", responses=examples.MATCHES)
async def get_matches(
    request: Request, run: Run, id: Id, side: Side = "", top: Top = 5, language: Language = ""
) -> JSONResponse:
    """The best matches of an entity in the other graph, with the confidence in the first.

    `known` is the counterpart that a known link gives it. `chosen` is the counterpart, or else the
    first match if its confidence is not below `none_below`; no match is chosen where the model
    says that there is none.
    """
    kept, which = _kept(request, run), run.side(side)
    return reply(await kept.of(which, id, top, language))


class MatchBatch(BaseModel):
    """Entities whose matches are asked for."""

    entities: list[Annotated[str, Field(min_length=1, max_length=LIMITS.text)]] = Field(
        min_length=1, max_length=LIMITS.batch, examples=[["Berlin", "Paris"]]
    )
    side: str = Field("", max_length=10)
    top: int = Field(5, ge=1, le=LIMITS.top)
    language: str = Field("", max_length=35)


@router.post("/matches", responses=examples.MATCH_BATCH)
async def post_matches(request: Request, run: Run, asked: MatchBatch) -> JSONResponse:
    """The best matches of many entities at once; those that are unknown have an `error`."""
    kept, which = _kept(request, run), run.side(asked.side)
    return reply({"results": await kept.of_all(which, asked.entities, asked.top, asked.language)})


@router.get("/neighbours", responses=examples.NEIGHBOURS)
async def get_neighbours(
    run: Run,
    id: Id,
    side: Side = "",
    top: Top = 10,
    among: Side = "",
    language: Language = "",
) -> JSONResponse:
    """The entities whose vectors are nearest, of the same graph or of another (`among`)."""
    which = run.side(side)
    where = run.side(among) if among else which

    def find() -> list[dict[str, Any]]:
        place = entity_id(run, which, id)
        label = run.model.growing.sides[which].entities[place]
        sides = {"side": which, "among": where} if run.two_graphs else {}
        found = run.model.neighbours(label, top=top, **sides)
        graph = run.model.growing.sides[where]
        lines = brief(run, where, graph.entities.ids(found["entity"].to_pylist()), language)
        cosines = found["cosine"].to_pylist()
        return [
            line | {"rank": i, "cosine": cosine}
            for i, (line, cosine) in enumerate(zip(lines, cosines, strict=True), 1)
        ]

    return reply(plain({"neighbours": await run.ask(find)}))


# Explanations


@router.get("/explain", responses=examples.EXPLAIN)
async def explain(
    run: Run,
    id: Id,
    side: Side = "",
    moved: Annotated[int, Query(ge=0, le=20)] = 5,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    language: Language = "",
) -> JSONResponse:
    """What a vector is made of: neighbours, each by its relation, the weightiest first."""
    which = run.side(side)

    def find() -> list[dict[str, Any]]:
        label = run.model.growing.sides[which].entities[entity_id(run, which, id)]
        where = {"side": which} if run.two_graphs else {}
        found = run.model.explain(label, moved=moved, language=language, **where)
        return [asdict(reason) for reason in found[:limit]]

    return reply(plain({"id": id, "side": which, "reasons": await run.ask(find)}))


@router.get("/explain/match", responses=examples.EXPLAIN_MATCH)
async def explain_match(
    run: Run,
    left: Id,
    right: Id,
    limit: Annotated[int, Query(ge=0, le=50)] = 10,
    language: Language = "",
) -> JSONResponse:
    """Why two entities are a match, or are none: neighbours that both have, names, rivals.

    `words` says it in sentences.
    """
    alignment(run)

    def find() -> dict[str, Any]:
        ends = {side: entity_id(run, side, x) for side, x in (("left", left), ("right", right))}
        labels = [run.model.growing.sides[side].entities[i] for side, i in ends.items()]
        found = run.model.explain(*labels, shown=limit, language=language)
        return {**found.to_dict(), "words": str(found).split("\n")}

    return reply(plain(await run.ask(find)))


@router.get("/explain/answer", responses=examples.EXPLAIN_ANSWER)
async def explain_answer(
    run: Run, head: Id, relation: Id, tail: Id, top: Top = 5, language: Language = ""
) -> JSONResponse:
    """The paths that lead from the head of a triple to its tail (presets that answer by paths)."""
    prediction(run)

    def find() -> list[dict[str, Any]]:
        given = {"head": head, "relation": relation, "tail": tail}
        found = [asdict(x) for x in run.model.explain(**given, top=top, language=language)]
        graph = run.model.growing.sides[run.side("")]
        for step in (step for path in found for step in path["steps"]):
            ends = [graph.entities.id(step[end]) for end in ("head", "tail")]
            step["head_name"], step["tail_name"] = shown(graph, ends, language)
        return found

    return reply(plain({"paths": await run.ask(find)}))


@router.get("/predictions", responses=examples.PREDICTIONS)
async def predictions(
    run: Run,
    head: Annotated[str | None, Query(max_length=LIMITS.text, examples=["Germany"])] = None,
    relation: Annotated[str | None, Query(max_length=LIMITS.text, examples=["capital"])] = None,
    tail: Annotated[str | None, Query(max_length=LIMITS.text)] = None,
    top: Top = 10,
    known: bool = False,
    language: Language = "",
) -> JSONResponse:
    """What completes a triple: give two of head, relation and tail, and the third is answered.

    With `known` answers that the graph holds may be among them.
    """
    prediction(run)

    def find() -> list[dict[str, Any]]:
        parts = {"head": head or None, "relation": relation or None, "tail": tail or None}
        table = run.model.predict(**parts, top=top, known=known, language=language)
        rows: list[dict[str, Any]] = table.to_pylist()
        return rows

    return reply(plain({"answers": await run.ask(find)}))


def plain(value: Any) -> Any:
    """What JSON takes: numbers that are not finite are null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): plain(x) for key, x in value.items()}
    if isinstance(value, list | tuple):
        return [plain(x) for x in value]
    return value
