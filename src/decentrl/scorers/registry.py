"""Encoders of prediction by their name, and how to register one from outside."""

from __future__ import annotations

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


def make_encoder(config: PredictionConfig, n_entities: int, n_relations: int) -> PredictionEncoder:
    """A new encoder with random parameters."""
    kind = ENCODERS.find(config.model.encoder)
    return kind(config, n_entities, n_relations)  # type: ignore[call-arg]
