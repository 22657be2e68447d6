"""The example runs, and NumPy and Gensim find the same neighbours in what it exports."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "export_vectors.py"


def test_numpy_and_gensim_find_the_same_neighbours() -> None:
    done = subprocess.run([sys.executable, str(EXAMPLE)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    written = re.search(r"world.parquet: (\d+) vectors, (\d+) entities have none", done.stdout)
    assert written is not None
    assert int(written[1]) > 1000
    numpy, gensim = re.findall(r"near to .* are (\[.*\])", done.stdout)
    assert numpy == gensim


def test_the_example_fits_on_a_screen() -> None:
    assert len(EXAMPLE.read_text("utf-8").splitlines()) <= 60
