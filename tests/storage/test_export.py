"""Exported vectors are the same bits in every format, and no half of a file is ever left."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from decentrl.errors import ConfigError, FormatWarning, InputError
from decentrl.storage import export as module
from decentrl.storage.export import FORMATS, Part, export_vectors

Matrix = npt.NDArray[np.float32]

NUMBERS = st.floats(width=32, allow_nan=False, allow_infinity=False)
ODD = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1),
    st.text("a% \t\n\r\v\f\x1c\x85\u00a0\u2028\u3000\"'", min_size=1),
)


@st.composite
def parts(draw: st.DrawFn) -> tuple[list[str], Matrix]:
    labels = draw(st.lists(ODD, unique=True, max_size=8))
    shape = (len(labels), draw(st.integers(1, 4)))
    return labels, draw(arrays(np.float32, shape, elements=NUMBERS))


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK", 40)


def same_bits(left: Matrix, right: Matrix) -> None:
    assert left.dtype == right.dtype == np.float32
    assert left.shape == right.shape
    assert left.tobytes() == right.tobytes()


def with_vector(labels: list[str], vectors: Matrix) -> tuple[list[str], Matrix]:
    has = vectors.any(axis=1)
    return [label for label, one in zip(labels, has, strict=True) if one], vectors[has]


def read_word2vec(file: Path) -> tuple[list[str], Matrix]:
    from gensim.models import KeyedVectors

    loaded = KeyedVectors.load_word2vec_format(str(file))
    return [unquote(word) for word in loaded.index_to_key], loaded.vectors


def read_parquet(file: Path) -> tuple[list[str], Matrix]:
    table = pq.read_table(file)
    dim = table.schema.field("vector").type.list_size
    numbers = table["vector"].combine_chunks().flatten().to_numpy(zero_copy_only=False)
    return table["entity"].to_pylist(), numbers.reshape(-1, dim)


def read_npy(file: Path) -> tuple[list[str], Matrix]:
    text = file.with_name(file.stem + ".labels.txt").read_text("utf-8")
    return text.splitlines(), np.load(file, mmap_mode="r")


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("format", ["parquet", "word2vec"])
def test_any_label_and_number_comes_back(format: str) -> None:
    @settings(deadline=None, max_examples=100)
    @given(parts())
    def check(part: tuple[list[str], Matrix]) -> None:
        labels, vectors = with_vector(*part)
        if format == "word2vec" and not labels:
            return  # Gensim loads no empty file
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "vectors"
            done = export_vectors([Part(*part)], file, format)
            assert done == ((file,), len(labels), len(part[0]) - len(labels))
            found, numbers = (read_parquet if format == "parquet" else read_word2vec)(file)
            assert found == labels
            same_bits(numbers, vectors)

    check()


@pytest.mark.usefixtures("small_blocks")
@settings(deadline=None, max_examples=100)
@given(parts())
def test_npy_comes_back_or_says_why_not(part: tuple[list[str], Matrix]) -> None:
    labels, vectors = with_vector(*part)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "vectors.npy"
        if any(len(f"{label}x".splitlines()) > 1 for label in labels):
            with pytest.warns(FormatWarning, match="with a line end are written with"):
                export_vectors([Part(*part)], file, "npy")
            found, numbers = read_npy(file)
            same_bits(np.array(numbers), vectors)  # each label is still on a line of its own
            whole = [i for i, x in enumerate(labels) if len(f"{x}x".splitlines()) == 1]
            assert [found[i] for i in whole] == [labels[i] for i in whole]
            return
        done = export_vectors([Part(*part)], file, "npy")
        assert set(done.files) == set(Path(folder).iterdir())
        found, numbers = read_npy(file)
        assert found == labels
        same_bits(np.array(numbers), vectors)


def random(n: int, dim: int = 5) -> tuple[list[str], Matrix]:
    numbers = np.random.default_rng(0).normal(size=(n, dim)).astype(np.float32)
    return [f"entity {i}" for i in range(n)], numbers


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("format", FORMATS)
def test_tensors_and_stored_rows_are_as_arrays(format: str, tmp_path: Path) -> None:
    labels, vectors = random(20)

    class Stored:
        shape = vectors.shape

        def __len__(self) -> int:
            return len(vectors)

        def __getitem__(self, chosen: slice | torch.Tensor, /) -> torch.Tensor:
            assert isinstance(chosen, slice)
            assert chosen.stop - chosen.start <= 2
            return torch.from_numpy(vectors[chosen])

    for name, held in (("a", vectors), ("b", torch.from_numpy(vectors)), ("c", Stored())):
        (tmp_path / name).mkdir()
        export_vectors([Part(iter(labels), held)], tmp_path / name / "x", format)
    contents = [
        [file.read_bytes() for file in sorted((tmp_path / name).iterdir())] for name in "abc"
    ]
    assert contents[0] == contents[1] == contents[2]


def test_an_aligner_has_two_sides(tmp_path: Path) -> None:
    labels, vectors = random(6)
    vectors[1] = 0
    sides = [Part(labels[:4], vectors[:4], "left"), Part(labels[2:], vectors[2:], "right")]
    done = export_vectors(sides, tmp_path / "x.parquet", "parquet")
    assert (done.written, done.without) == (7, 1)
    table = pq.read_table(tmp_path / "x.parquet")
    assert table.column_names == ["entity", "side", "vector"]
    assert table["side"].to_pylist() == ["left"] * 3 + ["right"] * 4
    for format in ("npy", "word2vec"):
        with pytest.raises(ConfigError, match="holds one graph; add --side left"):
            export_vectors(sides, tmp_path / "x", format)
    assert [p.name for p in tmp_path.iterdir()] == ["x.parquet"]


def test_npy_names_need_no_extension(tmp_path: Path) -> None:
    done = export_vectors([Part(*random(3))], tmp_path / "v1.2", "npy")
    assert sorted(p.name for p in done.files) == ["v1.2.labels.txt", "v1.2.npy"]


def test_words_are_written_as_in_a_url(tmp_path: Path) -> None:
    labels = ["New York", "100%", "Köln", "http://x.org/K%C3%B6ln"]
    export_vectors([Part(labels, random(4)[1])], tmp_path / "x", "word2vec")
    first, *lines = (tmp_path / "x").read_text("utf-8").splitlines()
    assert first == "4 5"
    words = [line.split(" ")[0] for line in lines]
    assert words == ["New%20York", "100%25", "Köln", "http://x.org/K%25C3%25B6ln"]


@pytest.mark.parametrize("format", FORMATS)
def test_a_failure_in_the_middle_leaves_the_old_file(
    format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    labels, vectors = random(20)
    export_vectors([Part(labels[:3], vectors[:3])], tmp_path / "x", format)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    monkeypatch.setattr(module, "BLOCK", 40)

    def interrupted() -> Iterator[str]:
        yield from labels[:11]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        export_vectors([Part(interrupted(), vectors)], tmp_path / "x", format)
    for wrong in (labels[:19], [*labels, "more"]):
        with pytest.raises(InputError, match="labels than vectors"):
            export_vectors([Part(wrong, vectors)], tmp_path / "x", format)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


@pytest.mark.parametrize("format", FORMATS)
def test_a_killed_export_leaves_no_file_that_looks_whole(format: str, tmp_path: Path) -> None:
    script = (
        "import os, signal, sys, numpy as np\n"
        "from decentrl.storage import export\n"
        "export.BLOCK = 40\n"
        "def labels():\n"
        "    yield from map(str, range(11))\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "part = export.Part(labels(), np.ones((20, 5), np.float32))\n"
        "export.export_vectors([part], sys.argv[1], sys.argv[2])\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path / "x"), format], check=False)
    assert done.returncode == -9
    assert all(file.suffix == ".part" for file in tmp_path.iterdir())
    files = export_vectors([Part(*random(3))], tmp_path / "x", format).files
    assert set(tmp_path.iterdir()) == set(files)


def test_what_cannot_be_written_says_what_to_do(tmp_path: Path) -> None:
    part = Part(*random(3))
    with pytest.raises(ConfigError, match="there are: npy, parquet, word2vec"):
        export_vectors([part], tmp_path / "x", "csv")
    with pytest.raises(InputError, match="make it first"):
        export_vectors([part], tmp_path / "none" / "x", "npy")
    with pytest.raises(InputError, match="name a file"):
        export_vectors([part], tmp_path, "parquet")
    with pytest.raises(InputError, match="those of one run"):
        export_vectors([part, Part(*random(3, 4))], tmp_path / "x", "parquet")
    with pytest.raises(InputError, match="a label is empty; use parquet"):
        export_vectors([Part(["", "a", "b"], random(3)[1])], tmp_path / "x", "word2vec")
    assert not list(tmp_path.iterdir())


def test_faiss_searches_what_parquet_holds(tmp_path: Path) -> None:
    """The three lines of docs/python.md."""
    faiss = pytest.importorskip("faiss")
    labels, vectors = random(20, 8)
    export_vectors([Part(labels, vectors)], tmp_path / "v.parquet", "parquet")
    table = pq.read_table(tmp_path / "v.parquet")
    found = table["vector"].combine_chunks().values.to_numpy().reshape(len(table), -1)
    index = faiss.IndexFlatIP(found.shape[1])
    index.add(found)
    near = index.search(found[:5], 3)[1]
    assert (near == np.argsort(-(vectors[:5] @ vectors.T))[:, :3]).all()
    assert table["entity"].to_pylist() == labels
    assert pa.types.is_fixed_size_list(table.schema.field("vector").type)
