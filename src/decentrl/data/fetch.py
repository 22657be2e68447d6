"""Download the benchmark files from an address the user names, and check every one of them."""

from __future__ import annotations

import hashlib
import http.client
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit
from urllib.request import Request, urlopen

from decentrl.data.registry import checksums, data_root, find_dataset
from decentrl.errors import InputError

Progress = Callable[[str, int, int | None], None]  # file, bytes so far, bytes in all if known

_CHUNK = 1 << 18
_TIMEOUT = 60.0
_AGAIN = "run the command again: it goes on where it stopped"


def fetch(
    names: Iterable[str],
    base_url: str | None = None,
    progress: Progress | None = None,
) -> list[Path]:
    """Download the files of the named datasets; returns those that were not there.

    ``base_url`` (or DECENTRL_DATA_URL) is the address of a folder with the files of checksums.txt.
    A file that is already there and right is skipped; an interrupted one is continued.
    """
    folders = [info.folder for info in map(find_dataset, names) if not info.packaged]
    published = checksums()
    wanted = {x: y for x, y in published.items() if any(x.startswith(f"{f}/") for f in folders)}
    if not wanted:
        return []
    base = base_url or os.environ.get("DECENTRL_DATA_URL")
    if not base:
        raise InputError(
            "no address to fetch from is set",
            remedy="give --base-url or set DECENTRL_DATA_URL to where the data folder is served",
        )
    try:
        known = urlsplit(base).scheme in ("http", "https")
    except ValueError:  # brackets that are no IPv6 address
        known = False
    if not known:
        raise InputError(f"{base!r} is no web address", remedy="give one with http:// or https://")
    base = base.rstrip("/")
    done = []
    for name, checksum in wanted.items():
        target = data_root() / name
        if target.is_file() and _sha256(target) == checksum:
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(target.name + ".part")
        _download(f"{base}/{quote(name)}", part, name, progress)
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


def _download(url: str, part: Path, name: str, progress: Progress | None) -> None:
    """Complete ``part`` from ``url``, from where it ends if the server can."""
    have = part.stat().st_size if part.is_file() else 0
    # identity: a server that compresses on the way would change what is counted and hashed.
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
    try:
        with urlopen(Request(url, headers=headers), timeout=_TIMEOUT) as response:
            # 206 is the rest of the file; 200 is all of it, whatever was asked for.
            size = have if response.status == 206 else 0
            length = response.headers.get("Content-Length")
            total = size + int(length) if length and length.isdigit() else None
            with part.open("ab" if size else "wb") as file:
                while chunk := response.read(_CHUNK):
                    file.write(chunk)
                    size += len(chunk)
                    if progress:
                        progress(name, size, total)
            # read(n) does not complain about a connection that closed early.
            if total is not None and size != total:
                problem = f"the transfer stopped after {size:,} of {total:,} bytes"
                raise InputError(problem, file=name, remedy=_AGAIN)
    except HTTPError as error:
        error.close()
        # Nothing after the end: the part is whole, or it is wrong and its checksum differs.
        if error.code == 416 and have:
            return
        raise InputError(
            f"the server answered {error.code} {error.reason} for {url}",
            file=name,
            remedy="check the address",
        ) from None
    except (URLError, http.client.HTTPException, OSError) as error:
        reason = getattr(error, "reason", None) or error
        raise InputError(f"{url} failed ({reason})", file=name, remedy=_AGAIN) from None


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
