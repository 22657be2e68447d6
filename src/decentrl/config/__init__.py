"""Every setting of a run, as frozen dataclasses; TOML is their written form.

A preset is a TOML file that names only what differs from the defaults, which are those of the
preset ``strong``.
"""

from decentrl.config.alignment import Config, MatchingConfig
from decentrl.config.prediction import PredictionConfig
from decentrl.config.registry import Encoders, must_grow
from decentrl.config.settings import (
    DEFAULT_PRESET,
    Settings,
    preset_names,
    read_preset,
    setting,
    to_toml,
)
from decentrl.config.shared import EncoderSettings, Steps

__all__ = [
    "DEFAULT_PRESET",
    "Config",
    "EncoderSettings",
    "Encoders",
    "MatchingConfig",
    "PredictionConfig",
    "Settings",
    "Steps",
    "must_grow",
    "preset_names",
    "read_preset",
    "setting",
    "to_toml",
]
