"""Writes generated pairs in the layout of ContEA: ``base``, and a folder for each later batch."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from decentrl.data.generator import Shape, Side, World
from decentrl.data.vocabulary import Ids
from decentrl.data.writers import new_folder

TRAIN, VALID = 0.2, 0.1
"""Of the true links of the beginning, those to learn from and those to validate on."""
_ROWS = 1 << 20  # rows whose labels are in memory at once


def write_world(world: World, shape: Shape, folder: str | PathLike[str]) -> dict[str, Ids]:
    """Write a pair to a new folder; the links of each file by its path.

    ``base`` holds the graphs and names of the beginning with ``train_links``, ``valid_links`` and
    ``test_links``; ``batch1`` … what arrives later, with the links that are true and unknown then.
    """
    links = _split(world)
    with new_folder(folder) as target:
        for batch in range(shape.batches + 1):
            place = target / (f"batch{batch}" if batch else "base")
            place.mkdir()
            triples = "new_triples" if batch else "triples"
            for number, side in ((1, world.left), (2, world.right)):
                entities, relations = _labels(side, number)
                rows = side.triples[side.arrived == batch]
                columns = (entities, relations, entities)
                _write(place / f"{triples}_{number}.tsv", rows, columns)
                called = np.flatnonzero((side.entities == batch) & (side.names != b""))
                if len(called):
                    rows = np.stack((called, called), axis=1)
                    _write(place / f"names_{number}.tsv", rows, (entities, _texts(side.names)))
        entities_of = [_labels(side, i)[0] for i, side in ((1, world.left), (2, world.right))]
        for name, rows in links.items():
            if len(rows):  # an empty file is an error to read
                _write(target / f"{name}.tsv", rows, tuple(entities_of))
    return links


def _split(world: World) -> dict[str, Ids]:
    """The links of each file: known and unknown ones of the beginning, then all unknown ones."""
    times = np.maximum(
        world.left.entities[world.links[:, 0]], world.right.entities[world.links[:, 1]]
    )
    base, later = world.links[times == 0], np.flatnonzero(times)
    first, last = round(TRAIN * len(base)), round((TRAIN + VALID) * len(base))
    train, valid, test = np.split(base, [first, last])
    found = {"base/train_links": train, "base/valid_links": valid, "base/test_links": test}
    for batch in range(1, int(max(x.entities.max() for x in (world.left, world.right))) + 1):
        arrived = world.links[later[times[later] <= batch]]
        found[f"batch{batch}/all_test_links"] = np.concatenate((test, arrived))
    return found


def _labels(side: Side, number: int) -> tuple[pa.Array, pa.Array]:
    """The identifiers of the entities and relations of a side."""
    place = f"http://{('one', 'two')[number - 1]}.example"

    def numbered(what: str, count: int) -> pa.Array:
        return pc.binary_join_element_wise(
            f"{place}/{what}", pa.array(np.arange(count)).cast(pa.string()), ""
        )

    return numbered("e", len(side.entities)), numbered("r", side.relations)


def _texts(names: npt.NDArray[np.bytes_]) -> pa.Array:
    """Names of one byte a letter as Arrow's text."""
    letters = names.view(np.uint8)
    ends = np.cumsum(np.char.str_len(names), dtype=np.int32)
    offsets = pa.py_buffer(np.concatenate(([0], ends)).astype(np.int32))
    return pa.StringArray.from_buffers(len(names), offsets, pa.py_buffer(letters[letters != 0]))


def _write(file: Path, rows: Ids, columns: tuple[pa.Array, ...]) -> None:
    """Write rows of ids as lines of the labels of each column, separated by tabs."""
    titles = [str(i) for i in range(len(columns))]
    schema = pa.schema([(title, pa.string()) for title in titles])
    options = pyarrow.csv.WriteOptions(include_header=False, delimiter="\t", quoting_style="none")
    with pyarrow.csv.CSVWriter(str(file), schema, write_options=options) as writer:
        for start in range(0, len(rows), _ROWS):
            some = rows[start : start + _ROWS]
            cells = [labels.take(pa.array(some[:, i])) for i, labels in enumerate(columns)]
            writer.write_table(pa.table(cells, names=titles))
