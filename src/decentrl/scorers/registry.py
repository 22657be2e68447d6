"""Encoders and scorers of prediction by their name, and how to register one from outside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from decentrl.config import Encoders, PredictionConfig

ENCODERS = Encoders[Any](
    PredictionConfig,
    {
        "dan": "decentrl.scorers.dan.DANEncoder",
        "reflection": "decentrl.scorers.reflection.ReflectionEncoder",
        "none": "decentrl.scorers.table.Table",
        "paths": "decentrl.scorers.paths.PathScorer",
        "fused": "decentrl.scorers.fused.FusedScorer",
    },
)
register_prediction_encoder = ENCODERS.register
"""Class decorator of an encoder or a scorer; the settings are a subclass of
``PredictionEncoderSettings`` or of ``ScorerSettings``."""
encoder_type: Callable[[str], Any] = ENCODERS.find
