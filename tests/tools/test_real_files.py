"""Files that others have published are read as the table in docs/data.md says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tools.real_files import FILES, RealFile, read

FOLDER = os.environ.get("DECENTRL_REAL_FILES")
DOCS = Path(__file__).parents[2] / "docs" / "data.md"


@pytest.mark.skipif(not FOLDER, reason="needs the folder of `python -m tools.real_files`")
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.format)
def test_a_published_file_is_read_without_preparation(file: RealFile) -> None:
    graph = read(file, Path(FOLDER or ""))
    sizes = len(graph.entities), len(graph.relations), len(graph.triples)
    assert sizes == (file.entities, file.relations, file.triples)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.format)
def test_the_page_has_the_numbers_of_the_table(file: RealFile) -> None:
    sizes = " | ".join(f"{x:,}" for x in (file.entities, file.relations, file.triples))
    rows = [line for line in DOCS.read_text("utf-8").splitlines() if line.endswith(f"| {sizes} |")]
    assert any(row.startswith(f"| {file.format} | `{file.package}`") for row in rows)
