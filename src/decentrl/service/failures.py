"""Requests that fail: one JSON body for all of them, ``{error, remedy?, suggestions?}``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from decentrl.errors import DecentRLError, InputError, UnknownLabelError, line_of


class RequestError(Exception):
    """A request that cannot be answered.

    Attributes:
        status: of HTTP.
        problem: what is wrong, in a line.
        remedy: what to do.
        suggestions: names that could have been meant.
    """

    def __init__(
        self,
        status: int,
        problem: str,
        remedy: str = "",
        suggestions: Sequence[str] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(problem)
        self.status, self.problem, self.remedy = status, problem, remedy
        self.suggestions, self.headers = list(suggestions), dict(headers or {})

    def body(self) -> dict[str, Any]:
        """As JSON."""
        found: dict[str, Any] = {"error": self.problem}
        if self.remedy:
            found["remedy"] = self.remedy
        if self.suggestions:
            found["suggestions"] = self.suggestions
        return found

    def response(self) -> JSONResponse:
        """As an answer of HTTP."""
        return JSONResponse(self.body(), self.status, self.headers)


def busy(problem: str) -> RequestError:
    """Too much is asked at the moment."""
    return RequestError(503, problem, "ask again in a second", headers={"Retry-After": "1"})


def of_error(error: DecentRLError) -> RequestError:
    """What an error of the library means in HTTP."""
    status = 404 if isinstance(error, UnknownLabelError) else 422
    if isinstance(error, InputError):
        return RequestError(status, error.problem, error.remedy or "")
    problem, _, remedy = str(error).partition("; ")
    return RequestError(status, problem, remedy)


_REMEDIES = {
    404: "see /openapi.json for all paths",
    405: "see /openapi.json for the methods of a path",
}


def _where(error: Mapping[str, Any]) -> str:
    return ".".join(str(part) for part in error.get("loc", ()) if part not in ("query", "body"))


def install(app: FastAPI) -> None:
    """Give every failure its body."""

    async def failed(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestError)
        return error.response()

    async def refused(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, DecentRLError)
        return of_error(error).response()

    async def invalid(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)
        problems = [f"{_where(x) or 'the request'}: {x.get('msg', '')}" for x in error.errors()[:3]]
        failure = RequestError(
            422, "; ".join(problems)[:500], "see /openapi.json for what is expected"
        )
        return failure.response()

    async def plain(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)
        remedy = _REMEDIES.get(error.status_code, "")
        status = 422 if error.status_code == 400 else error.status_code
        return RequestError(status, str(error.detail), remedy, headers=error.headers).response()

    async def internal(_: Request, error: Exception) -> JSONResponse:
        return RequestError(500, line_of(error)[:500]).response()

    app.add_exception_handler(RequestError, failed)
    app.add_exception_handler(DecentRLError, refused)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, plain)
    app.add_exception_handler(Exception, internal)
