"""The input embedding teaches the decentralised one, in the paper's way and its ablations'."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from decentrl.nn import SelfDistillation

N, STUDENT, TEACHER = 8, 6, 4
IDS, NEGATIVES = torch.tensor([1, 5, 5]), torch.tensor([0, 5, 7, 7])


def randn(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@pytest.fixture
def students() -> Tensor:
    return randn(len(IDS), STUDENT, seed=0).requires_grad_()


@pytest.fixture
def teachers() -> Tensor:
    return randn(N, TEACHER, seed=1).requires_grad_()


def make(variant: Any) -> SelfDistillation:
    torch.manual_seed(0)
    return SelfDistillation(STUDENT, TEACHER, variant).double().eval()


def by_definition(predicted: Tensor, teachers: Tensor) -> float:
    """L of the docstring, one student after the other."""
    total = 0.0
    for entity, vector in zip(IDS.tolist(), predicted, strict=True):
        right = (vector @ teachers[entity]).exp()
        others = [k for k in NEGATIVES.tolist() if k != entity]
        wrong = sum((vector @ teachers[k]).exp() for k in others)
        total -= (right / (right + wrong)).log().item()
    return total


@pytest.mark.parametrize("variant", ["detached", "infonce"])
def test_the_loss_is_the_papers(variant: str, students: Tensor, teachers: Tensor) -> None:
    distillation = make(variant)
    loss = distillation(students, teachers, IDS, NEGATIVES)
    expected = by_definition(distillation.head(students), teachers)
    assert loss.item() == pytest.approx(expected, rel=1e-12)


def test_l2_compares_directions_without_negatives(students: Tensor, teachers: Tensor) -> None:
    distillation = make("l2")
    loss = distillation(students, teachers, IDS, NEGATIVES)
    cosines = torch.cosine_similarity(distillation.head(students), teachers[IDS])
    assert loss.item() == pytest.approx((2 - 2 * cosines).sum().item(), rel=1e-12)
    assert loss.item() == distillation(students, teachers, IDS, IDS).item()


def test_none_is_zero(students: Tensor, teachers: Tensor) -> None:
    assert make("none")(students, teachers, IDS, NEGATIVES).item() == 0


@pytest.mark.parametrize(
    ("variant", "taught_back"), [("detached", False), ("l2", False), ("infonce", True)]
)
def test_only_infonce_lets_the_teacher_learn(
    variant: str, taught_back: bool, students: Tensor, teachers: Tensor
) -> None:
    make(variant)(students, teachers, IDS, NEGATIVES).backward()
    assert students.grad.any(1).all()
    assert (teachers.grad is not None and bool(teachers.grad.any())) == taught_back


def test_a_student_is_not_its_own_negative(students: Tensor, teachers: Tensor) -> None:
    distillation = make("detached")
    with_own = distillation(students[:1], teachers, IDS[:1], torch.tensor([0, 1, 1, 7]))
    without = distillation(students[:1], teachers, IDS[:1], torch.tensor([0, 7]))
    assert with_own.item() == pytest.approx(without.item(), rel=1e-12)


def test_nothing_but_the_own_entity_among_the_negatives_costs_nothing(
    students: Tensor, teachers: Tensor
) -> None:
    loss = make("detached")(students[1:], teachers, IDS[1:], torch.tensor([5, 5]))
    loss.backward()
    assert loss.item() == pytest.approx(0, abs=1e-12)
    assert students.grad.isfinite().all()
