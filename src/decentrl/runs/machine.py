"""What a run was made on: the device's name and the memory that was used."""

from __future__ import annotations

import sys
from typing import Any


def device_name(model: Any) -> str:
    """``cpu``, or the card's name."""
    import torch

    cuda = model.device.type == "cuda"
    return f"cuda ({torch.cuda.get_device_name()})" if cuda else "cpu"


def peak_memory(model: Any) -> int:
    """Bytes: of the card where one was used, of the process otherwise; 0 on Windows."""
    import torch

    if model.device.type == "cuda":
        return int(torch.cuda.max_memory_allocated())
    try:
        import resource
    except ImportError:  # Windows
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
