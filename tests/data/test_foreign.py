"""Graphs of rdflib and networkx are read as the same graph in a file is."""

from __future__ import annotations

from pathlib import Path

import networkx as nx
import pytest

from decentrl.data.alignment_task import AlignmentTask
from decentrl.data.graph_task import GraphTask
from decentrl.data.knowledge_graph import KnowledgeGraph
from decentrl.data.readers import read_table
from decentrl.data.table import LINK, NAME
from decentrl.errors import InputError

rdflib = pytest.importorskip("rdflib")
TURTLE = """@prefix : <http://e/> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
:a :r :b ; rdfs:label "Anna"@de ; :age 7 ; :size 1.5 ; :born "2001-02-03" .
:b :r :c ; rdfs:label "Ben" . :a owl:sameAs :z .
"""


def rdf() -> rdflib.Graph:
    return rdflib.Graph().parse(data=TURTLE, format="turtle")


def test_a_graph_of_rdflib_is_what_its_file_is(tmp_path: Path) -> None:
    (tmp_path / "g.ttl").write_text(TURTLE)
    expected = KnowledgeGraph.read(tmp_path / "g.ttl")
    assert KnowledgeGraph.read(rdf()).content_hash() == expected.content_hash()
    assert len(GraphTask.read(rdf(), 0.0, 0.0).graph.triples) == 3
    dataset = rdflib.Dataset()
    for triple in rdf():
        dataset.graph(rdflib.URIRef("http://g")).add(triple)
    assert KnowledgeGraph.read(dataset).content_hash() == expected.content_hash()


def test_links_and_names_of_rdflib() -> None:
    links = read_table(rdf(), LINK)
    assert [column.to_pylist() for column in links.columns] == [["http://e/a"], ["http://e/z"]]
    assert len(read_table(rdf(), NAME).literals or ()) == 5
    plain = KnowledgeGraph.from_labels(["http://e/a"], ["r"], ["http://e/b"])
    with pytest.warns(match="the names: .* of entities that are not"):
        named = plain.with_names(
            rdflib.Graph().parse(
                data=TURTLE.replace(":b :r", ":q rdfs:label 'Q' . :b :r"), format="turtle"
            )
        )
    assert named.names.shown([0, 1]) == ["Anna", "Ben"]


def test_what_rdflib_cannot_say_is_an_error() -> None:
    graph = rdflib.Graph()
    with pytest.raises(InputError, match="there is no statement in it"):
        KnowledgeGraph.read(graph)
    graph.add((rdflib.URIRef("http://a"), rdflib.URIRef("http://r"), rdflib.Literal("x")))
    with pytest.raises(InputError, match="all objects are literals"):
        KnowledgeGraph.read(graph)
    with pytest.raises(InputError, match="all objects are literals"):
        read_table(graph, LINK)


def digraph(kind: type[nx.Graph] = nx.DiGraph) -> nx.Graph:
    graph = kind()
    graph.add_node("a", name="Anna", age=7, good=True, tags=["x"])
    graph.add_node("alone", name="Nobody")
    graph.add_edge("a", "b", weight=1.0, relation="knows")
    graph.add_edge("b", 3, Type="likes")
    return graph


@pytest.mark.parametrize("kind", [nx.Graph, nx.DiGraph, nx.MultiDiGraph, nx.MultiGraph])
def test_edges_are_triples_and_attributes_of_nodes_are_those_of_entities(
    kind: type[nx.Graph],
) -> None:
    graph = KnowledgeGraph.read(digraph(kind))
    rows = set(zip(*(c.to_pylist() for c in graph.to_arrow().columns), strict=True))
    assert rows == {("a", "knows", "b"), ("b", "likes", "3")}
    a = graph.entities.id("a")
    assert graph.names.of(a) == [("Anna", "")]
    assert {name for name, *_ in graph.attributes.of(a)} == {"age", "good"}


def test_keys_of_a_multigraph_are_relations() -> None:
    graph = nx.MultiDiGraph()
    graph.add_edges_from([("a", "b", "r"), ("a", "b", "s")])
    found = KnowledgeGraph.read(graph)
    assert list(found.relations) == ["r", "s"]


def test_edges_are_links_too() -> None:
    left, right = ([(x, "r", y) for x, y in pairs] for pairs in (("ab", "bc"), ("AB", "BC")))
    links = nx.Graph([("a", "A"), ("b", "B")])
    assert len(AlignmentTask.read(left, right, links).train) == 2


@pytest.mark.parametrize(
    ("edge", "says"),
    [
        (
            (1, 2, {}),
            r"the edge \(1, 2\) has no relation; give it the attribute `relation`, a text",
        ),
        ((1, 2, {"relation": 3}), "has no relation"),
        ((1, (2, 3), {"relation": "r"}), "joins no labels; name nodes by text or integers"),
    ],
)
def test_what_networkx_cannot_say_is_an_error(edge: tuple[object, ...], says: str) -> None:
    with pytest.raises(InputError, match=says):
        KnowledgeGraph.read(nx.Graph([edge]))
    with pytest.raises(InputError, match="there is no statement"):
        KnowledgeGraph.read(nx.Graph())
