"""Machinery of settings: read from presets, TOML and the command line, each value checked.

A job's settings are sections (``model``, ``loss``, …), each a frozen dataclass. Which dataclass a
section has depends on what was chosen by name: the encoder (``model.encoder``) and the decoder
(``decoder.name``). A setting that the chosen ones do not have is an error.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import Field, asdict, dataclass, field, fields, is_dataclass, replace
from difflib import get_close_matches
from importlib.resources import files
from itertools import chain, product
from math import isfinite
from typing import Any, ClassVar, TypeVar, get_args, get_type_hints

from decentrl.config.earlier import upgraded
from decentrl.config.plugins import REMEDY, load_plugins
from decentrl.errors import ConfigError

DEFAULT_PRESET = "strong"

_LARGEST = 2**63 - 1
"""No setting is a larger whole number; tensors and tables hold no larger one."""

Sections = dict[str, type | None]
"""The dataclass of each section by its name; None where the chosen encoder has no such section."""


def setting(
    default: Any, meaning: str, *, at_least: float | None = None, at_most: float | None = None
) -> Any:
    """A field of a section with its explanation, which ``decentrl settings`` prints."""
    limits = {"at_least": at_least, "at_most": at_most}
    return field(default=default, metadata={"meaning": meaning, **limits})


_Self = TypeVar("_Self", bound="Settings")
_Values = Mapping[str, Mapping[str, Any]]


class Section:
    """Base of sections that others derive from.

    A setting that a derived section only gives another default keeps its meaning and limits.
    """

    def __init_subclass__(cls) -> None:
        bases = [base for base in cls.__mro__[1:] if is_dataclass(base)]
        for old in chain.from_iterable(map(fields, bases)):
            default = vars(cls).get(old.name, old)
            if not isinstance(default, Field):
                setattr(cls, old.name, field(default=default, metadata=old.metadata))


@dataclass(frozen=True)
class Settings:
    """What the settings of both jobs have in common; a preset is a TOML file in ``folder``."""

    preset: str = DEFAULT_PRESET
    seed: int = 0

    folder: ClassVar[str] = ""
    choices: ClassVar[dict[str, str]] = {"model": "encoder"}
    """Which setting of a section chooses its dataclass by name."""
    known: ClassVar[dict[str, dict[str, Any]]] = {}
    """The dataclasses that can be chosen, by section and name."""
    usual: ClassVar[Sections] = {}
    """Sections of an encoder that does not name its own, where they differ from the defaults'."""

    @classmethod
    def chosen(cls, names: Mapping[str, str]) -> Sections:
        """The dataclass of every section, for the names that were chosen by section."""
        for name, key in cls.choices.items():
            remedy = ""
            if name == "model" and names[name] not in tuple(cls.known[name]):
                load_plugins()
                remedy = f"; {REMEDY}"
            if names[name] not in tuple(cls.known[name]):
                there = ", ".join(cls.known[name])
                raise ConfigError(f"{name}.{key} is {names[name]!r}; it can be: {there}{remedy}")
        kinds = {name: known[names[name]] for name, known in cls.known.items()}
        found = {name: type(getattr(cls, name)) for name in section_names(cls)} | cls.usual | kinds
        for kind in reversed(kinds.values()):  # the encoder has the last word
            found |= kind.sections
        return found

    @classmethod
    def variants(cls) -> list[Sections]:
        """:meth:`chosen` for every choice there is."""
        choices = product(*cls.known.values())
        return [cls.chosen(dict(zip(cls.known, names, strict=True))) for names in choices]

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
        changes: dict[str, dict[str, Any]] = {}
        for override in overrides:
            path, equals, text = override.partition("=")
            name, dot, key = path.strip().partition(".")
            if not equals or not dot:
                raise ConfigError(f"cannot read the setting {override!r}; write section.key=value")
            cls._check_section(name)
            changes.setdefault(name, {})[key] = _parse(text.strip())
        values = cls.kept(cls.choice_names(base, changes), base)
        for name, part in changes.items():
            values.setdefault(name, {}).update(part)
        return cls.from_dict({**values, "preset": preset, "seed": seed})

    @classmethod
    def kept(cls, names: Mapping[str, str], values: _Values) -> dict[str, dict[str, Any]]:
        """Of values by section those that the chosen dataclasses have, and the choices."""
        found = {}
        for name, kind in cls.chosen(names).items():
            own = _names_of(kind) | ({cls.choices.get(name)} if kind else set())
            if part := {key: v for key, v in values.get(name, {}).items() if key in own}:
                found[name] = part
        return found

    @classmethod
    def from_dict(cls: type[_Self], values: Mapping[str, Any]) -> _Self:
        """Settings from nested values, as :meth:`to_dict` writes them; each one is checked."""
        parts = {key: value for key, value in values.items() if key in ("preset", "seed")}
        seed = parts.get("seed", 0)
        if not (type(seed) is int and 0 <= seed < 2**63):
            raise ConfigError(f"the seed is {seed!r}; it must be a whole number, at least 0")
        given = {key: value for key, value in values.items() if key not in parts}
        for name, value in given.items():
            cls._check_section(name)
            if not isinstance(value, Mapping):
                raise ConfigError(f"{name} is a section; write {name}.NAME = VALUE")
        names = cls.choice_names(given)
        for name, kind in cls.chosen(names).items():
            checked = {
                key: cls._checked(name, kind, key, value, names)
                for key, value in given.get(name, {}).items()
                if kind is None or key != cls.choices.get(name)
            }
            parts[name] = None if kind is None else kind(**checked)
        config = cls(**parts)
        config.check()
        return config

    @classmethod
    def from_stored(cls: type[_Self], values: Mapping[str, Any]) -> _Self:
        """:meth:`from_dict` of what a run or bundle holds, also one of an earlier version."""
        return cls.from_dict(upgraded(cls, values))

    def check(self) -> None:
        """Raise where settings contradict each other."""
        self.model.check(self)  # type: ignore[attr-defined]

    @classmethod
    def choice_names(cls, *sources: Mapping[str, Any]) -> dict[str, str]:
        """The chosen name of each section with a choice: the last source that gives one."""
        names = {}
        for name, key in cls.choices.items():
            given = [source[name][key] for source in sources if key in source.get(name, {})]
            names[name] = [getattr(getattr(cls, name), key), *given][-1]
        return names

    def with_epochs(self: _Self, share: float) -> _Self:
        """The same settings with a share of the epochs, at least one if there are any."""
        if not 0 < share <= 1:
            raise ConfigError(f"the share of epochs is {share}; it must be above 0 and at most 1")
        changed = {}
        for name, part in self._sections():
            if "epochs" in _names_of(type(part)):
                epochs = max(min(1, part.epochs), int(share * part.epochs))
                changed[name] = replace(part, epochs=epochs)
        return replace(self, **changed)

    def _sections(self) -> Iterator[tuple[str, Any]]:
        """The sections that apply, by name."""
        for name in section_names(type(self)):
            if (part := getattr(self, name)) is not None:
                yield name, part

    def to_dict(self) -> dict[str, Any]:
        """Nested values of every setting that applies."""
        values: dict[str, Any] = {"preset": self.preset, "seed": self.seed}
        for name, part in self._sections():
            choice = {key: getattr(part, key) for key in [self.choices.get(name)] if key}
            values[name] = choice | asdict(part)
        return values

    def describe(self) -> Iterator[tuple[str, list[tuple[str, Any, str]]]]:
        """Each section and its settings: name, value, meaning."""
        load_plugins()
        for name, part in self._sections():
            rows = [(f.name, getattr(part, f.name), f.metadata["meaning"]) for f in fields(part)]
            if key := self.choices.get(name):
                others = ", ".join(sorted(self.known[name]))
                rows.insert(0, (key, getattr(part, key), f"one of: {others}"))
            yield name, rows

    @classmethod
    def _check_section(cls, name: str) -> None:
        if name not in section_names(cls):
            names = ", ".join(section_names(cls))
            raise ConfigError(f"no settings section {name!r}; there are: {names}")

    @classmethod
    def _checked(
        cls, section: str, kind: type | None, name: str, value: Any, names: Mapping[str, str]
    ) -> Any:
        """The value, if the chosen dataclass has the setting and it may have it."""
        if kind is not None and name in _names_of(kind):
            return checked_value(kind, f"{section}.{name}", name, value)
        elsewhere = set().union(*(_names_of(other[section]) for other in cls.variants()))
        elsewhere |= {cls.choices[section]} if section in cls.choices else set()
        if name not in elsewhere:
            near = get_close_matches(name, sorted(elsewhere), n=1, cutoff=0.0)
            raise ConfigError(f"no setting '{section}.{name}'; did you mean {section}.{near[0]}?")
        what = {"model": "encoder"}  # as users call it
        there = cls.chosen(names)
        chosen = " and the ".join(
            f"{what.get(key, key)} {it}" for key, it in names.items() if there[key] is not None
        )
        own = ", ".join(f"{section}.{other}" for other in sorted(_names_of(kind)))
        others = f"; these do: {own}" if own else f", which has no {section} settings"
        raise ConfigError(f"{section}.{name} does not apply to the {chosen}{others}")


def section_names(settings: type[Settings]) -> list[str]:
    """The sections of a job's settings, in their order."""
    return [f.name for f in fields(settings) if f.name not in ("preset", "seed")]


def _names_of(kind: type | None) -> set[str]:
    """The settings of a section."""
    return {f.name for f in fields(kind)} if is_dataclass(kind) else set()


MORE_PRESETS: dict[str, dict[str, dict[str, Any]]] = {"": {}, "prediction": {}}
"""Presets of encoders that were registered from outside, by folder and name."""


def _own_presets(folder: str) -> dict[str, Any]:
    """The files of the package with presets of a job, by the preset's name."""
    paths = files("decentrl").joinpath("config", "presets", folder).iterdir()
    return {path.name[:-5]: path for path in paths if path.name.endswith(".toml")}


def preset_names(folder: str = "") -> list[str]:
    """The presets of a job, sorted."""
    load_plugins()
    return sorted({*_own_presets(folder), *MORE_PRESETS[folder]})


def read_preset(name: str, folder: str = "") -> dict[str, Any]:
    """What a preset sets; all else has its default."""
    if name not in (own := _own_presets(folder)) and name not in MORE_PRESETS[folder]:
        load_plugins()
    if name in MORE_PRESETS[folder]:
        return MORE_PRESETS[folder][name]
    if name not in own:
        there = ", ".join(preset_names(folder))
        raise ConfigError(f"no preset {name!r}; there are: {there}; {REMEDY}")
    return tomllib.loads(own[name].read_text("utf-8"))


def to_toml(values: Mapping[str, Any]) -> str:
    """TOML of scalars and one level of tables."""
    lines = [f"{key} = {_toml(v)}" for key, v in values.items() if not isinstance(v, Mapping)]
    for key, table in values.items():
        if isinstance(table, Mapping):
            lines += ["", f"[{key}]", *(f"{name} = {_toml(v)}" for name, v in table.items())]
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    """JSON's strings and numbers are TOML's, too."""
    return json.dumps(value, ensure_ascii=False, default=str)


def _parse(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except ValueError:
        return text  # a bare word such as `mean`; or a number of more digits than Python reads


def checked_value(section: type, path: str, name: str, value: Any) -> Any:
    """The value, if the field of this section may have it."""
    kind = get_type_hints(section)[name]
    if words := get_args(kind):  # of a Literal
        if value not in words:
            raise ConfigError(f"{path} is {value!r}; it can be: {', '.join(words)}")
        return value
    if isinstance(value, int) and abs(value) > _LARGEST:
        raise ConfigError(f"{path} is too large a number")
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
