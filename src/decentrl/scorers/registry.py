"""Encoders of prediction by their name, and the door for those of others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, TypeVar

from decentrl.config import EncoderSettings, PredictionConfig, check_name, register_encoder
from decentrl.scorers.encoder import PredictionEncoder

_E = TypeVar("_E", bound=type[PredictionEncoder])
_ENCODERS: dict[str, type[PredictionEncoder]] = {}
_HOMES = {
    "dan": "dan",
    "reflection": "reflection",
    "none": "table",
    "rgcn": "rivals.rgcn",
    "compgcn": "rivals.compgcn",
    "lan": "rivals.lan",
    "dgcn": "rivals.dgcn",
    "wgcn": "rivals.wgcn",
}
"""Where our own encoders are; each is imported when it is first asked for."""


def register_prediction_encoder(
    settings: type[EncoderSettings], preset: Mapping[str, Mapping[str, Any]] | None = None
) -> Callable[[_E], _E]:
    """Class decorator: make an encoder of prediction known under the name of its settings.

    Args:
        settings: a frozen dataclass, a subclass of ``PredictionEncoderSettings``;
            ``model.encoder`` chooses it by ``settings.encoder``.
        preset: what a preset of the same name sets besides the encoder, by section.
    """

    def register(encoder: _E) -> _E:
        name = settings.encoder
        if name in _HOMES and encoder.__module__ != _module(name):
            _encoder_type(name)  # ours, so that the name is taken
        check_name(name, encoder, _ENCODERS.get(name))
        register_encoder(PredictionConfig, settings, preset)
        _ENCODERS[name] = encoder
        return encoder

    return register


def make_encoder(config: PredictionConfig, n_entities: int, n_relations: int) -> PredictionEncoder:
    """A new encoder with random parameters."""
    kind = _encoder_type(config.model.encoder)
    return kind(config, n_entities, n_relations)  # type: ignore[call-arg]


def _encoder_type(name: str) -> type[PredictionEncoder]:
    if name not in _ENCODERS:
        import_module(_module(name))
    return _ENCODERS[name]


def _module(name: str) -> str:
    return f"decentrl.scorers.{_HOMES[name]}"
