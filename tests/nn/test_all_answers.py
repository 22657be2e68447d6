"""The loss over all answers, made in blocks, is that of dense algebra, and so is its gradient."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck

from decentrl.nn import all_answers as answers
from decentrl.nn.all_answers import answer_loss

B, N, D = 6, 9, 4
# Question 0 has three right answers, question 3 has none, questions 1 and 4 share one.
ROWS = torch.tensor([0, 0, 0, 1, 2, 2, 4, 5])
COLUMNS = torch.tensor([1, 4, 8, 2, 0, 1, 2, 7])

smoothings = pytest.mark.parametrize("smoothing", [0.0, 0.1, 1.0])
with_and_without_bias = pytest.mark.parametrize("biased", [False, True], ids=["plain", "bias"])


def randn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def inputs(biased: bool = True) -> list[Tensor | None]:
    parts = [2 * randn(B, D), randn(N, D, seed=1), randn(N, seed=2) if biased else None]
    return [None if part is None else part.requires_grad_() for part in parts]


def given(parts: list[Tensor | None]) -> list[Tensor]:
    return [part for part in parts if part is not None]


def dense(queries: Tensor, vectors: Tensor, bias: Tensor | None, smoothing: float) -> Tensor:
    """The formula, right answer by right answer."""
    scores = queries @ vectors.t()
    if bias is not None:
        scores = scores + bias
    pairs = list(zip(ROWS.tolist(), COLUMNS.tolist(), strict=True))
    total = torch.zeros((), dtype=torch.float64)
    for i, t in pairs:
        chances = scores[i].log_softmax(0)
        total = total - (1 - smoothing) * chances[t] - smoothing * chances.mean()
    return total / len(pairs)


def in_blocks_of(questions: int, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let a block hold so many questions; returns how many each one held."""
    monkeypatch.setattr(answers, "BLOCK", 8 * N * questions)
    held: list[int] = []
    original = answers._slope

    def spy(scores: Tensor, *arguments: Any) -> Any:
        held.append(len(scores))
        return original(scores, *arguments)

    monkeypatch.setattr(answers, "_slope", spy)
    return held


@smoothings
@with_and_without_bias
def test_the_loss_and_its_gradients_are_those_of_dense_algebra(
    smoothing: float, biased: bool
) -> None:
    parts = inputs(biased)
    found = answer_loss(*parts, ROWS, COLUMNS, smoothing=smoothing)
    expected = dense(*parts, smoothing)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(
        torch.autograd.grad(found, given(parts)), torch.autograd.grad(expected, given(parts))
    )


@with_and_without_bias
@pytest.mark.parametrize(
    ("size", "sizes"), [(1, [1] * 6), (2, [2, 2, 2]), (4, [4, 2]), (6, [6]), (100, [6])]
)
def test_blocks_change_nothing(
    biased: bool, size: int, sizes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = inputs(biased)
    expected = dense(*parts, 0.1)
    held = in_blocks_of(size, monkeypatch)
    found = answer_loss(*parts, ROWS, COLUMNS, smoothing=0.1)
    assert held == sizes
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(
        torch.autograd.grad(found, given(parts)), torch.autograd.grad(expected, given(parts))
    )


@pytest.mark.parametrize("size", [2, 100])
def test_distances_may_count_instead_of_their_squares(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Written out: -|q - v|² = 2q·v - |v|² - |q|², and its root against torch.cdist."""
    places, vectors = (randn(n, D, seed=n).requires_grad_() for n in (B, N))
    in_blocks_of(size, monkeypatch)
    found = answer_loss(
        2 * places, vectors, -vectors.square().sum(1), ROWS, COLUMNS,
        offset=-places.square().sum(1), smoothing=0.1, root=True,
    )  # fmt: skip
    distances = torch.cdist(places, vectors, compute_mode="donot_use_mm_for_euclid_dist")
    expected = dense(-distances, torch.eye(N, dtype=torch.float64), None, 0.1)
    torch.testing.assert_close(found, expected)
    parts = (places, vectors)
    torch.testing.assert_close(
        torch.autograd.grad(found, parts), torch.autograd.grad(expected, parts)
    )


def test_a_question_that_stands_on_its_answer_has_a_slope() -> None:
    same = randn(1, D).requires_grad_()
    loss = answer_loss(
        2 * same, same.detach(), -same.detach().square().sum(1),
        torch.tensor([0]), torch.tensor([0]), offset=-same.square().sum(1), root=True,
    )  # fmt: skip
    loss.backward()
    assert same.grad is not None
    assert same.grad.isfinite().all()


def test_a_block_holds_a_question_however_many_answers_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held = in_blocks_of(1, monkeypatch)
    monkeypatch.setattr(answers, "BLOCK", 1)
    parts = inputs()
    torch.testing.assert_close(answer_loss(*parts, ROWS, COLUMNS), dense(*parts, 0.0))
    assert held == [1] * B


@smoothings
@with_and_without_bias
def test_its_gradients_pass_gradcheck(smoothing: float, biased: bool) -> None:
    def run(queries: Tensor, vectors: Tensor, bias: Tensor | None = None) -> Tensor:
        return answer_loss(queries, vectors, bias, ROWS, COLUMNS, smoothing=smoothing)

    assert gradcheck(run, given(inputs(biased)))


def test_what_follows_the_loss_scales_its_gradients() -> None:
    def gradients(factor: float) -> list[Tensor]:
        parts = inputs()
        loss = answer_loss(*parts, ROWS, COLUMNS, smoothing=0.1)
        (factor * loss).backward()
        return [part.grad for part in given(parts) if part.grad is not None]

    once, more = gradients(1.0), gradients(-3.5)
    assert len(once) == 3
    torch.testing.assert_close(more, [-3.5 * part for part in once])


def test_two_losses_of_the_same_vectors_add_up() -> None:
    parts = inputs()
    loss = answer_loss(*parts, ROWS, COLUMNS)
    other = answer_loss(*parts, ROWS, COLUMNS, smoothing=0.1)
    found = torch.autograd.grad(loss * other, given(parts))
    expected = dense(*parts, 0.0) * dense(*parts, 0.1)
    torch.testing.assert_close(found, torch.autograd.grad(expected, given(parts)))


def test_what_it_reads_stays_as_it_was() -> None:
    parts = inputs()
    before = [part.detach().clone() for part in given(parts)]
    answer_loss(*parts, ROWS, COLUMNS, smoothing=0.1).backward()
    assert all(torch.equal(a, b) for a, b in zip(given(parts), before, strict=True))


def test_a_question_without_a_right_answer_gets_no_gradient() -> None:
    parts = inputs()
    queries = given(parts)[0]
    answer_loss(*parts, ROWS, COLUMNS, smoothing=0.1).backward()
    assert queries.grad is not None
    assert queries.grad.any(1).tolist() == [i in ROWS.tolist() for i in range(B)]


def test_without_right_answers_there_is_no_loss() -> None:
    parts, none = inputs(), torch.empty(0, dtype=torch.int64)
    loss = answer_loss(*parts, none, none)
    loss.backward()
    assert all(part.grad is not None and part.grad.isfinite().all() for part in given(parts))
    assert loss.item() == 0
    assert not any(part.grad.any() for part in given(parts) if part.grad is not None)


def test_huge_scores_in_single_precision_stay_finite() -> None:
    parts = [1e3 * part.detach().float() for part in given(inputs())]
    parts = [part.requires_grad_() for part in parts]
    loss = answer_loss(*parts, ROWS, COLUMNS)
    loss.backward()
    double = [part.detach().double() for part in parts]
    torch.testing.assert_close(loss.double(), dense(*double, 0.0), rtol=1e-5, atol=0)
    assert loss.dtype == torch.float32
    assert all(part.grad is not None and part.grad.isfinite().all() for part in parts)


def test_only_what_learns_gets_a_gradient() -> None:
    queries, vectors, bias = (part.detach() for part in given(inputs()))
    queries.requires_grad_()
    loss = answer_loss(queries, vectors, bias, ROWS, COLUMNS)
    (found,) = torch.autograd.grad(loss, queries)
    (expected,) = torch.autograd.grad(dense(queries, vectors, bias, 0.0), queries)
    torch.testing.assert_close(found, expected)


def test_a_step_down_raises_right_answers_over_the_others() -> None:
    parts = given(inputs())
    loss = answer_loss(*parts, ROWS, COLUMNS)
    slopes = torch.autograd.grad(loss, parts)
    with torch.no_grad():
        moved = [part - 0.01 * slope for part, slope in zip(parts, slopes, strict=True)]
        assert answer_loss(*moved, ROWS, COLUMNS) < loss
