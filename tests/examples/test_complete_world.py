"""The example tells the truth about what it asks, and places a country nobody knew."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "complete_world.py"


def test_the_example_beats_frequency_and_places_a_new_country() -> None:
    alone = {**os.environ, "OMP_NUM_THREADS": "1"}  # the tensors are too small to share out
    done = subprocess.run([sys.executable, str(EXAMPLE)], capture_output=True, text=True, env=alone)
    assert done.returncode == 0, done.stderr
    found = re.search(r"filtered MRR (\S+), by frequency (\S+)", done.stdout)
    assert found is not None
    assert float(found[1]) >= 2 * float(found[2])
    first = re.search(r"continent does it lie\?\n  New Land – on continent → (\S+)", done.stdout)
    assert first is not None
    assert first[1] == "Europe"


def test_the_example_fits_on_a_screen() -> None:
    assert len(EXAMPLE.read_text("utf-8").splitlines()) <= 60
