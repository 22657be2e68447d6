"""Views of alignment by the name of their encoder, and the door for those of others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, TypeVar

from decentrl.config import Config, EncoderSettings, check_name, register_encoder
from decentrl.views.base import View

_V = TypeVar("_V", bound=type[View])
_VIEWS: dict[str, type[View]] = {}
_HOMES = {
    "dan": "dan",
    "reflection": "reflection",
    "gcn": "rivals.gcn",
    "gat": "rivals.gat",
    "alinet": "rivals.alinet",
    "transe": "rivals.translational",
    "rotate": "rivals.translational",
}
"""Where our own views are; each is imported when it is first asked for."""


def register_view(
    settings: type[EncoderSettings], preset: Mapping[str, Mapping[str, Any]] | None = None
) -> Callable[[_V], _V]:
    """Class decorator: make a view an encoder of alignment, under the name of its settings.

    Args:
        settings: a frozen dataclass; ``model.encoder`` chooses it by ``settings.encoder``.
        preset: what a preset of the same name sets besides the encoder, by section.
    """

    def register(view: _V) -> _V:
        name = settings.encoder
        if name in _HOMES and view.__module__ != _module(name):
            view_type(name)  # ours, so that the name is taken
        check_name(name, view, _VIEWS.get(name))
        register_encoder(Config, settings, preset)
        _VIEWS[name] = view
        return view

    return register


def view_type(name: str) -> type[View]:
    """The view of an encoder by its name."""
    if name not in _VIEWS:
        import_module(_module(name))
    return _VIEWS[name]


def _module(name: str) -> str:
    return f"decentrl.views.{_HOMES[name]}"


def make_view(config: Config, n_entities: int, n_relations: int) -> View | None:
    """A new view with random parameters; None where seed propagation is all there is."""
    name = config.model.encoder
    if name == "none":
        return None
    return view_type(name)(config, n_entities, n_relations)
