"""The card says what was learned from what, how good it is, and how to load it."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from decentrl.config import Config, PredictionConfig
from decentrl.data.alignment_task import AlignmentTask
from decentrl.data.graph_task import GraphTask
from decentrl.data.registry import load_dataset
from decentrl.storage.card import model_card

ROW: dict[str, Any] = {
    "direction": "left-right",
    "matcher": "csls",
    "candidates": "test",
    "subset": "unknown",
    "n": 1654,
    "hits@1": 0.123456,
    "hits@10": 0.5,
    "mrr": 0.25,
}


@pytest.fixture(scope="module")
def task() -> AlignmentTask:
    found = load_dataset("world", open_world=True)
    assert isinstance(found, AlignmentTask)
    return found


def test_it_names_the_data_and_the_settings(task: AlignmentTask) -> None:
    card = model_card(task, Config.from_preset("tiny", seed=4))
    assert card.startswith("# world: entity alignment\n")
    assert "preset `tiny`, seed 4" in card
    assert f"- left: {len(task.left.entities):,} entities, {len(task.left.triples):,} tri" in card
    assert f"{len(task.train):,} to train, 0 to validate, {len(task.test):,} to test" in card
    assert task.content_hash() in card
    assert task.auxiliary is not None
    assert f"open world: {sum(map(len, task.auxiliary)):,} triples arrived" in card


def test_a_closed_world_has_no_line_about_the_open_one() -> None:
    closed = load_dataset("world")
    assert isinstance(closed, AlignmentTask)
    assert "open world" not in model_card(closed, Config.from_preset("tiny"))


def test_quality_is_a_table_and_only_there_if_measured(task: AlignmentTask) -> None:
    config = Config.from_preset("tiny")
    assert "|" not in model_card(task, config)
    lines = model_card(task, config, [ROW, ROW]).splitlines()
    rows = [line for line in lines if line.startswith("| left-right")]
    assert rows == ["| left-right | csls | test | unknown | 1,654 | 0.123 | 0.500 | 0.250 |"] * 2
    assert len({line.count("|") for line in lines if line.startswith("|")}) == 1


def test_the_way_to_load_it_is_python(task: AlignmentTask) -> None:
    card = model_card(task, Config.from_preset("tiny"))
    code = card.split("```python\n")[1].split("```")[0]
    assert "Aligner.load" in ast.unparse(ast.parse(code))


def test_the_card_of_a_prediction() -> None:
    task = load_dataset("world/cldr", open_world=True)
    assert isinstance(task, GraphTask)
    config = PredictionConfig.from_preset("paper", seed=4)
    row = {"group": "all", "name": "all", "n": 1654, "mrr": 0.25, "hits@1": 0.123456}
    row |= {"hits@3": 0.2, "hits@10": 0.5}
    card = model_card(task, config, [row, {**row, "group": "relation", "name": "speaks"}])
    assert card.startswith("# world/cldr: entity prediction\n")
    assert "preset `paper`, seed 4" in card
    assert f"{len(task.graph.triples):,} to train, {len(task.valid):,} to validate" in card
    assert task.auxiliary is not None
    assert task.new_entities is not None
    later = f"{len(task.auxiliary):,} triples arrived after training, with"
    assert f"{later} {len(task.new_entities):,} new entities" in card
    assert "| all | 1,654 | 0.250 | 0.123 | 0.200 | 0.500 |\n" in card
    assert "speaks" not in card
    assert "|" not in model_card(task, config)
    code = card.split("```python\n")[1].split("```")[0]
    assert "Predictor.load" in ast.unparse(ast.parse(code))
