"""Where tensors live."""

from __future__ import annotations

import torch

from decentrl.errors import ConfigError


def pick_device(name: str) -> torch.device:
    """``auto`` is CUDA where there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name not in ("cpu", "cuda"):
        raise ConfigError(f"no device {name!r}; there are: auto, cpu, cuda")
    if name == "cuda" and not torch.cuda.is_available():
        raise ConfigError("there is no CUDA device here; use --device cpu")
    return torch.device(name)


def cuda_devices(device: torch.device) -> list[int]:
    """What ``torch.random.fork_rng`` has to fork."""
    return [torch.cuda.current_device()] if device.type == "cuda" else []
