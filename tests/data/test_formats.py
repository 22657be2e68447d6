"""Every syntax of RDF, rows of JSON, and folders of files give the same graph."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyoxigraph as ox
import pytest

from decentrl.data.alignment_task import AlignmentTask
from decentrl.data.headers import Reading
from decentrl.data.knowledge_graph import KnowledgeGraph
from decentrl.data.readers import read_table
from decentrl.data.registry import as_graph_task
from decentrl.data.table import LINK, NAME
from decentrl.errors import FormatWarning, InputError

E = "http://example.org/"
LABEL = "http://www.w3.org/2000/01/rdf-schema#label"
ROWS = [
    ("Bern", "capitalOf", "Schweiz"),
    ("Zürich", "in", "Schweiz"),
    ("北京", "capitalOf", "中国"),
]
SYNTAXES = {
    "nt": ox.RdfFormat.N_TRIPLES,
    "ttl": ox.RdfFormat.TURTLE,
    "n3": ox.RdfFormat.N3,
    "rdf": ox.RdfFormat.RDF_XML,
    "owl": ox.RdfFormat.RDF_XML,
    "xml": ox.RdfFormat.RDF_XML,
    "jsonld": ox.RdfFormat.JSON_LD,
    "json": ox.RdfFormat.JSON_LD,
    "nq": ox.RdfFormat.N_QUADS,
    "trig": ox.RdfFormat.TRIG,
}


def statements() -> list[ox.Triple]:
    """The triples as RDF, with one name."""
    found = [ox.Triple(*(ox.NamedNode(E + x) for x in row)) for row in ROWS]
    name = ox.Literal("Berne", language="fr")
    return [*found, ox.Triple(ox.NamedNode(E + "Bern"), ox.NamedNode(LABEL), name)]


def triples(graph: KnowledgeGraph) -> set[tuple[str, ...]]:
    columns = graph.to_arrow().columns
    return {
        tuple(x.removeprefix(E) for x in row) for row in zip(*map(list_of, columns), strict=True)
    }


def list_of(column: Any) -> list[str]:
    return list(column.to_pylist())


@pytest.mark.parametrize("extension", SYNTAXES)
def test_every_syntax_gives_the_same_graph_and_names(tmp_path: Path, extension: str) -> None:
    syntax = SYNTAXES[extension]
    given = [
        ox.Quad(*x, ox.NamedNode(E + "g")) if syntax.supports_datasets else x for x in statements()
    ]
    file = tmp_path / f"g.{extension}"
    file.write_bytes(ox.serialize(given, format=syntax))
    graph = KnowledgeGraph.read(file)
    assert triples(graph) == set(ROWS)
    assert graph.names.of(graph.entities.id(E + "Bern")) == [("Berne", "fr")]
    expected = KnowledgeGraph.read([tuple(E + x for x in row) for row in ROWS])
    assert graph.entities == expected.entities
    assert graph.triples.tolist() == expected.triples.tolist()


def test_identifiers_that_are_relative_to_the_document_are_kept(tmp_path: Path) -> None:
    start = '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:e="http://e/">'
    text = '<rdf:Description rdf:about="#x"><e:k rdf:resource="#y"/></rdf:Description></rdf:RDF>'
    (tmp_path / "a b.owl").write_text(start + text)
    base = "file:///a%20b.owl#"
    assert list(KnowledgeGraph.read(tmp_path / "a b.owl").entities) == [base + "x", base + "y"]
    value = {"@context": {"@vocab": "http://e/"}, "@id": "#x", "k": {"@id": "#y"}}
    (tmp_path / "x.jsonld").write_text(json.dumps(value))
    assert len(KnowledgeGraph.read(tmp_path / "x.jsonld").triples) == 1


def test_what_n3_only_quotes_is_not_said(tmp_path: Path) -> None:
    (tmp_path / "g.n3").write_text("@prefix : <http://e/> . :a :r :b . :a :says { :b :r :c } .")
    graph = KnowledgeGraph.read(tmp_path / "g.n3")
    assert "http://e/c" not in graph.entities


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("g.rdf", "<rdf:RDF>", "this is not RDF/XML"),
        ("g.nq", "<http://a> <http://r> <http://b> .\nx\n", r"g\.nq:2: this is not N-Quads"),
        ("g.trig", "@prefix : <http://e/> .\n:g {", "this is not TriG"),
        ("g.jsonld", '{"@id": ', "this is not JSON-LD"),
        ("g.jsonld", '{"@context": "https://schema.org/", "@id": "http://a"}',
         "its @context is an address.; write what is at that address into the file"),
        ("g.jsonl", '["a", "r", "b"]\n["a", "r"\n', r"g\.jsonl:2: this is not JSON"),
        ("g.jsonl", '["a", "r", "b"]\n["a", "r"]\n', r"g\.jsonl:2: .* is no row; give .head, rel"),
        ("g.jsonl", '{"s": "a", "p": "r", "o": "b"}\n{"s": "a", "p": null, "o": "b"}\n',
         r"g\.jsonl:2: empty label in the column relation"),
        ("g.jsonl", '{"s": "a", "p": "r", "o": ["b"]}\n', "the tail .* is no label; give text"),
        ("g.jsonl", '{"a": "a", "b": "r", "c": "b", "d": ""}\n', "4 column.s., but 3 are needed"),
        ("g.json", "3", "this is no list of rows; give a list of rows, JSON lines"),
        ("g.json", '{\n"nodes": []\n}', "this is no list of rows; give a list of rows, JSON lines"),
        ("g.json", "[]", "there are no rows"),
        ("g.json", "[1,\n", "this is not JSON"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(tmp_path: Path, name: str, text: str, says: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=says) as caught:
        KnowledgeGraph.read(tmp_path / name)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["g.jsonl", "g.ndjson", "g.json"])
@pytest.mark.parametrize(
    "keys", [(), ("subject", "predicate", "object"), ("source", "type", "target")]
)
def test_rows_of_json_are_lists_or_objects(
    tmp_path: Path, name: str, keys: tuple[str, ...]
) -> None:
    rows = [dict(zip(keys, row, strict=True)) | {"n": 1} if keys else row for row in ROWS]
    lines = "\n".join(map(json.dumps, rows)) + "\n"
    (tmp_path / name).write_text(json.dumps(rows, indent=1) if name == "g.json" else lines)
    assert triples(KnowledgeGraph.read(tmp_path / name)) == set(ROWS)


def test_keys_may_be_chosen_and_numbers_are_labels(tmp_path: Path) -> None:
    (tmp_path / "g.jsonl").write_text(
        '{"x": 1, "y": "r", "z": 2.5, "w": []}\n\n{"z": "b", "y": "r", "x": 3}'
    )
    graph = KnowledgeGraph.read(tmp_path / "g.jsonl", Reading(columns=("x", "y", "z")))
    assert triples(graph) == {("1", "r", "2.5"), ("3", "r", "b")}


def test_names_and_links_may_be_json(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text('{"id": "a", "label": "Anna"}\n{"id": "b", "label": null}\n')
    columns = [column.to_pylist() for column in read_table(tmp_path / "x.jsonl", NAME).columns]
    assert columns == [["a", "b"], ["Anna", ""]]
    (tmp_path / "l.jsonl").write_text('{"left": "a", "right": "b"}\n')
    assert [c.to_pylist() for c in read_table(tmp_path / "l.jsonl", LINK).columns] == [["a"], ["b"]]


def folder_of(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "1.tsv").write_text("a\tr\tb\nb\tr\tc\n")
    (folder / "2.csv").write_text("head,relation,tail\nc,r,a\n")
    (folder / "3.ttl").write_text(
        f'<http://d> <http://r> <http://e> . <http://d> <{LABEL}> "Dora" .'
    )
    (folder / "names.nt").write_text(f'<http://e> <{LABEL}> "Emil" .\n')
    (folder / "LICENSE").write_text("all rights\n")
    (folder / ".hidden.tsv").write_text("x\n")
    return folder


def test_a_folder_of_files_is_one_graph(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "graph")
    with pytest.warns(FormatWarning, match=r"graph: 4 file\(s\) read, 1 others left out"):
        graph = KnowledgeGraph.read(folder)
    assert len(graph.triples) == 4
    assert {name for id in range(5) for name, _ in graph.names.of(id)} == {"Dora", "Emil"}
    with pytest.warns(FormatWarning):
        task = as_graph_task(folder, test=0.0)
    assert task.name == "graph"


def test_an_error_names_the_file_and_the_line_inside_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "links"
    folder.mkdir()
    (folder / "1.tsv").write_text("a\tA\n")
    (folder / "2.tsv").write_text("b\tB\nc\tno\n")
    graphs = [(x, "r", y) for x, y in ("ab", "bc", "ca")]
    others = [tuple(x.upper() for x in row) for row in graphs]
    with (
        pytest.warns(FormatWarning),
        pytest.raises(InputError, match=r"2\.tsv:2: 'no' is no entity"),
    ):
        AlignmentTask.read(graphs, others, folder)
    with pytest.warns(FormatWarning):
        task = AlignmentTask.read(graphs, others, folder, unknown_links="skip")
    assert len(task.train) == 2
    (folder / "3.tsv").write_text("x\n")
    with pytest.raises(InputError, match=r"3\.tsv:1: 1 column"):
        AlignmentTask.read(graphs, others, folder)


@pytest.mark.parametrize("name", ["train.txt", "triples_1.tsv.gz", "rel_triples_1"])
def test_the_folder_of_a_dataset_is_not_read_whole(tmp_path: Path, name: str) -> None:
    folder = folder_of(tmp_path / "d")
    (folder / name).write_text("a\tr\tb\n")
    with pytest.raises(InputError, match="this is the folder of a dataset; give it by --dataset"):
        KnowledgeGraph.read(folder)
