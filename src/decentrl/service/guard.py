"""What stands before every request: who may ask, from where, how much, and how long it may take.

It is plain ASGI, so that nothing of a request is read before it was judged.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Awaitable, Callable, MutableMapping
from ipaddress import ip_address
from typing import Any

from decentrl.service.failures import RequestError, busy
from decentrl.service.options import ServiceOptions

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

METHODS = frozenset({"GET", "HEAD", "POST", "DELETE", "OPTIONS"})
CHANGING = frozenset({"POST", "DELETE"})
BATCHES = ("/matches", "/additions", "/reconcile")
"""Ends of paths whose bodies may be long."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


def is_open(path: str) -> bool:
    """Whether pages of other sites may ask here, as the reconciliation API wants it."""
    return "reconcile" in path.split("/")


class Guard:
    """Refuses requests before the application sees them, and reads their bodies for it."""

    def __init__(self, app: App, options: ServiceOptions) -> None:
        self._app, self._options, self._limits = app, options, options.limits
        self._hosts = {"localhost", options.host.lower(), *(x.lower() for x in options.hosts)}
        self._asking = 0

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path = str(scope["path"])
        headers = {k.decode("latin-1").lower(): v.decode("latin-1") for k, v in scope["headers"]}

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = _with_headers(message.get("headers", []), is_open(path))
            await send(message)

        try:
            self._judge(scope, path, headers)
            body = await self._body(scope, path, headers, receive)
        except RequestError as failure:
            await failure.response()(scope, receive, answer)
            return
        self._asking += 1
        try:
            await self._app(scope, _again(body, receive), answer)
        finally:
            self._asking -= 1

    def _judge(self, scope: MutableMapping[str, Any], path: str, headers: dict[str, str]) -> None:
        method = str(scope["method"])
        if scope["http_version"] not in ("1.0", "1.1"):
            raise RequestError(505, "this service speaks HTTP/1.1")
        if sum(len(k) + len(v) for k, v in scope["headers"]) > self._limits.headers:
            raise RequestError(431, "the headers are too long", headers={"Connection": "close"})
        if "transfer-encoding" in headers and "content-length" in headers:
            problem = "the body has two lengths"
            raise RequestError(400, problem, headers={"Connection": "close"})
        if method not in METHODS:
            raise RequestError(
                405, f"no method {method[:20]!r}", headers={"Allow": ", ".join(METHODS)}
            )
        names = [value for name, value in scope["headers"] if name.lower() == b"host"]
        if len(names) != 1 or not self._is_ours(headers.get("host", "")):
            raise RequestError(
                421,
                "this service is not called by that name",
                "call it by the host that it was started with, or start it with --allow-host NAME",
            )
        if self._asking >= self._limits.connections:
            raise busy("too many requests at once")
        if method in CHANGING and not is_open(path):
            origin = headers.get("origin")
            if origin is not None and origin.partition("://")[2] != headers["host"]:
                raise RequestError(403, "requests of other sites are refused")
            if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
                raise RequestError(403, "requests of other sites are refused")
            kind = headers.get("content-type", "").partition(";")[0].strip().lower()
            if method == "POST" and kind != "application/json":
                raise RequestError(
                    415, "the body is not JSON", "send Content-Type: application/json"
                )
        if headers.get("content-encoding", "identity").lower() != "identity":
            raise RequestError(415, "compressed bodies are not read", "send it as it is")

    def _is_ours(self, host: str) -> bool:
        """Whether a Host header names this service; a name of others that leads here does not."""
        name = (
            host.rpartition("]")[0].lstrip("[") if host.startswith("[") else host.partition(":")[0]
        )
        if name.lower().rstrip(".") in self._hosts:
            return True
        try:
            ip_address(name)
        except ValueError:
            return False
        return True

    async def _body(
        self,
        scope: MutableMapping[str, Any],
        path: str,
        headers: dict[str, str],
        receive: Receive,
    ) -> bytes:
        """The whole body, if it is not too long and comes in time."""
        long = path.endswith(BATCHES) or is_open(path)
        most = self._limits.batch_body if long else self._limits.body
        large = RequestError(
            413,
            f"the body is longer than {most:,} bytes",
            "ask in parts",
            headers={"Connection": "close"},
        )
        length = headers.get("content-length", "")
        if length.isdigit() and int(length[:20]) > most:
            raise large
        parts, size = list[bytes](), 0
        try:
            async with asyncio.timeout(self._limits.body_seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise RequestError(400, "the request was not finished")
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    if size > most:
                        raise large
                    if not message.get("more_body"):
                        return b"".join(parts)
        except TimeoutError:
            raise RequestError(
                408, "the request came too slowly", headers={"Connection": "close"}
            ) from None


def _again(body: bytes, receive: Receive) -> Receive:
    """What gives the body that was read, and then what comes after it."""
    given = False

    async def read() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return read


def _with_headers(
    headers: list[tuple[bytes, bytes]], other_sites: bool
) -> list[tuple[bytes, bytes]]:
    there = {name.lower() for name, _ in headers}
    more = {**HEADERS, "cache-control": "no-store"}
    if other_sites:
        more |= {
            "access-control-allow-origin": "*",
            "access-control-allow-headers": "Content-Type",
            "access-control-allow-methods": "GET, POST, OPTIONS",
            "cross-origin-resource-policy": "cross-origin",
        }
    else:
        more["cross-origin-resource-policy"] = "same-origin"
    added = [(k.encode(), v.encode()) for k, v in more.items() if k.encode() not in there]
    return [*headers, *added]


def check_token(token: str | None, authorization: str) -> None:
    """Raise unless a request may change something; in the same time whatever it brings."""
    if token is None:
        raise RequestError(403, "this service is read-only", "start it with --write")
    kind, _, given = authorization.partition(" ")
    same = hmac.compare_digest(given.strip().encode("utf-8", "replace"), token.encode())
    if kind.lower() != "bearer" or not same:
        problem = "the token is wrong" if authorization else "a token is needed"
        remedy = "send the header Authorization: Bearer TOKEN"
        raise RequestError(401, problem, remedy, headers={"WWW-Authenticate": "Bearer"})
