"""The Parquet files of a bundle: names and attributes come back, and bad ones are one line."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from decentrl.aligner import Aligner
from decentrl.data.alignment_task import AlignmentTask
from decentrl.data.knowledge_graph import KnowledgeGraph
from decentrl.data.open_world import split_alignment
from decentrl.errors import BundleError
from decentrl.storage.bundle import MANIFEST, read_bundle, seal_of
from decentrl.storage.mapped import fingerprint

Twins = dict[str, list[tuple[str, ...]]]


def named(twins: Twins) -> AlignmentTask:
    left, right = (KnowledgeGraph.read(twins[side]) for side in ("left", "right"))
    rows = [
        (label, f"שם <b>{i}</b> 😀", "he" if i % 2 else "") for i, label in enumerate(left.entities)
    ]
    left = left.with_names(rows)
    right = right.with_attributes([(right.entities[3], "age", "7"), (right.entities[3], "x", "y")])
    return AlignmentTask.read(left, right, twins["links"], twins["test"])


@pytest.fixture(scope="module")
def made(twins: Twins, tmp_path_factory: pytest.TempPathFactory) -> tuple[AlignmentTask, Path]:
    task = split_alignment(named(twins), 0.2, 0)
    aligner = Aligner.from_preset("tiny", "model.dim=8", "training.epochs=2", device="cpu")
    run = tmp_path_factory.mktemp("made")
    aligner.fit(task).save(run)
    return task, run / "bundle"


def test_names_and_attributes_come_back(made: tuple[AlignmentTask, Path]) -> None:
    task, folder = made
    found = read_bundle(folder).task
    for side in ("left", "right"):
        assert getattr(found, side).content_hash() == getattr(task, side).content_hash()
    assert found.left.names.to_arrow().equals(task.left.names.to_arrow())
    assert found.right.attributes.to_arrow().equals(task.right.attributes.to_arrow())
    assert not found.right.names
    assert not found.left.attributes


def test_without_any_there_is_no_file(twins: Twins, tmp_path: Path) -> None:
    task = AlignmentTask.read(twins["left"], twins["right"], twins["links"])
    Aligner.from_preset("tiny", "model.dim=8", "training.epochs=1").fit(task).save(tmp_path)
    assert not {"names.parquet", "attributes.parquet"} & {x.name for x in tmp_path.rglob("*")}


def change(column: str, value: Any, row: int = 0) -> Callable[[pa.Table], pa.Table]:
    def changed(table: pa.Table) -> pa.Table:
        values = table[column].to_pylist()
        values[row] = value
        place = table.column_names.index(column)
        return table.set_column(place, column, pa.array(values))

    return changed


def long(table: pa.Table, rows: int) -> pa.Table:
    """Few bytes that stand for many."""
    table = pa.concat_tables([table.slice(0, 1)] * rows)
    return table.set_column(2, "text", pa.array(["x" * 1000] * rows))


BAD: dict[str, tuple[str, Callable[[pa.Table], pa.Table], str]] = {
    "no such graph": ("names", change("graph", "up"), "there is no graph 'up'"),
    "no such entity": ("names", change("entity", 10**6, -1), "has an id that is none"),
    "a negative entity": ("names", change("entity", -1), "has an id that is none"),
    "no order": ("names", change("entity", 5), "ids of entities must ascend"),
    "a NUL": ("names", change("text", "a\0b"), "a text has control characters"),
    "a line end": ("attributes", change("value", "a\nb"), "a value has control characters"),
    "very long": ("names", change("text", "x" * 10**6), "a text has control characters, or is too"),
    "nothing": ("names", change("text", None), "a value is missing"),
    "no tag": ("names", change("language", "no tag"), "a language is no tag"),
    "no kind": ("attributes", change("kind", "colour"), "of no kind that there is"),
    "numbers": ("names", change("alias", 7), "readable|columns are not|damaged"),
    "a column less": ("names", lambda table: table.drop_columns(["alias"]), "columns are not"),
    "too many": ("names", lambda table: long(table, 60_000), "far more rows"),
}


@pytest.mark.parametrize("what", BAD)
def test_what_no_run_writes_is_one_line(
    made: tuple[AlignmentTask, Path], tmp_path: Path, what: str
) -> None:
    name, damage, says = BAD[what]
    folder = shutil.copytree(made[1], tmp_path / "bundle")
    file = folder / f"{name}.parquet"
    try:
        table = damage(pq.read_table(file))
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        table = pq.read_table(file).set_column(4, "alias", pa.array([7] * 40))
    pq.write_table(table, file)
    manifest = json.loads((folder / MANIFEST).read_text("utf-8"))
    manifest["files"][file.name] = fingerprint(file)
    del manifest["sha256"]
    manifest["sha256"] = seal_of(manifest)
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", "utf-8")
    with pytest.raises(BundleError, match=rf"{name}\.parquet.*{says}") as error:
        read_bundle(folder)
    assert "\n" not in str(error.value)
