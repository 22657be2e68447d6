"""``decentrl serve``: runs over HTTP."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from decentrl.errors import ConfigError, InputError, MissingExtraError

SHORTEST = 16
"""Characters of a token, at least."""


def serve(
    runs: Annotated[
        list[Path], Argument(metavar="RUN...", help="Folders of finished runs; the first is meant "
                             "where a request names none.")
    ],
    host: Annotated[str, Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, Option(help="The port; 0 is any free one.", min=0, max=65535)] = 8080,
    write: Annotated[
        bool, Option("--write", help="Additions and decisions may be made, with a token.")
    ] = False,
    token_file: Annotated[
        Path | None,
        Option(help="With --write: a file whose first line is the token; default: a new one, "
               "printed at the start."),
    ] = None,
    root_path: Annotated[
        str, Option(help="The path under which a proxy shows the service: /prefix.")
    ] = "",
    allow_host: Annotated[
        list[str] | None,
        Option(metavar="NAME", help="A further name by which it may be called; may be repeated."),
    ] = None,
) -> None:  # fmt: skip
    """Serve runs over HTTP: a page to explore and review them, REST, and OpenRefine's API.

    Nothing can be changed unless --write. Ctrl-C stops it.

    decentrl serve run --port 8080
    """
    if token_file is not None and not write:
        raise ConfigError("a token is for changes; add --write, or leave out --token-file")
    if root_path and (not root_path.startswith("/") or root_path.endswith("/")):
        raise ConfigError(f"the root path is {root_path!r}; give one like /prefix")
    token = None
    if write:
        token = secrets.token_urlsafe(24) if token_file is None else read_token(token_file)
    try:
        import fastapi  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("decentrl serve", "fastapi and uvicorn", "serve") from error
    from decentrl.service.options import ServiceOptions
    from decentrl.service.server import serve as run_server

    options = ServiceOptions(
        host=host, port=port, token=token, root_path=root_path, hosts=tuple(allow_host or ())
    )

    def on_start(address: str, names: list[str]) -> None:
        mode = "changes need the token" if write else "read-only"
        print(f"serving {', '.join(names)} at {address} ({mode}; Ctrl-C stops it)", flush=True)
        if token is not None and token_file is None:
            print(f"token  {token}", flush=True)

    run_server(runs, options, on_start)


def read_token(file: Path) -> str:
    """The first line of a file."""
    try:
        lines = file.read_text("utf-8").splitlines()
    except UnicodeDecodeError:
        lines = []
    token = lines[0].strip() if lines else ""
    if len(token) < SHORTEST or not token.isascii() or not token.isprintable() or " " in token:
        raise InputError(
            f"its first line is no token of {SHORTEST} characters or more",
            file=file,
            remedy="write one: python -c 'import secrets; print(secrets.token_urlsafe(24))'",
        )
    return token
