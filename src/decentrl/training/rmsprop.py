"""RMSprop, as in torch.optim with ``foreach=False``.

Without what torch's optimizers import: their first step loads torch's compiler, which takes most
of a second of every training.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

ALPHA, EPSILON = 0.9, 1e-8


class RMSprop:
    r"""v ← α v + (1 - α) g², x ← x - lr · g / (√v + ε).

    Args:
        groups: ``params`` and their learning rate ``lr``, as torch's optimizers take them.
        warm: start v from the first g² instead of 0. From 0 the first steps are three times as
            long, which suits random weights but undoes a part of what trained ones have learned.
    """

    def __init__(self, groups: Sequence[dict[str, Any]], *, warm: bool = False) -> None:
        self.param_groups, self.warm = groups, warm
        self._means: dict[nn.Parameter, Tensor] = {}

    @torch.no_grad()
    def step(self) -> None:
        """Move the parameters against their gradients."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if (gradient := parameter.grad) is None:
                    continue
                mean = self._means.get(parameter)
                if mean is None:
                    mean = gradient.square() if self.warm else torch.zeros_like(parameter)
                    self._means[parameter] = mean
                mean.mul_(ALPHA).addcmul_(gradient, gradient, value=1 - ALPHA)
                parameter.addcdiv_(gradient, mean.sqrt().add_(EPSILON), value=-group["lr"])

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget all gradients."""
        for parameter in self._parameters():
            parameter.grad = None if set_to_none else torch.zeros_like(parameter)

    def state_dict(self) -> dict[str, Any]:
        """The running means of all parameters that have had a gradient, by their numbers."""
        numbered = enumerate(self._parameters())
        means = {i: {"square_avg": self._means[p]} for i, p in numbered if p in self._means}
        return {"state": means}

    def load_state_dict(self, states: Mapping[str, Any]) -> None:
        """Go on from a :meth:`state_dict`."""
        parameters = dict(enumerate(self._parameters()))
        self._means = {
            parameters[i]: state["square_avg"].to(parameters[i]).view_as(parameters[i])
            for i, state in states["state"].items()
        }

    def _parameters(self) -> list[nn.Parameter]:
        return [parameter for group in self.param_groups for parameter in group["params"]]
