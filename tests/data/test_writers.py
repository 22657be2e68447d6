"""What is written can be read again, and is complete or absent."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from decentrl.data import writers
from decentrl.data.alignment_task import AlignmentTask
from decentrl.data.graph_task import GraphTask
from decentrl.data.knowledge_graph import KnowledgeGraph
from decentrl.data.registry import load_dataset
from decentrl.data.writers import write_alignment_folder, write_graph_folder
from decentrl.errors import InputError


def files(folder: Path) -> dict[str, bytes]:
    return {str(x.relative_to(folder)): x.read_bytes() for x in folder.rglob("*") if x.is_file()}


@pytest.mark.parametrize("open_world", [False, True])
def test_an_alignment_task_survives_its_folder(tmp_path: Path, open_world: bool) -> None:
    task = load_dataset("world", open_world)
    assert isinstance(task, AlignmentTask)
    task = task.hold_out(0.1, 0, "valid")
    write_alignment_folder(task, tmp_path / "out")
    assert load_dataset(str(tmp_path / "out"), open_world).content_hash() == task.content_hash()


@pytest.mark.parametrize("open_world", [False, True])
def test_a_graph_task_survives_its_folder(tmp_path: Path, open_world: bool) -> None:
    task = load_dataset("world/cldr", open_world)
    assert isinstance(task, GraphTask)
    write_graph_folder(task, tmp_path / "out")
    assert load_dataset(str(tmp_path / "out"), open_world).content_hash() == task.content_hash()


def test_writing_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    task = load_dataset("world", open_world=True)
    assert isinstance(task, AlignmentTask)
    for name in ("one", "two"):
        write_alignment_folder(task, tmp_path / name)
    assert files(tmp_path / "one") == files(tmp_path / "two")


def test_names_and_attributes_survive_a_folder(tmp_path: Path) -> None:
    graph = KnowledgeGraph.read([("b", "r", "a"), ("a", "r", "c")])
    graph = graph.with_names(
        [("a", "Ay", "en"), ("a", "Ah", "en"), ("a", "Äh", ""), ("c", "C", "")]
    )
    graph = graph.with_attributes([("b", "age", "7"), ("b", "born", "1990-01-02")])
    links = np.array([[0, 0], [1, 1]])
    pair = AlignmentTask("pair", graph, graph, links[:1], links[:0], links[1:])
    write_alignment_folder(pair, tmp_path / "pair")
    assert load_dataset(str(tmp_path / "pair")).content_hash() == pair.content_hash()
    one = GraphTask("one", graph, graph.triples[:0], graph.triples[:0])
    write_graph_folder(one, tmp_path / "one")
    assert load_dataset(str(tmp_path / "one")).content_hash() == one.content_hash()


def small(label: str = "b") -> GraphTask:
    graph = KnowledgeGraph.from_labels(["a", "c"], ["r", "r"], [label, "a"])
    return GraphTask("small", graph, graph.triples[:0], graph.triples[:0])


def test_an_existing_folder_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("precious")
    with pytest.raises(InputError, match="exists already"):
        write_graph_folder(small(), tmp_path)
    assert files(tmp_path) == {"mine": b"precious"}


def test_a_label_that_text_cannot_hold_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="contains a tab or a line end"):
        write_graph_folder(small("two\nlines"), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_a_crash_in_the_middle_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(writers, "_write_triples", crash)
    with pytest.raises(KeyboardInterrupt):
        write_graph_folder(small(), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="out: cannot write there"):
        write_graph_folder(small(), tmp_path / "file" / "out")
