"""A byte an entry decides who stays."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from decentrl.nn.running import ByteDropout

MANY = 200_000
shares = pytest.mark.parametrize("share", [1 / 256, 0.25, 0.3, 0.5, 0.9, 255 / 256])


def in_bytes(share: float) -> float:
    """The multiple of 1/256 that is meant."""
    return round(share * 256) / 256


@shares
def test_a_share_is_dropped_and_the_rest_scaled_so_that_the_mean_stays(share: float) -> None:
    torch.manual_seed(0)
    values = ByteDropout(share)(torch.ones(MANY))
    meant = in_bytes(share)
    found = (values == 0).double().mean().item()
    assert abs(found - meant) < 5 * (meant * (1 - meant) / MANY) ** 0.5
    scale = torch.tensor(1 / (1 - meant))
    torch.testing.assert_close(values[values != 0], scale.expand(int((values != 0).sum())))
    noise = (meant / (1 - meant) / MANY) ** 0.5
    assert abs(values.double().mean().item() - 1) < 5 * noise


def test_each_entry_is_decided_for_itself() -> None:
    torch.manual_seed(0)
    kept = (ByteDropout(0.5)(torch.ones(MANY)) != 0).double().view(-1, 8)  # a draw serves eight
    together = kept.T @ kept / len(kept)
    expected = torch.full((8, 8), 0.25).double().fill_diagonal_(0.5)
    torch.testing.assert_close(together, expected, rtol=0, atol=0.02)
    along = (kept[:-1] * kept[1:]).mean(0)
    torch.testing.assert_close(along, torch.full((8,), 0.25).double(), rtol=0, atol=0.02)


@shares
def test_it_is_off_outside_training(share: float) -> None:
    values = torch.randn(100)
    assert torch.equal(ByteDropout(share).eval()(values), values)


def test_a_share_of_nothing_changes_nothing_and_draws_nothing() -> None:
    torch.manual_seed(0)
    expected = torch.rand(1)
    torch.manual_seed(0)
    values = torch.arange(10.0)
    assert torch.equal(ByteDropout(0.0)(values), values)
    assert torch.equal(torch.rand(1), expected)


def test_a_share_of_everything_leaves_zeros() -> None:
    values = torch.randn(3, 5)
    assert torch.equal(ByteDropout(1.0)(values), torch.zeros(3, 5))


def test_a_share_of_everything_still_has_a_gradient_which_is_zero() -> None:
    values = torch.randn(3, 5, requires_grad=True)
    (gradient,) = torch.autograd.grad(ByteDropout(1.0)(values).sum(), values)
    assert torch.equal(gradient, torch.zeros(3, 5))


def test_a_seed_repeats_the_choice_and_the_next_draw_is_another() -> None:
    dropout, values = ByteDropout(0.5), torch.ones(1000)
    torch.manual_seed(1)
    first, second = dropout(values), dropout(values)
    torch.manual_seed(1)
    assert torch.equal(dropout(values), first)
    assert not torch.equal(first, second)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@given(st.lists(st.integers(0, 7), max_size=3), st.booleans())
@settings(deadline=None, max_examples=50)
def test_any_shape_is_taken_also_one_that_eight_does_not_divide(
    dtype: torch.dtype, shape: list[int], turned: bool
) -> None:
    values = torch.ones(shape, dtype=dtype)
    if turned and len(shape) > 1:
        values = values.transpose(0, 1)  # no longer in one piece
    thinned = ByteDropout(0.5)(values)
    assert thinned.shape == values.shape
    assert thinned.dtype == dtype
    assert ((thinned == 0) | (thinned == 2)).all()
    assert (values == 1).all()


def test_every_place_is_dropped_at_some_time_and_kept_at_some_time() -> None:
    torch.manual_seed(0)
    kept = torch.stack([ByteDropout(0.5)(torch.ones(13)) != 0 for _ in range(100)])
    assert kept.any(0).all()
    assert not kept.all(0).any()


def test_the_gradient_passes_where_the_value_did() -> None:
    torch.manual_seed(0)
    values = (1 + torch.rand(13, 11)).requires_grad_()
    thinned = ByteDropout(0.25)(values)
    toward = torch.randn(13, 11)
    (gradient,) = torch.autograd.grad(thinned, values, toward)
    mask = thinned.detach() / values.detach()
    assert (mask == 0).any()
    torch.testing.assert_close(gradient, mask * toward)
