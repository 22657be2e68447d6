"""Files of matches that other tools load."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pyoxigraph
import pytest

from decentrl.cli.output import TABLES, check_output, write_table
from decentrl.data.results import ResultTable
from decentrl.errors import ConfigError, FormatWarning, InputError

SAME_AS = "http://www.w3.org/2002/07/owl#sameAs"


def table(*pairs: tuple[str | None, str | None]) -> pa.Table:
    """Pairs without one end have no score; the confidence of the first is not known."""
    left, right = zip(*pairs, strict=True)
    scores = [None if None in pair else 0.5 for pair in pairs]
    return pa.table(
        {
            "left": pa.array(left, pa.string()),
            "right": pa.array(right, pa.string()),
            "rank": pa.array([1] * len(pairs), pa.int32()),
            "score": pa.array(scores, pa.float32()),
            "confidence": pa.array([None, *[0.25] * (len(pairs) - 1)], pa.float32()),
        }
    )


def statements(file: Path) -> list[tuple[str, str, str]]:
    parsed = pyoxigraph.parse(path=str(file), format=pyoxigraph.RdfFormat.N_TRIPLES)
    return [(x.subject.value, x.predicate.value, x.object.value) for x in parsed]


def test_same_as_statements_are_read_by_others(tmp_path: Path) -> None:
    pairs = [
        ("http://zh.dbpedia.org/resource/北京", "http://dbpedia.org/resource/Beijing"),
        ("urn:isbn:0-486-27557-4", "Q42"),
        ("Nice Place", "_:graph.0"),
        ('say "x" <y>\\', "a\nb"),
    ]
    write_table(ResultTable(table(*pairs)), tmp_path / "m.nt")
    assert statements(tmp_path / "m.nt") == [
        ("http://zh.dbpedia.org/resource/北京", SAME_AS, "http://dbpedia.org/resource/Beijing"),
        ("urn:isbn:0-486-27557-4", SAME_AS, "urn:decentrl:right:Q42"),
        ("urn:decentrl:left:Nice%20Place", SAME_AS, "urn:decentrl:right:_%3Agraph.0"),
        ("urn:decentrl:left:say%20%22x%22%20%3Cy%3E%5C", SAME_AS, "urn:decentrl:right:a%0Ab"),
    ]


def test_tsv_has_a_header_and_six_digits(tmp_path: Path) -> None:
    write_table(ResultTable(table(("a", "é"), ("b c", '"'))), tmp_path / "m.tsv")
    assert (tmp_path / "m.tsv").read_bytes().decode() == (
        'left\tright\trank\tscore\tconfidence\na\té\t1\t0.500000\t\nb c\t"\t1\t0.500000\t0.250000\n'
    )


def test_who_has_no_match_is_empty_in_tsv_null_in_parquet_and_not_in_nt(tmp_path: Path) -> None:
    found = table(("a", "b"), ("c", None), (None, "d"))
    for name in ("m.tsv", "m.parquet", "m.nt"):
        write_table(ResultTable(found), tmp_path / name)
    lines = (tmp_path / "m.tsv").read_text().splitlines()
    assert lines[1:] == ["a\tb\t1\t0.500000\t", "c\t\t1\t\t0.250000", "\td\t1\t\t0.250000"]
    assert pq.read_table(tmp_path / "m.parquet").equals(found)
    assert statements(tmp_path / "m.nt") == [
        ("urn:decentrl:left:a", SAME_AS, "urn:decentrl:right:b")
    ]


@pytest.mark.parametrize("label", ["a\tb", "a\nb", "a\rb"])
def test_a_label_that_tsv_cannot_hold_is_spelled_out_and_counted(
    tmp_path: Path, label: str
) -> None:
    file = tmp_path / "m.tsv"
    with pytest.warns(FormatWarning, match=r"1 row.s. with a tab or line end .*\.parquet"):
        write_table(ResultTable(table(("x", "y"), (label, "y"))), file)
    cells = [line.split("\t")[0] for line in file.read_text().splitlines()]
    assert cells == ["left", "x", repr(label).strip("'")]
    write_table(ResultTable(table((label, "y"))), tmp_path / "m.parquet")
    assert pq.read_table(tmp_path / "m.parquet")["left"].to_pylist() == [label]


def test_an_interrupted_write_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "m.parquet"
    write_table(ResultTable(table(("a", "b"))), file)
    before = file.read_bytes()

    def half(found: pa.Table, path: Path) -> None:
        path.write_bytes(before[:20])
        raise KeyboardInterrupt

    monkeypatch.setattr(pq, "write_table", half)
    with pytest.raises(KeyboardInterrupt):
        write_table(ResultTable(table(("c", "d"))), file)
    assert file.read_bytes() == before
    assert list(tmp_path.iterdir()) == [file]


def test_an_empty_table_is_written_too(tmp_path: Path) -> None:
    empty = table(("a", "b")).slice(0, 0)
    for name in ("m.tsv", "m.nt", "m.parquet"):
        write_table(ResultTable(empty), tmp_path / name)
    assert (tmp_path / "m.tsv").read_text() == "left\tright\trank\tscore\tconfidence\n"
    assert (tmp_path / "m.nt").read_text() == ""


def test_what_cannot_be_written_is_told_before_any_work(tmp_path: Path) -> None:
    check_output(tmp_path / "m.tsv", 5)
    for name in ("m.nt", "m.sssom.tsv", "m.rdf"):
        check_output(tmp_path / name, 1)
        with pytest.raises(ConfigError, match="use --top 1"):
            check_output(tmp_path / name, 2)
    with pytest.raises(InputError, match=r"cannot write \.sssom\.tsv; use \.tsv, \.parquet$"):
        check_output(tmp_path / "m.sssom.tsv", suffixes=TABLES)
    with pytest.raises(InputError, match=r"m\.csv: cannot write \.csv; use \.tsv"):
        check_output(tmp_path / "m.csv", 1)
    (tmp_path / "d.nt").mkdir()
    with pytest.raises(InputError, match="this is a folder"):
        check_output(tmp_path / "d.nt", 1)
