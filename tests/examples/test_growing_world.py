"""The example adds countries that nobody knew, and finds them in the other graph."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "growing_world.py"


def test_the_example_finds_what_came_on_tuesday(tmp_path: Path) -> None:
    alone = {**os.environ, "OMP_NUM_THREADS": "1"}  # the tensors are too small to share out
    done = subprocess.run(
        [sys.executable, str(EXAMPLE), str(tmp_path / "days")],
        capture_output=True,
        text=True,
        env=alone,
    )
    assert done.returncode == 0, done.stderr
    assert "411 triples and 48 entities came on Tuesday" in done.stdout
    at_once, again = map(int, re.findall(r"(\d+) of 16 new countries are found", done.stdout))
    assert at_once >= 10
    assert again >= at_once - 1
    names = {path.name for path in (tmp_path / "days").iterdir()}
    files = ("monday", "tuesday", "right", "links", "test", "tuesday-links")
    assert names == {*(f"{name}.tsv" for name in files), "run", "new"}


def test_the_example_fits_on_two_screens() -> None:
    assert len(EXAMPLE.read_text("utf-8").splitlines()) <= 110
