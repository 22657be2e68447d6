"""A bundle comes back as it was saved, or not at all: nothing is unpickled, no damage unnoticed."""

from __future__ import annotations

import ast
import json
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import decentrl as package
from decentrl.aligner import Aligner
from decentrl.data.registry import load_dataset
from decentrl.errors import BundleError, ConfigError
from decentrl.predictor import Predictor
from decentrl.storage import bundle as module
from decentrl.storage.bundle import (
    MANIFEST,
    VERSION,
    Bundle,
    bundle_id,
    open_bundle,
    read_bundle,
    write_bundle,
)
from decentrl.storage.mapped import fingerprint

FILES = {
    "README.md",
    "bundle.json",
    "config.toml",
    "graphs.safetensors",
    "labels.parquet",
    "matching.safetensors",
    "vectors.safetensors",
    "weights.safetensors",
}


@pytest.fixture(scope="module")
def small(
    twin_files: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Aligner, Path]:
    """An aligner of small graphs and the folder it was saved to."""
    aligner = Aligner.from_preset("tiny", "model.dim=8", "training.epochs=2", device="cpu")
    aligner.fit(
        twin_files["left"], twin_files["right"], twin_files["links"], test_links=twin_files["test"]
    )
    folder = tmp_path_factory.mktemp("small")
    aligner.save(folder)
    return aligner, folder / "bundle"


@pytest.fixture
def copy(small: tuple[Aligner, Path], tmp_path: Path) -> Path:
    """A bundle to damage."""
    return Path(shutil.copytree(small[1], tmp_path / "bundle"))


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_everything_comes_back(small: tuple[Aligner, Path]) -> None:
    aligner, folder = small
    assert {path.name for path in folder.iterdir()} == FILES | {"memory.safetensors"}
    loaded, found, task = Aligner.load(folder, "cpu"), read_bundle(folder), aligner.task
    assert loaded.config == aligner.learned.config
    assert found.task.name == task.name
    for before, after in ((task.left, found.task.left), (task.right, found.task.right)):
        assert after.entities == before.entities
        assert after.relations == before.relations
        assert np.array_equal(after.triples, before.triples)
    for name in ("train", "valid", "test"):
        assert np.array_equal(getattr(found.task, name), getattr(task, name))
    assert (found.task.auxiliary, found.task.unknown) == (None, None)
    assert found.task.content_hash() == task.content_hash()
    for side in ("left", "right"):
        names = list(getattr(task, side).entities)
        assert np.array_equal(loaded.embed(names, side), aligner.embed(names, side))
    assert set(found.weights) == set(aligner.learned.weights)
    assert all(torch.equal(found.weights[name], t) for name, t in aligner.learned.weights.items())
    assert aligner.learned.confidence is not None
    stays = loaded.learned.settled
    assert stays is not None
    saved = aligner.learned.confidence.to_tensors() | stays.to_tensors()
    saved |= {"found": torch.from_numpy(aligner.learned.found)}
    saved |= aligner._matching.to_tensors()  # solved to find the matches that stay
    assert set(found.matching) == set(saved)
    for name, tensor in saved.items():  # a potential that is not known is NaN
        assert torch.allclose(found.matching[name], tensor, rtol=0, atol=0, equal_nan=True), name
    for side in ("left", "right"):
        assert loaded.match(top=3, side=side).equals(aligner.match(top=3, side=side))


def test_what_self_training_has_found_comes_back(
    twin_files: dict[str, Path], tmp_path: Path
) -> None:
    settings = ("model.dim=8", "training.epochs=2", "training.valid=0")
    files = [twin_files[name] for name in ("left", "right", "links")]
    settings += ("self_training.rounds=1",)
    aligner = Aligner.from_preset("strong", *settings, device="cpu").fit(*files)
    aligner.save(tmp_path)
    loaded = Aligner.load(tmp_path, "cpu")
    assert len(aligner.learned.found) > 0
    assert np.array_equal(loaded.learned.found, aligner.learned.found)
    # Nothing was held out, so nothing is known of confidence.
    assert set(read_bundle(tmp_path / "bundle").matching) == {"found"}
    assert loaded.match()["confidence"].null_count == loaded.match().num_rows > 0


def without_file(folder: Path, name: str) -> None:
    """As a bundle that was written before there was such a file."""
    (folder / name).unlink()
    manifest = json.loads((folder / MANIFEST).read_bytes())
    del manifest["files"][name], manifest["sha256"]
    (folder / MANIFEST).write_text(module._sealed(manifest), "utf-8")


def test_an_older_bundle_still_gives_matches_but_no_confidence(
    small: tuple[Aligner, Path], copy: Path
) -> None:
    without_file(copy, "matching.safetensors")
    loaded, now = Aligner.load(copy, "cpu"), small[0]
    columns = ["left", "right", "rank", "score"]
    for side in ("left", "right"):
        table = loaded.match(top=3, side=side)
        assert table.select(columns).equals(now.match(top=3, side=side).select(columns))
        assert table["confidence"].null_count == table.num_rows
    assert loaded.confidence() == {}
    with pytest.raises(ConfigError, match="no confidence was learned"):
        loaded.match(min_confidence=0.5)
    # Saved again it is a bundle of today.
    loaded.save(copy.parent / "again")
    again = copy.parent / "again" / "bundle"
    assert {path.name for path in again.iterdir()} == FILES | {"memory.safetensors"}
    assert Aligner.load(again, "cpu").match().equals(loaded.match())


def test_a_bundle_without_a_file_it_always_had_is_refused(copy: Path) -> None:
    without_file(copy, "vectors.safetensors")
    with pytest.raises(BundleError, match=r"vectors\.safetensors"):
        read_bundle(copy)


def test_damage_that_the_checksum_would_pass_is_named_too(copy: Path) -> None:
    """A file that was never whole: its checksum is right and it cannot be read."""
    file = copy / "matching.safetensors"
    file.write_bytes(b"not tensors")
    manifest = json.loads((copy / MANIFEST).read_bytes())
    del manifest["sha256"]
    manifest["files"][file.name] = fingerprint(file)
    (copy / MANIFEST).write_text(module._sealed(manifest), "utf-8")
    with pytest.raises(BundleError, match=r"matching\.safetensors: damaged .*copy the run again"):
        read_bundle(copy)


def test_the_open_world_comes_back(open_run: Path) -> None:
    task = Aligner.load(open_run, "cpu").task
    assert task.auxiliary is not None
    original = load_dataset("world", open_world=True)
    held = original.hold_out(0.1, 0, into="valid")
    assert task.content_hash() == held.content_hash()
    assert [a.tolist() for a in task.auxiliary] == [a.tolist() for a in original.auxiliary]
    assert np.array_equal(task.unknown, original.unknown)


def test_a_bundle_is_found_in_its_run_and_by_itself(small: tuple[Aligner, Path]) -> None:
    for place in (small[1], small[1].parent, str(small[1].parent)):
        assert Aligner.load(place, "cpu").task.name == "left-right"


def test_strange_labels_come_back(tmp_path: Path) -> None:
    names = ["a\tb", 'say "x"', "new\nline", " ", "東京", "\u200f", "🜁", "'", "\\", "é", "e\u0301"]
    left = tmp_path / "left.parquet"
    import pyarrow as pa
    import pyarrow.parquet as pq

    ring = pa.table({"head": names, "relation": ["r"] * len(names), "tail": names[1:] + names[:1]})
    pq.write_table(ring, left)
    links = tmp_path / "links.parquet"
    pq.write_table(pa.table({"left": names, "right": names}), links)
    quick = ("model.dim=4", "training.epochs=1")
    aligner = Aligner.from_preset("tiny", *quick, device="cpu").fit(left, left, links)
    aligner.save(tmp_path / "run")
    assert set(Aligner.load(tmp_path / "run", "cpu").task.left.entities) == set(names)


# Predictors


def test_a_predictor_comes_back_too(people_run: Path) -> None:
    folder = people_run / "bundle"
    assert {path.name for path in folder.iterdir()} == FILES | {"memory.safetensors"}
    found, loaded = read_bundle(folder, "predictor"), Predictor.load(people_run, "cpu")
    task = loaded.task
    assert found.config == loaded.config
    assert found.task.content_hash() == task.content_hash()
    assert (found.task.auxiliary, found.task.new_entities) == (None, None)
    assert set(found.vectors) == {"entities"}
    assert found.vectors["entities"].shape == (len(task.graph.entities), 16)
    state = loaded.learned.model.state_dict()
    assert set(found.weights) == set(state)
    assert all(torch.equal(found.weights[name], tensor) for name, tensor in state.items())
    assert set(found.matching) == set(loaded.learned.confidence.to_tensors())
    assert f"# {task.name}: entity prediction" in found.card


def test_what_arrived_in_a_predictor_comes_back(people_run: Path, tmp_path: Path) -> None:
    predictor = Predictor.load(people_run, "cpu")
    predictor.add([("newcomer", "lives in", "city 3")])
    predictor.save(tmp_path)
    task = read_bundle(tmp_path / "bundle", "predictor").task
    assert task.auxiliary.tolist() == predictor.task.auxiliary.tolist()
    assert task.new_entities.tolist() == [len(task.graph.entities) - 1]
    assert task.graph.entities == predictor.task.graph.entities


def test_each_kind_says_what_it_is(small: tuple[Aligner, Path], people_run: Path) -> None:
    assert tuple(open_bundle(x).kind.name for x in (small[1], people_run)) == (
        "aligner",
        "predictor",
    )
    with pytest.raises(BundleError, match=r"this run is about prediction; .*`decentrl predict`"):
        Aligner.load(people_run)
    with pytest.raises(BundleError, match=r"this run is about alignment; .*`decentrl match`"):
        Predictor.load(small[1])
    for load in (Predictor.load, open_bundle):
        with pytest.raises(BundleError, match="absent: no such run"):
            load(small[1] / "absent")


def test_an_opened_bundle_is_read_once_and_knows_if_it_was_replaced(
    copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = open_bundle(copy.parent)
    read = Path.read_bytes

    def refuse(self: Path) -> bytes:
        assert self.name != MANIFEST, "read again"
        return read(self)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_bytes", refuse)
        with pytest.raises(AssertionError, match="read again"):
            bundle_id(copy)
        assert open_bundle(opened) is opened
        bundle = read_bundle(opened)
        assert opened.origin is None
        assert (opened.kind.name, opened.folder) == ("aligner", copy)
        assert (Path(opened), str(opened)) == (copy.parent, str(copy.parent))
        assert opened.is_current()
    assert bundle_id(opened) == opened.id
    write_bundle(bundle, copy)
    assert not opened.is_current()
    assert open_bundle(copy).is_current()
    shutil.rmtree(copy)
    assert not opened.is_current()


def test_a_kind_that_is_not_known_yet_says_upgrade(copy: Path) -> None:
    manifest = json.loads((copy / MANIFEST).read_bytes())
    del manifest["sha256"]
    (copy / MANIFEST).write_text(module._sealed({**manifest, "kind": "oracle"}), "utf-8")
    with pytest.raises(BundleError, match=r"holds a oracle, which .* does not know; upgrade"):
        open_bundle(copy)


def test_weights_of_another_model_are_told(people_run: Path, tmp_path: Path) -> None:
    bundle = read_bundle(people_run / "bundle", "predictor")
    weights = {name: tensor for name, tensor in bundle.weights.items() if name != "log_scale"}
    other = Bundle(bundle.config, bundle.task, weights, bundle.vectors, bundle.card)
    write_bundle(other, tmp_path / "bundle")
    with pytest.raises(BundleError, match="its weights are not those of its settings") as caught:
        Predictor.load(tmp_path)
    assert "\n" not in str(caught.value)


# Nothing is unpickled


def test_loading_unpickles_nothing(
    small: tuple[Aligner, Path], people_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("something was unpickled")

    for owner, name in (
        (pickle, "Unpickler"), (pickle, "load"), (pickle, "loads"), (pickle, "_Unpickler"),
        (torch, "load"), (np, "load"),
    ):  # fmt: skip
        monkeypatch.setattr(owner, name, refuse)
    with pytest.raises(AssertionError, match="unpickled"):
        torch.load("anything")
    assert Aligner.load(small[1], "cpu").match(top=1).num_rows > 0
    loaded = Predictor.load(people_run, "cpu")
    assert loaded.predict(head="person 1", relation="knows").num_rows > 0


def test_no_source_file_can_unpickle() -> None:
    for file in sorted(Path(package.__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or "", *(f"{node.module}.{a.name}" for a in node.names)]
            elif isinstance(node, ast.Attribute):
                names = [ast.unparse(node)]
            elif isinstance(node, ast.keyword):
                names = [node.arg or ""]
            banned = {"pickle", "marshal", "shelve", "joblib", "dill", "cloudpickle"}
            banned |= {"torch.load", "torch.save", "np.load", "numpy.load", "allow_pickle"}
            banned |= {"faiss.read_index"}  # it can write to files that the index names
            assert not banned & set(names), f"{file}:{node.lineno}"


# Damage


@settings(max_examples=300, deadline=None)
@given(name=st.sampled_from(sorted(FILES)), data=st.data())
def test_any_changed_byte_is_an_error_that_names_the_file(
    small: tuple[Aligner, Path], name: str, data: st.DataObject
) -> None:
    file = small[1] / name
    content = file.read_bytes()
    place = data.draw(st.integers(0, len(content) - 1))
    other = data.draw(st.integers(0, 255).filter(lambda x: x != content[place]))
    check_damaged(file, content[:place] + bytes([other]) + content[place + 1 :])


@settings(max_examples=100, deadline=None)
@given(name=st.sampled_from(sorted(FILES)), data=st.data())
def test_any_cut_off_file_is_an_error_that_names_it(
    small: tuple[Aligner, Path], name: str, data: st.DataObject
) -> None:
    file = small[1] / name
    content = file.read_bytes()
    check_damaged(file, content[: data.draw(st.integers(0, len(content) - 1))])


@pytest.mark.parametrize("name", sorted(FILES))
def test_anything_behind_the_end_is_an_error_too(small: tuple[Aligner, Path], name: str) -> None:
    check_damaged(small[1] / name, (small[1] / name).read_bytes() + b"\n")


def check_damaged(file: Path, content: bytes) -> None:
    before = file.read_bytes()
    file.write_bytes(content)
    try:
        with pytest.raises(BundleError) as caught:
            read_bundle(file.parent)
    finally:
        file.write_bytes(before)
    assert str(caught.value).startswith(f"{file}: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"name": "left-right"', '"name": "left-night"'),
        ('"name": "left-right"', '"name":  "left-right"'),
        ('"data_sha256": "', '"data_sha256": "0'),
        ('"kind": "aligner"', '"kind": "aligned"'),
    ],
)
def test_the_list_of_files_is_checked_itself(copy: Path, old: str, new: str) -> None:
    manifest = copy / MANIFEST
    text = manifest.read_text("utf-8")
    assert old in text
    check_damaged(manifest, text.replace(old, new).encode())


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_missing_file_is_named(copy: Path, name: str) -> None:
    (copy / name).unlink()
    with pytest.raises(BundleError, match=rf"{name}: .*(missing|not found)"):
        read_bundle(copy)


FOREIGN = {
    "another tool's": '{"format": "other", "version": 1}',
    "a list": "[1, 2]",
    "a number": "3",
    "no JSON": "hello",
    "empty": "",
    "no format": '{"version": 1, "files": {}}',
    "only the format": '{"format": "decentrl-bundle"}',
    "no files": '{"format": "decentrl-bundle", "version": 1}',
}


@pytest.mark.parametrize("content", FOREIGN.values(), ids=FOREIGN)
def test_a_foreign_manifest_is_told(copy: Path, content: str) -> None:
    check_damaged(copy / MANIFEST, content.encode())


def test_a_newer_version_says_upgrade_whatever_else_it_holds(copy: Path) -> None:
    newer = {"format": "decentrl-bundle", "version": VERSION + 1, "parts": ["unheard of"]}
    (copy / MANIFEST).write_text(json.dumps(newer), "utf-8")
    with pytest.raises(BundleError, match=rf"{MANIFEST}: format version {VERSION + 1}, .* upgrade"):
        read_bundle(copy)


def test_a_foreign_folder_and_no_folder_are_told(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").write_bytes(b"meow")
    with pytest.raises(BundleError, match=r"bundle\.json: not found, .* is not a bundle"):
        Aligner.load(tmp_path / "photos")
    with pytest.raises(BundleError, match="absent: no such run"):
        Aligner.load(tmp_path / "absent")
    with pytest.raises(BundleError, match=r"cat\.jpg: no such run"):
        Aligner.load(tmp_path / "photos" / "cat.jpg")


# Interrupted writes


class Stop(BaseException):
    """As an interrupt from the keyboard, or worse."""


def stop(*_: Any, **__: Any) -> None:
    raise Stop


def fail_first_save(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("safetensors.torch.save_file", stop)


def fail_at_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "write_labels", stop)


def fail_at_the_manifest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_sealed", stop)


def fail_at_the_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "sync_file", stop)


def fail_at_the_last_rename(monkeypatch: pytest.MonkeyPatch) -> None:
    """The old bundle has been moved away when the new one cannot take its place."""
    monkeypatch.setattr("decentrl.storage.files._exchange", lambda *_: False)  # as on other systems
    original = Path.rename

    def rename(self: Path, target: Path) -> Path:
        if ".part-" in self.name:
            raise Stop
        return original(self, target)

    monkeypatch.setattr(Path, "rename", rename)


def fail_at_the_exchange(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("decentrl.storage.files._exchange", stop)


FAILURES = [
    fail_at_the_exchange,
    fail_first_save,
    fail_at_labels,
    fail_at_the_manifest,
    fail_at_the_sync,
    fail_at_the_last_rename,
]


@pytest.mark.parametrize("fail", FAILURES, ids=lambda f: f.__name__)
def test_an_interrupted_write_leaves_the_old_bundle_and_no_litter(
    copy: Path, monkeypatch: pytest.MonkeyPatch, fail: Callable[[pytest.MonkeyPatch], None]
) -> None:
    before, bundle = contents(copy.parent), read_bundle(copy)
    other = Bundle(bundle.config, bundle.task, {}, bundle.vectors, "another card")
    with monkeypatch.context() as patch:
        fail(patch)
        with pytest.raises(Stop):
            write_bundle(other, copy)
    assert contents(copy.parent) == before
    assert [path.name for path in copy.parent.iterdir()] == ["bundle"]
    write_bundle(other, copy)
    assert read_bundle(copy).card == "another card"
    assert [path.name for path in copy.parent.iterdir()] == ["bundle"]


@pytest.mark.parametrize("fail", FAILURES[1:], ids=lambda f: f.__name__)
def test_an_interrupted_first_write_leaves_nothing(
    small: tuple[Aligner, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fail: Callable[[pytest.MonkeyPatch], None],
) -> None:
    bundle = read_bundle(small[1])
    fail(monkeypatch)
    with pytest.raises(Stop):
        write_bundle(bundle, tmp_path / "bundle")
    assert list(tmp_path.iterdir()) == []


def test_the_next_write_clears_what_a_killed_one_left(copy: Path) -> None:
    for name in (".bundle.part-x1", ".bundle.old-77"):
        (copy.parent / name).mkdir()
        (copy.parent / name / "weights.safetensors").write_bytes(b"half")
    (copy.parent / ".bundled").mkdir()
    write_bundle(read_bundle(copy), copy)
    assert {path.name for path in copy.parent.iterdir()} == {"bundle", ".bundled"}


def test_others_may_read_what_was_written(small: tuple[Aligner, Path]) -> None:
    assert small[1].stat().st_mode & 0o777 == 0o755
    assert {path.stat().st_mode & 0o777 for path in small[1].iterdir()} == {0o644}
