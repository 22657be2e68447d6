"""What the settings of the baselines have in common, and their presets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from decentrl.config import EncoderSettings, setting
from decentrl.config.alignment import WatchedTraining
from decentrl.config.prediction import LayeredSettings

Values = dict[str, dict[str, Any]]
"""Settings by section and name."""


@dataclass(frozen=True)
class AlignmentSettings(EncoderSettings):
    """Base for alignment: no self-distillation, and no vectors of later entities."""

    inductive: ClassVar[bool] = False
    sections: ClassVar[dict[str, type | None]] = {"training": WatchedTraining}

    dim: int = setting(300, "width of the input embeddings", at_least=1)


@dataclass(frozen=True)
class LayeredAlignmentSettings(AlignmentSettings):
    layers: int = setting(2, "number of layers", at_least=1)


@dataclass(frozen=True)
class PredictionSettings(LayeredSettings):
    """Base for prediction: no vectors of later entities."""

    inductive: ClassVar[bool] = False

    dim: int = 200


# The number of epochs is fixed, so no link is held out. See docs/baselines.md.
ALIGNMENT: Values = {
    "propagation": {"weight": 0.0},
    "training": {"batch": 0, "optimizer": "adam", "valid": 0.0, "refit": False},
    "matching": {"matcher": "csls", "iterations": 10},
}
# All answers compete (softmax), where most papers sample some or judge each on its own.
PREDICTION: Values = {
    "decoder": {"name": "distmult", "dim": 0},
    "loss": {"relations": 0.0, "n3": 0.0},
    "training": {
        "batch": 4096, "optimizer": "adam", "learning_rate": 0.005, "schedule": "linear",
        "encoder_rate": 1.0,
    },
}  # fmt: skip


def preset(common: Values, **sections: dict[str, Any]) -> Values:
    """The settings that presets of a job have in common, and one's own by section."""
    return {
        name: {**common.get(name, {}), **sections.get(name, {})} for name in {**common, **sections}
    }
