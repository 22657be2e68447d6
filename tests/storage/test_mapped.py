"""A large bundle opens at once; whatever is read of it has been verified, and nothing else has."""

from __future__ import annotations

import hashlib
import json
import shutil
import zlib
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file
from torch import Tensor

from decentrl.config import Config
from decentrl.data.alignment_task import AlignmentTask
from decentrl.data.knowledge_graph import KnowledgeGraph
from decentrl.errors import BundleError
from decentrl.storage import bundle as bundle_module
from decentrl.storage import mapped
from decentrl.storage.bundle import (
    MANIFEST,
    Bundle,
    bundle_id,
    open_bundle,
    read_bundle,
    write_bundle,
)
from decentrl.storage.mapped import CheckedFile, MappedRows, MappedTensors, fingerprint, mapped_rows

BLOCK = 61  # so that rows lie across the ends of blocks
GOLDEN = Path(__file__).parents[1] / "golden"
Opened = Bundle[Config, AlignmentTask]


def tensors(seed: int, **shapes: tuple[int, ...]) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}


GROWN_FROM = {"base": "0" * 64, "additions": 12}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Opened, Path]:
    """A bundle and where it was written, in small blocks."""
    names = [f"entity {i}" for i in range(20)]
    graphs = [
        KnowledgeGraph.from_labels(names, [f"{side} next"] * 20, names[1:] + names[:1])
        for side in ("left", "right")
    ]
    links = np.stack([np.arange(20)] * 2, axis=1)
    task = AlignmentTask("twenty", graphs[0], graphs[1], links[:9], links[9:12], links[12:])
    bundle = Bundle(
        Config.from_preset("tiny"),
        task,
        tensors(0, scale=(), table=(20, 6)),
        tensors(1, left=(20, 6), right=(20, 6)),
        "A card.\n" * 20,
        {"found": torch.arange(20).view(10, 2)},
        tensors(2, left=(20, 3), none=(0, 3)),
    )
    folder = tmp_path_factory.mktemp("large") / "bundle"
    with small_blocks():
        write_bundle(bundle, folder, GROWN_FROM)
    return bundle, folder


@contextmanager
def small_blocks(size: int = BLOCK) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mapped, "BLOCK", size)
        yield


def read_large(folder: Path) -> Opened:
    """Read a bundle as if it were large."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bundle_module, "LARGE", 0)
        return read_bundle(folder)


def same(found: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> bool:
    return set(found) == set(expected) and all(torch.equal(found[x], expected[x]) for x in expected)


@pytest.mark.parametrize("read", [read_bundle, read_large])
def test_everything_comes_back(
    written: tuple[Opened, Path], read: Callable[[Path], Opened], tmp_path: Path
) -> None:
    before, folder = written
    found = read(folder)
    for name in ("weights", "vectors", "matching", "memory"):
        assert same(getattr(found, name), getattr(before, name))
    assert found.task.content_hash() == before.task.content_hash()
    assert (found.config, found.card) == (before.config, before.card)
    assert open_bundle(folder).origin == GROWN_FROM
    for rows, expected in (
        (mapped_rows(found.vectors), before.vectors),
        (mapped_rows(before.vectors), before.vectors),
    ):
        assert {name: part.shape for name, part in rows.items()} == {
            name: tuple(tensor.shape) for name, tensor in expected.items()
        }
        assert same({name: part.all() for name, part in rows.items()}, expected)
    # What lies in the files can be written again, to another place or to the same one.
    copy = Path(shutil.copytree(folder, tmp_path / "bundle"))
    with small_blocks():
        write_bundle(read(copy), copy, GROWN_FROM)
    assert bundle_id(copy) == bundle_id(folder)


def test_what_is_optional_leaves_no_trace(written: tuple[Opened, Path], tmp_path: Path) -> None:
    before = written[0]
    plain = Bundle(before.config, before.task, {}, before.vectors, "")
    write_bundle(plain, tmp_path / "bundle")
    assert not (tmp_path / "bundle" / "memory.safetensors").exists()
    assert "grown_from" not in json.loads((tmp_path / "bundle" / MANIFEST).read_bytes())
    found = read_bundle(tmp_path / "bundle")
    assert dict(found.memory) == {}
    assert open_bundle(tmp_path).origin is None
    assert (found.card, dict(found.weights)) == ("", {})


def test_the_id_is_that_of_the_content(written: tuple[Opened, Path], tmp_path: Path) -> None:
    before, folder = written
    assert open_bundle(folder).id == bundle_id(folder) == bundle_id(folder.parent)
    assert len(bundle_id(folder)) == 64
    vectors = {name: tensor + 1 for name, tensor in before.vectors.items()}
    write_bundle(Bundle(before.config, before.task, {}, vectors, ""), tmp_path / "bundle")
    assert bundle_id(tmp_path) != bundle_id(folder)
    with pytest.raises(BundleError, match="no such run"):
        bundle_id(tmp_path / "absent")


# Damage


def read_all(bundle: Opened) -> None:
    for name in ("weights", "vectors", "memory"):
        dict(getattr(bundle, name))


@contextmanager
def damaged(file: Path, content: bytes) -> Any:
    before = file.read_bytes()
    file.unlink()  # what earlier readers have mapped stays as it is
    file.write_bytes(content)
    try:
        yield
    finally:
        file.unlink()
        file.write_bytes(before)


def check_damage(written: tuple[Opened, Path], file: Path, content: bytes, ids: Tensor) -> None:
    """It is told when the bundle is opened or that part is read; no wrong number is given out."""
    before, folder = written
    told: list[BundleError] = []
    with damaged(file, content):
        with pytest.raises(BundleError) as at_once:
            read_bundle(folder)
        told.append(at_once.value)
        try:
            bundle = read_large(folder)
        except BundleError as error:
            told.append(error)
        else:
            for name in ("vectors", "memory"):
                expected = getattr(before, name)["left"]
                rows = mapped_rows(getattr(bundle, name))["left"]
                for read, part in (
                    (lambda rows=rows: rows.take(ids), expected[ids]),
                    (lambda rows=rows: rows.take(torch.arange(3, 9)), expected[3:9]),
                ):
                    try:
                        assert torch.equal(read(), part)
                    except BundleError as error:
                        told.append(error)
            with pytest.raises(BundleError) as later:
                read_all(bundle)
            told.append(later.value)
    for error in told:
        assert str(error).startswith(f"{file}: ")
        assert "\n" not in str(error)


names = st.sampled_from(
    ["README.md", MANIFEST, "config.toml", "labels.parquet"]
    + [f"{x}.safetensors" for x in ("graphs", "matching", "memory", "vectors", "weights")]
)
some_ids = st.lists(st.integers(0, 19)).map(lambda ids: torch.tensor(ids, dtype=torch.int64))


@settings(max_examples=300, deadline=None)
@given(name=names, ids=some_ids, data=st.data())
def test_a_changed_byte_is_never_read(
    written: tuple[Opened, Path], name: str, ids: Tensor, data: st.DataObject
) -> None:
    file = written[1] / name
    content = bytearray(file.read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] = data.draw(st.integers(0, 255).filter(lambda x: x != content[place]))
    check_damage(written, file, bytes(content), ids)


@settings(max_examples=100, deadline=None)
@given(name=names, ids=some_ids, data=st.data())
def test_a_cut_off_file_is_told(
    written: tuple[Opened, Path], name: str, ids: Tensor, data: st.DataObject
) -> None:
    file = written[1] / name
    content = file.read_bytes()
    check_damage(written, file, content[: data.draw(st.integers(0, len(content) - 1))], ids)


def test_a_changed_header_is_told_when_the_bundle_is_opened(written: tuple[Opened, Path]) -> None:
    file = written[1] / "vectors.safetensors"
    content = file.read_bytes()
    for place in range(8 + int.from_bytes(content[:8], "little")):
        changed = content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]
        with damaged(file, changed), pytest.raises(BundleError, match=r"vectors\.safetensors: "):
            read_large(written[1])


def test_rows_in_whole_blocks_can_be_read_beside_damaged_ones(
    written: tuple[Opened, Path],
) -> None:
    before, folder = written
    file = folder / "vectors.safetensors"
    content = file.read_bytes()
    with damaged(file, content[:-1] + bytes([content[-1] ^ 1])):
        vectors = mapped_rows(read_large(folder).vectors)
    assert torch.equal(vectors["left"].all(), before.vectors["left"])
    assert torch.equal(vectors["right"].take(torch.arange(15)), before.vectors["right"][:15])
    assert torch.equal(vectors["right"].take(np.array([3])), before.vectors["right"][[3]])
    for read in (vectors["right"].all, lambda: vectors["right"].take(np.array([3, 19]))):
        with pytest.raises(BundleError, match=r"vectors\.safetensors: .*copy the run again"):
            read()


@pytest.mark.parametrize("name", ["vectors.safetensors", "graphs.safetensors", "labels.parquet"])
def test_without_checksums_of_blocks_all_is_verified_at_once(name: str, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(GOLDEN / "aligner-v1" / "bundle", tmp_path / "bundle"))
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(BundleError, match=rf"{name}: .*copy the run again"):
        read_large(folder)


def test_a_file_that_cannot_be_opened_is_named(
    written: tuple[Opened, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    original = Path.open

    def refuse(self: Path, mode: str) -> Any:
        if self.name == "vectors.safetensors":
            raise PermissionError("not yours")
        return original(self, mode)

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(BundleError, match=r"vectors\.safetensors: cannot be read \(not yours\)"):
        read_bundle(written[1])


@pytest.mark.parametrize(
    "header",
    [
        b"[1]",
        b'{"x": 3}',
        b'{"x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 9]}}',
        b'{"x": {"dtype": "F32", "shape": [2], "data_offsets": [4, 12]}}',
        b'{"x": {"dtype": "F32", "shape": [-2, -1], "data_offsets": [-8, 0]}}',
        b'{"x": {"dtype": "F31", "shape": [2], "data_offsets": [0, 8]}}',
    ],
)
def test_what_is_no_file_of_tensors_is_told(header: bytes, tmp_path: Path) -> None:
    file = tmp_path / "x.safetensors"
    file.write_bytes(len(header).to_bytes(8, "little") + header + bytes(8))
    with pytest.raises(BundleError, match=r"x\.safetensors: damaged .*copy the run again"):
        MappedTensors(CheckedFile(file, fingerprint(file)))


# What is verified, and when


@settings(max_examples=60, deadline=None)
@given(content=st.binary(max_size=300), size=st.integers(1, 100))
def test_a_fingerprint_is_that_of_the_whole_and_of_each_block(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, size: int
) -> None:
    file = tmp_path_factory.getbasetemp() / "content"
    file.write_bytes(content)
    with small_blocks(size):
        found = fingerprint(file)
    assert (found["bytes"], found["sha256"]) == (len(content), hashlib.sha256(content).hexdigest())
    if len(content) <= size:
        assert set(found) == {"bytes", "sha256"}
    else:
        sums = [zlib.crc32(content[i : i + size]) for i in range(0, len(content), size)]
        assert found["block_bytes"] == size
        assert found["block_crc32"] == "".join(f"{x:08x}" for x in sums)


def test_a_block_is_verified_once_and_only_if_it_is_read(
    written: tuple[Opened, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    vectors = mapped_rows(read_large(written[1]).vectors)
    verified: list[int] = []
    original = CheckedFile._verify_block

    def count(self: CheckedFile, block: int) -> None:
        verified.append(block)
        original(self, block)

    monkeypatch.setattr(CheckedFile, "_verify_block", count)
    assert len(vectors["left"]) == 20  # in itself no reason to read anything
    vectors["left"].take(torch.tensor([], dtype=torch.int64))
    assert verified == []
    vectors["left"].take(np.array([19]))
    assert 1 <= len(verified) <= 2
    vectors["left"].take(np.array([19, 19]))
    assert len(verified) <= 2
    for _ in range(2):
        vectors["left"].all()
        vectors["right"].all()
    size = (written[1] / "vectors.safetensors").stat().st_size
    assert sorted(verified)[-1] == (size - 1) // BLOCK
    assert len(verified) == len(set(verified)) > 10


@settings(max_examples=100, deadline=None)
@given(
    size=st.integers(1, 30),
    ranges=st.lists(
        st.tuples(st.integers(0, 98), st.integers(1, 99)).filter(lambda x: x[0] < x[1])
    ),
)
def test_every_block_that_a_range_touches_is_verified_and_no_other(
    tmp_path_factory: pytest.TempPathFactory, size: int, ranges: list[tuple[int, int]]
) -> None:
    path = tmp_path_factory.getbasetemp() / "ranges"
    path.write_bytes(bytes(99))
    with small_blocks(size):
        file = CheckedFile(path, fingerprint(path))
    starts, stops = np.array(ranges, np.int64).reshape(-1, 2).T
    file.verify(starts, stops)
    touched = {place // size for start, stop in ranges for place in range(start, stop)}
    assert set(np.flatnonzero(file._verified).tolist()) == touched


dtypes = st.sampled_from(
    [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.uint8]
)
shapes = st.lists(st.integers(0, 7), min_size=1, max_size=3)


@settings(max_examples=150, deadline=None)
@given(shape=shapes, dtype=dtypes, size=st.integers(1, 80), data=st.data())
def test_rows_are_those_of_the_tensor(
    tmp_path_factory: pytest.TempPathFactory,
    shape: list[int],
    dtype: torch.dtype,
    size: int,
    data: st.DataObject,
) -> None:
    generator = torch.Generator().manual_seed(0)
    tensor = (torch.rand(shape, generator=generator) * 100).to(dtype)
    file = tmp_path_factory.getbasetemp() / "rows.safetensors"
    file.unlink(missing_ok=True)
    save_file({"other": torch.ones(3), "x": tensor}, file, {"made": "by hand"})
    with small_blocks(size):
        found = MappedTensors(CheckedFile(file, fingerprint(file)))
    assert set(found) == {"other", "x"}
    n = len(tensor)
    for rows in (found.rows()["x"], MappedRows(tensor)):
        assert (rows.shape, len(rows)) == (tuple(shape), n)
        ids = data.draw(st.lists(st.integers(0, n - 1) if n else st.nothing()))
        taken = torch.tensor(ids, dtype=torch.int64)
        assert torch.equal(rows.take(taken), tensor[taken])
        assert torch.equal(rows.take(taken.numpy()), tensor[taken])
        assert torch.equal(rows.all(), tensor)
        for wrong in (-1, n):
            with pytest.raises(IndexError, match=f"there are {n} rows"):
                rows.take(np.array([wrong]))
    assert torch.equal(found["x"], tensor)


def test_writing_to_what_was_read_leaves_the_file_alone(written: tuple[Opened, Path]) -> None:
    read_large(written[1]).vectors["left"].zero_()
    assert torch.equal(read_bundle(written[1]).vectors["left"], written[0].vectors["left"])
