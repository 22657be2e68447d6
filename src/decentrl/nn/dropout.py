"""Dropout that draws bytes, and a context with dropout off."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class ByteDropout(nn.Module):
    """Set a share of the entries to 0 while training, and scale up the rest.

    torch draws a number an entry on a CPU, on one core, which costs more than the layer around it.
    Here one draw serves eight entries, a byte for each; so the share is a multiple of 1/256.
    """

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share

    def forward(self, values: Tensor) -> Tensor:
        if not self.training or not self.share:
            return values
        if values.is_cuda:
            return F.dropout(values, self.share)
        dropped = round(self.share * 256)
        if dropped == 256:  # a byte has no such value
            return values * 0
        words = torch.empty((values.numel() + 7) // 8, dtype=torch.int64)
        words.random_(-(2**63), None)
        kept = words.view(torch.uint8)[: values.numel()].view(values.shape) >= dropped
        return values * (kept.to(values.dtype) * (256 / (256 - dropped)))


@contextmanager
def eval_mode(model: nn.Module) -> Iterator[None]:
    """Put a model into evaluation mode, and back as it was."""
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)
