"""The baselines are encoders from outside: registered with settings, a preset and stored names."""

from __future__ import annotations

import pytest
import torch

from decentrl.config import Config, PredictionConfig, read_preset
from decentrl.config.settings import Settings
from decentrl.errors import ConfigError
from decentrl.scorers import registry as scorers
from decentrl.scorers.model import PredictionModel
from decentrl.scorers.registry import encoder_type, register_prediction_encoder
from decentrl.views import View, make_view
from decentrl.views import registry as views
from studies import rivals

ALIGNMENT = {
    "gcn": rivals.GCNAlign, "gat": rivals.GAT, "alinet": rivals.AliNet,
    "transe": rivals.TranslationalModel, "rotate": rivals.TranslationalModel,
}  # fmt: skip
PREDICTION = {
    "rgcn": rivals.RGCN, "compgcn": rivals.CompGCN, "lan": rivals.LAN, "dgcn": rivals.DGCN,
    "wgcn": rivals.WGCN,
}  # fmt: skip
JOBS: dict[type[Settings], tuple[str, ...]] = {
    Config: tuple(ALIGNMENT),
    PredictionConfig: tuple(PREDICTION),
}


@pytest.mark.parametrize(("job", "name"), [(job, x) for job, names in JOBS.items() for x in names])
def test_a_preset_chooses_the_encoder_and_repeats_no_default(
    job: type[Settings], name: str
) -> None:
    config = job.from_preset(name, seed=7)
    assert (config.preset, config.seed, config.model.encoder) == (name, 7, name)
    assert job.from_dict(config.to_dict()) == config
    chosen = {part: getattr(getattr(config, part), key) for part, key in job.choices.items()}
    kinds = job.chosen(chosen)
    for section, values in read_preset(name, job.folder).items():
        for key, value in values.items():
            default = getattr(kinds[section], key, None)
            assert key in ("encoder", "name") or default != value, f"{section}.{key}"


def test_presets_of_alignment_train_the_encoder_alone() -> None:
    assert not any(Config.from_preset(name).propagation.weight for name in ALIGNMENT)


@pytest.mark.parametrize("name", ALIGNMENT)
def test_every_view_is_found_by_its_name(name: str) -> None:
    view = make_view(Config.from_dict({"model": {"encoder": name, "dim": 4}}), 5, 2)
    assert type(view) is ALIGNMENT[name] is views.view_type(name)
    assert view.dim >= 4
    assert all(len(view.state_dict()[table]) == 5 for table in view.entity_tables)
    assert view.read.__func__ is not View.read  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", PREDICTION)
def test_every_encoder_is_found_by_its_name_and_stored_as_before(name: str) -> None:
    changed = (f"model.encoder={name}", "decoder.name=distmult", "model.dim=4")
    config = PredictionConfig.from_preset("paper", changed)
    encoder = encoder_type(config.model.encoder)(config, 5, 2)
    assert type(encoder) is PREDICTION[name]
    assert encoder.embeddings.shape == (5, 4)
    assert set(encoder.entity_tables) <= set(encoder.state_dict())
    model, other = PredictionModel(5, 2, config), PredictionModel(5, 2, config)
    stored = model.state_dict()
    assert "baseline.entities" in stored
    assert not any(weight.startswith("encoder.") for weight in stored)
    other.load_state_dict(stored)
    pairs = zip(model.parameters(), other.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


def test_their_names_are_taken() -> None:
    another = type("Another", (rivals.RGCN,), {})
    with pytest.raises(ConfigError, match="there is an encoder 'rgcn' already"):
        register_prediction_encoder(PredictionConfig.known["model"]["rgcn"])(another)
    assert scorers.ENCODERS.registered["rgcn"] is rivals.RGCN
