"""What `match` gives among everything is counted as a reader of its table would count it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from decentrl import Aligner, AlignmentTask, load_dataset
from decentrl.matching.confidence import expected_calibration_error

FEW = ("model.dim=16", "propagation.dim=16", "propagation.relation_dim=4", "training.epochs=3")


@pytest.fixture(scope="module")
def task() -> AlignmentTask:
    found = load_dataset("world")
    assert isinstance(found, AlignmentTask)
    return found


@pytest.fixture(scope="module")
def fitted(task: AlignmentTask) -> Aligner:
    return Aligner.from_preset("strong", *FEW, device="cpu").fit(task)


def counted(aligner: Aligner, links: set[tuple[str, str]], fitted: bool) -> dict[str, float]:
    """The same from the table that `match` returns."""
    table = aligner.match(min_confidence="fitted" if fitted else None).to_pylist()
    claims = [(row["left"], row["right"]) for row in table if row["right"] is not None]
    every = {(row["left"], row["right"]) for row in aligner.match().to_pylist()}
    right = len(set(claims) & links)
    return {
        "n": len(links),
        "hits@1": len(every & links) / len(links),
        "claimed": len(claims),
        "precision": right / len(claims),
        "recall": right / len(links),
        "f1": 2 * right / (len(claims) + len(links)),
    }


def labels(task: AlignmentTask, links: np.ndarray) -> set[tuple[str, str]]:
    ends = task.left.entities.take(links[:, 0]), task.right.entities.take(links[:, 1])
    return set(zip(*ends, strict=True))


@pytest.mark.parametrize("confident", [True, False])
def test_precision_recall_and_f1_are_those_of_the_matches_that_are_returned(
    fitted: Aligner, task: AlignmentTask, confident: bool
) -> None:
    aligner = fitted
    if not confident:
        aligner = Aligner.from_preset("strong", *FEW, "training.valid=0", device="cpu").fit(task)
    (row,) = aligner.evaluate_matches()
    expected = counted(aligner, labels(task, task.test), confident)
    assert {name: row[name] for name in expected} == pytest.approx(expected)
    assert (row["subset"], row["matcher"]) == ("all", "blend")
    assert 0 < row["judged"] <= row["claimed"]
    if confident:
        assert 0.2 < row["recall"] < row["hits@1"]  # the least sure ones are not claimed


def test_other_links_may_be_asked_about(
    fitted: Aligner, task: AlignmentTask, tmp_path: Path
) -> None:
    some = labels(task, task.test[::5])
    file = tmp_path / "some.tsv"
    file.write_text("".join(f"{left}\t{right}\n" for left, right in sorted(some)), "utf-8")
    (row,) = fitted.evaluate_matches(file)
    expected = counted(fitted, some, True)
    assert {name: row[name] for name in expected} == pytest.approx(expected)
    assert row["judged"] < row["claimed"] / 2


def test_calibration_is_that_of_matches_with_an_end_in_a_test_link(
    fitted: Aligner, task: AlignmentTask
) -> None:
    links = labels(task, task.test)
    lefts, rights = (set(side) for side in zip(*links, strict=True))
    rows = [
        row for row in fitted.match().to_pylist() if row["left"] in lefts or row["right"] in rights
    ]
    sure = torch.tensor([row["confidence"] for row in rows], dtype=torch.float64)
    right = torch.tensor([(row["left"], row["right"]) in links for row in rows])
    found = fitted.confidence()
    assert found["right"] == pytest.approx(right.double().mean().item())
    assert found["mean"] == pytest.approx(sure.mean().item())
    assert found["ece"] == pytest.approx(expected_calibration_error(sure, right))


def test_what_came_after_training_is_counted_apart(task: AlignmentTask) -> None:
    opened = load_dataset("world", open_world=True)
    aligner = Aligner.from_preset("strong", *FEW, device="cpu").fit(opened)
    rows = {row["subset"]: row for row in aligner.evaluate_matches()}
    assert set(rows) == {"all", "known", "unknown"}
    for name in ("n", "claimed", "judged"):
        assert rows["all"][name] == rows["known"][name] + rows["unknown"][name]
    assert rows["unknown"]["n"] >= opened.unknown.sum()


def test_without_a_test_link_there_is_nothing_to_count(task: AlignmentTask) -> None:
    few = Aligner.from_preset("tiny", "model.dim=4", "training.epochs=1", device="cpu")
    few.fit(replace(task, test=task.test[:0]))
    assert few.evaluate_matches() == []
    assert few.confidence() == {}
