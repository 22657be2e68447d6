"""Pages whose commands are run: what they show is compared with what comes out."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field

_BLOCK = re.compile(r"^```\n(.*?)^```", re.MULTILINE | re.DOTALL)
_FRACTION = re.compile(r"-?\d[\d,]*\.\d+")
TOLERANCE = 0.1
"""By how much numbers with a point may differ: other processors round otherwise."""


@dataclass
class Step:
    """A command of a page, and the lines that it shows of its output."""

    words: list[str]
    shown: list[str] = field(default_factory=list)


def steps(page: str) -> Iterator[Step]:
    """The commands of a page in order: lines of code blocks that begin with ``$``."""
    for block in _BLOCK.findall(page):
        step: Step | None = None
        for line in block.splitlines():
            if line.startswith("$ "):
                if step:
                    yield step
                step = Step(shlex.split(line[2:]))
            elif step:
                step.shown.append(line)
        if step:
            yield step


def missing(shown: list[str], printed: str) -> list[str]:
    """Lines of a page that the output does not have, in any order; ``…`` stands for others.

    Where no line is left out, what else is printed is missing on the page.
    """
    left = [line for line in printed.splitlines() if line.strip()]
    wanted = [line for line in shown if line.strip() and line.strip() != "…"]
    lost = []
    for line in wanted:
        found = next((x for x in left if alike(line, x)), None)
        if found is None:
            lost.append(line)
        else:
            left.remove(found)
    whole = all(line.strip() != "…" for line in shown)
    return lost + [f"not on the page: {line}" for line in left if whole]


def alike(shown: str, printed: str) -> bool:
    """Whether two lines have the same words and whole numbers, and nearly the same fractions.

    A ``…`` inside a line stands for the rest of it, or for a part.
    """
    pattern = ".*".join(map(re.escape, _squeezed(_FRACTION.sub("§", shown)).split("…")))
    if not re.fullmatch(pattern, _squeezed(_FRACTION.sub("§", printed))):
        return False
    pairs = zip(_FRACTION.findall(shown), _FRACTION.findall(printed), strict=False)
    return all(_near(*pair) for pair in pairs)


def _squeezed(line: str) -> str:
    return " ".join(line.split())


def _near(one: str, other: str) -> bool:
    a, b = (float(x.replace(",", "")) for x in (one, other))
    # Fractions of one and percentages alike.
    return abs(a - b) <= TOLERANCE * max(1.0, abs(a))
