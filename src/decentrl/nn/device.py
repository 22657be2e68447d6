"""The device on which tensors live."""

from __future__ import annotations

import torch

from decentrl.errors import ConfigError


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
