"""States of entities that an encoder reads instead of computing them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class FrozenStates:
    """States that stay as they are while those of other entities are made.

    Args:
        mask: bool[n_entities], whose they are.
        states: what an encoder has made of all its stages, [n_entities, width] each.
    """

    mask: Tensor
    states: Sequence[Tensor]

    def put(self, stage: int, made: Tensor) -> Tensor:
        """The states computed in a stage, with the frozen ones in their places."""
        return torch.where(self.mask[:, None], self.states[stage], made)
