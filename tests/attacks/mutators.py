"""Ways to damage files at random, and to write wrong files whose checksums are all right.

``damage`` changes bytes as a bad disk does. A :class:`Forgery` is a bundle in memory that somebody
may do anything to; written, it has the right checksums. ``MALICE`` are such doings.
"""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from safetensors.numpy import load, save

from decentrl.storage.bundle import MANIFEST, _sealed
from decentrl.storage.mapped import fingerprint

# Bad disks


def damage(chance: random.Random, whole: bytes) -> bytes:
    """The bytes of a file after an accident; never the same ones."""
    damaged, accidents = whole, list(_ACCIDENTS)
    while damaged == whole:
        damaged = bytes(chance.choice(accidents)(chance, bytearray(whole)))
    return damaged


def _flip(chance: random.Random, file: bytearray) -> bytearray:
    for _ in range(chance.choice((1, 1, 1, 8))):
        if file:
            file[chance.randrange(len(file))] ^= 1 << chance.randrange(8)
    return file


def _truncate(chance: random.Random, file: bytearray) -> bytearray:
    return file[: chance.randrange(len(file) + 1)]


def _lengthen(chance: random.Random, file: bytearray) -> bytearray:
    return file + chance.randbytes(chance.choice((1, 8, 512)))


def _zero(chance: random.Random, file: bytearray) -> bytearray:
    start = chance.randrange(len(file) + 1)
    some = file[start : start + chance.choice((8, 512, 4096))]
    file[start : start + len(some)] = bytes(len(some))
    return file


def _swap(chance: random.Random, file: bytearray) -> bytearray:
    size = chance.choice((8, 64, 512))
    one, other = (chance.randrange(len(file) // size + 1) * size for _ in range(2))
    first, second = file[one : one + size], file[other : other + size]
    if len(first) == len(second):
        file[one : one + size], file[other : other + size] = second, first
    return file


_ACCIDENTS = (_flip, _flip, _flip, _truncate, _lengthen, _zero, _swap)


def damage_one(chance: random.Random, folder: Path) -> str:
    """Damage a file of a folder, remove it, or swap it with another; says what was done."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.stat().st_size)
    file, what = chance.choice(files), chance.random()
    if what < 0.05:
        file.unlink()
        return f"{file.name} removed"
    if what < 0.1:
        other = chance.choice(files)
        mine, others = file.read_bytes(), other.read_bytes()
        file.write_bytes(others)
        other.write_bytes(mine)
        return f"{file.name} and {other.name} swapped"
    file.write_bytes(damage(chance, file.read_bytes()))
    return f"{file.name} damaged"


# Bad people


class Forgery:
    """A bundle in memory; :meth:`write` gives it the right checksums."""

    def __init__(self, folder: Path) -> None:
        self.files = {path.name: path.read_bytes() for path in folder.iterdir()}
        self.manifest: dict[str, Any] = json.loads(self.files.pop(MANIFEST))
        del self.manifest["sha256"]
        self.manifest["files"] = {}

    def tensors(self, name: str) -> dict[str, Any]:
        return load(self.files[name])

    def put(self, name: str, tensors: dict[str, Any]) -> None:
        self.files[name] = save({key: np.ascontiguousarray(x) for key, x in tensors.items()})

    def labels(self) -> pa.Table:
        return pq.read_table(io.BytesIO(self.files["labels.parquet"]))

    def put_labels(self, table: pa.Table) -> None:
        file = io.BytesIO()
        pq.write_table(table, file)
        self.files["labels.parquet"] = file.getvalue()

    def write(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        about = {}
        for name, content in self.files.items():
            (folder / name).write_bytes(content)
            about[name] = fingerprint(folder / name)
        given = self.manifest["files"]
        if isinstance(given, dict):
            given = {**about, **given}
        text = _sealed({**self.manifest, "files": given})
        (folder / MANIFEST).write_text(text, "utf-8")


Malice = Callable[[random.Random, Forgery], str]
ODD: list[Any] = [None, True, -1, 0, 0.5, 2**31, 10**9, 10**12, 2**64, "", "x", "..", [], [[]], {}]


def _some_tensor(
    chance: random.Random, forgery: Forgery, kinds: str
) -> tuple[str, dict[str, Any], str]:
    """A file, its tensors, and one of a kind that has elements."""
    while True:
        file = chance.choice(sorted(x for x in forgery.files if x.endswith(".safetensors")))
        tensors = forgery.tensors(file)
        names = sorted(x for x, y in tensors.items() if y.dtype.kind in kinds and y.size)
        if names:
            return file, tensors, chance.choice(names)


def ids(chance: random.Random, forgery: Forgery) -> str:
    file, tensors, name = _some_tensor(chance, forgery, "i")
    flat = tensors[name].reshape(-1)
    flat[chance.randrange(flat.size)] = odd = chance.choice((-1, -(2**62), 10**6, 2**40, 2**62))
    forgery.put(file, tensors)
    return f"{odd} in {name} of {file}"


def not_finite(chance: random.Random, forgery: Forgery) -> str:
    file, tensors, name = _some_tensor(chance, forgery, "f")
    flat = tensors[name].reshape(-1)
    flat[chance.randrange(flat.size)] = odd = chance.choice((np.nan, np.inf, -np.inf, 3e38))
    forgery.put(file, tensors)
    return f"{odd} in {name} of {file}"


def dtype(chance: random.Random, forgery: Forgery) -> str:
    file, tensors, name = _some_tensor(chance, forgery, "fib")
    other = chance.choice(("f2", "f4", "f8", "i1", "i4", "i8", "u1", "?"))
    tensors[name] = tensors[name].astype(other)
    forgery.put(file, tensors)
    return f"{name} of {file} as {other}"


def shape(chance: random.Random, forgery: Forgery) -> str:
    file, tensors, name = _some_tensor(chance, forgery, "fib")
    x = tensors[name]
    how = chance.randrange(6)
    tensors[name] = (
        x[:-1] if how == 0 and x.ndim else
        x[..., :-1] if how == 1 and x.ndim else
        x.reshape(-1) if how == 2 else
        x[None] if how == 3 else
        x[:0] if how == 4 and x.ndim else
        np.concatenate((x, x)) if x.ndim else x.reshape(1, 1)
    )  # fmt: skip
    forgery.put(file, tensors)
    return f"{name} of {file}: {x.shape} is {tensors[name].shape}"


def names(chance: random.Random, forgery: Forgery) -> str:
    file, tensors, name = _some_tensor(chance, forgery, "fib")
    other = chance.choice((None, "x", "left", "../x", "", "entities", "memory.x", "left.vectors"))
    content = tensors.pop(name)
    if other is not None:
        tensors[other] = content
    forgery.put(file, tensors)
    return f"{name} of {file} is called {other}"


def missing(chance: random.Random, forgery: Forgery) -> str:
    file = chance.choice(sorted(forgery.files))
    del forgery.files[file]
    return f"no {file}"


def header(chance: random.Random, forgery: Forgery) -> str:
    """The header of a file of tensors says something impossible."""
    file = chance.choice(sorted(x for x in forgery.files if x.endswith(".safetensors")))
    whole = forgery.files[file]
    size = int.from_bytes(whole[:8], "little")
    entries = json.loads(whole[8 : 8 + size])
    how = chance.randrange(4)
    if how == 0:
        text = b"[" * 200_000
    elif how == 1:
        text = b'{"x": ' * 100_000
    else:
        entry = entries[chance.choice(sorted(entries))]
        key = chance.choice(("dtype", "shape", "data_offsets"))
        odd = chance.choice([*ODD, [-1, -1], [10**18, 0], [0, 10**18], [1.5, 2], [2**70] * 3])
        entry[key] = odd
        text = json.dumps(entries).encode()
    length = len(text) if how < 3 else chance.choice((0, 2**40, 2**63, len(text) - 1))
    forgery.files[file] = length.to_bytes(8, "little") + text + whole[8 + size :]
    return f"header of {file}: {text[:60]!r} of {length}"


def labels(chance: random.Random, forgery: Forgery) -> str:
    table = forgery.labels()
    rows = table.to_pylist()
    how = chance.randrange(9)
    place = chance.randrange(len(rows))
    if how == 0:
        same = [i for i, row in enumerate(rows) if row["vocabulary"] == rows[place]["vocabulary"]]
        rows[place]["label"] = rows[chance.choice(same)]["label"]
    elif how == 1:
        rows[place]["label"] = None
    elif how == 2:
        del rows[place]
    elif how == 3:
        rows.append(dict(rows[place], label="one more"))
    elif how == 4:
        rows[place]["vocabulary"] = chance.choice((None, "", "x", "left.entities"))
    columns = {key: [row[key] for row in rows] for key in table.column_names}
    made = pa.table({key: pa.array(x, pa.string()) for key, x in columns.items()})
    if how == 5:
        wrong = chance.choice((pa.binary(), pa.large_string()))
        made = made.set_column(1, "label", made["label"].cast(wrong))
    elif how == 6:
        made = made.drop_columns([chance.choice(("label", "vocabulary"))])
    elif how == 7:
        made = made.set_column(1, "label", pa.array(range(len(rows))))
    elif how == 8:  # bytes that are no text
        raw = pa.array([x.encode() for x in columns["label"][:-1]] + [b"\xff\xfe"], pa.binary())
        text = pa.Array.from_buffers(pa.string(), len(raw), raw.buffers())
        made = made.set_column(1, "label", text)
    forgery.put_labels(made)
    return f"labels, way {how}"


def many_labels(chance: random.Random, forgery: Forgery) -> str:
    """Few bytes, many rows: a Parquet file of one word over and over."""
    word = "w" * chance.choice((1, 1000))
    n = chance.choice((10**5, 3 * 10**6))
    kinds = forgery.labels()["vocabulary"].to_pylist()
    column = pa.DictionaryArray.from_arrays(pa.array(np.zeros(n, np.int32)), pa.array([word]))
    vocabulary = pa.DictionaryArray.from_arrays(
        pa.array(np.zeros(n, np.int32)), pa.array([kinds[0]])
    )
    forgery.put_labels(pa.table({"vocabulary": vocabulary, "label": column}))
    return f"{n} labels of {len(word)}"


def described(chance: random.Random, forgery: Forgery) -> str:
    """Names of entities that are none, or that are no names; or far too many of them."""
    n = chance.choice((1, 3, 10**6))
    graphs = [
        forgery.labels()["vocabulary"][0].as_py().partition(".")[0].replace("entities", "graph")
    ]
    columns: dict[str, Any] = {
        "graph": pa.array(graphs * n), "entity": pa.array(np.zeros(n, np.int64)),
        "text": pa.array(["A"] * n), "language": pa.array([""] * n),
        "alias": pa.array(np.zeros(n, bool)),
    }  # fmt: skip
    odd: dict[str, list[Any]] = {
        "graph": ["up", None, 7], "entity": [-1, 10**6, None, 2**63 - 1, "0"],
        "text": ["a\0b", "a\nb", "", " ", "x" * 10**5, None, 7, b"\xff"],
        "language": ["?", "EN", None, "a" * 99], "alias": [None, 7],
    }  # fmt: skip
    name = chance.choice(sorted(odd))
    value = chance.choice(odd[name])
    columns[name] = pa.array([value] * n)
    if chance.random() < 0.1:
        del columns[chance.choice(sorted(columns))]
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink)
    forgery.files["names.parquet"] = sink.getvalue().to_pybytes()
    return f"{n} names whose {name} is {str(value)[:9]!r}"


def setting(chance: random.Random, forgery: Forgery) -> str:
    text = forgery.files["config.toml"].decode()
    lines = text.splitlines()
    places = [i for i, line in enumerate(lines) if " = " in line]
    place = chance.choice(places)
    key = lines[place].split(" = ")[0]
    odd = chance.choice(
        ("-1", "0", "1000000000", "1" + "0" * 400, "nan", "inf", "1e308", "true", '"x"', "[]", "{}",
         "1e-300", "2147483648", '"\\u001b]52;c;AAAA\\u0007"', "[" * 5000 + "]" * 5000)
    )  # fmt: skip
    lines[place] = f"{key} = {odd}"
    if chance.random() < 0.1:
        lines = chance.choice(
            (["a." * 5000 + "b = 1"], ["["], ["\0"], ["x = 1", *lines], lines[3:])
        )
    forgery.files["config.toml"] = "\n".join(lines).encode()
    return f"{key} = {odd[:40]}"


def manifest(chance: random.Random, forgery: Forgery) -> str:
    key = chance.choice(sorted(forgery.manifest))
    forgery.manifest[key] = odd = chance.choice(ODD)
    return f"{key} = {odd!r} in the manifest"


def origin(chance: random.Random, forgery: Forgery) -> str:
    good: dict[str, Any] = {"base": "0" * 64, "additions": 1}
    good[chance.choice(sorted(good))] = odd = chance.choice(ODD)
    forgery.manifest["grown_from"] = chance.choice((good, odd))
    return f"grown from {forgery.manifest['grown_from']!r}"


def listed(chance: random.Random, forgery: Forgery) -> str:
    """What the manifest says of a file, or that there is another one."""
    if chance.random() < 0.5:
        name = chance.choice(("../x", "/etc/passwd", "/dev/zero", "", ".", "a/b", "x.safetensors"))
        forgery.manifest["files"] = {name: chance.choice([{"bytes": 0, "sha256": "0"}, *ODD])}
        return f"a file {name!r}"
    name = chance.choice(sorted(forgery.files))
    entry: dict[str, Any] = {"bytes": len(forgery.files[name]), "sha256": "0" * 64}
    entry |= {"block_bytes": 256, "block_crc32": "0" * 8}
    entry[chance.choice(sorted(entry))] = chance.choice(ODD)
    forgery.manifest["files"] = {name: entry}
    return f"{name}: {entry}"


def nonsense(chance: random.Random, forgery: Forgery) -> str:
    file = chance.choice(sorted(forgery.files))
    forgery.files[file] = damage(chance, forgery.files[file])
    return f"{file} damaged"


MALICE: list[Malice] = [
    ids, not_finite, dtype, shape, names, missing, header, labels, many_labels, described, setting,
    setting, manifest, origin, listed, nonsense,
]  # fmt: skip
