"""Settings: written as TOML, read back the same, and wrong ones are named."""

from __future__ import annotations

import tomllib
from dataclasses import Field, fields, replace
from itertools import product
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decentrl.cli import main
from decentrl.config import (
    DEFAULT_PRESET,
    Config,
    PredictionConfig,
    Settings,
    preset_names,
    read_preset,
    to_toml,
)
from decentrl.config.settings import MORE_PRESETS
from decentrl.errors import ConfigError
from decentrl.views.registry import VIEWS

JOBS: list[type[Settings]] = [Config, PredictionConfig]
PRESETS = sorted(set(preset_names()) - set(MORE_PRESETS[""]))
"""Those of the package: other tests may have registered more."""


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
        return st.integers(least, 2**63 - 1 if most is None else most)
    return st.floats(least, most, allow_nan=False, allow_infinity=False)


def configs_of(encoder: str) -> st.SearchStrategy[Config]:
    """Any settings of one encoder."""
    sections = Config.chosen({"model": encoder})
    return st.builds(
        Config,
        preset=st.sampled_from(PRESETS),
        seed=st.integers(0, 2**63 - 1),
        **{
            name: st.none()
            if section is None
            else st.builds(section, **{f.name: values(section, f) for f in fields(section)})
            for name, section in sections.items()
        },
    )


configs = st.sampled_from(sorted({"none", *VIEWS.ours})).flatmap(configs_of)


@given(configs)
def test_a_configuration_survives_its_file(config: Config) -> None:
    assert read_back(config) == config


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_survives_its_file(name: str) -> None:
    config = Config.from_preset(name, seed=7)
    assert read_back(config) == config
    assert (config.preset, config.seed) == (name, 7)


@pytest.mark.parametrize("job", [Config, PredictionConfig])
def test_a_preset_names_only_what_differs_from_the_defaults(job: type[Settings]) -> None:
    for name in preset_names(job.folder):
        names = job.choice_names(read_preset(name, job.folder))
        for section, settings in read_preset(name, job.folder).items():
            kind = job.chosen(names)[section]
            assert kind is not None
            defaults = {f.name: f.default for f in fields(kind)}
            repeated = [key for key, value in settings.items() if defaults.get(key, ...) == value]
            assert repeated == [], f"{name}: {section}"


@pytest.mark.parametrize("job", [Config, PredictionConfig])
def test_the_defaults_are_the_preset_they_name(job: type[Settings]) -> None:
    assert job() == job.from_preset("strong")


def test_the_presets_are_these_and_the_strong_one_is_the_default() -> None:
    assert PRESETS == ["paper", "paper-code", "propagate", "quick", "strong", "tiny"]
    assert DEFAULT_PRESET == Config().preset == "strong"


def test_presets_differ_in_what_learns() -> None:
    learns = {
        name: (config.model.encoder, config.propagation.weight > 0)
        for name in PRESETS
        for config in [Config.from_preset(name)]
    }
    assert learns == {
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
        ("model.context=false", False),
        ("matching.matcher=csls", "csls"),
        ('matching.matcher="csls"', "csls"),
        ("loss.scale=1", 1.0),
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
            "no settings section 'modell'; there are: model, propagation, names, distillation, "
            "loss, training, self_training, matching$",
        ),
        ("model.dim", r"cannot read the setting 'model\.dim'; write section\.key=value"),
        ("dim=3", r"cannot read the setting 'dim=3'; write section\.key=value"),
        ("matching.matcher=best", r"matcher is 'best'; it can be: cosine, csls, sinkhorn"),
        ("model.dim=wide", r"model\.dim is 'wide'; it must be of type int"),
        ("model.dim=1.5", r"model\.dim is 1\.5; it must be of type int"),
        ("model.dim=true", r"model\.dim is True; it must be of type int"),
        ("model.context=1", r"model\.context is 1; it must be of type bool"),
        ("loss.scale=", r"loss\.scale is ''; it must be of type float"),
        ("model.dim=0", r"model\.dim is 0; it must be at least 1"),
        ("loss.scale=-0.1", r"loss\.scale is -0\.1; it must be at least 0"),
        ("propagation.weight=2", r"propagation\.weight is 2\.0; it must be at most 1"),
        ("self_training.mass=1.5", r"self_training\.mass is 1\.5; it must be at most 1"),
        ("self_training.epoch=1", r"did you mean self_training\.epochs\?"),
        ("training.optimizer=sgd", r"optimizer is 'sgd'; it can be: adam, rmsprop"),
        ("model.encoder=gin", r"encoder is 'gin'; it can be: dan, reflection, none"),
        ("model.dropout=1.5", r"model\.dropout is 1\.5; it must be at most 1"),
        ("loss.scale=nan", r"loss\.scale is nan; it must be a finite number"),
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
        ('[loss]\nscale = "wide"', r"loss\.scale is 'wide'; it must be of type float"),
    ],
)
def test_a_wrong_file_is_refused_the_same_way(written: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Config.from_dict(tomllib.loads(written))


def test_an_unknown_preset_names_the_known_ones() -> None:
    message = r"no preset 'big'; there are: .*paper.* DECENTRL_PLUGINS to the module"
    with pytest.raises(ConfigError, match=message):
        Config.from_preset("big")


def test_every_setting_says_what_it_means() -> None:
    for section in (kind for job in JOBS for names in job.variants() for kind in names.values()):
        assert section is None or all(f.metadata["meaning"] for f in fields(section))


def test_settings_of_prediction_that_contradict_each_other_are_errors() -> None:
    with pytest.raises(ConfigError, match="complex needs vectors of even width, not 7"):
        PredictionConfig.from_preset("paper", ["model.dim=7"])
    PredictionConfig.from_preset("paper", ["model.dim=7", "decoder.name=distmult"])
    PredictionConfig.from_preset("paper", ["model.dim=7", "decoder.dim=8"])
    with pytest.raises(ConfigError, match="conve cannot be asked for relations"):
        PredictionConfig.from_preset("strong", ["decoder.name=conve"])
    both = PredictionConfig.from_preset("paper", ["model.dim=6", "model.own=concatenate"])
    assert (both.made, both.width) == (6, 12)
    wide = PredictionConfig.from_preset("paper", ["model.dim=6", "model.encoder=reflection"])
    assert (wide.made, wide.width) == (36, 36)


# Settings that do not apply


def wrong_settings() -> list[tuple[str, list[str], str, str]]:
    """Every setting with every choice that does not have it: command, choice, change, section."""
    found = []
    for job, command in ((Config, "align"), (PredictionConfig, "complete")):
        known: dict[str, dict[str, Any]] = {}
        for sections in job.variants():
            for section, kind in sections.items():
                if kind is not None:
                    known.setdefault(section, {}).update({f.name: f.default for f in fields(kind)})
        for chosen in product(*job.known.values()):
            names = dict(zip(job.known, chosen, strict=True))
            if names.get("decoder", "complex") not in ("complex", "transe", "tucker"):
                continue  # the others have the settings of one of these
            there = job.chosen(names)
            choice = [
                f"{section}.{job.choices[section]}={name}"
                for section, name in names.items()
                if there[section] is not None
            ]
            for section, kind in there.items():
                own = set() if kind is None else {f.name for f in fields(kind)}
                for name, value in known[section].items():
                    if name not in own:
                        text = str(value).lower() if isinstance(value, bool) else value
                        found.append((command, choice, f"{section}.{name}={text}", section))
    return found


def test_a_setting_that_does_not_apply_is_one_line_and_exit_code_2(
    capsys: pytest.CaptureFixture[str],
) -> None:
    wrong = wrong_settings()
    assert len(wrong) > 60
    for command, choice, override, section in wrong:
        words = [word for setting in (*choice, override) for word in ("--set", setting)]
        assert run_cli([command, "--dataset", "world", "-o", "nowhere", *words]) == 2, words
        said = capsys.readouterr()
        assert said.out == ""
        lines = said.err.strip().splitlines()
        assert len(lines) == 1, said.err
        name = override.partition("=")[0]
        assert f"{name} does not apply to the" in lines[0]
        assert f"has no {section} settings" in lines[0] or "; these do: " in lines[0]


def run_cli(words: list[str]) -> int:
    """The exit code of a command."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["decentrl", *words])
        with pytest.raises(SystemExit) as ended:
            main()
    return int(ended.value.code or 0)


def test_what_a_preset_sets_for_another_encoder_does_not_stop_a_change_of_encoder() -> None:
    config = Config.from_preset("quick", ["model.encoder=dan"])
    assert config.model.dim == 128  # of the preset, and DAN has it
    assert not hasattr(config.model, "edge_dropout")
    assert config.loss == Config.chosen({"model": "dan"})["loss"]()  # type: ignore[misc]


def test_there_are_at_most_65_settings() -> None:
    """Names that a user can set; sections that both jobs have count once."""
    names = set()
    for job in JOBS:
        for sections in job.variants():
            for section, kind in sections.items():
                own = job.folder if section in ("model", "loss") else ""
                found = {f.name for f in fields(kind)} if kind is not None else set()
                found |= {job.choices[section]} if section in job.choices else set()
                names |= {(own, section, name) for name in found}
    assert len(names) <= 65


# Settings of earlier versions


def test_settings_of_version_2_are_read_as_what_they_were() -> None:
    old = {
        "preset": "strong", "seed": 3,
        "model": {
            "encoder": "reflection", "dim": 8, "layers": 1, "norm": True, "first": "mean",
            "edge_dropout": 0.05,
        },
        "self_training": {"rounds": 1},
        "matching": {"matcher": "csls"},
    }  # fmt: skip
    config = Config.from_stored(old)
    assert (config.model.encoder, config.model.dim, config.model.layers) == ("reflection", 8, 1)
    assert (config.model.edge_dropout, config.matching.matcher) == (0.05, "csls")
    assert config.model.entity_dropout == 0.0  # it came later, with this default
    assert config.self_training.rounds == 1


def test_a_model_that_there_is_no_more_is_refused() -> None:
    old = {"model": {"encoder": "dan", "norm": False}}
    with pytest.raises(ConfigError, match=r"trained with model\.norm=False, which this"):
        Config.from_stored(old)


@pytest.mark.parametrize("older", [{}, {"model": {"norm": True}}], ids=["version 3", "version 2"])
@pytest.mark.parametrize("name", ["told", "counterpart_weight"])
def test_vectors_with_two_coordinates_of_self_training_are_refused(
    name: str, older: dict[str, Any]
) -> None:
    for rounds, weight in ((0, 0.0), (3, 0.0), (0, 0.04)):
        stored = {**older, "self_training": {"rounds": rounds, name: weight}}
        assert Config.from_stored(stored).self_training.rounds == rounds
    stored = {**older, "self_training": {"rounds": 3, name: 0.04}}
    with pytest.raises(ConfigError, match=rf"trained with self_training\.{name}=0\.04, which this"):
        Config.from_stored(stored)


@pytest.mark.parametrize("preset", PRESETS)
def test_a_share_of_the_epochs_leaves_all_else_and_at_least_one(preset: str) -> None:
    config = Config.from_preset(preset)
    half, least = config.with_epochs(0.5), config.with_epochs(1e-9)
    if config.training.epochs:
        assert half.training.epochs == max(1, config.training.epochs // 2)
        assert least.training.epochs == 1
        assert replace(half.training, epochs=config.training.epochs) == config.training
    else:  # seed propagation alone has nothing to train
        assert half.training == config.training
    assert half.self_training.epochs == max(1, config.self_training.epochs // 2)
    assert config.with_epochs(1.0) == config
    with pytest.raises(ConfigError, match="must be above 0 and at most 1"):
        config.with_epochs(0.0)
