"""Download the benchmark files from an address the user names, and check every one of them."""

from __future__ import annotations

import hashlib
import http.client
import os
import socket
import threading
import time
import urllib.request as web
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote

from decentrl.data.layouts import TRANSLATED
from decentrl.data.registry import checksums, data_root, find_dataset, sizes
from decentrl.errors import InputError

Progress = Callable[[str, int, int | None], None]  # file, bytes so far, bytes in all if known

_CHUNK = 1 << 18
_TIMEOUT = 60.0
_SLOWEST = 16 << 10  # bytes a second that are waited for, if no other time is given
_AGAIN = "run the command again: it goes on where it stopped"


def fetch(
    names: Iterable[str],
    base_url: str | None = None,
    progress: Progress | None = None,
    timeout: float | None = None,
) -> list[Path]:
    """Download the files of the named datasets; returns those that were not there.

    ``base_url`` (or DECENTRL_DATA_URL) is the address of a folder with the files of checksums.txt.
    A file that is already there and right is skipped; an interrupted one is continued. No more is
    taken from a server than the sizes that are published.

    Args:
        timeout: seconds that all of it may take; default: a minute, and one for each MiB.
    """
    folders = [info.folder for info in map(find_dataset, names) if not info.packaged]
    published, size_of = checksums(), sizes()
    wanted = {x: y for x, y in published.items() if any(x.startswith(f"{f}/") for f in folders)}
    # What a dataset is whole without comes last: an older copy may not have it.
    wanted = dict(sorted(wanted.items(), key=lambda item: TRANSLATED in item[0]))
    if not wanted:
        return []
    base = base_url or os.environ.get("DECENTRL_DATA_URL")
    if not base:
        raise InputError(
            "no address to fetch from is set",
            remedy="there is no public server of these files: give --base-url (DECENTRL_DATA_URL), "
            "the address of a copy of the data folder, or unpack what their authors publish and "
            "give the folder by --dataset",
        )
    if not base.lower().startswith(("http://", "https://")):
        raise InputError(f"{base!r} is no web address", remedy="give one with http:// or https://")
    base = base.rstrip("/")
    done = []
    if timeout is None:
        timeout = _TIMEOUT + sum(map(size_of.__getitem__, wanted)) // _SLOWEST
    elif not 0 < timeout < threading.TIMEOUT_MAX:
        raise InputError(f"{timeout} s is no time to wait", remedy="give seconds above 0")
    with _deadline(timeout) as opener:
        for name, checksum in wanted.items():
            target = data_root() / name
            if target.is_file() and _sha256(target) == checksum:
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            part = target.with_name(target.name + ".part")
            _download(opener, f"{base}/{quote(name)}", part, name, size_of[name], progress)
            if _sha256(part) != checksum:
                part.unlink()
                raise InputError(
                    "the downloaded file is not the published one (its SHA-256 differs)",
                    file=name,
                    remedy=f"check what {base} serves, then run the command again",
                )
            part.replace(target)
            done.append(target)
    return done


class _Opener(web.OpenerDirector):
    """Opens web addresses, and closes what it has opened once the time is over.

    A timeout of a socket is no bound: it begins anew with each byte.
    """

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds
        self.end = time.monotonic() + seconds
        self._sockets: list[socket.socket] = []
        opener = self

        def remembered(kind: Any) -> Any:
            class Connection(kind):  # type: ignore[misc]
                def connect(self) -> None:
                    opener.check()
                    self.timeout = min(_TIMEOUT, max(0.001, opener.end - time.monotonic()))
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
            raise InputError(f"not done after {self.seconds:g} s", remedy=_AGAIN)

    def hang_up(self) -> None:
        for connection in self._sockets:
            with suppress(OSError):  # it is closed already
                connection.shutdown(socket.SHUT_RDWR)


@contextmanager
def _deadline(seconds: float) -> Iterator[_Opener]:
    """An opener whose connections end after so many seconds, whatever the servers do."""
    opener = _Opener(seconds)
    timer = threading.Timer(seconds, opener.hang_up)
    timer.daemon = True
    timer.start()
    try:
        yield opener
    finally:
        timer.cancel()


def _download(
    opener: _Opener, url: str, part: Path, name: str, total: int, progress: Progress | None
) -> None:
    """Complete ``part`` to ``total`` bytes from ``url``, from where it ends if the server can."""
    have = part.stat().st_size if part.is_file() and not part.is_symlink() else 0
    if have == total:  # it is whole, or it is wrong and its checksum differs
        return
    have = have if have < total else 0
    # identity: a server that compresses on the way would change what is counted and hashed.
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
    try:
        with opener.open(web.Request(url, headers=headers), timeout=_TIMEOUT) as response:
            # 206 is the rest of the file; 200 is all of it, whatever was asked for.
            size = have if response.status == 206 else 0
            if not size:
                part.unlink(missing_ok=True)  # it may be a link to anywhere
            with part.open("ab" if size else "xb") as file:
                # Not read: that waits for all it is asked for, and believes the sizes of chunks.
                while chunk := response.read1(min(_CHUNK, total - size + 1)):
                    size += len(chunk)
                    if size > total:
                        break
                    file.write(chunk)
                    opener.check()
                    if progress:
                        progress(name, size, total)
            opener.check()
            whole = response.length == 0  # all that the server says there is
    except HTTPError as error:
        error.close()
        if error.code == 416 and have:  # nothing after the end: the part is of another file
            return
        raise InputError(
            f"the server answered {error.code} {error.reason} for {url}",
            file=name,
            remedy="check the address",
        ) from None
    # ValueError: an address, also one of a redirection, that is none.
    except (http.client.HTTPException, OSError, ValueError, OverflowError) as error:
        opener.check()
        if isinstance(error, InputError):
            raise
        reason = getattr(error, "reason", None) or error
        reason = " ".join(str(reason).split())
        raise InputError(f"{url} failed ({reason})", file=name, remedy=_AGAIN) from None
    if size > total:
        part.unlink()
        raise InputError(
            f"the server sends more than the {total:,} bytes that were published",
            file=name,
            remedy="check the address",
        )
    if size < total and not whole:
        problem = f"the transfer stopped after {size:,} of {total:,} bytes"
        raise InputError(problem, file=name, remedy=_AGAIN)


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
