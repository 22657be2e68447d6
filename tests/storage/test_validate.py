"""What a bundle says is about what it holds: ids that there are, matches that stay, newcomers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from decentrl.storage.validate import NEWCOMER, check_ids, check_matching

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


COLUMNS = (7, 3, 7)


def ids(rows: int) -> np.ndarray:
    return np.random.default_rng(rows).integers(0, COLUMNS, (rows, 3))


@given(rows=st.integers(0, 1100))
def test_ids_below_the_sizes_are_good(rows: int) -> None:
    check_ids("left", ids(rows), COLUMNS)


@given(data=st.data(), rows=st.integers(1, 1100), column=st.integers(0, 2), low=st.booleans())
def test_one_wrong_id_anywhere_is_found(
    data: st.DataObject, rows: int, column: int, low: bool
) -> None:
    array = ids(rows)
    array[data.draw(st.integers(0, rows - 1)), column] = -1 if low else COLUMNS[column]
    with pytest.raises(ValueError, match="left has an id that is none"):
        check_ids("left", array, COLUMNS)


@pytest.mark.parametrize("array", [np.zeros((4, 2), np.int64), np.zeros((4, 3), np.int32)])
def test_other_columns_and_types_are_no_ids(array: np.ndarray) -> None:
    with pytest.raises(ValueError, match="not so many columns of ids"):
        check_ids("left", array, COLUMNS)
