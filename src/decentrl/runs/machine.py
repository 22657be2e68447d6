"""What a run was made on: the device's name and the memory that was used."""

from __future__ import annotations

import ctypes
import sys
from typing import Any


def device_name(model: Any) -> str:
    """``cpu``, or the card's name."""
    import torch

    cuda = model.device.type == "cuda"
    return f"cuda ({torch.cuda.get_device_name()})" if cuda else "cpu"


def peak_memory(model: Any) -> int:
    """Bytes: of the card where one was used, of the process otherwise; 0 if it is not known."""
    import torch

    if model.device.type == "cuda":
        return int(torch.cuda.max_memory_allocated())
    try:
        import resource
    except ImportError:  # Windows
        return _windows_peak()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


class _Counters(ctypes.Structure):
    """``PROCESS_MEMORY_COUNTERS`` of Windows."""

    _fields_ = (
        ("size", ctypes.c_uint32),
        ("page_faults", ctypes.c_uint32),
        ("peak_working_set", ctypes.c_size_t),
        *((f"other_{i}", ctypes.c_size_t) for i in range(7)),
    )


def _windows_peak() -> int:
    windows: Any = getattr(ctypes, "windll", None)
    if windows is None:
        return 0
    counters = _Counters(size=ctypes.sizeof(_Counters))
    process = ctypes.c_void_p(windows.kernel32.GetCurrentProcess())
    found = windows.psapi.GetProcessMemoryInfo(process, ctypes.byref(counters), counters.size)
    return int(counters.peak_working_set) if found else 0
