"""A first line that names the columns is found out and said; a first triple stays one."""

from __future__ import annotations

import warnings
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decentrl.data.headers import Reading
from decentrl.data.knowledge_graph import KnowledgeGraph
from decentrl.data.readers import read_table
from decentrl.data.table import ATTRIBUTE, LINK, NAME, TRIPLE
from decentrl.errors import ConfigError, FormatWarning, InputError

ROWS = [("a", "r", "b"), ("b", "r", "c"), ("c", "s", "a")]
LINKS = [("a", "A"), ("b", "B"), ("c", "C")]


def written(file: Path, rows: list[tuple[str, ...]], mark: str = "\t") -> Path:
    file.write_text("".join(mark.join(row) + "\n" for row in rows))
    return file


def read(file: Path, names: tuple[str, ...] = TRIPLE, **how: object) -> list[tuple[str, ...]]:
    table = read_table(file, names, Reading(**how))  # type: ignore[arg-type]
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


@pytest.mark.parametrize(
    "header",
    [
        ("subject", "relation", "object"),
        ("head", "relation", "tail"),
        (":START_ID(Person)", ":TYPE", ":END_ID(City)"),
        ("?s", "?p", "?o"),
        ("Package", "Relation", "Other"),  # nobody calls a relation so
        ("source", "kind", "target"),
    ],
)
def test_names_of_columns_above_triples_are_left_out_and_said(
    tmp_path: Path, header: tuple[str, ...]
) -> None:
    file = written(tmp_path / "g.tsv", [header, *ROWS])
    with pytest.warns(FormatWarning, match=r"g\.tsv: the first line is taken for .*--header no"):
        assert read(file) == ROWS
    assert read(file, header="no") == [header, *ROWS]
    assert read(file, header="yes") == ROWS


@pytest.mark.parametrize(
    "first",
    [
        ("subject", "r", "object"),  # its relation occurs below
        ("a", "relation", "x"),  # its head does
        ("x", "predicate", "c"),  # its tail does, as a head
        ("paper", "topic", "graphs"),  # these are no names of columns
        ("label", "type", "property"),
    ],
)
def test_a_real_first_triple_is_read(tmp_path: Path, first: tuple[str, ...]) -> None:
    assert read(written(tmp_path / "g.tsv", [first, *ROWS])) == [first, *ROWS]


def test_one_line_below_shows_nothing(tmp_path: Path) -> None:
    rows = [("head", "relation", "tail"), ("a", "r", "b")]
    assert read(written(tmp_path / "g.tsv", rows)) == rows


labels = st.text(st.characters(categories=["L"]), min_size=1, max_size=3)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(labels, st.sampled_from(["relation", "type"]), labels), min_size=3))
def test_no_triple_of_a_connected_file_is_lost(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str, str]]
) -> None:
    rows = [*rows, (rows[0][0], "relation", rows[0][2])]  # so the first shares its ends
    assert read(written(tmp_path_factory.mktemp("g") / "g.tsv", rows)) == rows  # type: ignore[comparison-overlap]


def test_a_first_line_apart_from_many_others_is_read_and_said(tmp_path: Path) -> None:
    rows = [("country", "has", "city"), *ROWS * 4]
    with pytest.warns(FormatWarning, match="shares nothing with the others and is read as a trip"):
        assert read(written(tmp_path / "g.tsv", rows)) == rows
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read(tmp_path / "g.tsv", header="no") == rows
        assert read(tmp_path / "g.tsv", header="yes") == ROWS * 4


@pytest.mark.parametrize(
    ("names", "header", "rows"),
    [
        (LINK, ("source", "target"), LINKS),
        (LINK, ("entity_1", "entity_2"), LINKS),
        (NAME, ("id", "label"), [("a", "Anna"), ("b", "Ben")]),
        (NAME, ("entity", "name", "lang"), [("a", "Anna", "de"), ("b", "", "")]),
        (ATTRIBUTE, ("item", "property", "value"), [("a", "age", "7"), ("b", "age", "")]),
    ],
)
@pytest.mark.parametrize("mark", ["\t", ","])
def test_links_names_and_attributes_have_headers_too(
    tmp_path: Path,
    names: tuple[str, ...],
    header: tuple[str, ...],
    rows: list[tuple[str, ...]],
    mark: str,
) -> None:
    file = written(tmp_path / ("x.csv" if mark == "," else "x.tsv"), [header, *rows], mark)
    with pytest.warns(FormatWarning, match="taken for names of columns"):
        assert read(file, names) == rows


def test_columns_are_found_by_what_they_are_usually_called(tmp_path: Path) -> None:
    rows = [("type", "weight", "target", "source"), ("r", "1", "b", "a"), ("r", "", "c", "b")]
    with pytest.warns(FormatWarning):
        assert read(written(tmp_path / "g.csv", rows, ",")) == ROWS[:2]
    frame = pd.DataFrame(rows[1:], columns=rows[0])
    assert rows_of(KnowledgeGraph.read(frame)) == set(ROWS[:2])
    frame.to_parquet(tmp_path / "g.parquet")
    assert rows_of(KnowledgeGraph.read(tmp_path / "g.parquet")) == set(ROWS[:2])


def rows_of(graph: KnowledgeGraph) -> set[tuple[str, ...]]:
    table = graph.to_arrow()
    return set(zip(*(column.to_pylist() for column in table.columns), strict=True))


def test_the_index_of_pandas_is_named_with_the_remedy(tmp_path: Path) -> None:
    frame = pd.DataFrame(ROWS, columns=["package", "kind", "other"])
    frame.to_csv(tmp_path / "g.csv")
    with pytest.raises(InputError, match=r"g\.csv:1: 4 .*pandas .*--columns package,kind,other"):
        read(tmp_path / "g.csv")
    assert read(tmp_path / "g.csv", columns=("package", "kind", "other")) == ROWS
    assert read(tmp_path / "g.csv", columns=("2", "3", "4"), header="yes") == ROWS
    frame.to_csv(tmp_path / "bare.tsv", header=False, sep="\t")
    with pytest.raises(InputError, match=r"row numbers.*--columns 2,3,4"):
        read(tmp_path / "bare.tsv")
    assert read(tmp_path / "bare.tsv", columns=("2", "3", "4")) == ROWS
    assert read(tmp_path / "bare.tsv", columns=("4", "3", "2"), header="no") == [
        row[::-1] for row in ROWS
    ]


def test_columns_that_are_not_read_may_be_empty_and_lines_are_counted(tmp_path: Path) -> None:
    rows = [("x", "h", "r", "t"), ("", "a", "r", "b"), ("", "a", "", "b")]
    with pytest.raises(InputError, match=r"g\.tsv:3: empty label in the column relation"):
        read(written(tmp_path / "g.tsv", rows), columns=("h", "r", "t"))


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        (("h", "r", "x"), "no column 'x' in the first line"),
        (("1", "2", "9"), "there are 3 columns, not 9"),
        (("0", "1", "2"), "there are 3 columns"),
        (("1", "2"), r"--columns names 2 column\(s\); give 3 of them by --columns HEAD,RELATION,"),
        (("1", "2", "2"), "--columns names 2"),
    ],
)
def test_columns_that_are_not_there(tmp_path: Path, columns: tuple[str, ...], says: str) -> None:
    with pytest.raises(InputError, match=says):
        read(written(tmp_path / "g.tsv", [("h", "r", "t"), *ROWS]), columns=columns)


def test_names_of_columns_need_a_header(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="columns have no names with --header no"):
        read(written(tmp_path / "g.tsv", ROWS), columns=("h", "r", "t"), header="no")


@pytest.mark.parametrize(("name", "mark"), [("g.csv", ";"), ("g.txt", ","), ("g.csv", "\t"),
                                            ("g.tsv", "|")])  # fmt: skip
def test_other_separators_are_found_out_and_said(tmp_path: Path, name: str, mark: str) -> None:
    with pytest.warns(FormatWarning, match="columns are separated by .*, as the lines show"):
        assert read(written(tmp_path / name, ROWS, mark)) == ROWS
    separator = "tab" if mark == "\t" else mark
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read(tmp_path / name, separator=separator) == ROWS


def test_a_space_separates_columns_only_where_that_is_said(tmp_path: Path) -> None:
    file = written(tmp_path / "g.txt", ROWS, " ")
    with pytest.raises(InputError, match="separated by a tab"):
        read(file)
    assert read(file, separator="space") == ROWS


def test_the_usual_separator_wins_and_one_odd_line_is_an_error(tmp_path: Path) -> None:
    rows = [("a;x;y", "r", "b"), ("b;x;y", "r", "c")]
    assert read(written(tmp_path / "g.csv", rows, ",")) == rows
    (tmp_path / "odd.csv").write_text("a;r;b\nb;r\n")
    with pytest.raises(InputError, match=r"odd\.csv:1: 1 column"):
        read(tmp_path / "odd.csv")
    with pytest.raises(InputError, match=r"odd\.csv:2: 2 column.*separated by a semicolon"):
        read(tmp_path / "odd.csv", separator=";")


def test_quoted_cells_may_hold_other_separators(tmp_path: Path) -> None:
    (tmp_path / "g.csv").write_text('"a;x";r;"b""y"\n"two\nlines";r;c\n')
    assert read(tmp_path / "g.csv", separator=";") == [
        ("a;x", "r", 'b"y'),
        ("two\nlines", "r", "c"),
    ]


@pytest.mark.parametrize("how", [{"header": "maybe"}, {"separator": "::"}, {"separator": '"'}])
def test_an_impossible_choice_is_an_error(how: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        Reading(**how)  # type: ignore[arg-type]


@pytest.mark.parametrize(("name", "mark"), [("links.tsv", "\t"), ("links.csv", ",")])
def test_lines_below_a_header_are_counted_from_the_top(
    tmp_path: Path, name: str, mark: str
) -> None:
    rows = [("source", "target"), *LINKS, ("a", "nowhere")]
    with pytest.warns(FormatWarning):
        table = read_table(written(tmp_path / name, rows, mark), LINK)
    assert [table.line_of(row) for row in range(4)] == [2, 3, 4, 5]
