"""Two graphs whose entities and relations have labels that attack a page."""

from __future__ import annotations

import random
from pathlib import Path

LONG = "Llanfair" + "pwllgwyngyll" * 832 + "gogerych"
"""10,000 characters without a space."""
LABELS = [
    "<img src=x onerror=alert(1)>",
    "<script>alert(1)</script>",
    '"><svg onload=alert(1)>',
    "javascript:alert(1)",
    "{{constructor.constructor('alert(1)')()}}",
    "\x1b]0;owned\x07\x1b[31mred",
    "القاهرة \u202egnp.exe",
    "ירושלים <b>bold</b>",
    "👩‍👩‍👧‍👦 family 🏴‍☠️",
    "Z̸͎͒a̷l̶g̴o̵ \u200b\ufeff text",
    "../../etc/passwd?x=1&y=2#frag%00",
    "</title></style><base href=//evil.example>",
    "' OR 1=1; --",
    "=HYPERLINK(0)",
]
RELATIONS = ["<b>knows</b>", 'on"click=alert(1)', "يعرف"]
SIZE = 40


def write(folder: Path) -> list[str]:
    """Write the graphs, and return what ``decentrl align`` is told of them.

    The first entities of the left graph are called as above and have the same name; the identifiers
    of both graphs are plain otherwise. The last of `LABELS` is followed by `LONG`, which is a name.
    """
    rng = random.Random(7)
    triples = {(rng.randrange(SIZE), rng.randrange(3), rng.randrange(SIZE)) for _ in range(110)}
    triples |= {(i, 0, (i + 1) % SIZE) for i in range(SIZE)}
    for side in ("left", "right"):
        rows = [(entity(side, h), RELATIONS[r], entity(side, t)) for h, r, t in sorted(triples)]
        names = [(entity(side, i), name(i)) for i in range(SIZE)]
        _table(folder / f"{side}.tsv", rows)
        _table(folder / f"{side}-names.tsv", names)
    links = list(range(SIZE))
    rng.shuffle(links)
    pairs = [(entity("left", i), entity("right", i)) for i in links]
    _table(folder / "links.tsv", pairs[:16])
    _table(folder / "test.tsv", pairs[16:])
    return [
        str(folder / "left.tsv"), str(folder / "right.tsv"),
        "--links", str(folder / "links.tsv"), "--test-links", str(folder / "test.tsv"),
        "--left-names", str(folder / "left-names.tsv"),
        "--right-names", str(folder / "right-names.tsv"),
    ]  # fmt: skip


def entity(side: str, i: int) -> str:
    """The identifier of an entity."""
    return LABELS[i] if side == "left" and i < len(LABELS) else f"http://{side}.org/{i}"


def name(i: int) -> str:
    """Its name, on both sides."""
    if i < len(LABELS):
        return LABELS[i]
    return LONG if i == len(LABELS) else f"Plain town {i}"


def _table(file: Path, rows: list[tuple[str, ...]]) -> None:
    file.write_text("".join("\t".join(row) + "\n" for row in rows), "utf-8")
