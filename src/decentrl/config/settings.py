"""Machinery of settings: read from presets, TOML and the command line, each value checked.

A job's settings are sections (``model``, ``loss``, …), each a frozen dataclass. Which dataclass a
section has depends on what was chosen by name: the encoder (``model.encoder``) and the decoder
(``decoder.name``). A setting that the chosen ones do not have is an error.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from difflib import get_close_matches
from importlib.resources import files
from math import isfinite
from typing import Any, ClassVar, Literal, TypeVar, get_args, get_origin, get_type_hints

from decentrl.config.earlier import upgraded
from decentrl.errors import ConfigError

DEFAULT_PRESET = "strong"

Sections = dict[str, type | None]
"""The dataclass of each section by its name; None where the chosen encoder has no such section."""


def setting(
    default: Any, meaning: str, *, at_least: float | None = None, at_most: float | None = None
) -> Any:
    """A field of a section with its explanation, which ``decentrl settings`` prints."""
    limits = {"at_least": at_least, "at_most": at_most}
    return field(default=default, metadata={"meaning": meaning, **limits})


_Self = TypeVar("_Self", bound="Settings")
_Values = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Settings:
    """What the settings of both jobs have in common; a preset is a TOML file in ``folder``."""

    preset: str = DEFAULT_PRESET
    seed: int = 0

    folder: ClassVar[str] = ""
    choices: ClassVar[dict[str, str]] = {"model": "encoder"}
    """Which setting of a section chooses its dataclass by name."""

    @classmethod
    def chosen(cls, names: Mapping[str, str]) -> Sections:
        """The dataclass of every section, for the names that were chosen by section."""
        raise NotImplementedError

    @classmethod
    def variants(cls) -> list[Sections]:
        """:meth:`chosen` for every choice there is."""
        return [cls.chosen(names) for names in cls.all_names()]

    @classmethod
    def from_preset(
        cls: type[_Self], name: str, overrides: Iterable[str] = (), seed: int = 0
    ) -> _Self:
        """A named preset, then ``section.key=value`` changes on top."""
        return cls._combined(read_preset(name, cls.folder), overrides, name, seed)

    def with_setting(self: _Self, *overrides: str) -> _Self:
        """The same settings with ``section.key=value`` changes."""
        return self._combined(self.to_dict(), overrides, self.preset, self.seed)

    @classmethod
    def _combined(
        cls: type[_Self], base: Mapping[str, Any], overrides: Iterable[str], preset: str, seed: int
    ) -> _Self:
        """Changes on top of a base, of which only what the chosen encoder has is kept."""
        changes = cls._read_overrides(overrides)
        names = cls._names(base, changes)
        kept: _Values = {}
        for section, kind in cls.chosen(names).items():
            known = _names_of(kind) | ({cls.choices[section]} if section in cls.choices else set())
            given = {k: v for k, v in base.get(section, {}).items() if k in known}
            given |= changes.get(section, {})
            if given:
                kept[section] = given
        return cls.from_dict({**kept, "preset": preset, "seed": seed})

    @classmethod
    def _read_overrides(cls, overrides: Iterable[str]) -> _Values:
        changes: _Values = {}
        for override in overrides:
            path, equals, text = override.partition("=")
            section, dot, name = path.strip().partition(".")
            if not equals or not dot:
                raise ConfigError(f"cannot read the setting {override!r}; write section.key=value")
            cls._check_section(section)
            changes.setdefault(section, {})[name] = _parse(text.strip())
        return changes

    @classmethod
    def from_dict(cls: type[_Self], values: Mapping[str, Any]) -> _Self:
        """Settings from nested values, as :meth:`to_dict` writes them; each one is checked."""
        parts: dict[str, Any] = {}
        given: dict[str, Any] = {}
        for key, value in values.items():
            if key == "seed" and not (type(value) is int and 0 <= value < 2**63):
                raise ConfigError(f"the seed is {value!r}; it must be a whole number, at least 0")
            if key in ("preset", "seed"):
                parts[key] = value
                continue
            cls._check_section(key)
            if not isinstance(value, Mapping):
                raise ConfigError(f"{key} is a section; write {key}.NAME = VALUE")
            given[key] = dict(value)
        names = cls._names(given)
        sections = cls.chosen(names)
        for section, kind in sections.items():
            found = given.get(section, {})
            found.pop(cls.choices.get(section, ""), None)
            checked = {
                name: cls._checked(section, kind, name, value, names)
                for name, value in found.items()
            }
            parts[section] = None if kind is None else kind(**checked)
        config = cls(**parts)
        config.check()
        return config

    @classmethod
    def from_stored(cls: type[_Self], values: Mapping[str, Any]) -> _Self:
        """:meth:`from_dict` of what a run or bundle holds, also one of an earlier version."""
        return cls.from_dict(upgraded(cls, values))

    def check(self) -> None:
        """Raise where settings contradict each other."""

    @classmethod
    def _names(cls, *sources: Mapping[str, Any]) -> dict[str, str]:
        """The chosen name of each section with a choice: the last source that gives one."""
        names = dict(cls.default_names())
        for section, key in cls.choices.items():
            for values in sources:
                if isinstance(values.get(section), Mapping) and key in values[section]:
                    names[section] = values[section][key]
        return names

    @classmethod
    def default_names(cls) -> dict[str, str]:
        """What is chosen where nothing else is: the default preset's."""
        raise NotImplementedError

    def with_epochs(self: _Self, share: float) -> _Self:
        """The same settings with a share of the epochs, at least one if there are any."""
        if not 0 < share <= 1:
            raise ConfigError(f"the share of epochs is {share}; it must be above 0 and at most 1")

        def fewer(epochs: int) -> int:
            return max(min(1, epochs), int(share * epochs))

        sections = {name: getattr(self, name) for name in section_names(type(self))}
        changed = {
            name: replace(section, epochs=fewer(section.epochs))
            for name, section in sections.items()
            if section is not None and "epochs" in _names_of(type(section))
        }
        return replace(self, **changed)

    def to_dict(self) -> dict[str, Any]:
        """Nested values of every setting that applies."""
        values: dict[str, Any] = {"preset": self.preset, "seed": self.seed}
        for name in section_names(type(self)):
            section = getattr(self, name)
            if section is not None:
                key = self.choices.get(name)
                choice = {} if key is None else {key: getattr(section, key)}
                values[name] = choice | {f.name: getattr(section, f.name) for f in fields(section)}
        return values

    def describe(self) -> Iterable[tuple[str, list[tuple[str, Any, str]]]]:
        """Each section and its settings: name, value, meaning."""
        for name in section_names(type(self)):
            section = getattr(self, name)
            if section is None:
                continue
            rows = [
                (f.name, getattr(section, f.name), f.metadata["meaning"]) for f in fields(section)
            ]
            if key := self.choices.get(name):
                others = sorted({str(names[name]) for names in self.all_names()})
                rows.insert(0, (key, getattr(section, key), f"one of: {', '.join(others)}"))
            yield name, rows

    @classmethod
    def all_names(cls) -> Iterable[dict[str, str]]:
        """Every choice of names by section."""
        raise NotImplementedError

    @classmethod
    def _check_section(cls, name: str) -> None:
        if name not in section_names(cls):
            names = ", ".join(section_names(cls))
            raise ConfigError(f"no settings section {name!r}; there are: {names}")

    @classmethod
    def _checked(
        cls, section: str, kind: type | None, name: str, value: Any, names: Mapping[str, str]
    ) -> Any:
        """The value, if the chosen dataclass has the field and it may have it."""
        if kind is not None and name in _names_of(kind):
            return checked_value(kind, f"{section}.{name}", name, value)
        elsewhere = set().union(*(_names_of(other.get(section)) for other in cls.variants()))
        if name not in elsewhere:
            near = get_close_matches(name, sorted(elsewhere), n=1, cutoff=0.0)
            raise ConfigError(f"no setting '{section}.{name}'; did you mean {section}.{near[0]}?")
        what = {"model": "encoder", "decoder": "decoder"}
        chosen = " and the ".join(f"{what[key]} {choice}" for key, choice in names.items())
        if not _names_of(kind):
            raise ConfigError(
                f"{section}.{name} does not apply to the {chosen}, which has no {section} settings"
            )
        own = ", ".join(f"{section}.{other}" for other in sorted(_names_of(kind)))
        raise ConfigError(f"{section}.{name} does not apply to the {chosen}; these do: {own}")


def section_names(settings: type[Settings]) -> list[str]:
    """The sections of a job's settings, in their order."""
    return [f.name for f in fields(settings) if f.name not in ("preset", "seed")]


def _names_of(kind: type | None) -> set[str]:
    """The settings of a section."""
    return {f.name for f in fields(kind)} if is_dataclass(kind) else set()


def _presets(folder: str) -> Any:
    place = files("decentrl") / "config" / "presets"
    return place / folder if folder else place


MORE_PRESETS: dict[str, dict[str, dict[str, Any]]] = {"": {}, "prediction": {}}
"""Presets of encoders that were registered from outside, by folder and name."""


def preset_names(folder: str = "") -> list[str]:
    """The presets of a job, sorted."""
    names = (path.name for path in _presets(folder).iterdir())
    found = {name.removesuffix(".toml") for name in names if name.endswith(".toml")}
    return sorted(found | set(MORE_PRESETS[folder]))


def read_preset(name: str, folder: str = "") -> dict[str, Any]:
    """What a preset sets; all else has its default."""
    if name in MORE_PRESETS[folder]:
        return MORE_PRESETS[folder][name]
    if name not in preset_names(folder):
        raise ConfigError(f"no preset {name!r}; there are: {', '.join(preset_names(folder))}")
    return tomllib.loads((_presets(folder) / f"{name}.toml").read_text("utf-8"))


def to_toml(values: Mapping[str, Any]) -> str:
    """TOML of scalars and one level of tables."""
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


def checked_value(section: type, path: str, name: str, value: Any) -> Any:
    """The value, if the field of this section may have it."""
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
    limits = next(f.metadata for f in fields(section) if f.name == name)
    least, most = limits["at_least"], limits["at_most"]
    if least is not None and value < least:
        raise ConfigError(f"{path} is {value}; it must be at least {least:g}")
    if most is not None and value > most:
        raise ConfigError(f"{path} is {value}; it must be at most {most:g}")
    return value
