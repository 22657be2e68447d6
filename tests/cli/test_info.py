"""``decentrl info`` and ``decentrl settings``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from decentrl.config import Config, PredictionConfig

Command = Callable[..., Any]


def test_info_says_what_a_run_is_made_of(decentrl: Command, world_run: Path) -> None:
    done = decentrl("info", world_run)
    assert (done.code, done.err) == (0, "")
    for part in (
        "# world: entity alignment", "preset `tiny`, seed 0", "1,859 entities", "252 to train",
        "cpu: read", "peak memory", "left → right", "Hits@10",
    ):  # fmt: skip
        assert part in done.out


def test_info_as_json_is_the_results(decentrl: Command, world_run: Path) -> None:
    done = decentrl("info", world_run, "--json")
    assert json.loads(done.out) == json.loads((world_run / "results.json").read_bytes())


def test_info_of_no_run_says_so(decentrl: Command, tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "absent"):
        done = decentrl("info", place)
        assert (done.code, done.out) == (2, "")
        assert done.err.startswith(f"error: {place}: no finished run here; ")


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b"\xff", b'{"seconds": 1}', b"[1]"])
@pytest.mark.parametrize("options", [(), ("--json",)])
def test_info_of_a_damaged_run_names_the_file(
    decentrl: Command, tmp_path: Path, content: bytes, options: tuple[str, ...]
) -> None:
    (tmp_path / "results.json").write_bytes(content)
    done = decentrl("info", tmp_path, *options)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"error: {tmp_path / 'results.json'}: damaged")
    assert done.err.count("\n") == 1


def test_every_setting_is_explained(decentrl: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    done = decentrl("settings", "tiny")
    for section, rows in Config.from_preset("tiny").describe():
        for name, value, meaning in rows:
            line = next(x for x in done.out.splitlines() if f" {section}.{name} " in x)
            assert f" {value} " in line
            assert meaning[:20] in line
    presets = done.out.split("presets: ")[1].strip().split(", ")  # plugins may have added some
    assert {"propagate", "quick", "strong", "tiny"} <= set(presets)
    assert json.loads(decentrl("settings", "tiny", "--json").out) == (
        Config.from_preset("tiny").to_dict()
    )


def test_info_of_a_prediction_says_what_it_is_made_of(decentrl: Command, people_run: Path) -> None:
    done = decentrl("info", people_run)
    assert (done.code, done.err) == (0, "")
    for part in (
        "# people: entity prediction", "preset `paper`, seed 0", "47 entities, 5 relations",
        "cpu: read", "evaluate", "peak memory", "Hits@3", "training frequency", "probabilities:",
    ):  # fmt: skip
        assert part in done.out
    assert "```" not in done.out
    done = decentrl("info", people_run, "--json")
    assert json.loads(done.out) == json.loads((people_run / "results.json").read_bytes())


def test_settings_of_prediction_are_explained_too(
    decentrl: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    done = decentrl("settings", "paper", "--task", "prediction")
    for section, rows in PredictionConfig.from_preset("paper").describe():
        for name, _, _ in rows:
            assert any(f" {section}.{name} " in line for line in done.out.splitlines())
    found = json.loads(decentrl("settings", "paper", "--task", "prediction", "--json").out)
    assert found == PredictionConfig.from_preset("paper").to_dict()
    done = decentrl("settings", "--task", "cooking")
    assert done.err == "error: no task 'cooking'; there are: alignment, prediction\n"
    done = decentrl("settings", "propagate", "--task", "prediction")
    assert done.err.startswith("error: no preset 'propagate'; there are: ")
