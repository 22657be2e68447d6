"""Settings of bundles and runs of format versions 1 and 2, in today's form.

Those held every setting of one large dataclass a section, whether it applied or not. What they
leave out has the default of that time; what is no setting any more must have the value that it is
fixed at now, where that changes what a trained model is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from decentrl.errors import ConfigError

_TRAINING = {
    "epochs": 80, "batch": 0, "optimizer": "adam", "learning_rate": 2e-3, "encoder_rate": 1.0,
    "schedule": "constant", "valid": 0.1, "refit": False, "validate_every": 10, "patience": 3,
    "checkpoint_every": 30.0,
}  # fmt: skip
_DISTILLATION = {
    "variant": "detached", "head": "mlp", "weight": 0.3, "negatives": 64, "dropout": 0.5,
    "induce": True,
}  # fmt: skip
_DEFAULTS: dict[str, dict[str, dict[str, Any]]] = {
    "": {
        "model": {
            "encoder": "dan", "dim": 512, "layers": 4, "first": "mean", "variant": "second-order",
            "hops": "alternating", "relations": "add", "relation_weight": 1.0, "dropout": 0.5,
            "edge_dropout": 0.0, "entity_dropout": 0.0, "context": False, "same_relations": 0.3,
            "norm": True, "residual": True, "self_entity": False, "output": "layers",
            "counterparts": True,
        },
        "propagation": {"weight": 0.0, "dim": 512, "rounds": 2, "relation_dim": 128, "width": 16},
        "distillation": _DISTILLATION,
        "loss": {"negatives": 10, "entities": 2048, "scale": 30.0},
        "training": _TRAINING,
        "self_training": {"rounds": 0, "mass": 0.3, "epochs": 2, "told": 0.04},
        "matching": {
            "matcher": "csls", "csls_k": 2, "temperature": 0.02, "iterations": 10, "keep": 0,
        },
    },
    "prediction": {
        "model": {
            "encoder": "dan", "dim": 512, "layers": 2, "relations": "multiply", "residual": True,
            "context": True, "own": "off",
            "output": "tied", "hidden": 1.0, "reuse": 1, "dropout": 0.3,
        },
        "decoder": {
            "name": "complex", "dim": 0, "normalise": True, "dropout": 0.0, "batch_norm": False,
            "channels": 32, "kernel": 3, "constant": False,
        },
        "distillation": _DISTILLATION,
        "loss": {
            "kind": "softmax", "candidates": 0, "smoothing": 0.0, "root": False, "level": 0.0,
            "relations": 0.0, "n3": 0.0,
        },
        "training": _TRAINING,
    },
}  # fmt: skip
_FIXED = {
    "": {
        "model": ("first", "variant", "relations", "norm", "residual", "counterparts"),
        "propagation": ("rounds", "width"),
        "distillation": ("head",),
    },
    "prediction": {
        "model": ("relations", "residual", "context"),
        "decoder": ("channels", "kernel", "constant"),
        "distillation": ("head",),
        "loss": ("level",),
    },
}
"""What has become a constant and decides what a trained model is."""


def upgraded(settings: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """Stored values in today's form; those that are in it already stay as they are.

    Args:
        settings: the class of settings of the job.
    """
    defaults = _DEFAULTS[settings.folder]
    signs = [("model", "norm"), ("model", "own_dropout")]  # every one had these
    signs += [("training", "refit")] if settings.folder else []
    if not any(name in values.get(section, ()) for section, name in signs):
        return dict(values)
    old: dict[str, Any] = {key: {**part, **values.get(key, {})} for key, part in defaults.items()}
    encoder = old["model"]["encoder"]
    if encoder in ("dan", "reflection", "none"):
        for section, names in _FIXED[settings.folder].items():
            for name in names:
                if old[section][name] != defaults[section][name]:
                    raise ConfigError(
                        f"it was trained with {section}.{name}={old[section][name]}, which this "
                        "decentrl no longer has; use the version that trained it, or train again"
                    )
    if part := old.get("self_training"):
        part["counterpart_weight"] = part.pop("told")
    choice = {section: old[section][key] for section, key in settings.choices.items()}
    rest: dict[str, Any] = {key: values[key] for key in ("preset", "seed") if key in values}
    return {**rest, **settings.kept(choice, old)}
