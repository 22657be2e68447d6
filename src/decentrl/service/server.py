"""Runs the service: one process, until a signal ends it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from decentrl.errors import InputError
from decentrl.service.app import make_app
from decentrl.service.options import Limits, ServiceOptions
from decentrl.service.served_run import open_runs

KEEP_ALIVE = 15
"""Seconds that an idle connection is kept."""
STOPPING = 10
"""Seconds that requests have to be finished when the service is stopped."""


class PatientProtocol(H11Protocol):
    """HTTP/1.1 of so many connections, that waits for headers, but not for ever."""

    limits = Limits()
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if len(self.connections) > self.limits.connections:
            transport.close()
        else:
            self._wait_for_headers()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._wait_for_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._forget()

    def _wait_for_headers(self) -> None:
        """Have one timer from the first byte of a request until its headers are whole."""
        if self.conn.their_state is not h11.IDLE:
            self._forget()
        elif self._timer is None and not self.transport.is_closing():
            self._timer = self.loop.call_later(self.limits.header_seconds, self._give_up)

    def _give_up(self) -> None:
        self._timer = None
        if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
            self.transport.close()

    def _forget(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class _Server(uvicorn.Server):
    """A server that a signal stops, and that does not raise it again afterwards."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        signals = (signal.SIGINT, signal.SIGTERM)
        for name in signals:
            loop.add_signal_handler(name, self.handle_exit, name, None)
        try:
            yield
        finally:
            for name in signals:
                loop.remove_signal_handler(name)


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens there."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listening = socket.create_server((host, port), family=family, backlog=512)
        # An answer is sent in two pieces; without it the second would wait for a receipt.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listening
    except (OSError, UnicodeError, OverflowError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise InputError(
            f"cannot listen on {host}:{port} ({why})", remedy="choose another --host or --port"
        ) from error


def serve(
    folders: list[Path],
    options: ServiceOptions,
    on_start: Callable[[str, list[str]], None],
) -> None:
    """Serve runs until SIGINT or SIGTERM.

    Args:
        on_start: called with the address and the names of runs once all is ready.
    """
    listening = listen(options.host, options.port)
    with listening:
        runs = open_runs(folders, write=options.token is not None, limits=options.limits)
        try:
            config = uvicorn.Config(
                make_app(runs, options),
                http=type("Protocol", (PatientProtocol,), {"limits": options.limits}),
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=KEEP_ALIVE,
                timeout_graceful_shutdown=STOPPING,
                h11_max_incomplete_event_size=options.limits.headers,
            )
            logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
            port = listening.getsockname()[1]
            host = f"[{options.host}]" if ":" in options.host else options.host
            on_start(f"http://{host}:{port}{options.root_path}/", list(runs))
            asyncio.run(_Server(config).serve(sockets=[listening]))
        finally:
            for run in runs.values():
                run.close()
