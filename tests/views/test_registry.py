"""An encoder from outside the package: one class, one registration, and everything works."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

from decentrl import Aligner
from decentrl.config import Config, alignment, preset_names
from decentrl.config.alignment import DANSettings
from decentrl.config.settings import MORE_PRESETS
from decentrl.errors import ConfigError
from decentrl.views import View, make_view, register_view, registry
from decentrl.views.fused import FusedViews

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_encoder.py"
SMALL = ("model.dim=16", "training.epochs=5")
Rows = dict[str, list[tuple[str, ...]]]


@pytest.fixture(scope="module")
def own() -> Iterator[ModuleType]:
    """The example's module, registered as long as these tests run."""
    spec = importlib.util.spec_from_file_location("own_encoder", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["own_encoder"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["own_encoder"]
    for known in (registry.VIEWS.registered, alignment.ENCODERS, MORE_PRESETS[""]):
        known.pop("mean")  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def fitted(own: ModuleType, twin_files: dict[str, Path]) -> Aligner:
    aligner = Aligner.from_preset("mean", *SMALL, device="cpu")
    with torch.random.fork_rng(devices=[]):
        return aligner.fit(twin_files["left"], twin_files["right"], twin_files["links"])


@pytest.fixture
def loaded(fitted: Aligner, tmp_path: Path) -> Aligner:
    fitted.save(tmp_path / "run")
    return Aligner.load(tmp_path / "run", device="cpu")


def newcomer(rows: Rows) -> list[tuple[str, str, str]]:
    (first, relation, _), (second, _, _) = rows["left"][0], rows["left"][-1]
    return [("Atlantis", relation, first), (second, relation, "Atlantis")]


# What a registration gives.


@pytest.mark.usefixtures("own")
def test_its_name_is_an_encoder_and_a_preset_with_its_settings() -> None:
    config = Config.from_preset("mean", ("model.dim=16",))
    assert (config.model.encoder, config.model.dim) == ("mean", 16)
    assert "mean" in preset_names()
    assert (config.propagation.weight, config.training.epochs) == (0.0, 100)
    assert Config.from_dict(config.to_dict()) == config
    with pytest.raises(ConfigError, match=r"model\.layers does not apply to the encoder mean"):
        Config.from_preset("mean", ("model.layers=2",))
    assert Config.from_preset("strong", ("model.encoder=mean",)).model.dim == 128


def test_it_trains(fitted: Aligner) -> None:
    losses = [row["loss"] for row in fitted.history if "stage" not in row]
    assert len(losses) == 5
    assert losses[-1] < losses[0]
    assert fitted.vectors("left").shape[1] == 16


def test_it_is_saved_and_loaded(fitted: Aligner, loaded: Aligner, twins: Rows) -> None:
    for side in ("left", "right"):
        assert torch.equal(loaded.vectors(side), fitted.vectors(side))  # type: ignore[arg-type]
    asked = [left for left, _ in twins["test"]]
    assert loaded.match(asked).equals(fitted.match(asked))
    assert loaded.match(asked)["right"].null_count == 0


def test_newcomers_have_the_vector_that_a_refresh_gives_and_others_keep_theirs(
    loaded: Aligner, twins: Rows
) -> None:
    before = loaded.vectors("left").clone()
    added = loaded.add(newcomer(twins), side="left")
    assert (added.triples, added.entities) == (2, 1)
    vectors = loaded.vectors("left")
    assert torch.equal(vectors[:-1], before)
    torch.testing.assert_close(vectors[-1].norm(), torch.tensor(1.0))
    assert loaded.match(["Atlantis"])["right"].null_count == 0
    drift = loaded.drift()
    assert (drift.induced, drift.expected) == (1, None)
    assert drift.drift < 1e-6
    loaded.refresh()
    torch.testing.assert_close(loaded.vectors("left")[-1], vectors[-1])


def test_a_vector_is_explained_by_neighbours_of_equal_weight(loaded: Aligner, twins: Rows) -> None:
    loaded.add(newcomer(twins), side="left")
    reasons = loaded.explain("Atlantis")
    assert {reason.neighbour for reason in reasons} == {twins["left"][0][0], twins["left"][-1][0]}
    assert [reason.weight for reason in reasons] == pytest.approx([0.5, 0.5])
    assert all(reason.arrived and reason.moves is not None for reason in reasons)
    trained = loaded.explain(twins["left"][0][0])
    assert sum(reason.weight for reason in trained) == pytest.approx(1)


@pytest.mark.parametrize("compacted", [False, True])
def test_a_refit_starts_from_what_was_learned_and_induced(
    loaded: Aligner, twins: Rows, compacted: bool
) -> None:
    loaded.add(newcomer(twins), side="left")
    if compacted:
        loaded.compact()
    task, table = loaded.settled_task(), loaded.learned.weights["entities"]
    warm = loaded.learned.warm_weights(task, loaded.growing)["entities"]
    new = len(task.left.entities) - 1
    ids = task.left.entities.ids([twins["left"][0][0], twins["left"][-1][0]])
    if not compacted:
        torch.testing.assert_close(warm[new], table[torch.from_numpy(np.unique(ids))].mean(0))
    again = loaded.refit(share=0.4)
    assert len([row for row in again.history if "stage" not in row]) == 2
    assert again.match(["Atlantis"])["right"].null_count == 0
    assert len(again.vectors("left")) == len(loaded.vectors("left"))


@pytest.mark.usefixtures("own")
def test_seed_propagation_may_stand_beside_it(twin_files: dict[str, Path], twins: Rows) -> None:
    aligner = Aligner.from_preset("mean", *SMALL, "propagation.weight=0.4", device="cpu")
    aligner.fit(twin_files["left"], twin_files["right"], twin_files["links"])
    aligner.add(newcomer(twins), side="left")
    assert aligner.vectors("left").shape[1] == 16 + 128 * 16
    assert sum(reason.weight for reason in aligner.explain("Atlantis")) == pytest.approx(1)


# Names.


def another_view(name: str) -> type[View]:
    return type("Another", (View,), {"__module__": name})


def test_a_taken_name_is_an_error(own: ModuleType) -> None:
    class Settings(DANSettings):
        encoder = "mean"

    with pytest.raises(ConfigError, match="there is an encoder 'mean' already; choose another"):
        register_view(Settings)(another_view("elsewhere"))
    with pytest.raises(ConfigError, match="there is an encoder 'mean' already"):
        register_view(own.MeanSettings)(another_view("elsewhere"))
    assert registry.view_type("mean") is own.MeanView


def test_ours_are_taken_before_they_are_imported() -> None:
    for name in registry.VIEWS.ours:
        with pytest.raises(ConfigError, match="choose another name"):
            register_view(alignment.ENCODERS[name])(another_view("elsewhere"))


def test_a_class_that_is_defined_again_takes_the_place_of_the_old_one(own: ModuleType) -> None:
    first = own.MeanView
    again = type("MeanView", (first,), {"__module__": first.__module__})
    assert register_view(own.MeanSettings)(again) is again
    assert registry.view_type("mean") is again
    register_view(own.MeanSettings)(first)


@pytest.mark.parametrize("name", registry.VIEWS.ours)
def test_every_encoder_of_ours_is_found_by_its_name(name: str) -> None:
    config = Config.from_dict({"model": {"encoder": name, "dim": 4}})
    view = make_view(config, 5, 2)
    assert type(view) is registry.view_type(name)
    assert view.dim >= 4
    assert set(view.entity_tables) <= set(view.state_dict())
    for table in view.entity_tables:
        assert len(view.state_dict()[table]) == 5
    assert view.read.__func__ is not View.read  # type: ignore[attr-defined]
    assert view.reach >= 1
    assert view.memories


def test_none_is_no_view_and_propagation_is_all_there_is() -> None:
    config = Config.from_dict({"model": {"encoder": "none"}})
    assert make_view(config, 5, 2) is None
    views = FusedViews(config, 5, 2)
    assert views.parts == [(views.seeds, 1.0)]
