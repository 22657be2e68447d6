"""Rivals go through the same commands as our own models, as far as they can."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from decentrl.aligner import Aligner
from decentrl.data.alignment_task import AlignmentTask
from decentrl.data.registry import load_dataset
from decentrl.errors import ConfigError
from studies import rivals  # noqa: F401  registers what is tested here

BASELINES = ["gcn", "gat", "alinet", "transe", "rotate"]
SMALL = ("model.dim=12", "training.epochs=2", "names.weight=0")  # by structure alone


@pytest.fixture(scope="module", params=BASELINES)
def fitted(request: pytest.FixtureRequest) -> Aligner:
    """In the open world; no test changes it."""
    task = load_dataset("world", open_world=True)
    assert isinstance(task, AlignmentTask)
    return Aligner.from_preset(request.param, *SMALL, device="cpu").fit(task)


@pytest.mark.parametrize("preset", BASELINES)
def test_a_run_is_made_evaluated_and_asked(
    preset: str, decentrl: Callable[..., Any], tmp_path: Path
) -> None:
    settings = [word for setting in SMALL for word in ("--set", setting)]
    asked = ("align", "--dataset", "world", "--preset", preset, "--device", "cpu", *settings)
    assert decentrl(*asked, "-o", tmp_path / "run").code == 0
    results = json.loads((tmp_path / "run" / "results.json").read_text("utf-8"))
    assert {row["matcher"] for row in results["results"]} >= {"cosine", "csls"}
    assert (tmp_path / "run" / "report.html").exists()
    assert decentrl("evaluate", tmp_path / "run").code == 0
    assert decentrl("match", tmp_path / "run", "-o", tmp_path / "matches.tsv").code == 0
    triples = tmp_path / "new.tsv"
    triples.write_text("Atlantis\tborders\tSpain\n", "utf-8")
    for command in (
        ("add", tmp_path / "run", triples, "--side", "right"),
        ("compact", tmp_path / "run", "--refresh"),
        ("explain", tmp_path / "run", "Spain", "--side", "right"),
        ("drift", tmp_path / "run"),
        ("refit", tmp_path / "run", "-o", tmp_path / "again"),
    ):
        done = decentrl(*command)
        assert done.code != 0, command
        assert f"error: the encoder {preset} cannot take in" in done.err, command
        assert done.err.strip().count("\n") == 0, command
    assert decentrl("undo", tmp_path / "run").code != 0


def test_what_is_saved_is_what_was_learned(fitted: Aligner, tmp_path: Path) -> None:
    fitted.save(tmp_path / "run")
    again = Aligner.load(tmp_path / "run", "cpu")
    for side in ("left", "right"):
        assert np.array_equal(fitted.vectors(side), again.vectors(side))  # type: ignore[arg-type]
    assert again.match(top=2).equals(fitted.match(top=2))


def test_what_takes_new_entities_is_refused_in_one_line(fitted: Aligner) -> None:
    refused: list[Callable[[], object]] = [
        lambda: fitted.add([("Atlantis", "borders", "Spain")], side="right"),
        fitted.undo,
        fitted.refresh,
        fitted.compact,
        fitted.drift,
        lambda: fitted.explain("Spain", side="right"),
        fitted.refit,
    ]
    for ask in refused:
        with pytest.raises(ConfigError, match="cannot take in or explain entities") as found:
            ask()
        assert "\n" not in str(found.value)


def test_an_unseen_entity_has_the_embedding_it_was_given(fitted: Aligner) -> None:
    """It is used as it is, which is what the comparison is about; so none is without a vector."""
    task = fitted.task
    assert task.auxiliary is not None
    seen = np.unique(task.left.triples[:, [0, 2]])
    unseen = np.setdiff1d(task.auxiliary[0][:, [0, 2]], seen)
    assert len(unseen)
    vectors = fitted.vectors("left")[unseen]
    np.testing.assert_allclose(vectors.norm(dim=1).numpy(), 1, rtol=1e-5)
    untrained = Aligner.from_preset(
        fitted.config.preset, *SMALL, "training.epochs=0", device="cpu"
    ).fit(task)
    if fitted.config.model.encoder in ("transe", "rotate"):
        np.testing.assert_allclose(untrained.vectors("left")[unseen], vectors, rtol=1e-5)
    name = "entities"
    np.testing.assert_array_equal(
        untrained.learned.weights[name][unseen].numpy(),
        fitted.learned.weights[name][unseen].numpy(),
    )


@pytest.mark.parametrize("preset", BASELINES)
def test_the_seed_decides(preset: str) -> None:
    task = load_dataset("world", open_world=False)
    assert isinstance(task, AlignmentTask)

    def vectors(seed: int) -> np.ndarray:
        aligner = Aligner.from_preset(preset, *SMALL, seed=seed, device="cpu").fit(task)
        return aligner.vectors("left").numpy()

    once = vectors(0)
    assert np.array_equal(once, vectors(0))
    assert not np.array_equal(once, vectors(1))
