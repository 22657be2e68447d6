"""Ids of a bundle are checked behind its checksums, however many rows there are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decentrl.storage.validate import check_ids

SIZES = (7, 3, 7)


def ids(rows: int) -> np.ndarray:
    return np.random.default_rng(rows).integers(0, SIZES, (rows, 3))


@given(rows=st.integers(0, 1100))
def test_ids_below_the_sizes_are_good(rows: int) -> None:
    check_ids("left", ids(rows), SIZES)


@given(data=st.data(), rows=st.integers(1, 1100), column=st.integers(0, 2), low=st.booleans())
def test_one_wrong_id_anywhere_is_found(
    data: st.DataObject, rows: int, column: int, low: bool
) -> None:
    array = ids(rows)
    array[data.draw(st.integers(0, rows - 1)), column] = -1 if low else SIZES[column]
    with pytest.raises(ValueError, match="left has an id that is none"):
        check_ids("left", array, SIZES)


@pytest.mark.parametrize("array", [np.zeros((4, 2), np.int64), np.zeros((4, 3), np.int32)])
def test_other_columns_and_types_are_no_ids(array: np.ndarray) -> None:
    with pytest.raises(ValueError, match="not so many columns of ids"):
        check_ids("left", array, SIZES)
