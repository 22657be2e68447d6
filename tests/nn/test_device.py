"""Where tensors live: what is asked for, or what there is."""

from __future__ import annotations

import pytest
import torch

from decentrl.errors import ConfigError
from decentrl.nn.running import cuda_devices, pick_device


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
    monkeypatch.setattr(torch.cuda, "device_count", lambda: int(there))
    assert pick_device(name) == torch.device(expected)


def test_a_device_that_is_not_there_is_said_to_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    with_cuda(False, monkeypatch)
    with pytest.raises(ConfigError, match="no CUDA device here; use --device cpu"):
        pick_device("cuda")


@pytest.mark.parametrize("name", ["gpu", "", "CPU", "cuda:x", None])
def test_a_name_that_torch_does_not_know_is_named_with_those_there_are(name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        pick_device(name)
    known = "auto, cpu, cuda, cuda:N, mps"
    assert str(caught.value) == f"no device {name!r}; there are: {known}"


def test_devices_of_torch_are_taken_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    with_cuda(True, monkeypatch)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert pick_device("cuda:1") == torch.device("cuda", 1)
    assert pick_device(torch.device("cuda:0")) == torch.device("cuda", 0)
    assert pick_device(torch.device("cpu")) == pick_device("cpu:0") == torch.device("cpu")
    with pytest.raises(ConfigError, match="no device cuda:2 here; use cuda:0 to cuda:1"):
        pick_device("cuda:2")


@pytest.mark.parametrize("name", ["mps", "meta", torch.device("mps")])
def test_a_device_that_holds_no_tensors_here_is_an_error(
    name: str | torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(*_: object, device: torch.device) -> torch.Tensor:
        raise RuntimeError(f"no {device}")

    if str(name) == "mps":  # so that the test also fails where there is one
        monkeypatch.setattr(torch, "zeros", absent)
    with pytest.raises(ConfigError, match=f"the device {name} cannot be used here; use --device"):
        pick_device(name)


def test_mps_is_used_where_it_holds_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "zeros", lambda *_, device: torch.tensor([0.0]))
    assert pick_device("mps") == torch.device("mps")


def test_random_states_to_fork_are_those_of_the_card_in_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 3)
    assert cuda_devices(torch.device("cuda")) == [3]
    assert cuda_devices(torch.device("cuda:1")) == [1]
    assert cuda_devices(torch.device("cpu")) == cuda_devices(torch.device("mps")) == []
