"""Settings: written as TOML, read back the same, and wrong ones are named."""

from __future__ import annotations

import tomllib
from dataclasses import Field, fields, replace
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decentrl.config import (
    DEFAULT_PRESET,
    Config,
    PredictionConfig,
    preset_names,
    read_preset,
    to_toml,
)
from decentrl.errors import ConfigError


def read_back(config: Config) -> Config:
    return Config.from_dict(tomllib.loads(to_toml(config.to_dict())))


def values(section: Any, setting: Field[Any]) -> st.SearchStrategy[Any]:
    """Whatever a setting may be."""
    kind = get_type_hints(section)[setting.name]
    least, most = setting.metadata["at_least"], setting.metadata["at_most"]
    if get_origin(kind) is Literal:
        return st.sampled_from(get_args(kind))
    if kind is bool:
        return st.booleans()
    if kind is int:
        return st.integers(least, most)
    return st.floats(least, most, allow_nan=False, allow_infinity=False)


configs = st.builds(
    Config,
    preset=st.sampled_from(preset_names()),
    seed=st.integers(0, 2**63 - 1),
    **{
        name: st.builds(section, **{f.name: values(section, f) for f in fields(section)})
        for name, section in Config.sections().items()
    },
)


@given(configs)
def test_a_configuration_survives_its_file(config: Config) -> None:
    assert read_back(config) == config


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_survives_its_file(name: str) -> None:
    config = Config.from_preset(name, seed=7)
    assert read_back(config) == config
    assert (config.preset, config.seed) == (name, 7)


@pytest.mark.parametrize("name", preset_names())
def test_a_preset_names_only_what_differs_from_the_defaults(name: str) -> None:
    default = Config().to_dict()
    for section, settings in read_preset(name).items():
        repeated = [key for key, value in settings.items() if default[section][key] == value]
        assert repeated == []


def test_the_presets_are_these_and_the_strong_one_is_the_default() -> None:
    ours = ["paper", "paper-code", "propagate", "quick", "strong", "tiny"]
    baselines = ["alinet", "gat", "gcn", "rotate", "transe"]
    assert preset_names() == sorted(ours + baselines)
    assert DEFAULT_PRESET == Config().preset == "strong"


def test_presets_differ_in_what_learns() -> None:
    learns = {
        name: (config.model.encoder, config.propagation.weight > 0)
        for name in preset_names()
        for config in [Config.from_preset(name)]
    }
    assert learns == {
        **{name: (name, False) for name in ("alinet", "gat", "gcn", "rotate", "transe")},
        "paper": ("dan", False),
        "paper-code": ("dan", False),
        "tiny": ("dan", False),
        "propagate": ("none", True),
        "quick": ("reflection", True),
        "strong": ("reflection", True),
    }
    assert Config.from_preset("propagate").propagation.weight == 1  # all of the score


def test_the_quick_preset_is_a_cheaper_strong_one() -> None:
    quick, strong = Config.from_preset("quick"), Config.from_preset("strong")
    assert quick.model.dim <= strong.model.dim
    assert quick.training.epochs <= strong.training.epochs
    assert quick.loss.entities <= strong.loss.entities
    assert (quick.training.valid, quick.training.refit) == (0, False)  # one pass
    assert strong.training.valid > 0
    assert strong.training.refit


@given(st.text(st.characters(exclude_categories=["Cc", "Cs"])))
def test_any_text_survives_toml(text: str) -> None:
    assert tomllib.loads(to_toml({"a": text, "b": {"c": text}})) == {"a": text, "b": {"c": text}}


@pytest.mark.parametrize(
    ("override", "value"),
    [
        ("model.dim=128", 128),
        (" model.dim = 128 ", 128),
        ("model.norm=false", False),
        ("model.first=max", "max"),
        ('model.first="max"', "max"),
        ("loss.weight=1", 1.0),
        ("training.learning_rate=1e-3", 1e-3),
        ("propagation.weight=1", 1.0),
        ("self_training.rounds=2", 2),
        ("training.optimizer=rmsprop", "rmsprop"),
    ],
)
def test_a_setting_is_read_as_its_type(override: str, value: object) -> None:
    section, name = override.partition("=")[0].strip().split(".")
    found = getattr(getattr(Config().with_setting(override), section), name)
    assert (found, type(found)) == (value, type(value))


def test_later_settings_win_and_others_stay() -> None:
    config = Config.from_preset("tiny", ["model.dim=8", "model.dim=16"])
    tiny = Config.from_preset("tiny")
    assert config == replace(tiny, model=replace(tiny.model, dim=16))


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("model.layer=3", r"no setting 'model\.layer'; did you mean model\.layers\?"),
        ("training.lerning_rate=1", r"did you mean training\.learning_rate\?"),
        (
            "modell.dim=3",
            "no settings section 'modell'; there are: model, propagation, distillation, loss, "
            "training, self_training, matching$",
        ),
        ("model.dim", r"cannot read the setting 'model\.dim'; write section\.key=value"),
        ("dim=3", r"cannot read the setting 'dim=3'; write section\.key=value"),
        ("model.first=median", r"model\.first is 'median'; it can be: mean, max, sum"),
        ("model.dim=wide", r"model\.dim is 'wide'; it must be of type int"),
        ("model.dim=1.5", r"model\.dim is 1\.5; it must be of type int"),
        ("model.dim=true", r"model\.dim is True; it must be of type int"),
        ("model.norm=1", r"model\.norm is 1; it must be of type bool"),
        ("loss.weight=", r"loss\.weight is ''; it must be of type float"),
        ("model.dim=0", r"model\.dim is 0; it must be at least 1"),
        ("loss.weight=-0.1", r"loss\.weight is -0\.1; it must be at least 0"),
        ("propagation.weight=2", r"propagation\.weight is 2\.0; it must be at most 1"),
        ("propagation.rounds=-1", r"propagation\.rounds is -1; it must be at least 0"),
        ("self_training.mass=1.5", r"self_training\.mass is 1\.5; it must be at most 1"),
        ("self_training.epoch=1", r"did you mean self_training\.epochs\?"),
        ("training.optimizer=sgd", r"optimizer is 'sgd'; it can be: adam, rmsprop"),
        ("model.encoder=gin", r"encoder is 'gin'; it can be: dan, reflection, none"),
        ("model.dropout=1.5", r"model\.dropout is 1\.5; it must be at most 1"),
        ("loss.margin=nan", r"loss\.margin is nan; it must be a finite number"),
        ("training.learning_rate=inf", r"learning_rate is inf; it must be a finite number"),
    ],
)
def test_a_wrong_setting_is_one_clear_line(override: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as error:
        Config().with_setting(override)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("[model]\ndimension = 3", r"no setting 'model\.dimension'; did you mean"),
        ("[models]\ndim = 3", "no settings section 'models'"),
        ('seed = "x"', "the seed is 'x'; it must be a whole number, at least 0"),
        ("seed = -1", "the seed is -1; it must be a whole number, at least 0"),
        ("model = 3", r"model is a section; write model\.NAME = VALUE"),
        ('[loss]\nmargin = "wide"', r"loss\.margin is 'wide'; it must be of type float"),
    ],
)
def test_a_wrong_file_is_refused_the_same_way(written: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Config.from_dict(tomllib.loads(written))


def test_an_unknown_preset_names_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="no preset 'big'; there are: alinet"):
        Config.from_preset("big")


def test_every_setting_says_what_it_means() -> None:
    for section in Config.sections().values():
        assert all(f.metadata["meaning"] for f in fields(section))


def test_settings_of_prediction_that_contradict_each_other_are_told() -> None:
    odd = PredictionConfig.from_preset("paper", ["model.dim=7"])
    with pytest.raises(ConfigError, match="complex needs vectors of even width, not 7"):
        odd.check()
    odd.with_setting("decoder.name=distmult").check()
    odd.with_setting("decoder.dim=8").check()
    with pytest.raises(ConfigError, match="conve cannot be asked for relations"):
        PredictionConfig.from_preset("strong", ["decoder.name=conve"]).check()
    both = PredictionConfig.from_preset("paper", ["model.dim=6", "model.own=concatenate"])
    assert (both.made, both.width) == (6, 12)
    wide = PredictionConfig.from_preset("paper", ["model.dim=6", "model.encoder=reflection"])
    assert (wide.made, wide.width) == (36, 36)
