"""The paths of the reconciliation API, at ``/reconcile`` and ``/v1/runs/{run}/reconcile``."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import parse_qs

from fastapi import APIRouter, Query, Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from decentrl.service.failures import RequestError
from decentrl.service.parameters import LIMITS, Run
from decentrl.service.reconcile import about
from decentrl.service.reconcile.candidates import Reconciler
from decentrl.service.reconcile.questions import read_batch
from decentrl.service.served_run import ServedRun

router = APIRouter(tags=["reconciliation"])
FRAMED = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors *"
"""The policy of previews, which other pages show in a frame: they load and run nothing."""
Prefix = Annotated[str, Query(max_length=300)]
Cursor = Annotated[int, Query(ge=0, le=10_000)]
FORM = {
    "requestBody": {
        "content": {
            "application/x-www-form-urlencoded": {
                "example": {"queries": '{"q0": {"query": "Berlin", "limit": 3}}'}
            }
        }
    }
}


def _base(request: Request) -> str:
    """The address under which the service was called."""
    host = request.headers["host"]
    return f"{request.url.scheme}://{host}{request.scope.get('root_path', '')}"


def _place(request: Request, run: ServedRun) -> str:
    named = "run" in request.path_params
    return f"/v1/runs/{run.name}/reconcile" if named else "/reconcile"


async def _answer(run: ServedRun, queries: str, extension: str) -> Response:
    if queries:
        batch = read_batch(queries)
        found = await run.ask(lambda: Reconciler(run).answer(batch))
        return JSONResponse({key: {"result": some} for key, some in found.items()})
    asked = about.read_extension(extension)
    return JSONResponse(await run.ask(lambda: about.extend(run, asked)))


@router.get("")
async def get_reconcile(
    request: Request,
    run: Run,
    queries: Annotated[str, Query(max_length=LIMITS.body)] = "",
    extend: Annotated[str, Query(max_length=LIMITS.body)] = "",
) -> Response:
    """The service's manifest, or answers to `queries` or `extend`."""
    if queries or extend:
        return await _answer(run, queries, extend)
    return JSONResponse(about.manifest(run, _base(request), _place(request, run)))


@router.post("", openapi_extra=FORM)
async def post_reconcile(request: Request, run: Run) -> Response:
    """Answers to `queries` or `extend`, sent as a form.

    Properties whose values are entities are triples about the entity asked for: it gets a vector at
    once, without being kept, and is matched by structure and name together. `score` is 100 times
    the confidence, `match` says whether that is above the fitted threshold, and `features` have the
    share of each view in the cosine.
    """
    try:
        text = (await request.body()).decode("utf-8")
        fields = parse_qs(text, keep_blank_values=True, max_num_fields=10, errors="strict")
    except ValueError:
        raise RequestError(422, "the body is no form", "send queries=… or extend=…") from None
    queries, extension = (fields.get(name, [""])[0] for name in ("queries", "extend"))
    if not queries and not extension:
        raise RequestError(422, "the form has neither queries nor extend")
    return await _answer(run, queries, extension)


@router.options("")
async def options() -> Response:
    """What pages of other sites may ask."""
    return Response(status_code=204)


def _page(found: list[Any], cursor: int) -> JSONResponse:
    return JSONResponse({"result": found[cursor : cursor + about.SHOWN]})


@router.get("/suggest/entity")
async def suggest_entity(run: Run, prefix: Prefix = "", cursor: Cursor = 0) -> JSONResponse:
    """Entities by the beginnings of words in their names."""
    most = cursor + about.SHOWN
    return _page(await run.ask(lambda: about.entities(run, prefix, most)), cursor)


@router.get("/suggest/type")
async def suggest_type(run: Run, prefix: Prefix = "", cursor: Cursor = 0) -> JSONResponse:
    """Types: each graph has one."""
    return _page(about.types(run, prefix), cursor)


@router.get("/suggest/property")
async def suggest_property(run: Run, prefix: Prefix = "", cursor: Cursor = 0) -> JSONResponse:
    """Relations and attributes, those of the left graph first: questions come from it."""
    sides = ["left", "right"] if run.two_graphs else [""]
    return _page(await run.ask(lambda: about.properties(run, prefix, sides)), cursor)


@router.get("/properties")
async def propose(
    run: Run,
    type: Annotated[str, Query(max_length=300)] = "",
    limit: Annotated[int, Query(ge=0, le=1000)] = 50,
) -> JSONResponse:
    """Properties of a type by which rows can be extended."""
    side = about.side_of(run, type)
    found = await run.ask(lambda: about.properties(run, "", [side]))
    names = {"id": about.NAME, "name": "name"}
    some = [names, *found][: limit or None]
    return JSONResponse({"properties": some, "type": type, "limit": limit})


@router.get("/flyout/{kind}")
async def flyout(
    run: Run, kind: str, id: Annotated[str, Query(max_length=LIMITS.text)]
) -> JSONResponse:
    """A few words about an entity, type or property."""
    if kind not in ("entity", "type", "property"):
        raise RequestError(404, f"no flyout of {kind[:50]!r}")
    return JSONResponse(await run.ask(lambda: about.flyout(run, kind, id)))


@router.get("/preview")
async def preview(run: Run, id: Annotated[str, Query(max_length=LIMITS.text)]) -> HTMLResponse:
    """A small page about an entity, to be shown in a frame."""
    page = await run.ask(lambda: about.preview(run, id))
    return HTMLResponse(page, headers={"Content-Security-Policy": FRAMED})
