"""Our RMSprop against torch's, bit for bit."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from torch import nn

from decentrl.training.rmsprop import RMSprop


def parameters(seed: int) -> list[nn.Parameter]:
    torch.manual_seed(seed)
    return [
        nn.Parameter(torch.randn(7, 5)),
        nn.Parameter(torch.randn(3)),
        nn.Parameter(torch.ones(2)),
    ]


def descend(
    optimizer: RMSprop | torch.optim.Optimizer, some: list[nn.Parameter], steps: int
) -> None:
    for _ in range(steps):
        (some[0].pow(4).sum() + some[1].cosh().sum()).backward()  # the third has no gradient
        optimizer.step()
        optimizer.zero_grad()


@pytest.mark.parametrize("seed", range(5))
def test_steps_are_those_of_torch(seed):
    ours, theirs = parameters(seed), parameters(seed)
    groups = [{"params": ours[:1], "lr": 0.01}, {"params": ours[1:], "lr": 0.002}]
    others = [{"params": theirs[:1], "lr": 0.01}, {"params": theirs[1:], "lr": 0.002}]
    descend(RMSprop(groups), ours, 20)
    descend(torch.optim.RMSprop(others, alpha=0.9, foreach=False), theirs, 20)
    for mine, other in zip(ours, theirs, strict=True):
        assert torch.equal(mine, other)


def test_a_restored_state_goes_on_as_if_never_stopped():
    whole, parts = parameters(0), parameters(0)
    descend(RMSprop([{"params": whole, "lr": 0.01}]), whole, 10)
    first = RMSprop([{"params": parts, "lr": 0.01}])
    descend(first, parts, 4)
    second = RMSprop([{"params": parts, "lr": 0.01}])
    second.load_state_dict(first.state_dict())
    descend(second, parts, 6)
    assert all(torch.equal(a, b) for a, b in zip(whole, parts, strict=True))
    with pytest.raises(KeyError):
        second.load_state_dict({"state": {9: {"square_avg": torch.ones(1)}}})


def test_a_warm_start_steps_by_the_rate():
    """The first step from v = g² is the learning rate; from v = 0 it is 1 / √0.1 as long."""
    for warm, length in ((True, 0.01), (False, 0.01 / 0.1**0.5)):
        parameter = nn.Parameter(torch.tensor([3.0]))
        (5 * parameter).sum().backward()
        RMSprop([{"params": [parameter], "lr": 0.01}], warm=warm).step()
        assert 3 - parameter.item() == pytest.approx(length, rel=1e-4)


def test_a_training_does_not_import_the_compiler(tmp_path):
    code = (
        "import sys\n"
        "from decentrl import Aligner\n"
        "aligner = Aligner.from_preset('quick', 'training.epochs=1').fit('world')\n"
        f"aligner.save({str(tmp_path / 'run')!r})\n"
        "print('torch._dynamo' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
