"""When to train again: how far a grown graph has moved away from what was trained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from decentrl.data.vocabulary import Ids
from decentrl.growth.growing_graph import Growing, GrowingGraph
from decentrl.views.base import INPUTS, STATES

STALE = 1e-4
"""1 - cos from which on a vector has moved; less may be rounding."""
SAMPLE = 2000
"""Entities looked at where looking at all would take long."""


@dataclass(frozen=True)
class Drift:
    """How far what is kept is from what is.

    Attributes:
        drift: how far vectors would move in a refresh, the mean of 1 - cos over all entities that
            have a vector; 0 for a graph that has not grown.
        entities, induced: how many have a vector, and how many of these training has not seen.
        triples, arrived: how many there are, and how many of these came after training.
        stale: trained entities whose vectors do not know of what has arrived around them.
        expected: how well self-distillation recognises vectors: of the input embedding that it
            tells from a vector, the cosine with the nearest one of another trained entity; the
            mean over trained entities, and over induced ones. None without self-distillation.
        calibration: of probabilities on held-out data; empty where there is none.
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
    """Compare what is there with what a refresh would give.

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
        counts["triples"] += len(graph.trained.graph.triples) + len(later)
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


def _expected(growing: Growing) -> dict[str, float] | None:
    head = _head(growing.model.model)
    if head is None:
        return None
    found: dict[str, list[Tensor]] = {"trained": [], "induced": []}
    for graph in growing.sides.values():
        rng = np.random.default_rng(0)
        new = graph.arrivals.new_entities()
        old = np.flatnonzero(graph.arrivals.is_trained(np.arange(len(graph.entities))))
        old, new = (_sample(ids, rng) for ids in (old, new))
        inputs = F.normalize(graph.take(growing.model, INPUTS, old), dim=1)
        for name, ids in (("trained", old), ("induced", new)):
            if len(ids) and len(old) > 1:
                told = F.normalize(head(_students(growing, graph, ids)), dim=1)
                near = told @ inputs.t()
                near[torch.from_numpy(ids[:, None] == old)] = -1
                found[name].append(near.amax(1))
    return {name: torch.cat(parts).mean().item() for name, parts in found.items() if parts}


def _head(model: Any) -> Any:
    """What tells an input embedding from what the encoder made, without dropout; or None."""
    distillation = getattr(model, "distillation", None)
    if distillation is None or distillation.variant == "none":
        return None

    @torch.no_grad()
    def head(students: Tensor) -> Tensor:
        distillation.eval()
        device = next(distillation.parameters()).device
        made: Tensor = distillation.head(students.to(device)).cpu()
        return made

    return head


def _students(growing: Growing, graph: GrowingGraph, ids: Ids) -> Tensor:
    """What self-distillation has learned to read: the layers that a vector is made of."""
    states = graph.take(growing.model, STATES, ids)
    made: Tensor = growing.model.students(states)
    return made


def _sample(ids: Ids, rng: np.random.Generator) -> Ids:
    return ids if len(ids) <= SAMPLE else np.sort(rng.choice(ids, SAMPLE, replace=False))
