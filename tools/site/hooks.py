"""Hooks of mkdocs: what the site has beside the pages of ``docs``.

Generated references, executed notebooks, and the files outside of ``docs`` that pages link to.
Links keep working on both sides: in the repository as they are written, on the site by what is
rewritten here.
"""

from __future__ import annotations

import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from tools.site import notebooks, reference  # noqa: E402

LINK = re.compile(r"(\]\()([^)#\s]+)(#[^)\s]*)?\)")
CODE = re.compile(r"(^```.*?^```)", re.MULTILINE | re.DOTALL)
LANGUAGES = {".py": "python", ".toml": "toml", ".sh": "bash", ".rq": "sparql", ".csv": "text"}
_origins: dict[str, str] = {}  # page of the site -> file of the repository


def site_uri(file: str) -> str:
    """The page on the site of a file of the repository."""
    if file == "docs/notebooks":
        return "notebooks/matches.md"
    if file.startswith("docs/"):
        return file.removeprefix("docs/")
    if file.endswith(".md"):
        return file if "/" in file else f"about/{file.lower()}"
    if file.endswith((".png", ".svg")):
        return file
    return f"source/{file}.md"


def links(text: str) -> set[str]:
    """Targets of relative links outside of code."""
    return {
        target
        for part in CODE.split(text)[::2]
        for _, target, _ in LINK.findall(part)
        if not re.match(r"[a-z]+:", target)
    }


def linked_files(start: list[str]) -> list[str]:
    """The files of the repository outside of ``docs`` that pages lead to, directly or not."""
    found: dict[str, None] = {}
    waiting = list(start)
    while waiting:
        page = waiting.pop()
        for target in sorted(links((ROOT / page).read_text("utf-8"))):
            file = posixpath.normpath(posixpath.join(posixpath.dirname(page), target))
            if file.startswith("docs/") or file in found or not (ROOT / file).exists():
                continue
            found[file] = None
            if (ROOT / file).is_dir():
                found |= dict.fromkeys(
                    f"{file}/{x.name}" for x in sorted((ROOT / file).glob("*.py"))
                )
            if file.endswith(".md"):
                waiting.append(file)
    return list(found)


def on_config(config: Any) -> Any:
    """The results are as many pages as there are."""
    results = sorted((ROOT / "docs/results").glob("*.md"), key=lambda x: (x.stem != "index", x))
    pages: list[Any] = [f"results/{page.name}" for page in results]
    notes = [{"Lab notebooks": [f"research/{x}.md" for x in
              ("index", "results", "experiments", "hardening")]}]  # fmt: skip
    config.nav[-1]["Results"] = pages + notes
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add what is generated, and what is linked."""
    for name, text in {**reference.pages(), **notebooks.pages(ROOT / "docs/notebooks")}.items():
        files.append(File.generated(config, name, content=text))
    own = [f"docs/{file.src_uri}" for file in files.documentation_pages() if file.abs_src_path]
    for name in linked_files([x for x in own if (ROOT / x).is_file()]):
        uri = site_uri(name)
        _origins[uri] = name
        if name.endswith((".png", ".svg")):
            files.append(File.generated(config, uri, abs_src_path=str(ROOT / name)))
            continue
        if (ROOT / name).is_dir():
            own_files = sorted(x.name for x in (ROOT / name).glob("*.py"))
            rows = "".join(f"- [{x}]({posixpath.basename(name)}/{x}.md)\n" for x in own_files)
            files.append(File.generated(config, uri, content=f"# {name}\n\n{rows}"))
            continue
        text = (ROOT / name).read_text("utf-8")
        if not name.endswith(".md"):
            language = LANGUAGES.get(Path(name).suffix, "text")
            text = f"# {name}\n\n```{language}\n{text}```\n"
        files.append(File.generated(config, uri, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Rewrite links so that they lead to pages of the site."""
    uri = page.file.src_uri
    origin = _origins.get(uri, f"docs/{uri}")
    if uri.startswith("source/"):
        return markdown

    def rewritten(found: re.Match[str]) -> str:
        start, target, anchor = found[1], found[2], found[3] or ""
        if re.match(r"[a-z]+:", target):
            return found[0]
        file = posixpath.normpath(posixpath.join(posixpath.dirname(origin), target))
        there = posixpath.relpath(site_uri(file), posixpath.dirname(uri) or ".")
        return f"{start}{there}{anchor})"

    parts = CODE.split(markdown)
    parts[::2] = [LINK.sub(rewritten, part) for part in parts[::2]]
    return "".join(parts)
