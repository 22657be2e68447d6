"""What ``fit`` takes becomes a task, for both jobs alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from decentrl.data.alignment_task import AlignmentTask
from decentrl.data.graph_task import GraphTask
from decentrl.data.knowledge_graph import KnowledgeGraph
from decentrl.data.registry import as_alignment_task, as_graph_task, load_dataset, load_task
from decentrl.errors import InputError

LEFT = [("a", "r", "b"), ("b", "r", "c"), ("c", "r", "a"), ("a", "s", "c"), ("b", "s", "a")]
RIGHT = [(h.upper(), r, t.upper()) for h, r, t in LEFT]
LINKS = [("a", "A"), ("b", "B")]


def write(file: Path, rows: Any) -> Path:
    file.write_text("".join("\t".join(row) + "\n" for row in rows))
    return file


def test_a_dataset_is_named_alike_in_both_jobs() -> None:
    for name, make in (("world", as_alignment_task), ("world/geonames", as_graph_task)):
        assert make(name).content_hash() == load_dataset(name).content_hash()  # type: ignore[operator]


def test_a_ready_task_is_taken_as_it_is() -> None:
    links, graph = AlignmentTask.read(LEFT, RIGHT, LINKS), GraphTask.read(LEFT)
    assert as_alignment_task(links) is links
    assert as_graph_task(graph) is graph


def test_graphs_and_links_may_be_files_or_in_memory(tmp_path: Path) -> None:
    files = [
        write(tmp_path / name, rows)
        for name, rows in (("l.tsv", LEFT), ("r.tsv", RIGHT), ("s.tsv", LINKS))
    ]
    test = [("c", "C")]
    expected = as_alignment_task(*files, test).content_hash()
    graph = KnowledgeGraph.read(files[1])
    assert as_alignment_task(LEFT, graph, LINKS, test).content_hash() == expected
    frames = [pd.DataFrame(x) for x in (LEFT, RIGHT, LINKS)]
    assert as_alignment_task(*frames, test_links=test).content_hash() == expected
    assert as_alignment_task(*files, None, test).valid.tolist() == [[2, 2]]


@pytest.mark.parametrize("given", [{}, {"links": LINKS}, {"test_links": LINKS}])
def test_one_graph_alone_is_no_alignment(given: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="needs two graphs and links; give left, right and links"):
        as_alignment_task(LEFT, **given)


def test_a_task_brings_its_own_links(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="or a task or the name of a dataset alone"):
        as_alignment_task(AlignmentTask.read(LEFT, RIGHT, LINKS), RIGHT, LINKS)
    with pytest.raises(InputError, match="needs two graphs and links"):
        as_alignment_task(write(tmp_path / "l.tsv", LEFT))


def test_a_dataset_of_the_other_job_is_refused() -> None:
    with pytest.raises(
        InputError, match=r"world is two graphs, prediction needs one; .*prediction"
    ):
        as_graph_task("world")
    with pytest.raises(InputError, match=r"world/cldr is one graph, alignment needs two; .*align"):
        as_alignment_task("world/cldr")
    with pytest.raises(InputError, match="no dataset or folder 'nowhere'"):
        as_alignment_task("nowhere")
    assert load_task(GraphTask, "world/cldr", open_world=True).open_world


def test_shares_of_a_graph_are_held_out(tmp_path: Path) -> None:
    expected = GraphTask.from_graph("x", KnowledgeGraph.read(LEFT), 0.2, 0.2, 3).content_hash()
    for source in (LEFT, KnowledgeGraph.read(LEFT), write(tmp_path / "g.tsv", LEFT)):
        task = as_graph_task(source, 0.2, 0.2, 3)
        assert task.content_hash() == expected
        assert task.name == ("g" if isinstance(source, Path) else "graph")
    assert len(as_graph_task(LEFT, 0, 0).graph.triples) == len(LEFT)


def test_triples_to_validate_and_test_on_may_be_given(tmp_path: Path) -> None:
    test = write(tmp_path / "t.tsv", [("a", "s", "b")])
    for source in (LEFT, KnowledgeGraph.read(LEFT)):
        task = as_graph_task(source, [("c", "s", "b")], test)
        assert (task.valid.tolist(), task.test.tolist()) == ([[2, 1, 1]], [[0, 1, 1]])
        assert len(task.graph.triples) == len(LEFT)
    assert len(as_graph_task(LEFT, 0.2, test).valid) == 1


def test_a_task_prints_its_sizes() -> None:
    links = repr(AlignmentTask.read(LEFT, RIGHT, LINKS))
    graph = "KnowledgeGraph(3 entities, 2 relations, 5 triples)"
    assert links == (
        f"AlignmentTask('left-right', {graph}, {graph}, 2 links, 0 to validate, 0 to test)"
    )
    task = GraphTask.read(LEFT, 0, 0)
    assert repr(task) == f"GraphTask('graph', {graph}, 0 to validate, 0 to test)"
