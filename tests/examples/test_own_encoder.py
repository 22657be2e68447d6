"""The example trains an encoder from outside the package and grows with it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_encoder.py"


def test_the_example_trains_saves_loads_matches_adds_explains_and_refits(tmp_path: Path) -> None:
    alone = {**os.environ, "OMP_NUM_THREADS": "1"}  # the tensors are too small to share out
    done = subprocess.run(
        [sys.executable, str(EXAMPLE), str(tmp_path / "run")],
        capture_output=True,
        text=True,
        env=alone,
    )
    assert done.returncode == 0, done.stderr
    first, last = map(float, re.findall(r"fell from ([\d.]+) to ([\d.]+)", done.stdout)[0])
    assert last < first / 5
    assert "Portugal is Portugal in the other graph" in done.stdout
    assert "  50% langue officielle: portugais\n" in done.stdout
    assert "  50% monnaie: euro\n" in done.stdout
    assert re.search(r"trained again with Atlantide, [1-9]\d* epochs", done.stdout)
    assert (tmp_path / "run" / "bundle").is_dir()


def test_the_example_fits_on_two_screens() -> None:
    assert len(EXAMPLE.read_text("utf-8").splitlines()) <= 115
