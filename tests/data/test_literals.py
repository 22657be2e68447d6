"""Names and attributes of a graph, from RDF, tables and memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from decentrl.data.attributes import NO_ATTRIBUTES
from decentrl.data.knowledge_graph import KnowledgeGraph
from decentrl.data.literals import NAME_PROPERTIES
from decentrl.errors import DecentRLWarning, InputError

TRIPLES = [("a", "r", "b"), ("b", "r", "c")]
PREFIXES = (
    "@prefix : <http://e/> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> . "
    "@prefix skos: <http://www.w3.org/2004/02/skos/core#> . "
    "@prefix xsd: <http://www.w3.org/2001/XMLSchema#> . "
)


@pytest.fixture
def graph() -> KnowledgeGraph:
    return KnowledgeGraph.read(TRIPLES)


def turtle(tmp_path: Path, text: str, **options: Any) -> KnowledgeGraph:
    pytest.importorskip("pyoxigraph")
    file = tmp_path / "g.ttl"
    file.write_text(PREFIXES + text, "utf-8")
    return KnowledgeGraph.read(file, **options)


def test_labels_of_rdf_are_names_and_other_literals_attributes(tmp_path: Path) -> None:
    graph = turtle(
        tmp_path,
        ':a :r :b ; skos:altLabel "Big"@en ; rdfs:label "Gross"@de, "Great"@en, "G" ; '
        ':age 7 ; :born "1990-01-02"^^xsd:date ; :alive true ; :note "hi"@en ; :odd "x"^^xsd:int ; '
        ':area "12.5"^^<http://dbpedia.org/datatype/squareKilometre> ; :code "0042" .',
    )
    assert graph.names.of(0) == [("G", ""), ("Great", "en"), ("Gross", "de"), ("Big", "en")]
    assert graph.attributes.of(0) == [
        ("http://e/age", "7", "number"),
        ("http://e/alive", "true", "boolean"),
        ("http://e/area", "12.5", "number"),
        ("http://e/born", "1990-01-02", "date"),
        ("http://e/code", "0042", "string"),
        ("http://e/note", "hi", "string"),
        ("http://e/odd", "x", "string"),
    ]
    assert repr(graph).endswith("1 triples, 4 names, 7 attributes)")


def test_the_list_of_name_properties_can_be_longer(tmp_path: Path) -> None:
    text = ':a :r :b ; :called "A" .'
    assert not turtle(tmp_path, text).names
    graph = turtle(tmp_path, text, name_properties=["http://e/called"])
    assert (graph.names.shown([0, 1]), len(graph.attributes)) == (["A", ""], 0)
    assert "http://e/called" not in NAME_PROPERTIES


def test_a_graph_without_names_has_the_hash_it_always_had(graph: KnowledgeGraph) -> None:
    assert graph.content_hash() == (
        "20d3fae36e8c949070f354a08aa2e370dee2176fce76167c7952d00cbb53bef9"
    )
    named, said = graph.with_names("ids"), graph.with_attributes([("a", "age", "7")])
    assert len({x.content_hash() for x in (graph, named, said)}) == 3
    assert named.with_names("none").content_hash() == graph.content_hash()
    assert said.with_attributes("none").content_hash() == graph.content_hash()
    assert named.with_triples(graph.triples[:1]).names is named.names


ROWS = [("b", "Bee", "en"), ("a", "Ay", ""), ("b", "Biene", "de"), ("b", "Bumble", "en")]


def forms(tmp_path: Path) -> dict[str, Any]:
    columns = list(zip(*ROWS, strict=True))
    table = pa.table([pa.array(x) for x in columns], names=["entity", "name", "language"])
    pq.write_table(table, tmp_path / "n.parquet")
    (tmp_path / "n.tsv").write_text("".join("\t".join(x) + "\n" for x in ROWS), "utf-8")
    csv = ["name,language,entity", *(f"{n},{t},{e}" for e, n, t in ROWS)]
    (tmp_path / "n.csv").write_text("\n".join(csv) + "\n", "utf-8")
    files = {kind: tmp_path / f"n.{kind}" for kind in ("tsv", "csv", "parquet")}
    return {**files, "rows": ROWS, "frame": pd.DataFrame(table.to_pydict()), "arrow": table}


@pytest.mark.parametrize("form", ["tsv", "csv", "parquet", "rows", "frame", "arrow"])
def test_names_of_a_table(tmp_path: Path, graph: KnowledgeGraph, form: str) -> None:
    names = graph.with_names(forms(tmp_path)[form]).names
    assert [names.of(i) for i in range(3)] == [
        [("Ay", "")],
        [("Bee", "en"), ("Biene", "de"), ("Bumble", "en")],  # an alias comes last
        [],
    ]


@pytest.mark.parametrize("form", ["tsv", "csv", "parquet", "rows", "frame"])
def test_the_language_may_be_left_out(tmp_path: Path, graph: KnowledgeGraph, form: str) -> None:
    pairs = [row[:2] for row in ROWS]
    source: Any = pairs if form == "rows" else pd.DataFrame(pairs, columns=["entity", "name"])
    if form not in ("rows", "frame"):
        file = tmp_path / f"n.{form}"
        write = {"tsv": ("to_csv", "\t"), "csv": ("to_csv", ","), "parquet": ("to_parquet", "")}
        method, mark = write[form]
        head = {"header": form == "csv", "sep": mark} if mark else {}
        getattr(source, method)(file, index=False, **head)
        source = file
    names = graph.with_names(source).names
    assert names.of(1) == [("Bee", ""), ("Biene", ""), ("Bumble", "")]


def test_labels_may_be_in_an_rdf_file_of_their_own(tmp_path: Path) -> None:
    pytest.importorskip("pyoxigraph")
    graph = KnowledgeGraph.read([("http://e/a", "r", "http://e/b")])
    file = tmp_path / "labels.ttl"
    file.write_text(PREFIXES + ':a rdfs:label "A" ; :age 7 . :z rdfs:label "Z" .', "utf-8")
    with pytest.warns(DecentRLWarning, match=r"labels\.ttl: 1 names of entities that are not"):
        assert graph.with_names(file).names.of(0) == [("A", "")]
    with pytest.warns(DecentRLWarning):
        assert graph.with_attributes(file).attributes.of(0) == [("http://e/age", "7", "number")]


def test_other_entities_are_left_out_but_not_all(tmp_path: Path, graph: KnowledgeGraph) -> None:
    with pytest.warns(DecentRLWarning, match="the names: 1 names of entities that are not in"):
        assert len(graph.with_names([("a", "Ay"), ("z", "Zed")]).names) == 1
    with pytest.raises(InputError, match="no entity of the graph has names here; name entities"):
        graph.with_names([("z", "Zed")])
    file = tmp_path / "attributes.tsv"
    file.write_text("z\tage\t7\n", "utf-8")
    with pytest.raises(InputError, match=r"attributes\.tsv: no entity of the graph has attrib"):
        graph.with_attributes(file)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("7", "number"),
        ("-0.5e3", "number"),
        ("007", "string"),
        ("1e", "string"),
        ("+49 30", "string"),
        ("1990-01-02", "date"),
        ("1990-01-02T10:00:00Z", "date"),
        ("1990-01", "string"),
        ("TRUE", "boolean"),
        ("12 km", "string"),
        ("nan", "string"),
    ],
)
def test_kinds_of_values_without_a_datatype(graph: KnowledgeGraph, value: str, kind: str) -> None:
    assert graph.with_attributes([("a", "x", value)]).attributes.of(0) == [("x", value, kind)]


def test_attributes_come_together_in_any_order(graph: KnowledgeGraph) -> None:
    rows = [("b", "x", "1"), ("a", "y", "u\nv"), ("a", "x", "2"), ("a", "x", ""), ("b", "x", "1")]
    whole = graph.with_attributes(rows).attributes
    parts = [graph.with_attributes(rows[:1]).attributes, graph.with_attributes(rows[1:]).attributes]
    for joined in (parts[0].concat(*parts[1:]), NO_ATTRIBUTES.concat(*parts[::-1])):
        assert joined.to_arrow().equals(whole.to_arrow())
    assert whole.of(0) == [("x", "2", "number"), ("y", "u v", "string")]
    assert repr(whole) == "Attributes(3 of 2 entities)"


BAD = [
    ("one.tsv", b"a\n", 1, r"1 column\(s\), but 3 are needed"),
    ("four.tsv", b"a\tA\ten\tx\n", 1, r"4 column\(s\), but 3"),
    ("later.tsv", b"a\tA\nb\tB\ten\n", 2, r"3 column\(s\), but 2 are needed; .*entity, name"),
    ("nobody.tsv", b"\tA\ten\n", 1, "empty label in the column entity"),
    ("latin1.tsv", b"a\tZ\xfcrich\n", 1, "invalid UTF-8"),
    ("return.tsv", b"a\tA\rB\nb\tB\n", 1, "carriage return inside a line"),
]


@pytest.mark.parametrize(("name", "content", "line", "says"), BAD, ids=[x[0] for x in BAD])
def test_a_bad_file_of_names_is_named_with_its_line(
    tmp_path: Path, graph: KnowledgeGraph, name: str, content: bytes, line: int, says: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=rf"{name}:{line}: .*{says}"):
        graph.with_names(tmp_path / name)


def test_odd_names_of_a_file_are_cleaned(tmp_path: Path, graph: KnowledgeGraph) -> None:
    file = tmp_path / "odd.tsv"
    file.write_bytes(
        b"a\t\x00A\x00\x07B \ten us\na\t\ten\nb\t" + b"x" * 3_000_000 + b"\tEN_us\nc\t\t\n"
    )
    names = graph.with_names(file).names
    assert names.of(0) == [("A B", "")]
    assert [(len(text), tag) for text, tag in names.of(1)] == [(1000, "en-us")]
    assert names.of(2) == []


def test_odd_literals_of_rdf_are_cleaned(tmp_path: Path) -> None:
    label = "http://www.w3.org/2000/01/rdf-schema#label"
    odd = ['"\\u0000A\\nB\\t "@en', '""', '"<script>alert(1)</script>"@he', '"\u200fא"@x-private']
    odd += [f'"{"y" * 1_000_000}"', *['"same"@en'] * 10_000]
    pytest.importorskip("pyoxigraph")
    file = tmp_path / "odd.nt"
    lines = [f"<http://e/a> <{label}> {text} ." for text in odd]
    file.write_text("<http://e/a> <http://e/r> <http://e/b> .\n" + "\n".join(lines) + "\n", "utf-8")
    names = KnowledgeGraph.read(file).names
    assert [(text if len(text) < 99 else len(text), tag) for text, tag in names.of(0)] == [
        (1000, ""),
        ("A B", "en"),
        ("<script>alert(1)</script>", "he"),
        ("\u200fא", "x-private"),
        ("same", "en"),
    ]


@pytest.mark.parametrize("text", ["\ud800", None, 7])
def test_what_is_no_text_is_one_line(graph: KnowledgeGraph, text: Any) -> None:
    with pytest.raises(InputError, match=r"row 1 of the names .*: the name .* is no text") as error:
        graph.with_names([("a", "A"), ("b", text)])
    assert "\n" not in str(error.value)
