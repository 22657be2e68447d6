"""The same gradient every time, to the last bit, also when several threads add it up."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor

from decentrl.config import prediction
from decentrl.graph.adjacency import Adjacency
from decentrl.nn.decoders import make_decoder
from decentrl.nn.distillation import SelfDistillation
from decentrl.nn.losses import hard_sample_loss, joined_dots

MANY = 1024  # times 64: enough for torch to use its threads


@pytest.fixture(autouse=True)
def _two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def randn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def hard_samples(others: Tensor) -> Tensor:
    left, right = randn(MANY, 16, seed=1), randn(MANY, 16, seed=2)
    return hard_sample_loss(left, right, others, torch.zeros(MANY, len(others), dtype=torch.bool))


def pairs_of_joined_vectors(vectors: Tensor) -> Tensor:
    n, count = len(vectors), 64 * MANY
    rng = torch.Generator().manual_seed(3)
    ends = torch.randint(n, (2, count), generator=rng).numpy()
    dots = joined_dots([vectors], Adjacency.from_pairs(ends[0], ends[1], n, n))
    return (dots * randn(count, seed=4)).sum()


def not_detached(teachers: Tensor) -> Tensor:
    torch.manual_seed(0)
    learned = SelfDistillation(16, 16, "infonce").eval()
    ids = torch.arange(8 * MANY) % len(teachers)
    found: Tensor = learned(randn(8 * MANY, 16, seed=5), teachers, ids, ids[:8])
    return found


def questions(name: str) -> Callable[[Tensor], Tensor]:
    def ask(relations: Tensor) -> Tensor:
        decoder = make_decoder(prediction.DECODERS[name](), 2, 16)
        decoder.relations.data.copy_(relations[:, : decoder.relations.shape[1]])
        kinds = torch.arange(8 * MANY) % 4
        asked = decoder.query(randn(8 * MANY, 16, seed=6), kinds)
        (asked * randn(*asked.shape, seed=7)).sum().backward()
        gradient = decoder.relations.grad
        assert gradient is not None
        return (relations[:, : gradient.shape[1]] * gradient).sum()  # whose gradient is that one

    return ask


@pytest.mark.parametrize(
    ("function", "rows"),
    [
        (hard_samples, 512),
        (pairs_of_joined_vectors, 64),
        (not_detached, 32),
        *((questions(name), 4) for name in ("transe", "distmult", "complex", "rotate", "conve")),
    ],
    ids=["hard samples", "pairs", "infonce", "transe", "distmult", "complex", "rotate", "conve"],
)
def test_a_gradient_is_the_same_every_time(function: Callable[[Tensor], Tensor], rows: int) -> None:
    found = []
    for _ in range(6):
        torch.manual_seed(0)
        values = randn(rows, 16, seed=8).requires_grad_()
        found.append(torch.autograd.grad(function(values), values)[0])
    assert found[0].abs().sum() > 0
    assert all(torch.equal(found[0], other) for other in found[1:])
