"""What a bundle must hold beyond right checksums, which a stranger can compute too.

Types, shapes, ranges of ids, distinct labels, finite numbers. The work is bounded by the bytes that
there are; what a large bundle maps into memory is looked at when it is first read
(:mod:`decentrl.storage.mapped`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from decentrl.data.attributes import KINDS
from decentrl.data.names import clean, clean_tags
from decentrl.data.vocabulary import Vocabulary

if TYPE_CHECKING:
    import pyarrow as pa
    from torch import Tensor

    from decentrl.storage.kinds import Arrays, Kind
    from decentrl.storage.mapped import MappedRows

FILES = {
    "README.md", "config.toml", "labels.parquet", "graphs.safetensors", "weights.safetensors",
    "vectors.safetensors", "matching.safetensors", "memory.safetensors",
    "names.parquet", "attributes.parquet",
}  # fmt: skip
NEWCOMER = "newcomer."
"""What the names of the parameters of the confidence of newcomers begin with."""
_TYPES = {"bytes": int, "sha256": str, "block_bytes": int, "block_crc32": str, "header": dict}


def check_manifest(manifest: Mapping[str, Any]) -> None:
    """A :class:`ValueError` unless a manifest lists files of a bundle, by their bare names."""
    files, origin = manifest.get("files"), manifest.get("grown_from")
    if not isinstance(manifest.get("name"), str) or not isinstance(files, dict):
        raise ValueError("no name, or no files")
    if unknown := sorted(set(files) - FILES):
        raise ValueError(f"a bundle has no file {unknown[0]!r}")
    for name, entry in files.items():
        if not isinstance(entry, dict) or not {"bytes", "sha256"} <= set(entry):
            raise ValueError(f"what it says of {name}")
        if any(type(value) is not _TYPES.get(key) for key, value in entry.items()):
            raise ValueError(f"what it says of {name}")
        size, block = entry["bytes"], entry.get("block_bytes", 1)
        blocks = -(-size // block) if block > 0 else -1
        if size < 0 or ("block_crc32" in entry and len(entry["block_crc32"]) != 8 * blocks):
            raise ValueError(f"the sizes of {name}")
    if origin is not None:
        base, count = (
            map(origin.get, ("base", "additions")) if isinstance(origin, dict) else ("", "")
        )
        if not isinstance(base, str) or type(count) is not int or not 0 <= count < 2**42:
            raise ValueError("of which bundle it grew")


def check_labels(table: pa.Table, names: tuple[str, ...]) -> None:
    """A :class:`ValueError` unless a table has labels of vocabularies: text, and none missing."""
    import pyarrow as pa

    coded = pa.dictionary(pa.int32(), pa.string())
    if table.schema != pa.schema([("vocabulary", coded), ("label", pa.string())]):
        raise ValueError("its columns are not those of labels")
    table.validate(full=True)
    if any(column.null_count for column in table.columns):
        raise ValueError("a label is missing")
    if unknown := set(table["vocabulary"].unique().to_pylist()) - set(names):
        raise ValueError(f"there is no vocabulary {sorted(unknown)[0]!r}")


def check_described(table: pa.Table, schema: pa.Schema, entities: Mapping[str, int]) -> None:
    """A :class:`ValueError` unless a table has names or attributes of entities that there are."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if table.schema != schema.insert(0, pa.field("graph", pa.string())):
        raise ValueError("its columns are not those of names or attributes")
    table.validate(full=True)
    if table["graph"].null_count:
        raise ValueError("a value is missing")
    if unknown := set(table["graph"].unique().to_pylist()) - set(entities):
        raise ValueError(f"there is no graph {sorted(unknown)[0]!r}")
    for graph, size in entities.items():
        check_columns(table.filter(pc.equal(table["graph"], graph)), size)


def check_columns(table: pa.Table, entities: int) -> None:
    """A :class:`ValueError` unless names or attributes are of the first ``entities`` ids."""
    if any(column.null_count for column in table.columns):
        raise ValueError("a value is missing")
    ids = np.asarray(table["entity"])
    check_ids("entity", ids[:, None], (entities,))
    if (np.diff(ids) < 0).any():
        raise ValueError("the ids of entities must ascend")
    columns = {name: table[name] for name in table.column_names}
    for name in {"text", "value"} & set(columns):
        if not clean(columns[name]).equals(columns[name]):
            raise ValueError(f"a {name} has control characters, or is too long")
    if (tags := columns.get("language")) and not clean_tags(tags).equals(tags):
        raise ValueError("a language is no tag")
    if (kinds := columns.get("kind")) and set(kinds.unique().to_pylist()) - set(KINDS):
        raise ValueError("an attribute is of no kind that there is")


def check_arrays(kind: Kind, labels: Mapping[str, Vocabulary], arrays: Arrays) -> None:
    """A :class:`ValueError` unless triples, links and lists of ids name labels that there are."""
    sizes = [len(labels[name]) for name in kind.label_names]
    columns: dict[str, tuple[int, ...]] = {
        graph: (entities, relations, entities)
        for graph, entities, relations in zip(kind.graphs, sizes[::2], sizes[1::2], strict=True)
    }
    for graph, shape in list(columns.items()):
        columns[f"auxiliary.{graph}" if kind.two_graphs else "auxiliary"] = shape
    pairs = tuple(sizes[::2]) if kind.two_graphs else columns[kind.graphs[0]]
    columns |= dict.fromkeys(kind.arrays, pairs)
    if np.prod(np.array([x for graph in kind.graphs for x in columns[graph]], float)) >= 2.0**120:
        raise ValueError("too many entities and relations")
    if unknown := sorted(set(arrays) - {*columns, *kind.later}):
        raise ValueError(f"there is no {unknown[0]!r} in a bundle")
    for name, array in arrays.items():
        if name == "unknown":
            if array.dtype != bool or array.shape != arrays["test"].shape[:1]:
                raise ValueError("unknown does not go with test")
        elif name == "new_entities":
            check_ids(name, array[:, None] if array.ndim == 1 else array, sizes[:1])
        else:
            check_ids(name, array, columns[name])


def check_ids(name: str, array: Any, sizes: Any) -> None:
    """A :class:`ValueError` unless column j of int64[n, k] holds ids below ``sizes[j]``."""
    if array.dtype != np.int64 or array.shape[1:] != (len(sizes),):
        raise ValueError(f"{name} is {array.dtype}{list(array.shape)}, not so many columns of ids")
    if not len(array):
        return
    highest = _highest(array.view(np.uint64))  # a number below 0 is a huge one there
    if (highest >= np.array(sizes, np.uint64)).any():
        raise ValueError(f"{name} has an id that is none")


def _highest(array: Any) -> Any:
    """The largest number of each of a few columns; long rows are several times as fast."""
    columns, whole = array.shape[1], len(array) - len(array) % 256
    if whole:
        wide = np.maximum.reduce(array[:whole].reshape(-1, 256 * columns), axis=0)
        array = np.concatenate((wide.reshape(256, columns), array[whole:]))
    return np.maximum.reduce(array, axis=0)


def check_rows(
    name: str, rows: Mapping[str, MappedRows], shapes: Mapping[str, tuple[int, ...]]
) -> None:
    """A :class:`ValueError` unless there are float32 tensors of these shapes and no others."""
    check_like(name, rows, {key: f"torch.float32{list(x)}" for key, x in shapes.items()})


def check_like(name: str, rows: Mapping[str, MappedRows], wanted: Mapping[str, str]) -> None:
    """The same for tensors of any type, ``torch.float32[3, 4]``."""
    if set(rows) != set(wanted):
        raise ValueError(f"{name}: {sorted(set(rows) ^ set(wanted))[0]} is missing, or too much")
    for key, sought in wanted.items():
        found = f"{rows[key].dtype}{list(rows[key].shape)}"
        if found != sought:
            raise ValueError(f"{name}: {key} is {found}, not {sought}")
        if sought.startswith("torch.int64[") and len(rows[key].shape) == 1 and len(rows[key]):
            ids = rows[key].all()  # which of them stand for which
            if not 0 <= int(ids.min()) <= int(ids.max()) < len(ids):
                raise ValueError(f"{name}: {key} has an id that is none")


def check_matching(matching: Mapping[str, Tensor], sizes: Mapping[str, int], features: int) -> None:
    """A :class:`ValueError` unless what belongs to matching is about so many entities a side."""
    names = list(sizes)
    shapes: dict[str, list[int]] = {name: [features] for name in ("weights", "mean", "scale")}
    shapes |= {"bias": [], "threshold": []}
    if "weights" in matching and not set(shapes) <= set(matching):
        raise ValueError("a part of the confidence is missing")
    for own, other in (names, names[::-1]) if len(names) > 1 else ():
        shapes |= {f"potential.{own}.own": [sizes[own]], f"potential.{own}.other": [sizes[other]]}
        shapes |= {f"sure.{own}": [sizes[own]], "potential.balance": []}
    if f"{NEWCOMER}weights" in matching:
        # Earlier bundles have fewer features of newness.
        more = [features + (7 if f"{NEWCOMER}precise" in matching else 5)]
        named = {f"{NEWCOMER}{name}": more for name in ("weights", "mean", "scale")}
        named |= {f"{NEWCOMER}bias": [], f"{NEWCOMER}threshold": []}
        if len(names) < 2 or not set(named) <= set(matching):
            raise ValueError("a part of the confidence of newcomers is missing")
        shapes |= named | {f"{NEWCOMER}precise": []}
    if "settled" in matching:
        settled = [len(matching["settled"])]
        shapes |= {"settled.score": settled, "settled.confidence": settled, "settled.triples": []}
        if len(names) < 2 or not {x for x in shapes if x.startswith("settled.")} <= set(matching):
            raise ValueError("a part of the settled matches is missing")
        if not 0 <= float(matching["settled.triples"].double().sum()) < 2.0**53:
            raise ValueError("settled.triples is no number of triples")
    for name, tensor in matching.items():
        if name in ("found", "settled") and len(names) > 1:
            check_ids(f"matching: {name}", tensor.numpy(), list(sizes.values()))
        elif not tensor.is_floating_point() or list(tensor.shape) != shapes.get(name):
            raise ValueError(f"matching: {name} is {tensor.dtype}{list(tensor.shape)}")
