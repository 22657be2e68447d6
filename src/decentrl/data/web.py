"""Opens web addresses with a bound on the time that all of it may take."""

from __future__ import annotations

import http.client
import socket
import threading
import time
import urllib.request as web
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from decentrl.errors import InputError

TIMEOUT = 60.0
"""Seconds that a server may be silent."""


def check_address(address: str) -> None:
    """Raise unless it is an address of the web."""
    if not address.lower().startswith(("http://", "https://")):
        raise InputError(
            f"{address!r} is no web address", remedy="give one with http:// or https://"
        )


def check_seconds(seconds: float) -> None:
    """Raise unless one can wait so long."""
    if not 0 < seconds < threading.TIMEOUT_MAX:
        raise InputError(f"{seconds} s is no time to wait", remedy="give seconds above 0")


def reason_of(error: Exception) -> str:
    """Why a request failed, in a line."""
    return " ".join(str(getattr(error, "reason", None) or error).split())


class Opener(web.OpenerDirector):
    """Opens web addresses, and closes what it has opened once the time is over.

    A timeout of a socket is no bound: it begins anew with each byte.
    """

    def __init__(self, seconds: float, again: str) -> None:
        super().__init__()
        self.seconds, self.again = seconds, again
        self.end = time.monotonic() + seconds
        self._sockets: list[socket.socket] = []
        opener = self

        def remembered(kind: Any) -> Any:
            class Connection(kind):  # type: ignore[misc]
                def connect(self) -> None:
                    opener.check()
                    self.timeout = min(TIMEOUT, max(0.001, opener.end - time.monotonic()))
                    super().connect()
                    opener._sockets.append(self.sock)

            return Connection

        class Http(web.HTTPHandler):
            def http_open(self, request: web.Request) -> http.client.HTTPResponse:
                return self.do_open(remembered(http.client.HTTPConnection), request)

        class Https(web.HTTPSHandler):
            def https_open(self, request: web.Request) -> http.client.HTTPResponse:
                return self.do_open(remembered(http.client.HTTPSConnection), request)

        # Those of urlopen but for FTP, files and data, where a redirection could lead.
        for handler in (web.ProxyHandler, web.HTTPDefaultErrorHandler, web.HTTPRedirectHandler,
                        web.HTTPErrorProcessor, web.UnknownHandler, Http, Https):  # fmt: skip
            self.add_handler(handler())

    def check(self) -> None:
        """Raise if the time is over."""
        if time.monotonic() >= self.end:
            raise InputError(f"not done after {self.seconds:g} s", remedy=self.again)

    def hang_up(self) -> None:
        for connection in self._sockets:
            with suppress(OSError):  # it is closed already
                connection.shutdown(socket.SHUT_RDWR)


@contextmanager
def deadline(seconds: float, again: str) -> Iterator[Opener]:
    """An opener whose connections end after so many seconds, whatever the servers do.

    Args:
        again: what to do if the time is over.
    """
    opener = Opener(seconds, again)
    timer = threading.Timer(seconds, opener.hang_up)
    timer.daemon = True
    timer.start()
    try:
        yield opener
    finally:
        timer.cancel()
