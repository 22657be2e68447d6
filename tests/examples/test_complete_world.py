"""The example tells the truth about what it asks, and places a country nobody knew."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "complete_world.py"


def test_the_example_beats_frequency_and_places_a_new_country(
    capsys: pytest.CaptureFixture[str],
) -> None:
    # A third of the epochs are enough for what is claimed.
    runpy.run_path(str(EXAMPLE))["main"]("training.epochs=10")
    said = capsys.readouterr().out
    found = re.search(r"filtered MRR (\S+), by frequency (\S+)", said)
    assert found is not None
    assert float(found[1]) >= 2 * float(found[2])
    first = re.search(r"continent does it lie\?\n  New Land – on continent → (\S+)", said)
    assert first is not None
    assert first[1] == "Europe"


def test_the_example_fits_on_a_screen() -> None:
    assert len(EXAMPLE.read_text("utf-8").splitlines()) <= 60
