"""Generated pairs on disk: read like any dataset, and the same bytes for the same seed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from decentrl.data.alignment_task import AlignmentTask
from decentrl.data.generated_files import write_world
from decentrl.data.generator import Shape, World, generate
from decentrl.data.layouts import read_batches, read_folder
from decentrl.data.readers import read_table
from decentrl.data.table import LINK
from decentrl.errors import InputError

SHAPE = Shape(200, batches=2, seed=3)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[World, Path]:
    folder = tmp_path_factory.mktemp("made") / "pair"
    world = generate(SHAPE)
    write_world(world, SHAPE, folder)
    return world, folder


def number(label: str) -> int:
    return int(label.rpartition("/")[2][1:])


def test_the_beginning_is_read_at_once(written: tuple[World, Path]) -> None:
    world, folder = written
    task = read_folder(folder, "pair")
    assert isinstance(task, AlignmentTask)
    for graph, side in ((task.left, world.left), (task.right, world.right)):
        assert len(graph.entities) == SHAPE.entities
        assert len(graph.triples) == (side.arrived == 0).sum()
        names = dict(zip(graph.names.entities.tolist(), graph.names.texts.to_pylist(), strict=True))
        for i, text in names.items():
            assert side.names[number(graph.entities[i])].decode() == text
    truth = set(map(tuple, world.links.tolist()))
    links = np.concatenate((task.train, task.valid, task.test))
    found = {
        (number(task.left.entities[i]), number(task.right.entities[j])) for i, j in links.tolist()
    }
    there = {(i, j) for i, j in truth if not (world.left.entities[i] or world.right.entities[j])}
    assert found == there
    assert len(links) == len(there)
    assert len(task.train) == round(0.2 * len(links))


def test_batches_bring_the_rest(written: tuple[World, Path]) -> None:
    world, folder = written
    batches = read_batches(folder)
    assert len(batches) == SHAPE.batches
    for step, (files, links) in enumerate(batches, 1):
        for file, side in zip(files, (world.left, world.right), strict=True):
            assert len(read_table(file)) == (side.arrived == step).sum()
        pairs = zip(*(x.to_pylist() for x in read_table(links, LINK).columns), strict=True)
        numbers = {(number(a), number(b)) for a, b in pairs}
        assert numbers <= set(map(tuple, world.links.tolist()))
        late = [max(world.left.entities[i], world.right.entities[j]) for i, j in numbers]
        assert max(late) == step


def test_the_same_seed_writes_the_same_bytes(written: tuple[World, Path], tmp_path: Path) -> None:
    def contents(folder: Path) -> dict[str, bytes]:
        files = (x for x in folder.rglob("*") if x.is_file())
        return {str(x.relative_to(folder)): x.read_bytes() for x in files}

    again, other = tmp_path / "again", tmp_path / "other"
    write_world(generate(SHAPE), SHAPE, again)
    assert contents(again) == contents(written[1])
    shape = Shape(200, batches=2, seed=4)
    write_world(generate(shape), shape, other)
    assert contents(other) != contents(again)


def test_nothing_is_overwritten(written: tuple[World, Path]) -> None:
    world, folder = written
    with pytest.raises(InputError, match="exists already"):
        write_world(world, SHAPE, folder)
