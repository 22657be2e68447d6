"""Checkpoints: all state of a training in one file, written atomically."""

from __future__ import annotations

import json
import os
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from decentrl.errors import BundleError, writing
from decentrl.training.rmsprop import RMSprop

FILE = "checkpoint.safetensors"
Optimizer = torch.optim.Optimizer | RMSprop


def save_checkpoint(
    folder: Path,
    model: nn.Module,
    optimizer: Optimizer,
    rng: np.random.Generator,
    best: dict[str, Tensor],
    **progress: Any,
) -> None:
    """Write weights, optimizer, best weights so far, all random states and ``progress`` (JSON)."""
    tensors = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    tensors |= {f"best.{name}": tensor for name, tensor in best.items()}
    for index, state in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{index}.{name}": tensor for name, tensor in state.items()}
    tensors["random.cpu"] = torch.get_rng_state()
    if torch.cuda.is_available():
        tensors["random.cuda"] = torch.cuda.get_rng_state()
    state = json.dumps({"progress": progress, "numpy": rng.bit_generator.state})
    folder.mkdir(parents=True, exist_ok=True)
    temporary = folder / f"{FILE}.part"
    contiguous = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    checksum = str(_checksum(state, contiguous))
    temporary.unlink(missing_ok=True)  # it may be a link to anywhere
    with writing(folder / FILE), temporary.open("xb") as file:
        # Not save_file: killed, it would leave a temporary file of a random name.
        file.write(save(contiguous, metadata={"state": state, "crc32": checksum}))
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(folder / FILE)


def load_checkpoint(
    folder: Path,
    model: nn.Module,
    optimizer: Optimizer,
    rng: np.random.Generator,
) -> dict[str, Any] | None:
    """Restore a checkpoint; returns the progress and its ``best`` weights, or None without one."""
    path = folder / FILE
    if not path.exists():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata()
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if metadata["crc32"] != str(_checksum(metadata["state"], tensors)):
            raise ValueError("the checksum differs")
        state = json.loads(metadata["state"])
        model.load_state_dict(_strip(tensors, "model."))
        states = optimizer.state_dict() | {"state": {}}
        for key, tensor in _strip(tensors, "optimizer.").items():
            index, name = key.split(".", 1)
            states["state"].setdefault(int(index), {})[name] = tensor
        optimizer.load_state_dict(states)
    except (SafetensorError, OSError, KeyError, TypeError, ValueError, RuntimeError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise BundleError(
            f"{path}: this checkpoint is damaged or of another model; "
            f"delete it to start over ({reason})"
        ) from error
    torch.set_rng_state(tensors["random.cpu"])
    if torch.cuda.is_available() and "random.cuda" in tensors:
        torch.cuda.set_rng_state(tensors["random.cuda"])
    rng.bit_generator.state = state["numpy"]
    return {"best": _strip(tensors, "best."), **state["progress"]}


def _checksum(state: str, tensors: dict[str, Tensor]) -> int:
    """CRC-32 of all that is restored: safetensors itself does not detect a changed weight."""
    total = zlib.crc32(state.encode())
    for name, tensor in sorted(tensors.items()):
        total = zlib.crc32(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode(), total)
        total = zlib.crc32(tensor.reshape(-1).view(torch.uint8).numpy().data, total)
    return total


def _strip(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}
