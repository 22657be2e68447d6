"""How much memory a job may use, in one place: of text that is read, of scores, of layers."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

from decentrl.errors import ConfigError

VARIABLE = "DECENTRL_MEMORY"
_UNITS = {"": 2**30} | {
    f"{letter}{kind}": base**power
    for kind, base in (("b", 1000), ("ib", 1024))
    for power, letter in enumerate("kmgt", 1)
}
_CGROUP = Path("/sys/fs/cgroup")
_SCORES = 8  # of the memory, the part that a matrix of scores may take: it has copies for a time
_MOST_SCORES = 1 << 30


def size_of(text: str) -> int:
    """Bytes of a size like ``8GB``, ``7.5GiB``, ``500MB``, or a number of GiB."""
    found = re.fullmatch(r"\s*([0-9.]+)\s*([a-z]*)\s*", text.lower())
    with suppress(ValueError, KeyError, OverflowError):
        if found and (size := int(float(found[1]) * _UNITS[found[2]])) > 0:
            return size
    raise ConfigError(f"{text[:40]!r} is no size of memory; write it like 8GB or 500MB")


def set_memory(text: str) -> None:
    """From now on this process, and those it starts, may use so much memory."""
    os.environ[VARIABLE] = f"{size_of(text) / 2**30!r}"


def memory() -> int:
    """Bytes of memory that may be used: DECENTRL_MEMORY in GiB, or those of this machine.

    Of a container or process with a limit of its own, its limit.
    """
    if given := os.environ.get(VARIABLE):
        try:
            if (size := int(float(given) * 2**30)) > 0:
                return size
            raise ValueError
        except (ValueError, OverflowError):  # what is no number, nan, inf
            raise ConfigError(
                f"{VARIABLE} is {given[:40]!r}; give the memory that may be used in GiB, like 16"
            ) from None
    found = [1 << 63]
    with suppress(AttributeError, OSError, ValueError):  # not on Windows
        found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        with suppress(OSError, ValueError):  # "max" is none
            found.append(int((_CGROUP / name).read_text()))
    with suppress(ImportError):
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        found += [limit] if limit != resource.RLIM_INFINITY else []
    return min(found)


def score_budget() -> int:
    """Bytes that a matrix of similarities may take before it is recomputed block by block.

    At most a GiB. It does not depend on what happens to be free, so that results do not either.
    """
    return min(_MOST_SCORES, memory() // _SCORES)
