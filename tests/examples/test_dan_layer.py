"""The layer works in somebody else's training loop, for entities it was never trained on."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "dan_layer.py"


def test_the_example_places_newcomers_without_retraining() -> None:
    command = [sys.executable, str(EXAMPLE)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    share = re.search(r"(\d+)% of the members without a label are right", done.stdout)
    assert share is not None
    assert int(share[1]) >= 90
    assert re.findall(r"newcomer \d+: club \d, (\w+)", done.stdout) == ["found"] * 4


def test_the_example_fits_on_a_screen() -> None:
    assert len(EXAMPLE.read_text("utf-8").splitlines()) <= 60
