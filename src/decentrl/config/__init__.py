"""Every setting of a run, as frozen dataclasses; TOML is their written form.

A preset is a TOML file that names only what differs from the defaults.
"""

from decentrl.config.jobs import (
    Config,
    DecoderConfig,
    DistillationConfig,
    LossConfig,
    MatchingConfig,
    ModelConfig,
    PredictionConfig,
    PredictionLossConfig,
    PredictionModelConfig,
    PropagationConfig,
    SelfTrainingConfig,
    TrainingConfig,
    must_grow,
)
from decentrl.config.settings import DEFAULT_PRESET, Settings, preset_names, read_preset, to_toml

__all__ = [
    "DEFAULT_PRESET",
    "Config",
    "DecoderConfig",
    "DistillationConfig",
    "LossConfig",
    "MatchingConfig",
    "ModelConfig",
    "PredictionConfig",
    "PredictionLossConfig",
    "PredictionModelConfig",
    "PropagationConfig",
    "SelfTrainingConfig",
    "Settings",
    "TrainingConfig",
    "must_grow",
    "preset_names",
    "read_preset",
    "to_toml",
]
