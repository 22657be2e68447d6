"""What a bundle says of matches that stay and of newcomers is about what it holds."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from decentrl.storage.validate import NEWCOMER, check_matching

SIZES = {"left": 4, "right": 3}
FEATURES = 4


def matching(**changes: Tensor) -> dict[str, Tensor]:
    found = {
        "settled": torch.tensor([[0, 2], [3, 1]]),
        "settled.score": torch.zeros(2),
        "settled.confidence": torch.ones(2),
        "settled.triples": torch.tensor(9.0, dtype=torch.float64),
        "potential.balance": torch.tensor(0.7),
    }
    for name in ("weights", "mean", "scale"):
        found[NEWCOMER + name] = torch.ones(FEATURES + 5, dtype=torch.float64)
    for name in ("bias", "threshold"):
        found[NEWCOMER + name] = torch.tensor(0.5, dtype=torch.float64)
    return found | {name.replace("_", "."): tensor for name, tensor in changes.items()}


def test_what_training_writes_is_right() -> None:
    check_matching(matching(), SIZES, FEATURES)
    check_matching({}, SIZES, FEATURES)


@pytest.mark.parametrize(
    "changes",
    [
        {"settled": torch.tensor([[0, 2], [4, 1]])},  # there is no left entity 4
        {"settled": torch.tensor([[0, -1], [3, 1]])},
        {"settled": torch.tensor([0, 1])},
        {"settled_score": torch.zeros(3)},
        {"settled_triples": torch.tensor(torch.nan, dtype=torch.float64)},
        {"settled_triples": torch.tensor(-1.0, dtype=torch.float64)},
        {"newcomer_weights": torch.ones(FEATURES, dtype=torch.float64)},
        {"potential_balance": torch.ones(2)},
    ],
)
def test_what_is_about_something_else_is_an_error(changes: dict[str, Tensor]) -> None:
    with pytest.raises(ValueError, match=r"settled|newcomer|potential"):
        check_matching(matching(**changes), SIZES, FEATURES)


@pytest.mark.parametrize("missing", ["settled.score", "settled.triples", "newcomer.bias"])
def test_a_part_that_is_missing_is_an_error(missing: str) -> None:
    found = matching()
    del found[missing]
    with pytest.raises(ValueError, match="a part of"):
        check_matching(found, SIZES, FEATURES)
    with pytest.raises(ValueError, match="a part of"):  # of one graph nothing is settled
        check_matching(matching(), {"": 4}, FEATURES)
