"""Rows of n-grams: joining, taking and leaving out are those of the dense matrix."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from hypothesis import given, settings
from hypothesis import strategies as st

from decentrl.graph.texts import TextRows

Matrix = npt.NDArray[np.float32]
CELLS = st.integers(-4, 3)  # mostly 0
COLUMNS = 6


@st.composite
def matrices(draw: st.DrawFn) -> Matrix:
    rows = draw(st.lists(st.lists(CELLS, min_size=COLUMNS, max_size=COLUMNS), max_size=7))
    return np.array(rows, np.float32).reshape(-1, COLUMNS).clip(0)


def of(dense: Matrix) -> TextRows:
    rows, buckets = dense.nonzero()
    indptr = np.searchsorted(rows, np.arange(len(dense) + 1))
    return TextRows(indptr, buckets, dense[rows, buckets])


def check(found: TextRows, dense: Matrix) -> None:
    made = np.zeros_like(dense)
    made[np.repeat(np.arange(len(found)), np.diff(found.indptr)), found.buckets] = found.counts
    assert len(found) == len(dense)
    assert found.indptr[0] == 0
    assert found.indptr[-1] == len(found.buckets) == len(found.counts)
    assert np.array_equal(made, dense)
    assert found.indptr.dtype == found.buckets.dtype == np.int64
    assert found.counts.dtype == np.float32
    assert np.array_equal(found.named(), dense.any(1))


@settings(max_examples=80, deadline=None)
@given(matrices(), matrices(), st.data())
def test_rows_are_those_of_a_dense_matrix(
    dense: Matrix, other: Matrix, data: st.DataObject
) -> None:
    rows = of(dense)
    check(rows, dense)
    check(TextRows.joined((rows, of(other), rows)), np.concatenate((dense, other, dense)))
    places = st.lists(st.integers(0, len(dense) - 1), max_size=9) if len(dense) else st.just([])
    ids = np.array(data.draw(places), np.int64)
    check(rows.take(ids), dense[ids])
    kept = np.isin(np.arange(len(dense)), ids)
    check(rows.only(kept), np.where(kept[:, None], dense, 0))
