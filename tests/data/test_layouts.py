"""Folders as datasets are published."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from decentrl.data.alignment_task import AlignmentTask
from decentrl.data.graph_task import GraphTask
from decentrl.data.layouts import read_batches, read_folder
from decentrl.errors import InputError, UnknownLabelError

DBP15K = {
    "triples_1": "0\t0\t1\n1\t0\t2\n",
    "triples_2": "10\t5\t11\n11\t5\t12\n",
    "ent_ids_1": "1\tzh/B\n0\tzh/A\n2\tzh/C\n",
    "ent_ids_2": "10\ten/A\n11\ten/B\n12\ten/C\n",
    "rel_ids_1": "0\tzh/r\n",
    "rel_ids_2": "5\ten/r\n",
    "sup_ent_ids": "0\t10\n",
    "ref_ent_ids": "2\t12\n1\t11\n",
}
OPEN = {
    "open/triples_1": "0\t0\t1\n",
    "open/triples_2": "10\t5\t11\n",
    "open/ref_pairs": "1\t11\n",
    "open/new_pairs": "2\t12\n",
}
SPLITS = {"train": "a\tr\tb\nb\tr\tc\n", "valid": "a\tr\tc\n", "test": "d\tr\ta\nb\tr\ta\n"}


def fill(folder: Path, files: dict[str, str], extension: str = "") -> Path:
    for name, text in files.items():
        file = folder / (name + extension)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(
            gzip.compress(text.encode()) if extension.endswith(".gz") else text.encode()
        )
    return folder


def alignment(folder: Path, open_world: bool = False) -> AlignmentTask:
    task = read_folder(folder, "x", open_world)
    assert isinstance(task, AlignmentTask)
    return task


def prediction(folder: Path, open_world: bool = False) -> GraphTask:
    task = read_folder(folder, "x", open_world)
    assert isinstance(task, GraphTask)
    return task


@pytest.mark.parametrize("extension", ["", ".txt", ".tsv", ".tsv.gz"])
def test_dbp15k_takes_order_and_labels_from_its_id_files(tmp_path: Path, extension: str) -> None:
    task = alignment(fill(tmp_path, DBP15K, extension))
    assert list(task.left.entities) == ["zh/B", "zh/A", "zh/C"]
    assert list(task.right.relations) == ["en/r"]
    assert task.left.triples.tolist() == [[0, 0, 2], [1, 0, 0]]
    assert task.train.tolist() == [[1, 0]]
    assert task.test.tolist() == [[2, 2], [0, 1]]


def test_without_id_files_the_triples_name_the_entities(tmp_path: Path) -> None:
    files = {
        "triples_1": "Wien\tin\tÖsterreich\n",
        "triples_2": "Vienna\tin\tAustria\n",
        "sup_pairs": "Wien\tVienna\n",
        "ref_pairs": "Österreich\tAustria\n",
    }
    task = alignment(fill(tmp_path, files, ".tsv.gz"))
    assert list(task.left.entities) == ["Wien", "Österreich"]
    assert task.test.tolist() == [[1, 0]]


def test_the_open_folder_tells_what_is_new(tmp_path: Path) -> None:
    task = alignment(fill(tmp_path, DBP15K | OPEN), open_world=True)
    assert task.unknown is not None
    assert task.auxiliary is not None
    assert task.test[task.unknown].tolist() == [[2, 2]]
    assert task.test.tolist() == [[2, 2], [0, 1]]
    assert task.left.triples.tolist() == [[1, 0, 0]]
    assert [x.tolist() for x in task.auxiliary] == [[[0, 0, 2]], [[1, 0, 2]]]
    assert not alignment(tmp_path).open_world


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            {"ent_ids_1": "0\tzh/A\n1\tzh/B\n2\tzh/A\n"},
            r"ent_ids_1:3: .*'zh/A' occurs twice .*line 1",
        ),
        ({"ent_ids_1": "0\tzh/A\n0\tzh/B\n2\tzh/C\n"}, "ent_ids_1:2: the id '0' occurs twice"),
        ({"triples_2": "10\t5\t11\n11\t5\t99\n"}, "triples_2:2: '99' is no known entity"),
        ({"triples_1": "0\t7\t1\n"}, "triples_1:1: '7' is no known relation"),
        ({"ref_ent_ids": "11\t1\n"}, "ref_ent_ids:1: .*columns are swapped"),
        ({"ref_ent_ids": "0\t10\n"}, "ref_ent_ids:1: this test link is also a training link"),
        ({"open/new_pairs": "0\t10\n"}, "new_pairs:1: this new link is no test link"),
        ({"open/triples_1": "2\t0\t0\n"}, "triples_1:1: .*not among the conventional ones"),
    ],
)
def test_contradictions_between_files_are_named_with_their_line(
    tmp_path: Path, change: dict[str, str], says: str
) -> None:
    with pytest.raises(InputError, match=says):
        alignment(fill(tmp_path, DBP15K | OPEN | change), open_world=True)


def test_openea_has_its_links_in_folds(tmp_path: Path) -> None:
    files = {
        "rel_triples_1": "a\tr\tb\nb\tr\tc\n",
        "rel_triples_2": "A\tR\tB\nB\tR\tC\n",
        "721_5fold/1/train_links": "a\tA\n",
        "721_5fold/1/valid_links": "b\tB\n",
        "721_5fold/1/test_links": "c\tC\n",
    }
    task = alignment(fill(tmp_path, files))
    assert [x.tolist() for x in (task.train, task.valid, task.test)] == [
        [[0, 0]],
        [[1, 1]],
        [[2, 2]],
    ]


def test_a_graph_with_splits_knows_the_entities_of_all_of_them(tmp_path: Path) -> None:
    task = prediction(fill(tmp_path, SPLITS, ".txt"))
    assert list(task.graph.entities) == ["a", "b", "c", "d"]
    assert task.test.tolist() == [[3, 0, 0], [1, 0, 0]]
    assert len(task.graph.triples) == 2


def test_id_files_of_a_graph_give_the_order(tmp_path: Path) -> None:
    files = SPLITS | {"entities": "0\td\n1\tc\n2\tb\n3\ta\n", "relations": "0\tr\n"}
    assert list(prediction(fill(tmp_path, files, ".tsv")).graph.entities) == ["d", "c", "b", "a"]


def test_a_graph_may_have_an_open_folder(tmp_path: Path) -> None:
    files = SPLITS | {"open/train": "a\tr\tb\n", "open/new_entities": "2\tc\n3\td\n"}
    task = prediction(fill(tmp_path, files), open_world=True)
    assert task.new_entities is not None
    assert task.auxiliary is not None
    assert task.new_entities.tolist() == [2, 3]
    assert np.array_equal(task.auxiliary, [[1, 0, 2]])


def test_a_folder_of_another_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no known layout; name its files triples_1"):
        read_folder(tmp_path, "x")
    with pytest.raises(InputError, match="the file sup_pairs or sup_ent_ids is missing"):
        read_folder(fill(tmp_path, {k: v for k, v in DBP15K.items() if "sup" not in k}), "x")


def test_an_open_world_without_its_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no open-world split; make one with: decentrl data split"):
        read_folder(fill(tmp_path, SPLITS), "x", open_world=True)


def test_names_and_attributes_lie_beside_the_triples(tmp_path: Path) -> None:
    files = {"names_1": "0\tEh\t\n0\tEy\ten\n", "attributes_2": "12\tage\t7\n"}
    task = alignment(fill(tmp_path, {**DBP15K, **OPEN, **files}), open_world=True)
    assert task.left.names.of(task.left.entities.id("zh/A")) == [("Eh", ""), ("Ey", "en")]
    assert task.right.attributes.of(2) == [("age", "7", "number")]
    folder = fill(tmp_path / "one", {**SPLITS, "names": "a\tAy\nd\tDee\n"})
    graph = prediction(folder).graph
    assert graph.names.shown(range(4)) == ["Ay", "", "", "Dee"]


def test_translated_names_are_those_of_the_test_links_on_both_sides(tmp_path: Path) -> None:
    translated = "0\tone\n1\ttwo\n10\tten\n12\ttwelve\n"
    names = {"translated_names": translated, "names_1": "0\tEh\n"}
    folder = fill(tmp_path, {**DBP15K, **names}, ".tsv.gz")
    assert alignment(folder).left.names.shown(range(3)) == ["", "Eh", ""]
    task = read_folder(folder, "x", translated=True)
    assert isinstance(task, AlignmentTask)
    assert task.left.names.shown(range(3)) == ["two", "", ""]
    assert task.right.names.shown(range(3)) == ["", "", "twelve"]
    with pytest.raises(InputError, match="this dataset has no translated names; leave out"):
        read_folder(fill(tmp_path / "other", DBP15K), "x", translated=True)


def test_a_graph_that_grows_is_its_base_and_what_arrives_in_steps(tmp_path: Path) -> None:
    files = {
        "base/triples_1": "0\tr\t1\n1\tr\t2\n",
        "base/triples_2": "7\ts\t8\n8\ts\t9\n",
        "base/train_links": "0\t7\n",
        "base/valid_links": "1\t8\n",
        "base/test_links": "2\t9\n",
        "batch1/new_triples_1": "3\tr\t0\n",
        "batch1/new_triples_2": "6\ts\t7\n",
        "batch1/all_test_links": "2\t9\n3\t6\n",
    }
    task = alignment(fill(tmp_path, files, ".tsv.gz"))
    assert [x.tolist() for x in (task.train, task.valid, task.test)] == [
        [[0, 0]],
        [[1, 1]],
        [[2, 2]],
    ]
    assert (list(task.left.entities), list(task.right.entities)) == (
        ["0", "1", "2"],
        ["7", "8", "9"],
    )
    (((left, right), later),) = read_batches(tmp_path)
    assert [x.parent.name for x in (left, right, later)] == ["batch1"] * 3
    (tmp_path / "batch1" / "all_test_links.tsv.gz").unlink()
    with pytest.raises(InputError, match="all_test_links is missing"):
        read_batches(tmp_path)


NEW = {"new_train": "x\tr\ty\n", "new_valid": "y\ts\tx\n", "new_test": "y\tr\tz\n"}


def test_a_second_graph_with_the_same_relations_is_to_be_tested_on(tmp_path: Path) -> None:
    first = {"train": "a\tr\tb\nb\ts\tc\n", "valid": "a\ts\tc\n", "test": "b\tr\tc\n"}
    task = prediction(fill(tmp_path / "one", {**first, **NEW}))
    other = task.elsewhere
    assert other is not None
    assert (list(task.graph.entities), list(other.graph.entities)) == (["a", "b", "c"], [*"xyz"])
    assert list(other.graph.relations) == list(task.graph.relations) == ["r", "s"]
    assert (other.graph.triples.tolist(), other.valid.tolist()) == ([[0, 0, 1]], [[1, 1, 0]])
    assert other.test.tolist() == [[1, 0, 2]]
    strange = {**first, **NEW, "new_valid": "y\tq\tx\n"}
    with pytest.raises(UnknownLabelError, match=r"has not seen these relations of .*: 'q'"):
        read_folder(fill(tmp_path / "two", strange), "x")


def test_entities_may_be_joined_later_by_auxiliary_triples(tmp_path: Path) -> None:
    files = {
        "entity2id": "A\t0\nB\t1\nC\t2\n", "relation2id": "r\t0\ns\t1\n",
        "train": "0\t0\t1\n", "valid": "1\t1\t0\n", "test": "2\t0\t1\n", "auxiliary": "2\t1\t0\n",
    }  # fmt: skip
    for open_world in (False, True):
        task = prediction(fill(tmp_path, files), open_world=open_world)
        assert task.open_world
        assert (list(task.graph.entities), list(task.graph.relations)) == ([*"ABC"], [*"rs"])
        assert task.graph.triples.tolist() == [[0, 0, 1]]
        assert task.auxiliary is not None
        assert task.new_entities is not None
        assert (task.auxiliary.tolist(), task.new_entities.tolist()) == ([[2, 1, 0]], [2])
        assert (task.valid.tolist(), task.test.tolist()) == ([[1, 1, 0]], [[2, 0, 1]])
