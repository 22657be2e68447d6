"""Views of alignment by the name of their encoder, and how to register one from outside."""

from __future__ import annotations

from decentrl.config import Config, Encoders
from decentrl.views.base import View

VIEWS = Encoders[View](
    Config,
    {
        "dan": "decentrl.views.dan.DANView",
        "reflection": "decentrl.views.reflection.ReflectionView",
    },
)
register_view = VIEWS.register
"""Class decorator of a :class:`View`."""
view_type = VIEWS.find


def make_view(config: Config, n_entities: int, n_relations: int) -> View | None:
    """A new view with random parameters; None where seed propagation is all there is."""
    name = config.model.encoder
    return None if name == "none" else view_type(name)(config, n_entities, n_relations)
