"""How much memory and disk an alignment will take, about, before it is begun."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from decentrl.config import Config
from decentrl.config.memory import score_budget
from decentrl.matching.sparse import LARGE_KEEP
from decentrl.views.fused import FusedViews

# Measured on generated pairs, see docs/scaling.md.
_BASE = 450 << 20  # the interpreter, torch, and what does not depend on the graphs
_COPIES = 1.7  # of all rows of entities, for the time they are made
_EDGE = 250  # of a triple in one direction: places, relations, weights
_PAIR = 60  # of a stored pair, while it is sorted
_SCORES = 1.6  # of a matrix of scores, with what is made of it


@dataclass(frozen=True)
class Needs:
    """Bytes, about.

    Attributes:
        training: while vectors are learned and made.
        matching: while they are compared.
        disk: of the run.
    """

    training: int
    matching: int
    disk: int

    @property
    def memory(self) -> int:
        return max(self.training, self.matching)


def needs(config: Config, entities: tuple[int, int], triples: int) -> Needs:
    """What an alignment of two graphs with so many entities and, together, triples takes."""
    with torch.random.fork_rng(devices=[]), torch.device("meta"):  # nothing is computed
        views = FusedViews(config, 1, 1)
        learned = 0 if views.encoder is None else 3 * getattr(config.model, "dim", 0)
    n, pairs = sum(entities), entities[0] * entities[1]
    rows = 4 * n * (views.dim + sum(views.memories.values()))
    whole = _SCORES * 4 * pairs
    compared = whole if 4 * pairs <= score_budget() else 2 * LARGE_KEEP * n * _PAIR
    return Needs(
        int(_BASE + _COPIES * (rows + 4 * n * learned) + 2 * _EDGE * triples),
        int(_BASE + rows + compared),
        int(rows + 24 * triples + 100 * n),
    )
