"""The site of the documentation: links lead on, references are whole, wide pages are found."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tools.site import reference, widths
from tools.site.markdown import as_markdown

ROOT = Path(__file__).parents[2]


def test_every_command_and_setting_is_in_the_reference(decentrl: object) -> None:
    commands = reference.commands()
    for name in ("align", "match", "export", "data split", "data sparql"):
        assert f"\n## decentrl {name}\n" in commands
    assert "| `--links` | Known links: left entity, right entity." in commands
    settings = reference.settings()
    assert "| `training.epochs` |" in settings
    assert "| `decoder.name` |" in settings


def test_every_page_of_the_docs_is_on_the_site() -> None:
    """mkdocs says so, too; here it is found without building anything."""
    plan = (ROOT / "mkdocs.yml").read_text("utf-8")
    missing = [x.name for x in (ROOT / "docs").glob("*.md") if f": {x.name}\n" not in plan]
    assert missing == []
    for notebook in (ROOT / "docs/notebooks").glob("*.ipynb"):
        assert f"notebooks/{notebook.stem}.md\n" in plan


def test_notebooks_were_executed_in_order_and_are_small() -> None:
    """`make docs` executes them again; what is kept shows their outputs where they are read."""
    notebooks = sorted((ROOT / "docs/notebooks").glob("*.ipynb"))
    assert len(notebooks) == 3
    for file in notebooks:
        assert file.stat().st_size < 100_000
        cells = [
            x for x in json.loads(file.read_text("utf-8"))["cells"] if x["cell_type"] == "code"
        ]
        assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
        outputs = [output for cell in cells for output in cell["outputs"]]
        assert outputs
        assert not any(output["output_type"] == "error" for output in outputs)


def test_the_tutorial_of_the_encoder_shows_the_example() -> None:
    example = (ROOT / "examples/own_encoder.py").read_text("utf-8")
    page = (ROOT / "docs/tutorial-encoder.md").read_text("utf-8")
    blocks = page.split("```python\n")[1:]
    assert len(blocks) == 5
    lines = {line.strip() for line in example.splitlines()}
    for block in blocks:
        shown = block.split("\n```")[0]
        assert {line.strip() for line in shown.splitlines()} <= lines


def test_docstrings_become_markdown() -> None:
    formula = ".. math::\n    x = 1\n    y\n\n"
    text = f"Of :class:`~a.b.C`.\n\n>>> f(\n...     1)\n\n{formula}Args:\n    a: b.\n"
    assert as_markdown(text) == (
        "Of `C`.\n\n```python\nf(\n    1)\n```\n\n```latex\nx = 1\ny\n```\n\nArgs:\n    a: b.\n"
    )


BROWSER = next(filter(None, map(shutil.which, widths.BROWSERS)), None)


@pytest.mark.skipif(BROWSER is None, reason="no chromium")
def test_a_page_that_is_too_wide_is_found(tmp_path: Path) -> None:
    head = "<!doctype html><meta name=viewport content='width=device-width'><article>"
    (tmp_path / "a.html").write_text(f"{head}<p>a few words</p>")
    (tmp_path / "b.html").write_text(f"{head}<div style='width:700px'>wide</div>")
    (tmp_path / "c.html").write_text(f"{head}<pre style='overflow:auto'>{'x' * 999}</pre>")
    assert BROWSER is not None
    found = widths.too_wide(tmp_path, [1280, 400], BROWSER)
    assert [(page, width) for page, width, *_ in found] == [("b.html", 400)]
    assert "width:700px" in found[0][3]
