"""How a service is run: what may be done, by whom, and how much of it."""

from __future__ import annotations

from dataclasses import dataclass

MIB = 2**20


@dataclass(frozen=True)
class Limits:
    """What one request, and all of them together, may take.

    Attributes:
        body, batch_body: bytes of a request's body; the second where many are asked about at once.
        batch: entities of one question.
        top: answers to one question.
        triples: of one addition.
        text: characters of a name or identifier.
        header_seconds: until the headers of a request have arrived.
        body_seconds: until its body has, too.
        seconds: until it is answered.
        waiting: questions, and apart from them changes, that wait for their turn.
        connections: that are open at a time.
        headers: bytes of a request's first line and headers.
    """

    body: int = MIB
    batch_body: int = 8 * MIB
    batch: int = 1000
    top: int = 100
    triples: int = 10_000
    text: int = 2000
    header_seconds: float = 10.0
    body_seconds: float = 10.0
    seconds: float = 30.0
    waiting: int = 200
    connections: int = 500
    headers: int = 16 * 1024


@dataclass(frozen=True)
class ServiceOptions:
    """How a service is run.

    Attributes:
        host, port: where it listens; port 0 is any that is free.
        token: what additions and decisions need; None if nothing may be changed.
        root_path: the path under which a proxy shows the service.
        hosts: names, besides the host, by which the service may be called.
    """

    host: str = "127.0.0.1"
    port: int = 8080
    token: str | None = None
    root_path: str = ""
    hosts: tuple[str, ...] = ()
    limits: Limits = Limits()
