"""Large files are read piece by piece, to the same graph and with the same errors."""

from __future__ import annotations

import gzip
import re
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from decentrl.data import coded, readers, streamed
from decentrl.data.coded import CodedColumns
from decentrl.data.headers import AS_IT_IS
from decentrl.data.knowledge_graph import KnowledgeGraph
from decentrl.errors import FormatWarning, InputError

Rows = list[tuple[str, str, str]]
LABELS = [f"x{i}" for i in range(9)] + ["Ä ö", '"', "'q'", "NA", "x\u2028y", "日本"]
label = st.sampled_from(LABELS)
rows_of_triples = st.lists(st.tuples(label, label, label), min_size=1, max_size=60)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file is a large one, of pieces of a few lines."""
    monkeypatch.setattr(streamed, "LARGE", 1)
    monkeypatch.setattr(streamed, "_LARGE_PACKED", 1)
    monkeypatch.setattr(streamed, "_PIECE", 40)
    monkeypatch.setattr(streamed, "_ROWS", 3)
    monkeypatch.setattr(coded, "_FEWEST", 4)


def whole(monkeypatch: pytest.MonkeyPatch, read: Callable[[], object]) -> object:
    """What reading gives when no file is large."""
    with monkeypatch.context() as patch:
        patch.setattr(readers, "read_streamed", lambda *_: None)
        return read()


def iri(text: str) -> str:
    return "http://x.example/" + re.sub(r"[^A-Za-z0-9日本Ä]", "_", text)


def write(rows: Rows, kind: str, folder: Path) -> Path:
    file = folder / f"triples.{kind}"
    base, _, packed = kind.partition(".")
    if base == "parquet":
        names = ["head", "relation", "tail"]
        columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
        pq.write_table(pa.table(columns), file, row_group_size=4)
        return file
    if base == "nt":
        lines = [" ".join(f"<{iri(x)}>" for x in row) + " ." for row in rows]
        lines.insert(1, f'<{iri(rows[0][0])}> <{iri("name")}> "a \\u00e4 <b> ."@de . # so')
        lines.insert(2, "  # a comment\n")
    else:
        lines = ["\t".join(row) for row in rows]
    data = ("\n".join(lines) + "\n\n").encode()
    if packed == "gz":
        data = gzip.compress(data)
    elif packed == "zst":
        data = pa.compress(data, codec="zstd", asbytes=True)
    file.write_bytes(data)
    return file


@pytest.mark.parametrize("kind", ["tsv", "tsv.gz", "tsv.zst", "nt", "nt.gz", "parquet"])
@given(rows=rows_of_triples)
@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_the_graph_is_the_same(
    kind: str, rows: Rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(rows, kind, tmp_path)
    found = KnowledgeGraph.read(file)
    table = readers.read_table(file)
    assert pa.types.is_dictionary(table.columns[0].type)  # it was read in pieces
    expected = whole(monkeypatch, lambda: KnowledgeGraph.read(file))
    assert isinstance(expected, KnowledgeGraph)
    assert found.content_hash() == expected.content_hash()
    assert found.counts == expected.counts
    assert len(table) == len(rows)


@given(pieces=st.lists(rows_of_triples, min_size=1, max_size=8))
@settings(max_examples=25, deadline=None)
def test_codes_stand_for_the_labels(pieces: list[Rows]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(coded, "_FEWEST", 4)
        columns = CodedColumns((0, 1, 0))
        for rows in pieces:
            columns.add([pa.chunked_array([pa.array(x)]) for x in zip(*rows, strict=True)])
        found = columns.columns()
    every = [row for rows in pieces for row in rows]
    assert list(zip(*(x.to_pylist() for x in found), strict=True)) == every
    labels = found[0].chunk(0).dictionary.to_pylist()
    assert sorted(labels) == sorted({x for h, _, t in every for x in (h, t)})
    assert found[2].chunk(0).dictionary.equals(found[0].chunk(0).dictionary)


BAD = {
    "a\tr\tb\n" * 20 + "a\tb\n": (21, "2 column"),
    "a\tr\tb\n" * 20 + "a\t\tb\n": (21, "empty label"),
    "a\tr\tb\n" * 20 + "\n" + "a\tr\tb\n": (21, "blank line"),
    "a\tr\tb\n" * 20 + "a\tr\tb\rc\n": (21, "carriage return"),
}


@pytest.mark.parametrize("text", BAD)
def test_errors_name_the_line(text: str, tmp_path: Path) -> None:
    line, problem = BAD[text]
    file = tmp_path / "bad.tsv"
    file.write_bytes(text.encode())
    with pytest.raises(InputError, match=problem) as caught:
        KnowledgeGraph.read(file)
    assert caught.value.line == line


def test_bad_utf8_and_bad_statements_name_the_line(tmp_path: Path) -> None:
    file = tmp_path / "bad.tsv"
    file.write_bytes(b"a\tr\tb\n" * 20 + b"a\tr\t\xff\n")
    with pytest.raises(InputError, match=":21: invalid UTF-8"):
        KnowledgeGraph.read(file)
    file = tmp_path / "bad.nt"
    file.write_text("<urn:a> <urn:r> <urn:b> .\n" * 20 + "<urn:a> <urn:r> <b .\n")
    with pytest.raises(InputError, match=r":21: this is not N-Triples"):
        KnowledgeGraph.read(file)
    table = pa.table({"head": ["a"] * 9 + [""], "relation": ["r"] * 10, "tail": ["b"] * 10})
    pq.write_table(table, tmp_path / "bad.parquet")
    with pytest.raises(InputError, match=":10: empty label in the column head"):
        KnowledgeGraph.read(tmp_path / "bad.parquet")


def noted(file: Path) -> tuple[str, list[str]]:
    """The graph in a file by its hash, and what is said of how it was read."""
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always", FormatWarning)
        found = KnowledgeGraph.read(file).content_hash()
    return found, [str(note.message) for note in notes]


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("first", ["head\trelation\ttail", "source\trelation\ttarget"])
def test_a_header_is_found(
    first: str, again: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = "".join(f"a{i}\tr{i % 2}\ta{i + 1}\n" for i in range(30))
    file = tmp_path / "headed.tsv"
    # Where it occurs again below, it is none.
    file.write_text(f"{first}\n{rows}" + f"{first}\n" * again)
    found = noted(file)
    assert found == whole(monkeypatch, lambda: noted(file))
    assert bool(found[1]) is not again


@pytest.mark.parametrize("name", ["quoted.csv", "blank.nt"])
def test_what_needs_the_whole_file_is_read_as_one(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / name
    if name.endswith("csv"):
        file.write_text("a,r,b\n" * 20 + '"x\ny",r,b\n')
    else:
        file.write_text("<urn:a> <urn:r> <urn:b> .\n" * 20 + "_:x <urn:r> <urn:b> .\n")
    found = KnowledgeGraph.read(file)
    expected = whole(monkeypatch, lambda: KnowledgeGraph.read(file))
    assert isinstance(expected, KnowledgeGraph)
    assert found.content_hash() == expected.content_hash()


def test_links_between_large_graphs_are_found(tmp_path: Path) -> None:
    rows = [(f"a{i}", "r", f"a{i + 1}") for i in range(50)]
    graph = KnowledgeGraph.read(write(rows, "tsv", tmp_path))
    assert graph.entities.ids(["a0", "a50"]).tolist() == [0, 46]
    assert np.array_equal(np.unique(graph.triples[:, [0, 2]]), np.arange(51))


@pytest.mark.parametrize("packing", ["gz", "zst"])
def test_a_small_file_does_not_become_an_endless_one(packing: str, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(streamed, "_PIECE", 16 << 20)
        data = b"a\tr\tb\n" * (300 << 20 >> 3)
        packed = (
            gzip.compress(data, 1)
            if packing == "gz"
            else pa.compress(data, codec="zstd", asbytes=True)
        )
        file = tmp_path / f"bomb.tsv.{packing}"
        file.write_bytes(packed)
        del data
        patch.setattr("decentrl.data.limits._FREE", 1 << 20)
        patch.setattr("decentrl.data.limits._PACKED", 100)
        with pytest.raises(InputError, match=r"more than the .* that text may take here"):
            KnowledgeGraph.read(file)


def test_what_is_kept_is_held_against_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streamed, "_PIECE", 1 << 16)
    file = tmp_path / "many.tsv"
    file.write_text("".join(f"entity-{i}\tr\tentity-{i + 1}\n" for i in range(60_000)))
    monkeypatch.setenv("DECENTRL_MEMORY", str(4 / 1024))
    with pytest.raises(InputError, match="DECENTRL_MEMORY"):
        KnowledgeGraph.read(file)
    # As much text of few labels fits.
    file.write_text("entity-one\trelation\tentity-two\n" * 60_000)
    monkeypatch.setenv("DECENTRL_MEMORY", str(8 / 1024))
    assert KnowledgeGraph.read(file).counts.duplicates == 59_999


@pytest.mark.parametrize("packing", ["gz", "zst"])
def test_a_cut_file_is_an_error(packing: str, tmp_path: Path) -> None:
    file = write([("a", f"r{i}", f"b{i}") for i in range(500)], f"tsv.{packing}", tmp_path)
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(InputError, match=r"the (gzip|Zstandard) file is"):
        readers.read_table(file, format=AS_IT_IS)
