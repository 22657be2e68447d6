"""A checkpoint brings everything back, and notices when it is not what was written."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from decentrl.errors import BundleError
from decentrl.training.checkpoint import FILE, load_checkpoint, save_checkpoint

PROGRESS = {"history": [{"epoch": 1, "loss": 0.1 + 0.2}], "misses": 1, "best_value": 1 / 3}


class Parts:
    """What a checkpoint is made of, after some steps."""

    def __init__(self, seed: int = 0, steps: int = 3, width: int = 3) -> None:
        torch.manual_seed(seed)
        self.model = nn.Sequential(nn.Linear(width, 2), nn.Dropout(0.5))
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.1, fused=True)
        self.rng = np.random.default_rng(seed)
        self.width = width
        for _ in range(steps):
            self.step()
        self.best = {name: tensor.clone() for name, tensor in self.model.state_dict().items()}

    def step(self) -> Tensor:
        """A step that depends on the weights, the optimizer and both random states."""
        x = torch.from_numpy(self.rng.random((4, self.width), np.float32))
        self.optimizer.zero_grad()
        self.model(x).square().sum().backward()
        self.optimizer.step()
        return torch.cat([p.detach().reshape(-1).clone() for p in self.model.parameters()])

    def save(self, folder: Path) -> None:
        save_checkpoint(folder, self.model, self.optimizer, self.rng, self.best, **PROGRESS)

    def load(self, folder: Path) -> dict[str, Any] | None:
        return load_checkpoint(folder, self.model, self.optimizer, self.rng)


@pytest.fixture(autouse=True)
def _own_random_state() -> Any:
    with torch.random.fork_rng(devices=[]):
        yield


def test_the_steps_after_loading_are_those_after_saving(tmp_path: Path) -> None:
    before = Parts()
    before.save(tmp_path)
    expected = [before.step() for _ in range(3)]
    after = Parts(seed=7, steps=1)
    restored = after.load(tmp_path)
    assert restored is not None
    best = restored.pop("best")
    assert restored == PROGRESS
    assert all(torch.equal(tensor, before.best[name]) for name, tensor in best.items())
    assert all(torch.equal(after.step(), step) for step in expected)


def test_without_a_file_there_is_nothing_to_load(tmp_path: Path) -> None:
    assert Parts().load(tmp_path / "absent") is None


def test_a_write_that_fails_leaves_the_last_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Parts().save(tmp_path)
    before = (tmp_path / FILE).read_bytes()

    def half(file: int) -> None:
        os.ftruncate(file, len(before) // 2)
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", half)
    with pytest.raises(OSError, match="no space"):
        Parts(seed=1).save(tmp_path)
    assert (tmp_path / FILE).read_bytes() == before


def test_killed_while_saving_it_leaves_nothing_that_the_next_save_does_not_replace(
    tmp_path: Path,
) -> None:
    chance = random.Random(0)
    for _ in range(20):
        child = os.fork()
        if child == 0:
            parts = Parts(width=2**16)
            while True:
                parts.save(tmp_path)
        while not (tmp_path / FILE).exists():
            time.sleep(0.001)
        time.sleep(chance.uniform(0, 0.05))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        assert {path.name for path in tmp_path.iterdir()} <= {FILE, f"{FILE}.part"}
    assert Parts(width=2**16).load(tmp_path) is not None


def test_the_checkpoint_of_another_model_is_told(tmp_path: Path) -> None:
    Parts(width=4).save(tmp_path)
    with pytest.raises(BundleError, match=r"checkpoint\.safetensors: .*another model; delete it"):
        Parts(width=3).load(tmp_path)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoint")
    with torch.random.fork_rng(devices=[]):
        Parts().save(folder)
    return folder


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_no_changed_byte_is_trained_on(written: Path, data: st.DataObject) -> None:
    file = written / FILE
    content = file.read_bytes()
    place = data.draw(st.integers(0, len(content) - 1))
    other = data.draw(st.integers(0, 255).filter(lambda x: x != content[place]))
    file.write_bytes(content[:place] + bytes([other]) + content[place + 1 :])
    parts, said = Parts(seed=1), ""
    try:
        parts.load(written)
    except BundleError as error:
        said = str(error)
    finally:
        file.write_bytes(content)
    if said:
        assert said.startswith(f"{file}: ")
        assert "\n" not in said
    else:  # white space in the header
        expected, found = Parts().model.state_dict(), parts.model.state_dict()
        assert all(torch.equal(found[name], tensor) for name, tensor in expected.items())
        assert parts.rng.bit_generator.state == Parts().rng.bit_generator.state


@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_a_cut_off_checkpoint_is_told(written: Path, data: st.DataObject) -> None:
    file = written / FILE
    content = file.read_bytes()
    file.write_bytes(content[: data.draw(st.integers(0, len(content) - 1))])
    try:
        with pytest.raises(BundleError, match=r"checkpoint\.safetensors: .*damaged"):
            Parts(seed=1).load(written)
    finally:
        file.write_bytes(content)


def test_a_changed_weight_is_noticed(written: Path) -> None:
    file = written / FILE
    content = file.read_bytes()
    file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    try:
        with pytest.raises(BundleError, match="the checksum differs"):
            Parts(seed=1).load(written)
    finally:
        file.write_bytes(content)
