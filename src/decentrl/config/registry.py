"""Registering the settings of an encoder by its name, also from outside the package."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from decentrl.config import alignment, prediction
from decentrl.config.settings import MORE_PRESETS, Settings
from decentrl.config.shared import EncoderSettings
from decentrl.errors import ConfigError

_ENCODERS: dict[str, dict[str, Any]] = {
    alignment.Config.folder: alignment.ENCODERS,
    prediction.PredictionConfig.folder: prediction.ENCODERS,
}


def register_encoder(
    job: type[Settings], kind: type[EncoderSettings], preset: Mapping[str, Any] | None = None
) -> None:
    """Make an encoder's settings known to a job; its name becomes a preset, too.

    Args:
        job: :class:`Config` or :class:`PredictionConfig`.
        preset: what the preset sets besides the encoder, by section.
    """
    known = _ENCODERS[job.folder]
    check_name(kind.encoder, kind, known.get(kind.encoder))
    known[kind.encoder] = kind
    if preset is not None:
        values = {section: dict(part) for section, part in preset.items()}
        values["model"] = {"encoder": kind.encoder, **values.get("model", {})}
        MORE_PRESETS[job.folder][kind.encoder] = values


def check_name(name: str, kind: type, known: type | None) -> None:
    """Raise if another class has the name; a class that is defined again may replace itself."""
    if known is None:
        return
    if (kind.__module__, kind.__qualname__) != (known.__module__, known.__qualname__):
        raise ConfigError(f"there is an encoder {name!r} already; choose another name")


def must_grow(config: Settings) -> None:
    """Raise if these are settings of a baseline, which makes no vectors of later entities."""
    model: EncoderSettings = config.model  # type: ignore[attr-defined]
    if not model.inductive:
        other = "paper" if config.folder else "strong"
        raise ConfigError(
            f"{model.encoder} is a baseline: it cannot take in or explain entities after "
            f"training; train one that can, for example with the preset {other}"
        )
