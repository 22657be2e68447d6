"""The explorer: the files of one page, read once. No path of a request ever names a file."""

from __future__ import annotations

from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

TYPES = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
    "png": "image/png",
    "ico": "image/x-icon",
}


def page_routes() -> list[Route]:
    """A route for each file of the page, and one for the page itself."""
    routes = []
    folder = files("decentrl.service") / "page"
    for file in sorted(folder.iterdir(), key=lambda x: x.name):
        kind = TYPES.get(file.name.rpartition(".")[2])
        if kind is None or not file.is_file():
            continue
        answer = _answers(file.read_bytes(), kind)
        paths = ["/", "/index.html"] if file.name == "index.html" else [f"/{file.name}"]
        routes += [Route(path, answer, include_in_schema=False) for path in paths]
    return routes


def _answers(content: bytes, kind: str):  # type: ignore[no-untyped-def]
    async def answer(_: Request) -> Response:
        return Response(content, media_type=kind, headers={"Cache-Control": "no-cache"})

    return answer
