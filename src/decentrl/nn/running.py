"""How a network is run: on which device, with dropout or without, with which states frozen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from decentrl.errors import ConfigError


def all_finite(tensor: Tensor) -> bool:
    """Whether no number is infinite or NaN: in one pass, as their sum tells it nearly always."""
    return bool(tensor.sum().isfinite() or tensor.isfinite().all())


def pick_device(device: str | int | torch.device = "auto") -> torch.device:
    """The device of this name, if it is available here.

    Args:
        device: ``auto`` (CUDA if there is one, otherwise the CPU), or what ``torch.device`` takes:
            ``cpu``, ``cuda``, ``cuda:1``, ``mps``, a number, or a ``torch.device``.
    """
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        found = torch.device(device)
    except (RuntimeError, TypeError):
        raise ConfigError(
            f"no device {device!r}; there are: auto, cpu, cuda, cuda:N, mps"
        ) from None
    if found.type == "cpu":
        return torch.device("cpu")
    if found.type == "cuda":
        if not torch.cuda.is_available():
            raise ConfigError("there is no CUDA device here; use --device cpu")
        if (found.index or 0) >= (n := torch.cuda.device_count()):
            raise ConfigError(f"there is no device {found} here; use cuda:0 to cuda:{n - 1}")
        return found
    try:
        torch.zeros(1, device=found).item()  # some devices have a name but hold no tensors
    except (RuntimeError, NotImplementedError, AssertionError, ImportError):
        raise ConfigError(f"the device {found} cannot be used here; use --device cpu") from None
    return found


def cuda_devices(device: torch.device) -> list[int]:
    """The CUDA devices whose random state ``torch.random.fork_rng`` has to fork."""
    if device.type != "cuda":
        return []
    return [torch.cuda.current_device() if device.index is None else device.index]


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
    if not model.training:  # going over all modules is a part of what one new entity costs
        yield
        return
    model.eval()
    try:
        yield
    finally:
        model.train()


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
