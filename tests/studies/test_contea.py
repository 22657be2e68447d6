"""The page of the graphs that grow is made of the snapshots' files alone."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from studies.contea import BATCHES, LABELS, TICKS, write_page


def snapshot(variant: str, batch: int, f1: float, **more: object) -> dict[str, object]:
    rows = [{"subset": "all", "precision": 0.5, "recall": 0.25, "f1": f1}]
    if batch:
        rows.append({"subset": "unknown", "precision": 0.1, "recall": 0.2, "f1": f1 / 2})
    result = {"variant": variant, "batch": batch, "seed": 0, "preset": "quick", "commit": "abc"}
    times = {"seconds": {"match": {"wall": 3.2, "cpu": 5.1}}, "threads": 2}
    errors = {"calibration error": {"unknown": 0.0625} if batch else {}}
    return result | times | errors | {"fitted": rows, "abstain": rows} | more


def test_the_page_shows_what_was_run_and_says_what_was_not(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    found = [snapshot("added", k, 0.5 + k / 100) for k in BATCHES]
    found += [snapshot("scratch", 1, 0.375), snapshot("added", 1, 0.9, seed=1)]
    for number, one in enumerate(found):
        (tmp_path / f"{number}.json").write_text(json.dumps(one), "utf-8")
    page = tmp_path / "docs" / "contea.md"
    page.parent.mkdir()
    write_page(tmp_path, page)
    text = page.read_text("utf-8")
    assert "| additions only | .500 / .250 / .500 | .500 / .250 / .510 |" in text
    assert "| trained from scratch on all | – | .500 / .250 / .375 | – |" in text
    assert ".900" not in text  # of another seed
    assert "| additions only | – | .100 / .200 / .255 |" in text
    assert "| matching, additions only | 3 (5) |" in text
    assert "trained from scratch on all: base, batch 2, batch 3, batch 4, batch 5" in text
    assert f"{LABELS['mean']}: {', '.join(TICKS)}" in text
    assert page.with_suffix(".svg").is_file()
    assert page.with_suffix(".png").is_file()
    with page.with_suffix(".csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    assert {len(row) for row in rows} == {2 + len(TICKS)}
    assert ["All links", LABELS["scratch"], "–", ".500 / .250 / .375", *["–"] * 4] in rows
