"""Parameters that several paths share, with their limits and examples."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Query, Request
from starlette.responses import JSONResponse

from decentrl.service.failures import RequestError
from decentrl.service.guard import check_token
from decentrl.service.options import Limits
from decentrl.service.served_run import ServedRun

LIMITS = Limits()


async def served(request: Request) -> ServedRun:
    """The run that a path names, or the first one."""
    runs: dict[str, ServedRun] = request.app.state.runs
    name = request.path_params.get("run")
    if name is None:
        return next(iter(runs.values()))
    if name not in runs:
        raise RequestError(404, f"no run {str(name)[:100]!r} is served", "see /v1/runs", list(runs))
    return runs[name]


async def allowed(request: Request) -> None:
    """Raise unless the request may change something."""
    check_token(request.app.state.options.token, request.headers.get("authorization", ""))


Run = Annotated[ServedRun, Depends(served)]
Id = Annotated[
    str,
    Query(
        min_length=1,
        max_length=LIMITS.text,
        description="The identifier of an entity, or its name.",
        examples=["Berlin"],
    ),
]
Side = Annotated[
    str,
    Query(max_length=10, description="`left` or `right`; a run of one graph has none."),
]
Top = Annotated[int, Query(ge=1, le=LIMITS.top, description="How many.")]
Language = Annotated[
    str, Query(max_length=35, description="Show names in this language where there are some.")
]


def reply(content: Any, status: int = 200) -> JSONResponse:
    """JSON as it is: nothing is checked or copied on the way."""
    return JSONResponse(content, status)


def alignment(run: ServedRun) -> ServedRun:
    """The run, if it is one of alignment."""
    if not run.two_graphs:
        raise RequestError(
            422, "this run completes one graph; it has no matches", "ask /v1/predictions"
        )
    return run


def prediction(run: ServedRun) -> ServedRun:
    """The run, if it is one of prediction."""
    if run.two_graphs:
        raise RequestError(422, "this run aligns two graphs; it answers no such question",
                      "ask /v1/matches")  # fmt: skip
    return run
