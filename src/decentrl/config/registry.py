"""The encoders of a job by their names: ours, and those registered from outside the package."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Generic, TypeVar

from decentrl.config.settings import MORE_PRESETS, Settings
from decentrl.config.shared import EncoderSettings
from decentrl.errors import ConfigError

_Encoder = TypeVar("_Encoder")
_Kind = TypeVar("_Kind", bound=type)


class Encoders(Generic[_Encoder]):
    """Classes of encoders by the name that ``model.encoder`` chooses them by.

    Args:
        job: the settings of the job.
        ours: where our own are, ``module.Class`` by name; each is imported when it is first found.
    """

    def __init__(self, job: type[Settings], ours: Mapping[str, str]) -> None:
        self.job, self.ours = job, ours
        self.registered: dict[str, type[_Encoder]] = {}

    def register(
        self,
        settings: type[EncoderSettings],
        preset: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> Callable[[_Kind], _Kind]:
        """Class decorator: make an encoder known under the name of its settings.

        A class that is defined again takes the place of the old one; any other is an error.

        Args:
            settings: a frozen dataclass; ``model.encoder`` chooses it by ``settings.encoder``.
            preset: what a preset of the same name sets besides the encoder, by section.
        """

        def register(kind: _Kind) -> _Kind:
            name, known = settings.encoder, self.job.known["model"]
            pairs = (settings, known.get(name)), (kind, self.registered.get(name))
            taken = any(old is not None and _place(old) != _place(new) for new, old in pairs)
            if taken or name in self.ours:
                raise ConfigError(f"there is an encoder {name!r} already; choose another name")
            known[name], self.registered[name] = settings, kind
            if preset is not None:
                values = {section: dict(part) for section, part in preset.items()}
                values["model"] = {"encoder": name, **values.get("model", {})}
                MORE_PRESETS[self.job.folder][name] = values
            return kind

        return register

    def find(self, name: str) -> type[_Encoder]:
        """The class of an encoder by its name."""
        if name in self.registered:
            return self.registered[name]
        module, _, kind = self.ours[name].rpartition(".")
        found: type[_Encoder] = getattr(import_module(module), kind)
        return found


def _place(kind: type) -> tuple[str, str]:
    """Where a class was defined."""
    return kind.__module__, kind.__qualname__


def must_grow(config: Settings) -> None:
    """Raise if the encoder makes no vectors of entities that come after training."""
    model: EncoderSettings = config.model  # type: ignore[attr-defined]
    if not model.inductive:
        other = "paper" if config.folder else "strong"
        raise ConfigError(
            f"the encoder {model.encoder} cannot take in or explain entities after training; "
            f"train one that can, for example with the preset {other}"
        )


def must_have_vectors(config: Settings) -> None:
    """Raise if entities have no vectors by these settings."""
    if not getattr(config.model, "vectors", True):  # type: ignore[attr-defined]
        raise ConfigError(
            f"{config.model.encoder} makes no vectors of entities; "  # type: ignore[attr-defined]
            "train with another preset, for example paper"
        )
