"""Docstrings as Markdown: examples, formulas and references without other marks."""

from __future__ import annotations

import re

_ROLE = re.compile(r":[a-z]+:`~?(?:[\w.]*\.)?(\w+)`")
_EXAMPLE = re.compile(r"(?:^[ ]*(?:>>>|\.\.\.) .*\n?)+", re.MULTILINE)
_MATH = re.compile(r"^\.\. math::\n((?:[ ]+.*\n?|\n(?=[ ]))+)", re.MULTILINE)


def as_markdown(text: str) -> str:
    """A docstring without the marks of reStructuredText."""
    text = _ROLE.sub(r"`\1`", text)
    text = _EXAMPLE.sub(lambda found: _block("python", found[0]), text)
    return _MATH.sub(lambda found: _block("latex", found[1]), text)


def _block(language: str, text: str) -> str:
    lines = [re.sub(r"^\s*(?:>>>|\.\.\.) ", "", line) for line in text.rstrip().splitlines()]
    least = min((len(x) - len(x.lstrip()) for x in lines if x.strip()), default=0)
    inside = "\n".join(line[least:] for line in lines)
    return f"```{language}\n{inside}\n```\n"
