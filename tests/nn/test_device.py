"""Where tensors live: what is asked for, or what there is."""

from __future__ import annotations

import pytest
import torch

from decentrl.errors import ConfigError
from decentrl.nn.device import cuda_devices, pick_device


def with_cuda(there: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: there)


@pytest.mark.parametrize(
    ("name", "there", "expected"),
    [
        ("auto", True, "cuda"),
        ("auto", False, "cpu"),
        ("cpu", True, "cpu"),
        ("cpu", False, "cpu"),
        ("cuda", True, "cuda"),
    ],
)
def test_a_device_is_what_is_asked_for_or_what_there_is(
    name: str, there: bool, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_cuda(there, monkeypatch)
    assert pick_device(name) == torch.device(expected)


def test_a_device_that_is_not_there_is_said_to_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    with_cuda(False, monkeypatch)
    with pytest.raises(ConfigError, match="no CUDA device here; use --device cpu"):
        pick_device("cuda")


@pytest.mark.parametrize("name", ["gpu", "", "cuda:0", "CPU"])
def test_a_device_nobody_knows_is_named_with_those_there_are(name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        pick_device(name)
    assert str(caught.value) == f"no device {name!r}; there are: auto, cpu, cuda"


def test_random_states_to_fork_are_those_of_the_card_in_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 3)
    assert cuda_devices(torch.device("cuda")) == [3]
    assert cuda_devices(torch.device("cpu")) == []
