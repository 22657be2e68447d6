"""Distances of joined vectors, without joining them; and the loss that pulls and pushes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from decentrl.graph.adjacency import Adjacency
from decentrl.nn.aggregate import RowNorm
from decentrl.nn.alignment import join
from decentrl.nn.losses import contrastive_alignment_loss, joined_dots

N, D = 7, 5


@pytest.fixture
def pairs() -> Adjacency:
    """Each of fifteen pairs of seven vectors, some of them twice, some of a vector with itself."""
    ends = np.random.default_rng(0).integers(0, N, (2, 15))
    return Adjacency.from_pairs(*ends, N, N)


def random_parts(*, empty: bool) -> list[Tensor]:
    parts = torch.randn(3, N, D, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    if empty:
        parts[0, 2] = parts[1, 2] = parts[2, 4] = 0
        parts[:, 5] = 0  # an entity without any part
    return [part.clone().requires_grad_() for part in parts]


@pytest.mark.parametrize("empty", [False, True])
def test_joined_dots_are_the_dots_of_joined_vectors(pairs: Adjacency, empty: bool) -> None:
    parts = random_parts(empty=empty)
    joined = join(parts)
    expected = (joined[pairs.rows] * joined[pairs.columns]).sum(-1)
    torch.testing.assert_close(joined_dots(parts, pairs), expected)


def test_their_gradient_is_that_of_joining(pairs: Adjacency) -> None:
    parts = random_parts(empty=False)
    joined = join(parts)
    dots = (joined[pairs.rows] * joined[pairs.columns]).sum(-1)
    toward = torch.linspace(-1, 1, pairs.n_edges, dtype=torch.float64)
    expected = torch.autograd.grad(dots, parts, toward)
    found = torch.autograd.grad(joined_dots(parts, pairs), parts, toward)
    torch.testing.assert_close(found, expected)


def test_a_part_that_is_missing_disturbs_no_other_gradient(pairs: Adjacency) -> None:
    parts = random_parts(empty=True)
    seen = [part.detach().any(1, keepdim=True) for part in parts]
    masked = [part * mask for part, mask in zip(parts, seen, strict=True)]
    joined = join(masked)
    expected = torch.autograd.grad(
        (joined[pairs.rows] * joined[pairs.columns]).sum(), parts, retain_graph=True
    )
    found = torch.autograd.grad(joined_dots(masked, pairs).sum(), parts)
    torch.testing.assert_close(found, expected)
    assert all(gradient.isfinite().all() for gradient in found)


def test_lengths_that_a_normalisation_fixed_need_no_gradient(pairs: Adjacency) -> None:
    raw = [1000 * part for part in random_parts(empty=False)]  # so that its ε does not matter
    parts = [RowNorm()(rows) for rows in raw]
    slow = torch.autograd.grad(joined_dots(parts, pairs).sum(), raw, retain_graph=True)
    quick = torch.autograd.grad(joined_dots(parts, pairs, constant_length=True).sum(), raw)
    torch.testing.assert_close(quick, slow, rtol=1e-6, atol=1e-9)


def test_the_contrastive_loss_by_hand() -> None:
    near, far = torch.tensor([1.0, 0.5]), torch.tensor([0.5, -1.0])
    # Squared distances 2 - 2 · dot: 0 and 1 near; 1 and 4 far, of which only 1 is within λ.
    loss = contrastive_alignment_loss(near, far, margin=1.5, weight=0.1)
    assert loss.item() == pytest.approx(0 + 1 + 0.1 * 0.5)
    loss = contrastive_alignment_loss(near, far, margin=2.5, weight=0.1, squared=False)
    assert loss.item() == pytest.approx(0 + 1 + 0.1 * (1.5 + 0.5), abs=1e-5)


@pytest.mark.parametrize("squared", [True, False])
def test_far_enough_pairs_are_left_alone(squared: bool) -> None:
    far = torch.tensor([-0.9], requires_grad=True)
    contrastive_alignment_loss(torch.ones(0), far, squared=squared).backward()
    assert far.grad.item() == 0


def test_pairs_that_coincide_have_a_finite_gradient_under_the_root() -> None:
    near = torch.tensor([1.0, 1.0000001], requires_grad=True)
    contrastive_alignment_loss(near, torch.ones(0), squared=False).backward()
    assert near.grad.isfinite().all()
