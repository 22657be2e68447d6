"""Two graphs and their links, read from the files people have."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decentrl.data.alignment_task import AlignmentTask
from decentrl.data.knowledge_graph import KnowledgeGraph
from decentrl.errors import InputError

LEFT = "Wien\tHauptstadt von\tÖsterreich\nBern\tHauptstadt von\tSchweiz\n"
RIGHT = "Vienna\tcapital of\tAustria\nBerne\tcapital of\tSwitzerland\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "de.tsv").write_text(LEFT)
    (tmp_path / "en.tsv").write_text(RIGHT)
    return tmp_path


def read(
    folder: Path, links: str, test: str | None = None, name: str = "links.tsv"
) -> AlignmentTask:
    (folder / name).write_text(links)
    if test is not None:
        (folder / "test.tsv").write_text(test)
    more = None if test is None else folder / "test.tsv"
    return AlignmentTask.read(folder / "de.tsv", folder / "en.tsv", folder / name, more)


def labels(task: AlignmentTask, links: np.ndarray) -> list[tuple[str, str]]:
    return [(task.left.entities[a], task.right.entities[b]) for a, b in links.tolist()]


def test_links_keep_the_order_of_the_file_and_lose_repetitions(folder: Path) -> None:
    task = read(folder, "Wien\tVienna\nBern\tBerne\nWien\tVienna\n", "Schweiz\tSwitzerland\n")
    assert task.name == "de-en"
    assert labels(task, task.train) == [("Wien", "Vienna"), ("Bern", "Berne")]
    assert labels(task, task.test) == [("Schweiz", "Switzerland")]
    assert task.valid.shape == (0, 2)
    assert not task.open_world


def test_an_entity_may_have_two_links(folder: Path) -> None:
    assert len(read(folder, "Wien\tVienna\nWien\tBerne\n").train) == 2


SAME_AS = "<http://www.w3.org/2002/07/owl#sameAs>"


def read_rdf(folder: Path, links: str) -> AlignmentTask:
    (folder / "l.nt").write_text("<http://l/a> <http://r> <http://l/b> .\n")
    (folder / "r.nt").write_text("<http://r/a> <http://r> <http://r/b> .\n")
    (folder / "s.nt").write_text(links)
    return AlignmentTask.read(*(folder / x for x in ("l.nt", "r.nt", "s.nt")))


def test_links_may_be_same_as_statements(tmp_path: Path) -> None:
    note = '<http://l/a> <http://x> "note" .\n'
    task = read_rdf(tmp_path, f"{note}<http://l/a> {SAME_AS} <http://r/a> .\n")
    assert labels(task, task.train) == [("http://l/a", "http://r/a")]


def test_an_rdf_file_of_links_needs_same_as_statements(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no owl:sameAs statement; write links as"):
        read_rdf(tmp_path, "<http://l/a> <http://x> <http://r/a> .\n")


def test_a_bad_same_as_statement_is_named_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"s\.nt:3: 'http://r/z' is no entity of the right"):
        read_rdf(tmp_path, f"# seeds\n\n<http://l/a> {SAME_AS} <http://r/z> .\n")


def test_links_may_be_parquet_and_graphs_may_be_given(folder: Path) -> None:
    pq.write_table(pa.table({"right": ["Vienna"], "left": ["Wien"]}), folder / "s.parquet")
    graphs = [KnowledgeGraph.read(folder / x) for x in ("de.tsv", "en.tsv")]
    task = AlignmentTask.read(*graphs, folder / "s.parquet")
    assert labels(task, task.train) == [("Wien", "Vienna")]


BAD = [
    (
        "Wien\tVienna\nBernn\tBerne\n",
        2,
        "'Bernn' is no entity of the left graph; did you mean 'Bern'",
    ),
    ("Wien\tViena\n", 1, "'Viena' is no entity of the right graph; did you mean 'Vienna'"),
    ("Vienna\tWien\n", 1, "the two columns are swapped: write left, then right"),
    ("Wien\tVienna\tyes\n", 1, r"3 column\(s\), but 2 are needed"),
    ("Wien\t\n", 1, "empty label in the column right"),
    ("", None, "the file is empty"),
]


@pytest.mark.parametrize(("links", "line", "says"), BAD)
def test_a_bad_link_is_named_with_its_line(
    folder: Path, links: str, line: int | None, says: str
) -> None:
    with pytest.raises(InputError, match=says) as caught:
        read(folder, links)
    assert (caught.value.file, caught.value.line) == (folder / "links.tsv", line)


def test_the_line_of_a_csv_link_counts_header_and_line_ends_in_labels(folder: Path) -> None:
    (folder / "en.csv").write_text('"Vien\nna",capital of,Austria\n')
    (folder / "links.csv").write_text('left,right\nWien,"Vien\nna"\nWien,Nowhere\n')
    with pytest.raises(InputError, match=r"links\.csv:4: 'Nowhere'"):
        AlignmentTask.read(folder / "de.tsv", folder / "en.csv", folder / "links.csv")


def test_a_test_link_must_not_be_a_training_link(folder: Path) -> None:
    with pytest.raises(InputError, match=r"test\.tsv:2: this test link is also a training link"):
        read(folder, "Wien\tVienna\n", "Bern\tBerne\nWien\tVienna\n")


def ring(n: int) -> KnowledgeGraph:
    """A graph of n entities in a ring."""
    names = [f"e{i:03}" for i in range(n)]
    return KnowledgeGraph.from_labels(names, ["r"] * n, names[1:] + names[:1])


@given(n=st.integers(2, 30), share=st.floats(0.01, 0.99), seed=st.integers(0, 5))
def test_holding_out_moves_links_and_loses_none(n: int, share: float, seed: int) -> None:
    none = np.empty((0, 2), np.int64)
    pairs = np.stack([np.arange(n), np.arange(n)[::-1]], axis=1)
    task = AlignmentTask("ring", ring(n), ring(n), pairs, none, none)
    held = task.hold_out(share, seed, "valid")
    assert len(held.valid) == min(max(1, round(share * n)), n - 1)
    assert sorted(np.concatenate([held.train, held.valid]).tolist()) == pairs.tolist()
    assert held.train[:, 0].tolist() == sorted(held.train[:, 0].tolist())
    assert held.content_hash() == task.hold_out(share, seed, "valid").content_hash()
    assert held.content_hash() != task.hold_out(share, seed, "test").content_hash()


def test_an_impossible_share_is_refused(folder: Path) -> None:
    task = read(folder, "Wien\tVienna\n")
    with pytest.raises(InputError, match=r"share 1\.5 is impossible"):
        task.hold_out(1.5, 0, "test")
    with pytest.raises(InputError, match=r"1 training link\(s\) are too few"):
        task.hold_out(0.5, 0, "test")
