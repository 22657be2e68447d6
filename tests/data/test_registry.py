"""Datasets by name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from decentrl.data.alignment_task import AlignmentTask
from decentrl.data.graph_task import GraphTask
from decentrl.data.layouts import read_batches
from decentrl.data.ngrams import fold
from decentrl.data.readers import read_table
from decentrl.data.registry import checksums, data_root, find_dataset, list_datasets, load_dataset
from decentrl.data.table import LINK
from decentrl.errors import InputError
from decentrl.runs.sources import Sources

PUBLISHED = [x for x in list_datasets() if not x.packaged]


def test_world_is_inside_the_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DECENTRL_DATA", str(tmp_path))
    task = load_dataset("world")
    assert isinstance(task, AlignmentTask)
    assert min(len(task.train), len(task.test)) > 0
    assert not task.open_world


def test_world_can_be_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DECENTRL_DATA", raising=False)
    task = load_dataset("world", open_world=True)
    assert isinstance(task, AlignmentTask)
    assert task.unknown is not None
    assert task.unknown.sum() == int(0.2 * len(task.test))


@pytest.mark.parametrize("name", ["world/cldr", "world/geonames"])
def test_each_side_of_world_is_a_graph_with_splits(name: str) -> None:
    task = load_dataset(name)
    assert isinstance(task, GraphTask)
    n = sum(map(len, (task.graph.triples, task.valid, task.test)))
    assert abs(len(task.test) / n - 0.1) < 0.02
    assert abs(len(task.valid) / n - 0.1) < 0.02
    opened = load_dataset(name, open_world=True)
    assert isinstance(opened, GraphTask)
    assert opened.new_entities is not None
    assert len(opened.new_entities) == int(0.2 * len(task.graph.entities))


def test_an_unknown_name_lists_the_nearest() -> None:
    with pytest.raises(
        InputError, match="no dataset or folder 'dbp15k/zh'; did you mean dbp15k/zh-en"
    ):
        load_dataset("dbp15k/zh")


def test_missing_files_say_where_to_get_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DECENTRL_DATA", str(tmp_path))
    with pytest.raises(
        InputError, match=r"set DECENTRL_DATA .* FB15K-237, or run: decentrl data fetch"
    ):
        load_dataset("fb15k-237")


def test_a_half_fetched_dataset_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DECENTRL_DATA", str(tmp_path))
    folder = tmp_path / "WN18"
    folder.mkdir()
    for name in ("entities", "relations", "train"):
        (folder / f"{name}.tsv").write_text("0\ta\n" if name != "train" else "a\ta\ta\n")
    with pytest.raises(InputError, match=r"files of wn18 are missing \(test, valid\)"):
        load_dataset("wn18")


def test_a_dataset_is_whole_without_its_translated_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DECENTRL_DATA", str(tmp_path))
    info = find_dataset("dbp15k/zh-en")
    for name in (x for x in checksums() if x.startswith(info.folder)):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        if "translated" not in name:
            (tmp_path / name).write_bytes(b"")
    assert info.present()
    assert info.missing(translated=True) == ["translated_names"]
    with pytest.raises(InputError, match=r"missing \(translated_names\).* decentrl data fetch"):
        load_dataset(info.name, translated=True)


@pytest.mark.data
@pytest.mark.parametrize("pair", ["zh-en", "ja-en", "fr-en"])
def test_the_translated_names_are_those_of_their_entities(pair: str) -> None:
    """The English side has the names of its identifiers, but for a few; others have none."""
    task = load_dataset(f"dbp15k/{pair}", open_world=True, translated=True)
    assert isinstance(task, AlignmentTask)
    right, ends = task.right, task.test[:, 1]
    by_id = right.with_names("ids").names.shown(ends)
    same = [fold(a) == fold(b) for a, b in zip(right.names.shown(ends), by_id, strict=True)]
    assert np.mean(same) > 0.9
    assert set(right.names.entities) <= set(ends)
    assert set(task.left.names.entities) <= set(task.test[:, 0])


@pytest.mark.data
def test_translated_names_may_stand_beside_those_of_identifiers() -> None:
    apart = [Sources("dbp15k/zh-en", names=x).read(0).left for x in ("ids", "translated")]
    both = Sources("dbp15k/zh-en", names="ids+translated").read(0).left.names
    assert set(both.entities) == set(apart[0].names.entities)
    one = int(apart[1].names.entities[0])
    assert set(both.of(one)) == {x for graph in apart for x in graph.names.of(one)}


def test_a_file_is_no_dataset(tmp_path: Path) -> None:
    (tmp_path / "g.tsv").write_text("a\tr\tb\n")
    with pytest.raises(InputError, match="a file, not the folder of a dataset"):
        load_dataset(str(tmp_path / "g.tsv"))


def test_any_folder_of_a_known_layout_is_a_dataset(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "train.txt").write_text("a\tr\tb\n")
    task = load_dataset(str(folder))
    assert task.name == "mine"


def test_the_root_is_the_environment_or_the_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("DECENTRL_DATA", "")
    assert data_root() == tmp_path / "decentrl"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert data_root() == Path.home() / ".cache" / "decentrl"
    monkeypatch.setenv("DECENTRL_DATA", "/data")
    assert data_root() == Path("/data")


def test_the_packaged_datasets_have_the_entities_that_are_listed() -> None:
    for info in (x for x in list_datasets() if x.packaged):
        task = load_dataset(info.name)
        graphs = [task.graph] if isinstance(task, GraphTask) else [task.left, task.right]
        assert tuple(len(graph.entities) for graph in graphs) == info.entities


@pytest.mark.data
@pytest.mark.parametrize("info", PUBLISHED, ids=lambda x: x.name)
def test_the_published_datasets_have_the_published_entities(info) -> None:  # type: ignore[no-untyped-def]
    task = load_dataset(info.name.upper())
    if isinstance(task, AlignmentTask):
        assert (len(task.left.entities), len(task.right.entities)) == info.entities
        grows = info.name.startswith("contea")
        links = (3623, 12682) if grows else (4500, 10500)
        assert (len(task.train), len(task.test)) == links
        assert len(task.valid) == 1811 * grows
    else:
        assert (len(task.graph.entities),) == info.entities
    assert info.present()


def test_a_dataset_without_an_open_world_says_how_to_make_one() -> None:
    with pytest.raises(InputError, match="make one with: decentrl data split wn18rr"):
        load_dataset("wn18rr", open_world=True)


@pytest.mark.data
def test_what_arrives_in_contea_is_read_step_by_step() -> None:
    batches = read_batches(find_dataset("contea/zh-en").path())
    assert [len(read_table(links, LINK)) for _, links in batches] == [
        14213, 16296, 18716, 21473, 24678
    ]  # fmt: skip
    assert [len(read_table(file)) for file in batches[0][0]] == [33568, 59691]
