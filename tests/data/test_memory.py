"""Triples and links in memory give the same graph as a file of them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from decentrl.data.alignment_task import AlignmentTask
from decentrl.data.graph_task import GraphTask
from decentrl.data.knowledge_graph import KnowledgeGraph, as_graph
from decentrl.data.memory import read_memory
from decentrl.data.readers import as_table
from decentrl.data.table import LINK
from decentrl.errors import InputError

NAMES = ["head", "relation", "tail"]
TRIPLES = [("Wien", "in", "Österreich"), ("北京", "in", "中国"), ("Bern", "near", "Wien")]
EXPECTED = KnowledgeGraph.from_labels(*zip(*TRIPLES, strict=True)).content_hash()


def columns(source: Any) -> list[list[str]]:
    return [column.to_pylist() for column in as_table(source).columns]


class Capsule:
    """A data frame of some library that only exports itself to Arrow, as polars does."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._table.__arrow_c_stream__(requested_schema)


def table(rows: list[tuple[str, ...]], names: list[str]) -> pa.Table:
    return pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))


def frame(rows: list[tuple[str, ...]], names: list[str]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=names)


SOURCES: dict[str, Callable[[list[tuple[str, ...]], list[str]], Any]] = {
    "tuples": lambda rows, names: rows,
    "lists": lambda rows, names: [list(row) for row in rows],
    "generator": lambda rows, names: (row for row in rows),
    "zip": lambda rows, names: zip(*zip(*rows, strict=True), strict=True),
    "numpy": lambda rows, names: np.array(rows),
    "numpy objects": lambda rows, names: np.array(rows, object),
    "pandas": frame,
    "pandas, reordered": lambda rows, names: frame(rows, names)[names[::-1]],
    "pandas, filtered": lambda rows, names: frame([rows[0], *rows], names).iloc[1:].sample(frac=1),
    "pandas, named index": lambda rows, names: frame(rows, names).set_index(
        pd.Index(range(5, 5 + len(rows)), name="id")
    ),
    "pandas, unnamed": lambda rows, names: pd.DataFrame(rows),
    "pandas categories": lambda rows, names: frame(rows, names).astype("category"),
    "pandas objects": lambda rows, names: frame(rows, names).astype(object),
    "arrow": table,
    "arrow batch": lambda rows, names: table(rows, names).to_batches()[0],
    "arrow, more columns": lambda rows, names: table(rows, names).append_column(
        "weight", pa.array([0.5] * len(rows))
    ),
    "capsule": lambda rows, names: Capsule(table(rows, names)),
}


@pytest.mark.parametrize("make", SOURCES.values(), ids=SOURCES)
def test_a_graph_in_memory_is_that_of_its_rows(make: Callable[..., Any]) -> None:
    assert KnowledgeGraph.read(make(TRIPLES, NAMES)).content_hash() == EXPECTED
    assert as_graph(make(TRIPLES, NAMES)).content_hash() == EXPECTED


def test_a_graph_is_a_source_itself() -> None:
    graph = KnowledgeGraph.read(TRIPLES)
    assert as_graph(graph) is graph
    assert sorted(zip(*columns(graph), strict=True)) == sorted(TRIPLES)
    assert sorted(map(tuple, graph.to_arrow().to_pandas().to_numpy())) == sorted(TRIPLES)


@pytest.mark.parametrize("make", SOURCES.values(), ids=SOURCES)
def test_links_in_memory_are_read_like_files(make: Callable[..., Any], tmp_path: Path) -> None:
    right = [("Vienna", "in", "Austria"), ("Berne", "near", "Vienna")]
    (tmp_path / "test.tsv").write_text("Bern\tBerne\n")
    (tmp_path / "links.tsv").write_text("Wien\tVienna\nÖsterreich\tAustria\n")
    links = make([("Wien", "Vienna"), ("Österreich", "Austria")], ["left", "right"])
    test = make([("Bern", "Berne")], ["left", "right"])
    task = AlignmentTask.read(TRIPLES, right, links, test)
    same = AlignmentTask.read(TRIPLES, right, tmp_path / "links.tsv", tmp_path / "test.tsv")
    pairs = sorted(map(tuple, task.train.tolist())), task.test.tolist()
    assert pairs == (sorted(map(tuple, same.train.tolist())), same.test.tolist())
    assert (len(task.train), task.name) == (2, "left-right")
    again = make([("Bern", "Berne")], ["left", "right"])
    assert task.read_links(again).tolist() == task.test.tolist()


@pytest.mark.parametrize("make", SOURCES.values(), ids=SOURCES)
def test_splits_in_memory_are_read_like_files(make: Callable[..., Any]) -> None:
    held = [("Bern", "in", "Wien")], [("Wien", "near", "Bern")]
    task = GraphTask.read(make(TRIPLES, NAMES), *(make(rows, NAMES) for rows in held))
    assert [len(x) for x in (task.graph.triples, task.valid, task.test)] == [3, 1, 1]
    assert task.read_triples(make(held[1], NAMES)).tolist() == task.test.tolist()
    shares = GraphTask.from_graph("g", make(TRIPLES, NAMES), 0, 0)
    assert shares.graph.content_hash() == EXPECTED


def test_columns_for_additions() -> None:
    assert columns(TRIPLES) == [list(x) for x in zip(*TRIPLES, strict=True)]
    assert columns([]) == [[], [], []]
    assert columns(np.array(TRIPLES)) == columns(TRIPLES)
    assert {type(x) for x in columns(np.array(TRIPLES))[0]} == {str}


GOOD = ("a", "r", "b")
WITHOUT_TAIL = pa.table({"head": ["a"], "relation": ["r"]})
BAD: list[tuple[Any, str]] = [
    (
        [GOOD, ("a", "b")],
        r"row 1 of the triples .*\('a', 'b'\) is none of .*; give \(head, relation",
    ),
    ([GOOD, "arb"], "row 1 of the triples .*'arb' is none of the triples"),
    ([dict(zip(NAMES, GOOD, strict=True))], "row 0 of the triples .* is none of the triples"),
    ([{"a", "r", "b"}], "row 0 of the triples"),
    ([GOOD, ("a", "r", 7)], r"row 1 of .*the tail 7 is no text; .*convert others with str\(\)"),
    ([("a", "r", None)], "the tail None is no text"),
    ([("a", "", "b")], "the relation '' is no text"),
    ([("a", "r", b"b")], "the tail b'b' is no text"),
    ([("a", "r", float("nan"))], "the tail nan is no text"),
    (np.array([[0, 1, 2]]), r"row 0 of the triples .*the head .*0.* is no text; .*str\(\)"),
    (np.array(["a", "r", "b"]), "row 0 of the triples"),
    (pd.DataFrame([(1, 2, 3)]), r"the column head holds int64, not labels; .*astype\(str\)"),
    (pd.DataFrame([GOOD, ("a", None, "b")]), "row 1 of the triples .*empty label .* relation"),
    (pd.DataFrame([GOOD, ("a", 3, "b")]), r"DataFrame is no table of text .*astype\(str\)"),
    (pd.DataFrame([(*GOOD, "c")]), r"4 column\(s\), but 3 are needed; give the columns head"),
    (WITHOUT_TAIL, r"2 column\(s\), but 3 are needed"),
    ([], "there are no rows; give at least one"),
    (pd.DataFrame({x: [] for x in NAMES}, dtype=str), "there are no rows"),
    (5, r"int is no source of triples; give a file, rows \(head, relation, tail\)"),
    (b"a\tr\tb", "bytes is no source of triples"),
]


@pytest.mark.parametrize(("source", "says"), BAD)
def test_a_bad_row_is_named_with_a_remedy(source: Any, says: str) -> None:
    with pytest.raises(InputError, match=says) as caught:
        KnowledgeGraph.read(source)
    assert "\n" not in str(caught.value)
    assert caught.value.remedy
    assert caught.value.file is None


def test_a_bad_link_is_named_with_its_row() -> None:
    right = [("Vienna", "in", "Austria")]
    with pytest.raises(KeyError, match=r"row 1 of the links .*'Vienn' is no entity of the right"):
        AlignmentTask.read(TRIPLES, right, [("Wien", "Vienna"), ("Wien", "Vienn")])
    with pytest.raises(InputError, match=r"row 0 of the links .*test link is also a training link"):
        AlignmentTask.read(TRIPLES, right, [("Wien", "Vienna")], [("Wien", "Vienna")])
    with pytest.raises(InputError, match=r"row 0 of the links .* give \(left, right\)"):
        AlignmentTask.read(TRIPLES, right, [("Wien", "in", "Vienna")])
    with pytest.raises(InputError, match=r"row 0 of the triples .*test triple is also a training"):
        GraphTask.read(TRIPLES, test=TRIPLES[:1])


def test_neither_pandas_nor_polars_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("pandas", "polars"):
        monkeypatch.setitem(sys.modules, name, None)
    assert KnowledgeGraph.read(Capsule(table(TRIPLES, NAMES))).content_hash() == EXPECTED
    assert len(read_memory([("a", "b")], LINK)) == 1
