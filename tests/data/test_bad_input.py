"""Whatever is wrong with a file: one line with the file, the line and what to do."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from decentrl.data.knowledge_graph import KnowledgeGraph
from decentrl.errors import InputError

GOOD = b"a\tr\tb\n"

# name of the file, its content, the line to name, what to say
BAD = [
    ("two_columns.tsv", GOOD + b"a\tb\n", 2, r"2 column\(s\), but 3 are needed; give 3 columns"),
    ("four_columns.tsv", GOOD * 2 + b"a\tr\tb\tc\n", 3, r"4 column\(s\), but 3"),
    ("spaces.txt", b"a r b\n", 1, r"1 column\(s\), but 3 .*separated by a tab"),
    ("empty_label.tsv", GOOD + b"a\t\tb\n", 2, "empty label in the column relation"),
    ("blank_line.tsv", GOOD + b"\n" + GOOD, 2, "blank line; remove it"),
    (
        "latin1.tsv",
        GOOD + "Zürich\tr\tb\n".encode("latin-1"),
        2,
        "invalid UTF-8 .*save .* as UTF-8",
    ),
    ("old_mac.tsv", b"a\tr\tb\rc\tr\td", 1, "carriage return inside a line; end lines with"),
    ("two_columns.csv", b"a,r,b\na,b\n", 2, r"2 column\(s\), but 3 .*separated by a comma"),
    ("after_long_label.csv", b'a,r,"b\nb"\na,b\n', 3, r"2 column\(s\)"),
    ("open_quote.csv", b'a,r,b\na,r,"b\n', 2, "malformed CSV .*check the quotes"),
    ("after_quote.csv", b'a,r,b\na,r,"b"c\n', 2, "malformed CSV"),
    ("latin1.csv", "a,r,b\nZürich,r,b\n".encode("latin-1"), 2, "invalid UTF-8"),
    ("header_only.csv", b"head,relation,tail\n", None, "nothing after the header"),
    ("no_dot.nt", b"<http://a> <http://r> <http://b> .\n<http://a> <http://r>\n", 3, "N-Triples"),
    ("relative.ttl", b"<http://a> <http://r> <http://b> .\n<a> <r> <b> .\n", 2, "not Turtle .*IRI"),
    ("unknown_prefix.ttl", b"\n\nx:a x:r x:b .\n", 3, "not Turtle .*prefix"),
    ("literals.nt", b'<http://a> <http://r> "b" .\n', None, "all objects are literals; give"),
    ("comment.ttl", b"# nothing\n", None, "no statement"),
    ("empty.tsv", b"", None, "the file is empty"),
    ("blank.tsv", b"\n\n", None, "the file is empty"),
    ("empty.tsv.gz", gzip.compress(b""), None, "the file is empty"),
    ("truncated.tsv.gz", gzip.compress(GOOD * 1000)[:-12], None, "truncated; copy or download"),
    ("no_gzip.tsv.gz", GOOD, None, "not a gzip file in spite of its name"),
    (
        "damaged.tsv.gz",
        gzip.compress(GOOD)[:10] + b"\xff" * 20,
        None,
        "damaged .*download it again",
    ),
    ("damaged.parquet", b"PAR1 and then nothing", None, "no readable Parquet"),
    ("graph.xlsx", b"PK", None, r"the extension .xlsx is unknown; name the format, or use .*\.tsv"),
]


@pytest.mark.parametrize(("name", "content", "line", "says"), BAD, ids=[x[0] for x in BAD])
def test_a_bad_file_is_named_with_its_line_and_a_remedy(
    tmp_path: Path, name: str, content: bytes, line: int | None, says: str
) -> None:
    file = tmp_path / name
    file.write_bytes(content)
    with pytest.raises(InputError, match=says) as caught:
        KnowledgeGraph.read(file)
    message = str(caught.value)
    assert message.startswith(f"{file}: " if line is None else f"{file}:{line}: ")
    assert "\n" not in message
    assert (caught.value.line, bool(caught.value.remedy)) == (line, True)


def test_a_missing_file_and_a_folder_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file; check the path"):
        KnowledgeGraph.read(tmp_path / "absent.tsv")
    with pytest.raises(InputError, match="no file in this folder has a known extension; name a"):
        KnowledgeGraph.read(tmp_path)


def test_an_unknown_format_lists_the_known_ones(tmp_path: Path) -> None:
    (tmp_path / "g").write_bytes(GOOD)
    for wrong in ("xls", ""):
        with pytest.raises(InputError, match=r"unknown format .*one of tsv, .*parquet, nt"):
            KnowledgeGraph.read(tmp_path / "g", format=wrong)


PARQUET = [
    (
        {"head": ["a"], "tail": ["b"]},
        None,
        r"2 column\(s\), but 3 are needed; give the columns head",
    ),
    (
        {"w": [1], "x": ["a"], "y": ["r"], "z": ["b"]},
        None,
        r"4 column\(s\), but 3 are needed; give the columns head",
    ),
    ({"head": ["a", None], "relation": ["r", "r"], "tail": ["b", "c"]}, 2, "empty label .* head"),
    ({"head": ["a", "b"], "relation": ["r", ""], "tail": ["b", "c"]}, 2, "empty label .* relation"),
    ({"head": [1.5], "relation": ["r"], "tail": ["b"]}, None, "holds double, not labels"),
    ({"head": pa.array([], "string"), "relation": [], "tail": []}, None, "no rows"),
]


@pytest.mark.parametrize(("columns", "line", "says"), PARQUET)
def test_a_parquet_file_must_hold_three_columns_of_labels(
    tmp_path: Path, columns: dict[str, list[object]], line: int | None, says: str
) -> None:
    pq.write_table(pa.table(columns), tmp_path / "g.parquet")
    with pytest.raises(InputError, match=says) as caught:
        KnowledgeGraph.read(tmp_path / "g.parquet")
    assert caught.value.line == line


def test_a_first_line_that_is_no_header_of_csv_is_told_like_any_other(tmp_path: Path) -> None:
    (tmp_path / "g.csv").write_bytes(b'x,y,"z\r')
    with pytest.raises(InputError, match=r"g\.csv:1: malformed CSV .*; check the quotes"):
        KnowledgeGraph.read(tmp_path / "g.csv")
    (tmp_path / "g.csv").write_bytes(b"a" * 140_000 + b",r,b\n")
    assert len(KnowledgeGraph.read(tmp_path / "g.csv").triples) == 1


def test_a_statement_about_a_statement_has_no_place_in_a_graph(tmp_path: Path) -> None:
    file = tmp_path / "g.ttl"
    file.write_text("<http://a> <http://r> <<( <http://a> <http://r> <http://b> )>> .")
    with pytest.raises(InputError, match="statement"):
        KnowledgeGraph.read(file)


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ((["a"], ["r"], []), "row 0 of the triples .*the tail None is no text"),
        (
            (["a"], ["r"], [""]),
            "row 0 of the triples .*the tail '' is no text; give non-empty strings",
        ),
        ((["a"], [None], ["b"]), "row 0 of .*the relation None is no text"),
        ((["a", "\ud800"], ["r", "r"], ["b", "b"]), "row 1 of .* is no text"),
    ],
)
def test_triples_given_as_lists_are_checked_too(columns: tuple[list[str], ...], says: str) -> None:
    with pytest.raises(InputError, match=says):
        KnowledgeGraph.from_labels(*columns)
