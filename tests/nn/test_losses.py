"""Distances of joined vectors, without joining them; and the losses that pull and push."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from decentrl.graph.adjacency import Adjacency
from decentrl.nn.aggregate import RowNorm
from decentrl.nn.losses import (
    contrastive_alignment_loss,
    hard_sample_loss,
    highest_columns,
    join,
    joined_dots,
)

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


def test_far_enough_pairs_are_left_alone() -> None:
    far = torch.tensor([-0.9], requires_grad=True)
    contrastive_alignment_loss(torch.ones(0), far).backward()
    assert far.grad.item() == 0


# The loss over the hardest others.


def linked_vectors(
    n_links: int, n_others: int, dim: int, seed: int = 0, dtype: torch.dtype = torch.float64
) -> tuple[list[Tensor], Tensor]:
    """Links of unit vectors near each other, others to tell them from, and whose own these are.

    The others begin with both ends of each link, as they do in training.
    """
    random = torch.Generator().manual_seed(seed)
    left = torch.randn(n_links, dim, dtype=dtype, generator=random)
    right = left + 0.5 * torch.randn(n_links, dim, dtype=dtype, generator=random)
    rest = torch.randn(n_others - 2 * n_links, dim, dtype=dtype, generator=random)
    left, right, rest = (F.normalize(part, dim=-1) for part in (left, right, rest))
    others = torch.cat((left, right, rest))
    links = torch.arange(n_links)
    own = torch.zeros(n_links, n_others, dtype=torch.bool)
    own[links, links] = own[links, n_links + links] = True
    return [part.clone().requires_grad_() for part in (left, right, others)], own


def dense_hard_sample_loss(
    left: Tensor, right: Tensor, others: Tensor, own: Tensor, scale: float
) -> Tensor:
    """The formula, link by link."""
    total = left.new_zeros(())
    for a, b, mine in zip(left, right, own, strict=True):
        for side in (a, b):
            apart = (side - others[~mine]).square().sum(-1)
            margins = (a - b).square().sum() - apart
            fixed = margins.detach()
            z = (margins - fixed.mean()) / fixed.std(correction=0)
            total = total + (scale * z).exp().sum().log()
    return total / len(left)


@pytest.mark.parametrize("hardest", [14, 16, 40])  # 14 are nobody's own
@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_over_all_others_the_hard_sample_loss_is_its_formula(scale: float, hardest: int) -> None:
    inputs, own = linked_vectors(5, 16, 6)
    own[0, 12] = True  # an entity may be in several links, so rows may exclude unequal numbers
    found = hard_sample_loss(*inputs, own, scale=scale, hardest=hardest)
    expected = dense_hard_sample_loss(*inputs, own, scale)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(
        torch.autograd.grad(found, inputs), torch.autograd.grad(expected, inputs)
    )


def test_the_formula_may_exclude_nobody() -> None:
    inputs, own = linked_vectors(4, 12, 6)
    own[:] = False
    found = hard_sample_loss(*inputs, own, scale=2.0)
    torch.testing.assert_close(found, dense_hard_sample_loss(*inputs, own, 2.0))


def test_the_hardest_others_are_most_of_the_sum() -> None:
    inputs, own = linked_vectors(20, 500, 32)
    whole = hard_sample_loss(*inputs, own, hardest=500)
    of_all = torch.cat(torch.autograd.grad(whole, inputs))
    losses = []
    for hardest in (1, 8, 64):
        losses.append(hard_sample_loss(*inputs, own, hardest=hardest))
        assert losses[-1] <= whole
    assert losses[0] < losses[1] < losses[2]
    torch.testing.assert_close(losses[-1], whole, rtol=1e-6, atol=0)
    of_some = torch.cat(torch.autograd.grad(losses[-1], inputs))
    assert (of_some - of_all).norm() < 1e-4 * of_all.norm()


def test_single_precision_suffices_for_the_hardest() -> None:
    inputs, own = linked_vectors(20, 500, 32)
    single = [part.detach().float().requires_grad_() for part in inputs]
    found, expected = hard_sample_loss(*single, own), hard_sample_loss(*inputs, own)
    torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=0)
    of_single = torch.cat(torch.autograd.grad(found, single)).double()
    of_double = torch.cat(torch.autograd.grad(expected, inputs))
    assert (of_single - of_double).norm() < 1e-3 * of_double.norm()


@pytest.mark.parametrize("hardest", [3, 12])
def test_an_own_entity_never_counts_wherever_it_lies(hardest: int) -> None:
    (left, right, others), own = linked_vectors(1, 12, 6)
    expected = hard_sample_loss(left, right, others, own, hardest=hardest)
    for moved_to in (left.detach(), -10 * left.detach()):  # the hardest, and the easiest of all
        moved = others.detach().clone()
        moved[:2] = moved_to
        moved.requires_grad_()
        found = hard_sample_loss(left, right, moved, own, hardest=hardest)
        torch.testing.assert_close(found, expected)
        gradients = torch.autograd.grad(found, (left, right, moved))
        assert not gradients[2][:2].any()
        assert gradients[2][2:].any()
        assert all(gradient.isfinite().all() for gradient in gradients)


def test_a_step_down_the_hard_sample_loss_moves_linked_vectors_together_and_others_away() -> None:
    (left, right, others), own = linked_vectors(10, 200, 16)
    gradients = torch.autograd.grad(hard_sample_loss(left, right, others, own), (left, right))
    # To first order, how the squared distance of each link changes with such a step.
    change = -2 * ((left - right) * (gradients[0] - gradients[1])).sum(-1)
    assert (change < 0).all()

    apart = (left[:, None] - others).square().sum(-1).masked_fill(own, torch.inf)
    nearest = others[apart.argmin(1)]
    away = -2 * ((left - nearest) * gradients[0]).sum(-1)
    assert away.sum() > 0


def test_the_hard_sample_loss_falls_as_its_steps_are_taken() -> None:
    (left, right, others), own = linked_vectors(10, 100, 16)
    losses, distances = [], []
    for _ in range(30):
        loss = hard_sample_loss(left, right, others, own)
        losses.append(loss.item())
        distances.append((left - right).square().sum(-1).mean().item())
        with torch.no_grad():
            for part, gradient in zip(
                (left, right), torch.autograd.grad(loss, (left, right)), strict=True
            ):
                part.copy_(F.normalize(part - 0.01 * gradient, dim=-1))
    assert losses[-1] < losses[0]
    assert distances[-1] < distances[0]


def test_others_that_all_lie_in_one_place_leave_the_loss_finite() -> None:
    left, right = torch.randn(2, 3, 4).unbind(0)
    others = torch.ones(5, 4, requires_grad=True)
    loss = hard_sample_loss(left, right, others, torch.zeros(3, 5, dtype=torch.bool))
    assert loss.isfinite()
    assert torch.autograd.grad(loss, others)[0].isfinite().all()


def test_a_link_that_has_nobody_to_be_told_apart_from_adds_nothing() -> None:
    (left, right, others), own = linked_vectors(3, 12, 4)
    own[1] = True
    loss = hard_sample_loss(left, right, others, own)
    rest = [0, 2]
    alone = hard_sample_loss(left[rest], right[rest], others, own[rest])
    torch.testing.assert_close(loss, alone * 2 / 3)  # a mean over the links, of which one is 0
    gradients = torch.autograd.grad(loss, (left, right, others))
    assert all(gradient.isfinite().all() for gradient in gradients)
    assert not gradients[0][1].any()
    assert not gradients[1][1].any()
    assert gradients[0][rest].any(1).all()


def test_where_nobody_is_left_to_be_told_apart_the_loss_is_zero() -> None:
    (left, right, others), own = linked_vectors(2, 5, 4)
    loss = hard_sample_loss(left, right, others, torch.ones_like(own))
    assert loss.item() == 0
    assert all(not part.any() for part in torch.autograd.grad(loss, (left, right, others)))


def test_join_weighs_every_part_alike() -> None:
    parts = [torch.tensor([[3.0, 4.0]]), torch.tensor([[0.0, 100.0]])]
    expected = F.normalize(torch.tensor([[0.6, 0.8, 0.0, 1.0]]), dim=-1)
    torch.testing.assert_close(join(parts), expected)


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("n", [64, 1024])  # few scores, and as many as in a step
def test_the_highest_columns_are_those_of_a_sort(n: int, ties: bool) -> None:
    scores = torch.randn(n, 1100, generator=torch.Generator().manual_seed(0))
    scores[:, 7] = -torch.inf
    if ties:
        scores = scores.round(decimals=1)
    found = highest_columns(scores, 64)
    assert found.shape == (n, 64)
    assert (found.diff(dim=1) > 0).all()
    expected = scores.sort(1, descending=True).values[:, :64]
    assert scores.gather(1, found).sort(1, descending=True).values.equal(expected)
