"""The notebooks of the documentation: executed whenever the site is built.

``python -m tools.site.notebooks`` writes what their cells print into the notebooks, too, which is
what a viewer of the repository shows.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "docs/notebooks"
_STYLE = re.compile(r"<style.*?</style>", re.DOTALL)


def executed(file: Path) -> Any:
    """The notebook with the outputs of its cells; an error in one ends it."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(file, as_version=4)
    quiet = ["--log-level=ERROR"]
    client = NotebookClient(notebook, timeout=300, kernel_name="python3", extra_arguments=quiet)
    client.execute(cwd=str(file.parent))
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # times, which differ each time
    return notebook


def pages(folder: Path) -> dict[str, str]:
    """All notebooks as Markdown, by their place on the site."""
    return {f"notebooks/{x.stem}.md": markdown(x) for x in sorted(folder.glob("*.ipynb"))}


def markdown(file: Path) -> str:
    """A notebook as a page: text, code and what the code prints."""
    parts = []
    for cell in executed(file).cells:
        if cell.cell_type == "markdown":
            parts.append(cell.source)
            continue
        parts.append(f"```python\n{cell.source}\n```")
        parts.extend(filter(None, map(_output, cell.outputs)))
    parts.append(f"[The notebook]({file.name})")
    return "\n\n".join(parts) + "\n"


def _output(output: Any) -> str:
    if output.output_type == "stream":
        return f"```text\n{output.text.rstrip()}\n```"
    data = output.get("data", {})
    if "text/html" in data:
        return "\n".join(x.strip() for x in _STYLE.sub("", data["text/html"]).splitlines())
    return f"```text\n{data['text/plain']}\n```" if "text/plain" in data else ""


if __name__ == "__main__":
    import nbformat

    for place in sorted(FOLDER.glob("*.ipynb")) if len(sys.argv) < 2 else map(Path, sys.argv[1:]):
        nbformat.write(executed(place), place)
        print(place)
