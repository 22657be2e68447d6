"""Download the benchmark files from an address the user names, and check every one of them."""

from __future__ import annotations

import hashlib
import http.client
import os
import urllib.request as web
from collections.abc import Callable, Iterable
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import quote

from decentrl.data.layouts import TRANSLATED
from decentrl.data.registry import checksums, data_root, find_dataset, sizes
from decentrl.data.web import (
    TIMEOUT,
    Opener,
    check_address,
    check_seconds,
    deadline,
    reason_of,
)
from decentrl.errors import InputError

Progress = Callable[[str, int, int | None], None]  # file, bytes so far, bytes in all if known

_CHUNK = 1 << 18
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
    check_address(base)
    base = base.rstrip("/")
    done = []
    if timeout is None:
        timeout = TIMEOUT + sum(map(size_of.__getitem__, wanted)) // _SLOWEST
    check_seconds(timeout)
    with deadline(timeout, _AGAIN) as opener:
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


def _download(
    opener: Opener, url: str, part: Path, name: str, total: int, progress: Progress | None
) -> None:
    """Complete ``part`` to ``total`` bytes from ``url``, from where it ends if the server can."""
    have = part.stat().st_size if part.is_file() and not part.is_symlink() else 0
    if have == total:  # it is whole, or it is wrong and its checksum differs
        return
    have = have if have < total else 0
    # identity: a server that compresses on the way would change what is counted and hashed.
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
    try:
        with opener.open(web.Request(url, headers=headers), timeout=TIMEOUT) as response:
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
        raise InputError(f"{url} failed ({reason_of(error)})", file=name, remedy=_AGAIN) from None
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
