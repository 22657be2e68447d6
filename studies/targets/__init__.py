"""Every table and figure of the paper by its name, and the baselines beside their references."""

from __future__ import annotations

from collections.abc import Callable

from decentrl.errors import ConfigError
from studies.layout import Target
from studies.scale import Scale
from studies.targets import (
    ablation,
    alignment,
    analyses,
    baselines,
    datasets,
    prediction,
    timing,
)

TARGETS: dict[str, Callable[[Scale], Target]] = {
    "datasets": datasets.datasets,
    "alignment": alignment.alignment,
    "open-alignment": alignment.open_alignment,
    "known-unknown": alignment.known_unknown,
    "prediction": prediction.prediction,
    "open-prediction": prediction.open_prediction,
    "decoders": prediction.decoders,
    "ablation": ablation.ablation,
    "sizes": ablation.sizes,
    "proportions": analyses.proportions,
    "degree": analyses.degree,
    "layers": analyses.layers,
    "time": timing.time,
    "baselines": baselines.baselines,
}


def make_targets(names: list[str], scale: Scale) -> list[Target]:
    """The named targets, each once; ``all`` names every one."""
    for name in names:
        if name not in TARGETS and name != "all":
            raise ConfigError(f"no table or figure {name!r}; there are: {', '.join(TARGETS)}, all")
    wanted = list(TARGETS) if "all" in names else list(dict.fromkeys(names))
    return [TARGETS[name](scale) for name in wanted]
