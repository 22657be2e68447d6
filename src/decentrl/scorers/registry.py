"""Encoders of prediction by their name, and how to register one from outside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from decentrl.config import Encoders, PredictionConfig
from decentrl.scorers.encoder import PredictionEncoder

ENCODERS = Encoders[PredictionEncoder](
    PredictionConfig,
    {
        "dan": "decentrl.scorers.dan.DANEncoder",
        "reflection": "decentrl.scorers.reflection.ReflectionEncoder",
        "none": "decentrl.scorers.table.Table",
    },
)
register_prediction_encoder = ENCODERS.register
"""Class decorator; the settings are a subclass of ``PredictionEncoderSettings``."""
encoder_type: Callable[[str], Any] = ENCODERS.find
