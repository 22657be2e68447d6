"""Drift: how far a grown graph has moved from the trained one, to decide when to train again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from decentrl.growth.growing import Growing
from decentrl.views.base import INPUTS, STATES

STALE = 1e-4
"""Least 1 - cos of a vector that counts as moved; less may be rounding."""
SAMPLE = 2000
"""Largest number of entities per side that ``expected`` is computed from."""


@dataclass(frozen=True)
class Drift:
    """How far a grown model's vectors are from those that a refresh would give.

    Attributes:
        drift: how far vectors would move in a refresh, the mean of 1 - cos over all entities that
            have a vector; 0 for a graph that has not grown.
        entities, induced: number of entities with a vector, and of these not seen in training.
        triples, arrived: number of triples, and of those added after training.
        stale: number of trained entities whose vectors a refresh would change.
        expected: how well self-distillation recognises vectors: the cosine of the input embedding
            that it predicts from a vector with the nearest one of another trained entity; the
            mean over trained entities, and over induced ones. None without self-distillation.
        calibration: calibration of probabilities on held-out data; empty without such data.
    """

    drift: float
    entities: int
    induced: int
    triples: int
    arrived: int
    stale: int
    expected: dict[str, float] | None
    calibration: dict[str, float]


def measure_drift(
    growing: Growing, refreshed: Mapping[str, Tensor], calibration: dict[str, float]
) -> Drift:
    """Measure how far the vectors are from those of a refresh.

    Args:
        refreshed: vectors that a refresh would give, by side.
    """
    moved, counts = [], dict.fromkeys(("induced", "triples", "arrived", "stale"), 0)
    for name, graph in growing.sides.items():
        kept, now = graph.vectors, refreshed[name]
        there = (kept.abs().amax(1) > 0) | (now.abs().amax(1) > 0)
        far = 1 - F.cosine_similarity(kept, now, dim=1).double().cpu()
        moved.append(far[there.cpu()])
        later = graph.arrivals.triples
        trained = graph.arrivals.is_trained(np.arange(len(far)))
        counts["induced"] += int(there.cpu()[torch.from_numpy(~trained)].sum())
        counts["triples"] += len(graph.trained.triples) + len(later)
        counts["arrived"] += len(later)
        counts["stale"] += int(((far > STALE) & there.cpu())[torch.from_numpy(trained)].sum())
    every = torch.cat(moved)
    return Drift(
        drift=max(0.0, every.mean().item()) if len(every) else 0.0,
        entities=len(every),
        expected=_expected(growing),
        calibration=calibration,
        **counts,
    )


@torch.no_grad()
def _expected(growing: Growing) -> dict[str, float] | None:
    """See :attr:`Drift.expected`."""
    model = growing.model
    if model.distillation is None or model.distillation.variant == "none":
        return None
    head = model.distillation.eval().head
    encoder: Any = model.frozen.encoder
    device = next(head.parameters()).device
    found: dict[str, list[Tensor]] = {"trained": [], "induced": []}
    for graph in growing.sides.values():
        rng = np.random.default_rng(0)
        new = graph.arrivals.new_entities()
        old = np.flatnonzero(graph.arrivals.is_trained(np.arange(len(graph.entities))))
        old, new = (
            ids if len(ids) <= SAMPLE else np.sort(rng.choice(ids, SAMPLE, replace=False))
            for ids in (old, new)
        )
        inputs = F.normalize(graph.take(model, INPUTS, old), dim=1)
        for name, ids in (("trained", old), ("induced", new)):
            if len(ids) and len(old) > 1:
                students = encoder.students(graph.take(model, STATES, ids))
                predicted = F.normalize(head(students.to(device)).cpu(), dim=1)
                near = predicted @ inputs.t()
                near[torch.from_numpy(ids[:, None] == old)] = -1
                found[name].append(near.amax(1))
    return {name: torch.cat(parts).mean().item() for name, parts in found.items() if parts}
