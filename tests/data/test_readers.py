"""Good files of every format give the same graph; labels survive as they are."""

from __future__ import annotations

import csv
import gzip
import io
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decentrl.data import delimited
from decentrl.data.knowledge_graph import KnowledgeGraph
from decentrl.data.readers import read_table
from decentrl.data.table import TRIPLE, stem
from decentrl.errors import DecentRLWarning, MissingExtraError

E = "http://example.org/"
TRIPLES = [
    (E + "北京", E + "capitalOf", E + "中国"),
    (E + "Zürich", E + "in", E + "Schweiz"),
    (E + "Bern", E + "capitalOf", E + "Schweiz"),
]


def write(file: Path, triples: list[tuple[str, str, str]]) -> Path:
    """Write triples in the format of the file's extension."""
    kind = Path(stem(file, extension=True)).suffix
    if kind in (".nt", ".ttl"):
        text = "".join(f"<{h}> <{r}> <{t}> .\n" for h, r, t in triples)
        data = text.encode()
    elif kind == ".parquet":
        sink = io.BytesIO()
        columns = list(zip(*triples, strict=True))
        pq.write_table(pa.table(columns, names=["x", "y", "z"]), sink)
        data = sink.getvalue()
    elif kind == ".csv":
        text_sink = io.StringIO(newline="")
        csv.writer(text_sink).writerows(triples)
        data = text_sink.getvalue().encode()
    else:
        data = "".join("\t".join(row) + "\n" for row in triples).encode()
    file.write_bytes(gzip.compress(data) if file.suffix == ".gz" else data)
    return file


def rows(graph: KnowledgeGraph) -> set[tuple[str, str, str]]:
    """The triples of a graph as labels."""
    e, r = graph.entities, graph.relations
    return {(e[h], r[k], e[t]) for h, k, t in graph.triples.tolist()}


@pytest.mark.parametrize("packed", ["", ".gz"])
@pytest.mark.parametrize("name", ["g.txt", "g", "g.csv", "g.parquet", "g.nt", "g.ttl"])
def test_every_format_gives_the_same_graph(tmp_path: Path, name: str, packed: str) -> None:
    expected = KnowledgeGraph.read(write(tmp_path / "expected.tsv", TRIPLES))
    graph = KnowledgeGraph.read(write(tmp_path / (name + packed), TRIPLES[::-1]))
    assert rows(graph) == set(TRIPLES)
    assert graph.content_hash() == expected.content_hash()


def test_the_format_can_be_named_where_the_extension_says_nothing(tmp_path: Path) -> None:
    file = tmp_path / "export.2024"
    file.write_text("a,r,b\n")
    assert rows(KnowledgeGraph.read(file, format="csv")) == {("a", "r", "b")}


text = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\t\n\r\ufeff"),
    min_size=1,
    max_size=6,
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(text, text, text), min_size=1, max_size=6))
@pytest.mark.parametrize("name", ["g.tsv", "g.csv", "g.parquet"])
def test_any_label_without_tab_or_line_end_survives(
    tmp_path_factory: pytest.TempPathFactory, name: str, triples: list[tuple[str, str, str]]
) -> None:
    graph = KnowledgeGraph.read(write(tmp_path_factory.mktemp("g") / name, triples))
    assert rows(graph) == set(triples)
    assert graph.counts.duplicates == len(triples) - len(set(triples))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(text, text, text), min_size=1, max_size=6))
def test_the_slow_reading_agrees_with_the_fast_one(triples: list[tuple[str, str, str]]) -> None:
    data = "\n".join("\t".join(row) for row in triples).encode()
    slow = delimited._slow(data, Path("g.tsv"), ("head", "relation", "tail"), delimited.TSV)
    fast = delimited._fast(data, TRIPLE, "\t", 0)
    assert fast is not None
    assert [c.to_pylist() for c in fast] == [c.to_pylist() for c in slow]


@pytest.mark.parametrize(
    "label", ['a "quoted', '"', "NA", "null", "x\u0085y", "x\u2028y", "\\N", "0012"]
)
def test_labels_that_readers_like_to_spoil_stay_as_they_are(tmp_path: Path, label: str) -> None:
    triples = [(label, "r", "b"), ("c", "r", label)]
    assert rows(KnowledgeGraph.read(write(tmp_path / "g.tsv", triples))) == set(triples)


def test_windows_line_ends_byte_order_mark_and_blank_end_are_no_part_of_labels(
    tmp_path: Path,
) -> None:
    for name, mark in (("g.tsv", "\t"), ("g.csv", ",")):
        file = tmp_path / name
        file.write_bytes(f"\ufeffa{mark}r{mark}b\r\nb{mark}r{mark}c\r\n\r\n\n".encode())
        assert rows(KnowledgeGraph.read(file)) == {("a", "r", "b"), ("b", "r", "c")}


def test_a_quoted_csv_label_may_contain_commas_quotes_and_lines(tmp_path: Path) -> None:
    file = tmp_path / "g.csv"
    file.write_text('"a, ""b""",r,"two\nlines"\n')
    assert rows(KnowledgeGraph.read(file)) == {('a, "b"', "r", "two\nlines")}


def test_named_columns_are_found_in_any_order(tmp_path: Path) -> None:
    (tmp_path / "g.csv").write_text("tail,head,relation\nb,a,r\n")
    table = pa.table({"weight": [1.0], "tail": ["b"], "relation": ["r"], "head": ["a"]})
    pq.write_table(table, tmp_path / "g.parquet")
    for name in ("g.csv", "g.parquet"):
        assert rows(KnowledgeGraph.read(tmp_path / name)) == {("a", "r", "b")}


def test_columns_of_parquet_are_found_by_the_names_of_rdf_too(tmp_path: Path) -> None:
    columns = {"object": ["b", "c"], "predicate": ["r", "r"], "subject": ["a", "b"]}
    pq.write_table(pa.table(columns), tmp_path / "g.parquet")
    graph = KnowledgeGraph.read(tmp_path / "g.parquet")
    told = [(graph.entities[h], graph.relations[r], graph.entities[t]) for h, r, t in graph.triples]
    assert sorted(told) == [("a", "r", "b"), ("b", "r", "c")]


def test_parquet_labels_may_be_categories_or_integers(tmp_path: Path) -> None:
    columns = [pa.array(["a", "b"]).dictionary_encode(), pa.array(["r", "r"]), pa.array([7, 8])]
    pq.write_table(pa.table(columns, names=["x", "y", "z"]), tmp_path / "g.parquet")
    assert rows(KnowledgeGraph.read(tmp_path / "g.parquet")) == {("a", "r", "7"), ("b", "r", "8")}


def test_duplicates_are_dropped_and_counted(tmp_path: Path) -> None:
    graph = KnowledgeGraph.read(write(tmp_path / "g.tsv", [*TRIPLES, *TRIPLES[:2]]))
    assert (len(graph.triples), graph.counts.duplicates) == (3, 2)


def test_literals_of_what_is_in_no_triple_are_left_out_and_counted(tmp_path: Path) -> None:
    file = tmp_path / "g.ttl"
    file.write_text('@prefix : <http://e/> . :a :r :b ; :age 7 . :r :name "rules"@en, "R" .')
    with pytest.warns(DecentRLWarning, match=r"g\.ttl: 2 literals of what is in no") as warned:
        graph = KnowledgeGraph.read(file)
    assert warned[0].filename == __file__
    assert rows(graph) == {("http://e/a", "http://e/r", "http://e/b")}
    assert (graph.counts.literals, len(graph.names), len(graph.attributes)) == (2, 0, 1)
    assert len(graph.relations) == 1


def test_blank_nodes_have_the_same_names_at_every_reading(tmp_path: Path) -> None:
    file = tmp_path / "shop.ttl"
    file.write_text("@prefix : <http://e/> . :a :r [ :q :b ] . _:x :r :a .")
    first, second = KnowledgeGraph.read(file), KnowledgeGraph.read(file)
    assert first.content_hash() == second.content_hash()
    blank = [x for x in first.entities if x.startswith("_:")]
    assert [x.rpartition(".")[2] for x in blank] == ["0", "1"]
    assert all(x.startswith("_:shop-") for x in blank)
    (tmp_path / "other").mkdir()
    other = tmp_path / "other" / "shop.ttl"
    other.write_text("@prefix : <http://e/> . _:x :r :b .")
    assert not set(blank) & set(KnowledgeGraph.read(other).entities)


def test_without_pyoxigraph_the_error_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyoxigraph", None)
    with pytest.raises(MissingExtraError, match=r"decentrl\[rdf\]"):
        KnowledgeGraph.read(write(tmp_path / "g.nt", TRIPLES))


def test_a_file_of_many_blocks_keeps_its_rows_together(tmp_path: Path) -> None:
    triples = [
        (f"entity/{i}", f"relation/{i % 7}", f"entity/{i * 7919 % 60000}") for i in range(60000)
    ]
    table = read_table(write(tmp_path / "g.tsv", triples))
    assert table.columns[0].num_chunks > 1
    assert rows(KnowledgeGraph.read(tmp_path / "g.tsv")) == set(triples)


def test_a_line_longer_than_a_block_is_read_too(tmp_path: Path) -> None:
    triples = [("a" * 3_000_000, "r", "b"), ("b", "r", "c")]
    assert rows(KnowledgeGraph.read(write(tmp_path / "g.tsv", triples))) == set(triples)
