"""Links in the documentation lead somewhere, and README stays short."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [
    ROOT / "README.md",
    *(ROOT / f"{name}.md" for name in ("CHANGELOG", "CONTRIBUTING", "SECURITY", "CODE_OF_CONDUCT")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "research").rglob("*.md")),
]
CODE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.*)$", re.MULTILINE)
WORDS = 700


def links(text: str) -> list[str]:
    """Targets of the Markdown links outside of code blocks, those to other sites left out."""
    found = LINK.findall(CODE.sub("", text))
    return [x for x in found if not re.match(r"[a-z]+:", x)]


def anchors(text: str) -> set[str]:
    """The anchors of the headings, as GitHub makes them."""
    plain = (
        re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", x) for x in HEADING.findall(CODE.sub("", text))
    )
    return {re.sub(r"[^\w\- ]", "", x.strip().lower()).replace(" ", "-") for x in plain}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    broken = []
    for target in links(page.read_text("utf-8")):
        name, _, anchor = target.partition("#")
        place = (page.parent / name).resolve() if name else page
        there = place.exists() and place.is_relative_to(ROOT)
        if not there or (anchor and anchor not in anchors(place.read_text("utf-8"))):
            broken.append(target)
    assert not broken


def test_links_and_anchors_are_found() -> None:
    code = "```\n# no\n[n](n.md)\n```\n"
    text = f"# A `b`, c!\n[x](y.md#z) [s](https://x.y)\n{code}![p](p.png)\n## [Q](r)"
    assert links(text) == ["y.md#z", "p.png", "r"]
    assert anchors(text) == {"a-b-c", "q"}


def test_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text("utf-8").split()) <= WORDS


def test_the_index_lists_every_page() -> None:
    listed = {target.partition("#")[0] for target in links((ROOT / "docs/index.md").read_text())}
    pages = {path.name for path in (ROOT / "docs").glob("*.md")} - {"index.md"}
    assert pages <= listed


def test_the_glossary_has_at_most_forty_terms() -> None:
    text = (ROOT / "docs/glossary.md").read_text("utf-8")
    terms = re.findall(r"^\| \*\*", text, re.MULTILINE)
    assert 25 <= len(terms) <= 40


def test_each_walk_has_at_most_eight_steps_and_enters_no_room_twice() -> None:
    text = (ROOT / "docs/architecture.md").read_text("utf-8")
    whole = text.split("## The walk of a new engineer")[1].split("\n## ")[0]
    walks = whole.split("\n### ")[1:]
    assert len(walks) == 3
    for walk in walks:
        steps = re.split(r"^\d+\. ", walk, flags=re.MULTILINE)[1:]
        assert 1 < len(steps) <= 8
        rooms = [set(re.findall(r"`([a-z]+)/[\w/]+\.py`", step)) for step in steps]
        assert all(len(found) <= 1 for found in rooms)
        entered = [name for found in rooms for name in found]
        assert len(entered) == len(set(entered))
