"""What all tests share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs the benchmark files where there are none."""
    folder = os.environ.get("DECENTRL_DATA")
    if folder and Path(folder).is_dir():
        return
    skip = pytest.mark.skip(reason="benchmark files absent: set DECENTRL_DATA")
    for item in items:
        if item.get_closest_marker("data"):
            item.add_marker(skip)
