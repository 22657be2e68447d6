"""Recording which attention layers of a model were called, and with what."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn

Call = tuple[Any, tuple[Any, ...]]
"""A layer and the inputs of one call."""


@contextmanager
def attention_log(model: nn.Module, *kinds: type[nn.Module]) -> Iterator[list[Call]]:
    """Every call of layers of these kinds while the block runs."""
    calls: list[Call] = []

    def record(layer: nn.Module, inputs: tuple[Any, ...], _: Any) -> None:
        calls.append((layer, inputs))

    layers = [layer for layer in model.modules() if isinstance(layer, kinds)]
    handles = [layer.register_forward_hook(record) for layer in layers]
    try:
        yield calls
    finally:
        for handle in handles:
            handle.remove()
