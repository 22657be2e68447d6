"""Settings from presets, TOML and the command line, each checked against its field."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from importlib.resources import files
from math import isfinite
from typing import Any, ClassVar, Literal, TypeVar, get_args, get_origin, get_type_hints

from decentrl.errors import ConfigError

DEFAULT_PRESET = "strong"


def setting(
    default: Any, meaning: str, *, at_least: float | None = None, at_most: float | None = None
) -> Any:
    """A field with its explanation, which ``decentrl settings`` prints."""
    limits = {"at_least": at_least, "at_most": at_most}
    return field(default=default, metadata={"meaning": meaning, **limits})


_Self = TypeVar("_Self", bound="Settings")


@dataclass(frozen=True)
class Settings:
    """What the settings of both jobs have in common; a preset is a TOML file in ``folder``."""

    preset: str = DEFAULT_PRESET
    seed: int = 0

    folder: ClassVar[str] = ""

    @classmethod
    def sections(cls) -> dict[str, Any]:
        """The type of each section by its name."""
        hints = get_type_hints(cls)
        return {f.name: hints[f.name] for f in fields(cls) if f.name not in ("preset", "seed")}

    @classmethod
    def from_preset(
        cls: type[_Self], name: str, overrides: Iterable[str] = (), seed: int = 0
    ) -> _Self:
        """A named preset, then ``section.key=value`` changes on top."""
        values = read_preset(name, cls.folder)
        config = cls.from_dict({**values, "preset": name, "seed": seed})
        for override in overrides:
            config = config.with_setting(override)
        return config

    @classmethod
    def from_dict(cls: type[_Self], values: Mapping[str, Any]) -> _Self:
        parts: dict[str, Any] = {}
        for key, value in values.items():
            if key == "seed" and not (type(value) is int and 0 <= value < 2**63):
                raise ConfigError(f"the seed is {value!r}; it must be a whole number, at least 0")
            if key in ("preset", "seed"):
                parts[key] = value
            else:
                section = cls._section_type(key)
                if not isinstance(value, Mapping):
                    raise ConfigError(f"{key} is a section; write {key}.NAME = VALUE")
                known = {
                    name: _checked(section, f"{key}.{name}", name, item)
                    for name, item in value.items()
                }
                parts[key] = section(**known)
        return cls(**parts)

    def with_setting(self: _Self, override: str) -> _Self:
        """``model.dim=128`` and the like; the value is read as the field's type."""
        path, equals, text = override.partition("=")
        section, dot, name = path.strip().partition(".")
        if not equals or not dot:
            raise ConfigError(f"cannot read the setting {override!r}; write section.key=value")
        kind = self._section_type(section)
        value = _checked(kind, path.strip(), name, _parse(text.strip()))
        changed = {section: replace(getattr(self, section), **{name: value})}
        return replace(self, **changed)

    def with_epochs(self: _Self, share: float) -> _Self:
        """The same settings with a share of the epochs, at least one if there are any."""
        if not 0 < share <= 1:
            raise ConfigError(f"the share of epochs is {share}; it must be above 0 and at most 1")

        def fewer(epochs: int) -> int:
            return max(min(1, epochs), int(share * epochs))

        changed = {
            name: replace(getattr(self, name), epochs=fewer(getattr(self, name).epochs))
            for name in self.sections()
            if hasattr(getattr(self, name), "epochs")
        }
        return replace(self, **changed)

    def to_dict(self) -> dict[str, Any]:
        sections = {
            name: {f.name: getattr(getattr(self, name), f.name) for f in fields(kind)}
            for name, kind in self.sections().items()
        }
        return {"preset": self.preset, "seed": self.seed, **sections}

    @classmethod
    def _section_type(cls, name: str) -> Any:
        if name not in cls.sections():
            names = ", ".join(cls.sections())
            raise ConfigError(f"no settings section {name!r}; there are: {names}")
        return cls.sections()[name]


def _presets(folder: str) -> Any:
    place = files("decentrl") / "config" / "presets"
    return place / folder if folder else place


def preset_names(folder: str = "") -> list[str]:
    names = (path.name for path in _presets(folder).iterdir())
    return sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml"))


def read_preset(name: str, folder: str = "") -> dict[str, Any]:
    if name not in preset_names(folder):
        raise ConfigError(f"no preset {name!r}; there are: {', '.join(preset_names(folder))}")
    return tomllib.loads((_presets(folder) / f"{name}.toml").read_text("utf-8"))


def to_toml(values: Mapping[str, Any]) -> str:
    """Scalars and one level of tables, which is all we write."""
    lines = [f"{key} = {_toml(v)}" for key, v in values.items() if not isinstance(v, Mapping)]
    for key, table in values.items():
        if isinstance(table, Mapping):
            lines += ["", f"[{key}]", *(f"{name} = {_toml(v)}" for name, v in table.items())]
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return repr(value)
    escaped = str(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return '"' + escaped.replace("\t", "\\t") + '"'


def _parse(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text  # a bare word such as `mean`


def _checked(section: Any, path: str, name: str, value: Any) -> Any:
    """The value, if the field exists and may have it."""
    kinds = {f.name: f for f in fields(section)}
    if name not in kinds:
        near = get_close_matches(name, kinds, n=1, cutoff=0.0)
        raise ConfigError(f"no setting {path!r}; did you mean {path.split('.')[0]}.{near[0]}?")
    kind = get_type_hints(section)[name]
    if get_origin(kind) is Literal:
        if value not in get_args(kind):
            raise ConfigError(f"{path} is {value!r}; it can be: {', '.join(get_args(kind))}")
        return value
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if type(value) is not kind:
        raise ConfigError(f"{path} is {value!r}; it must be of type {kind.__name__}")
    if kind is float and not isfinite(value):
        raise ConfigError(f"{path} is {value}; it must be a finite number")
    least, most = (kinds[name].metadata[limit] for limit in ("at_least", "at_most"))
    if least is not None and value < least:
        raise ConfigError(f"{path} is {value}; it must be at least {least:g}")
    if most is not None and value > most:
        raise ConfigError(f"{path} is {value}; it must be at most {most:g}")
    return value
