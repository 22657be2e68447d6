"""Result tables print, and become pandas, Arrow or plain rows."""

from __future__ import annotations

import copy
import pickle
import sys

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from decentrl.data.results import Evaluation, ResultTable
from decentrl.errors import MissingExtraError

ROWS = [
    {
        "left": "北京",
        "right": "Beijing",
        "rank": 1,
        "score": 0.91234,
        "truth": ["Beijing", "Peking"],
    },
    {"left": "Wien", "right": None, "rank": 12, "score": None, "truth": []},
]


@pytest.fixture
def table() -> ResultTable:
    return ResultTable.from_rows(ROWS)


def test_it_prints_as_aligned_text(table: ResultTable) -> None:
    assert str(table) == (
        "left  right    rank   score  truth\n"
        "北京  Beijing     1  0.9123  Beijing, Peking\n"
        "Wien             12"
    )


def test_long_tables_and_labels_are_cut() -> None:
    table = ResultTable.from_rows([{"x": i, "label": "y" * 100} for i in range(1234)])
    lines = str(table).splitlines()
    assert (len(lines), lines[-1]) == (22, "… and 1,214 more")
    assert lines[1] == " 0  " + "y" * 47 + "…"
    assert str(table.slice(0, 20)).count("\n") == 20
    assert "… and 1,214 more" in table._repr_html_()
    assert table._repr_html_().count("<tr>") == 21


def test_labels_cannot_break_lines_or_markup() -> None:
    table = ResultTable.from_rows([{"x": "a\nb\tc"}, {"x": "<b>&"}])
    assert str(table).splitlines() == ["x", "a�b�c", "<b>&"]
    assert '<td style="text-align:left">&lt;b&gt;&amp;</td>' in table._repr_html_()
    joined = "نمی\u200cدانم 👩\u200d👧"
    assert str(ResultTable.from_rows([{"x": f"{joined}\u202e"}])) == f"x\n{joined}�"


def test_an_empty_table_says_so() -> None:
    empty = ResultTable.from_rows([], pa.schema([("left", pa.string()), ("n", pa.int64())]))
    assert (str(empty), len(empty), list(empty)) == ("no rows (left, n)", 0, [])
    assert "<th" in empty._repr_html_()
    assert str(Evaluation([])) == "no rows"


def test_rows_and_columns(table: ResultTable) -> None:
    assert list(table) == table.to_pylist() == ROWS
    assert (table[0], table[-1], table[:1]) == (ROWS[0], ROWS[1], ROWS[:1])
    assert table["left"].to_pylist() == ["北京", "Wien"]
    with pytest.raises(IndexError):
        table[2]
    with pytest.raises(KeyError):
        table["nothing"]


def test_it_is_used_like_a_pyarrow_table(table: ResultTable) -> None:
    plain = table.to_arrow()
    assert (table.num_rows, table.column_names) == (2, list(ROWS[0]))
    assert table.schema is plain.schema or table.schema.equals(plain.schema)
    assert table.equals(plain)
    assert table.equals(ResultTable(plain))
    assert table == plain
    assert table == ResultTable(plain)
    assert table != table.slice(0, 1)
    assert "sort_by" in dir(table)
    best = table.filter(pc.equal(table["rank"], 1))
    assert isinstance(best, ResultTable)
    assert best.to_pylist() == ROWS[:1]
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        table.nothing  # noqa: B018
    assert copy.deepcopy(table) == pickle.loads(pickle.dumps(table)) == table


def test_it_goes_to_other_libraries(table: ResultTable) -> None:
    frame = table.to_pandas()
    assert isinstance(frame, pd.DataFrame)
    assert list(frame["rank"]) == [1, 12]
    assert pa.table(table).equals(table.to_arrow())  # as polars reads it


def test_without_pandas_the_error_says_how_to_get_it(
    table: ResultTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtraError, match=r"to_pandas.* needs .*: pip install pandas"):
        table.to_pandas()


def test_an_evaluation_keeps_rows_and_ranks() -> None:
    rows = [
        {"group": "all", "n": 3, "hits@1": 0.5, "mr": 2},
        {"group": "relation", "name": "in", "n": 1, "hits@1": 1.0, "mr": 1.5},
    ]
    ranks = object()
    found = Evaluation(rows, ranks)
    assert (found.rows, list(found), found.to_pylist(), found.ranks) == (rows, rows, rows, ranks)
    assert (found[1], len(found), found["mr"].to_pylist()) == (rows[1], 2, [2.0, 1.5])
    assert found.column_names == ["group", "n", "hits@1", "mr", "name"]
    assert list(found.to_pandas()["name"].isna()) == [True, False]
    assert str(found).splitlines()[1].split() == ["all", "3", "0.5000", "2.0000"]
