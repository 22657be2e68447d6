"""Vectors of entities that come later, from a frozen model: nothing is trained.

What is made of a new entity is a *row*: its vector, and what entities that come after it will read
of it (the encoder's states, its input embedding, the propagated seeds). Rows of all others are read
from memory and stay as they are, so a row costs what the entity's own triples cost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from decentrl.scorers.base import Scorer
from decentrl.views.fused import FusedViews
from decentrl.views.part import Mask, Part

VECTORS = "vectors"
SMALL = 1000
"""Triples up to which one thread works alone."""


@dataclass(frozen=True, eq=False)
class Newcomers:
    """Makes rows of new entities with a frozen model.

    Attributes:
        frozen: the frozen model. Its ``newcomers`` makes rows of all entities of a part, its
            ``attentions`` says which neighbours they are made of: the weights of a row sum to 1,
            less the share of its name, and every attention layer has the same share.
        distillation: the self-distillation of its ``encoder``, if it has one.
        widths: how wide each part of a row is, in their order; the vector comes first.
        reach: how many steps through new entities the effect of a triple goes.
        seen_relations: bool[n_relations], those that training has seen; of two graphs the left
            one's first. Triples use these ids.
        reads_two_hops: whether an entity reads its neighbours' neighbours.
        shared: memories that do not belong to one entity.
        reads_names: whether an entity's vector is also made of its names.
    """

    frozen: FusedViews | Scorer
    distillation: Any
    widths: dict[str, int]
    reach: int
    seen_relations: Mask
    device: torch.device
    reads_two_hops: bool
    shared: Mapping[str, Tensor]
    reads_names: bool = False

    @property
    def width(self) -> int:
        """Width of a row."""
        return sum(self.widths.values())

    def split(self, rows: Tensor) -> dict[str, Tensor]:
        """The parts of rows, [k, width], by their names."""
        parts = torch.split(rows, list(self.widths.values()), dim=1)
        return dict(zip(self.widths, parts, strict=True))

    def rows(self, part: Part) -> Tensor:
        """Rows of the new entities of a part, [k, width]."""
        if not part.hood.new.any():
            return torch.zeros(0, self.width)
        with _one_thread_if(len(part.hood.triples) <= SMALL):
            made = self.frozen.newcomers(part)
            parts = {VECTORS: made.vectors, **made.memory}
            return torch.cat([parts[name][part.new] for name in self.widths], 1).cpu()


@contextmanager
def _one_thread_if(few: bool) -> Iterator[None]:
    """One thread for little work: several wait longer for each other than they work."""
    threads = torch.get_num_threads()
    if not few or threads == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
