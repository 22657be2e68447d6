"""Entities by their names: what is asked for, and what stands beside identifiers."""

from __future__ import annotations

import pyarrow as pa
import pytest

from decentrl.data.called import called
from decentrl.data.knowledge_graph import KnowledgeGraph
from decentrl.data.naming import add_names, entity_ids
from decentrl.errors import InputError, UnknownLabelError

GRAPH = KnowledgeGraph.read([(f"e{i}", "r", f"e{i + 1}") for i in range(8)]).with_names(
    [
        ("e0", "Berlin", "de"),
        ("e0", "Berlino", "it"),
        ("e1", "BERLIN", ""),
        ("e2", "e3", ""),
        ("e4", "straße", ""),
        *((f"e{i}", "Springfield", "en") for i in range(1, 8)),
    ]
)


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("e5", "e5"),
        ("e3", "e3"),  # an identifier wins over a name
        ("Berlin", "e0"),  # and the exact name over another case
        ("BERLIN", "e1"),
        ("berlino", "e0"),
        ("STRASSE", "e4"),
        (" Berlino\n", "e0"),
    ],
)
def test_an_entity_may_be_called_by_its_name(asked: str, found: str) -> None:
    assert GRAPH.entities[int(entity_ids(GRAPH, [asked])[0])] == found


def test_a_name_of_several_entities_is_an_error_that_lists_some() -> None:
    with pytest.raises(
        InputError, match=r"7 entities are called 'Springfield'; give an .*: 'e1', .* 'e5', …$"
    ):
        entity_ids(GRAPH, ["e0", "Springfield"])
    with pytest.raises(InputError, match=r"2 entities are called 'berlin'; .*: 'e0', 'e1'$"):
        entity_ids(GRAPH, ["berlin"])


def test_one_entity_needs_no_list() -> None:
    assert entity_ids(GRAPH, "Berlino").tolist() == [0]


def test_an_entity_of_the_other_graph_is_found_there() -> None:
    other = KnowledgeGraph.read([("x1", "r", "x2")]).with_names([("x1", "Bern")])
    graphs = {"left": GRAPH, "right": other}
    for label in ("x2", "bern"):
        with pytest.raises(UnknownLabelError, match=f"{label}' is unknown in this .*--side r"):
            entity_ids(GRAPH, [label], graphs)
    assert entity_ids(GRAPH, ["e5"], graphs).tolist() == [5]
    with pytest.raises(UnknownLabelError, match=r"'x9' is unknown; check its"):
        entity_ids(GRAPH, ["x9"], graphs)


def test_what_no_entity_is_called_has_suggestions_among_names_too() -> None:
    with pytest.raises(UnknownLabelError, match="'Sprinfield' is unknown; did you mean 'Spring"):
        entity_ids(GRAPH, ["Sprinfield"])


def test_names_stand_at_the_end_of_a_table() -> None:
    table = pa.table({"left": ["e0", "e8"], "right": ["e1", None], "rank": [1, 1]})
    none = KnowledgeGraph.read([("a", "r", "b")])
    found = add_names(table, {"left": none, "right": GRAPH})
    assert found.column_names == ["left", "right", "rank", "right_name"]
    assert found["right_name"].to_pylist() == ["BERLIN", None]
    found = add_names(table, {"left": GRAPH}, "it")
    assert found["left_name"].to_pylist() == ["Berlino", None]


def test_a_person_reads_the_name_first() -> None:
    assert called({"left": "e0", "left_name": "Berlin"}, "left") == "Berlin <e0>"
    assert called({"left": "e0", "left_name": "e0"}, "left") == "e0"
    assert called({"left": "e0", "left_name": None}, "left") == "e0"
    assert called({"right": None}, "right") is None
