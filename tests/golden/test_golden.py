"""Bundles of every format version there ever was load and answer as on the day they were written.

Beside this file lies a bundle of each kind and version, with what it answered. ``make.py`` made
them, with decentrl 0.1.0 on a CPU. None is ever written again or removed.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from decentrl.aligner import Aligner
from decentrl.predictor import Predictor
from decentrl.storage.bundle import VERSION, open_bundle

HERE = Path(__file__).parent
_spec = importlib.util.spec_from_file_location("make_golden", HERE / "make.py")
assert _spec is not None
assert _spec.loader is not None
make = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(make)

VERSIONS = range(1, VERSION + 1)


@pytest.fixture(params=["small", "large"], autouse=True)
def read_as(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Verified at once, and block by block."""
    if request.param == "large":
        monkeypatch.setattr("decentrl.storage.bundle.LARGE", 0)


def golden(kind: str, version: int) -> tuple[Path, dict[str, Any]]:
    folder = HERE / f"{kind}-v{version}"
    return folder, json.loads((folder / "expected.json").read_text("utf-8"))


def check(found: dict[str, Any], expected: dict[str, Any], answers: str) -> None:
    """Labels and vectors to the bit, answers in the same order, scores up to rounding."""
    assert found["labels"] == expected["labels"]
    assert found["vectors"] == expected["vectors"]
    sought, given = rows(expected[answers]), rows(found[answers])
    assert len(given) == len(sought) > 0
    for row, old in zip(given, sought, strict=True):
        for name, value in old.items():
            if isinstance(value, float):
                assert row[name] == pytest.approx(value, abs=1e-5)
            else:
                assert row[name] == value


def rows(answers: Any) -> list[dict[str, Any]]:
    parts = answers.values() if isinstance(answers, dict) else answers
    return [row for part in parts for row in part]


@pytest.mark.parametrize("version", VERSIONS)
def test_an_aligner_answers_as_on_its_first_day(version: int, tmp_path: Path) -> None:
    folder, expected = golden("aligner", version)
    loaded = Aligner.load(folder, "cpu")
    check(make.aligner_answers(loaded), expected, "matches")
    task = loaded.task
    assert task.auxiliary is not None
    assert [len(part) for part in (task.train, task.valid, task.test)] == [5, 3, 4]
    assert np.array_equal(task.unknown, [False, False, False, True])
    assert loaded.match(min_confidence="fitted")["confidence"].null_count == 0
    # Written again by today's code it still says the same.
    loaded.save(tmp_path)
    check(make.aligner_answers(Aligner.load(tmp_path, "cpu")), expected, "matches")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_predictor_answers_as_on_its_first_day(version: int, tmp_path: Path) -> None:
    folder, expected = golden("predictor", version)
    loaded = Predictor.load(folder, "cpu")
    check(make.predictor_answers(loaded), expected, "answers")
    task = loaded.task
    assert task.auxiliary is not None
    assert task.graph.entities.take(task.new_entities) == ["new"]
    loaded.save(tmp_path)
    check(make.predictor_answers(Predictor.load(tmp_path, "cpu")), expected, "answers")


@pytest.mark.parametrize("kind", ["aligner", "predictor"])
def test_every_version_there_was_is_kept(kind: str, tmp_path: Path) -> None:
    for version in VERSIONS:
        folder = HERE / f"{kind}-v{version}" / "bundle"
        assert json.loads((folder / "bundle.json").read_bytes())["version"] == version
        copy = shutil.copytree(folder, tmp_path / str(version))
        assert open_bundle(copy).kind.name == kind
