"""Settings of bundles and runs of earlier versions, in today's form.

Formats 1 and 2 held every setting of one large dataclass a section, whether it applied or not. A
setting that came later has the default of that time; what is no setting any more must have the
value that it is fixed at now, where that changes what a trained model is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from decentrl.errors import ConfigError

_CAME_LATER: dict[str, dict[str, dict[str, Any]]] = {
    "": {"model": {"entity_dropout": 0.0}},
    "prediction": {"model": {"reuse": 1}, "training": {"encoder_rate": 1.0}},
}
"""Settings that the first bundles do not have, with the defaults they came with."""
_FIXED: dict[str, dict[str, dict[str, Any]]] = {
    "": {
        "model": {
            "first": "mean", "variant": "second-order", "relations": "add", "norm": True,
            "residual": True, "counterparts": True,
        },
        "propagation": {"rounds": 2, "width": 16},
        "distillation": {"head": "mlp"},
    },
    "prediction": {
        "model": {"relations": "multiply", "residual": True, "context": True},
        "decoder": {"channels": 32, "kernel": 3, "constant": False},
        "distillation": {"head": "mlp"},
        "loss": {"level": 0.0},
    },
}  # fmt: skip
"""What has become a constant and decides what a trained model is."""
_COORDINATES = ("told", "counterpart_weight")
"""Names of a setting that format 3 had, too: above 0, it gave self-trained vectors two more
coordinates."""


def upgraded(settings: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """Stored values in today's form; those that are in it already stay as they are.

    Args:
        settings: the class of settings of the job.
    """
    values = dict(values)
    if isinstance(part := values.get("self_training"), Mapping):
        values["self_training"] = kept = {k: v for k, v in part.items() if k not in _COORDINATES}
        for name in _COORDINATES:
            if part.get(name) and kept.get("rounds"):
                raise _gone(f"self_training.{name}={part[name]}")
    if not settings.folder:
        values.setdefault("names", {"weight": 0.0, "translation": 0.0})
        if isinstance(part := values.get("matching"), Mapping):
            values["matching"] = {key: value for key, value in part.items() if key != "csls_k"}
            if (k := part.get("csls_k", 2)) != settings.matching.csls_k:
                raise _gone(f"matching.csls_k={k}")
    signs = [("model", "norm"), ("model", "own_dropout")]  # every one had these
    signs += [("training", "refit")] if settings.folder else []
    if not any(name in values.get(section, ()) for section, name in signs):
        return values
    later = _CAME_LATER[settings.folder]
    old = {**values, **{key: {**part, **values.get(key, {})} for key, part in later.items()}}
    names = settings.choice_names(old)
    if names["model"] in ("dan", "reflection", "none"):
        for section, part in _FIXED[settings.folder].items():
            for name, fixed in part.items():
                if (value := old.get(section, {}).get(name, fixed)) != fixed:
                    raise _gone(f"{section}.{name}={value}")
    rest: dict[str, Any] = {key: values[key] for key in ("preset", "seed") if key in values}
    return {**rest, **settings.kept(names, old)}


def _gone(setting: str) -> ConfigError:
    return ConfigError(
        f"it was trained with {setting}, which this decentrl no longer has; use the version that "
        "trained it, or train again"
    )
