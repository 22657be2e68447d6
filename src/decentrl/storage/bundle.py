"""What a run leaves behind for later use: weights, vectors, labels, the task, a card.

A bundle is of one kind, aligner or predictor. It is a folder of safetensors, Parquet, TOML, JSON
and Markdown; nothing in it is ever unpickled. ``bundle.json`` lists every file with its size and
SHA-256, large ones also with the CRC-32 of each block, and has a SHA-256 of its own. Loading checks
them; the large files of a large bundle are memory-mapped, and checked block by block when they are
first read.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

from decentrl._version import __version__
from decentrl.config import Config, PredictionConfig, Settings, to_toml
from decentrl.data.alignment_task import AlignmentTask
from decentrl.data.graph_task import GraphTask
from decentrl.data.knowledge_graph import KnowledgeGraph
from decentrl.data.vocabulary import Vocabulary
from decentrl.errors import BundleError, ConfigError
from decentrl.storage.files import replace_folder, sync_folder
from decentrl.storage.mapped import CheckedFile, MappedRows, MappedTensors, fingerprint, mapped_rows

if TYPE_CHECKING:
    import numpy.typing as npt
    from torch import Tensor

    Arrays = dict[str, npt.NDArray[Any]]

FORMAT, VERSION = "decentrl-bundle", 3
LARGE = 256 * 2**20
"""Bundles of fewer bytes are verified in full when they are read."""
MANIFEST = "bundle.json"
KindName = Literal["aligner", "predictor"]

C = TypeVar("C", bound=Settings)
T = TypeVar("T", AlignmentTask, GraphTask)


@dataclass(frozen=True, eq=False)
class Bundle(Generic[C, T]):
    """The contents of a bundle; the task says of which kind it is.

    Weights, vectors and memory of a bundle that was read lie in its files until they are asked for.
    ``grown_from`` says of which bundle, by its id, this one is a later state; ``id`` is the
    checksum over all of a bundle that was read.
    """

    config: C
    task: T
    weights: Mapping[str, Tensor]
    vectors: Mapping[str, Tensor]
    card: str
    matching: dict[str, Tensor] = field(default_factory=dict)
    memory: Mapping[str, Tensor] = field(default_factory=dict)
    grown_from: dict[str, Any] | None = None
    id: str | None = None

    @property
    def mapped_vectors(self) -> dict[str, MappedRows]:
        """The vectors, to be read row by row."""
        return mapped_rows(self.vectors)

    @property
    def mapped_memory(self) -> dict[str, MappedRows]:
        """The memory, to be read row by row."""
        return mapped_rows(self.memory)


def write_bundle(bundle: Bundle[Any, Any], folder: Path) -> None:
    """Write to a temporary folder beside the target and rename it, so that no half is left."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    kind = "predictor" if isinstance(bundle.task, GraphTask) else "aligner"
    folder.parent.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(prefix=f".{folder.name}.part-", dir=folder.parent))
    try:
        save_file(_plain(bundle.weights), part / "weights.safetensors")
        save_file(_plain(bundle.vectors), part / "vectors.safetensors")
        save_file(_plain(bundle.matching), part / "matching.safetensors")
        if bundle.memory:
            save_file(_plain(bundle.memory), part / "memory.safetensors")
        save_file(_task_tensors(bundle.task), part / "graphs.safetensors")
        _write_labels(bundle.task, part / "labels.parquet")
        (part / "config.toml").write_text(to_toml(bundle.config.to_dict()), "utf-8")
        (part / "README.md").write_text(bundle.card, "utf-8")
        manifest = {
            "format": FORMAT,
            "version": VERSION,
            "kind": kind,
            "decentrl": __version__,
            "name": bundle.task.name,
            "data_sha256": bundle.task.content_hash(),
            "files": {p.name: fingerprint(p) for p in sorted(part.iterdir())},
        }
        if bundle.grown_from is not None:
            manifest["grown_from"] = bundle.grown_from
        (part / MANIFEST).write_text(_sealed(manifest), "utf-8")
        for path in part.iterdir():
            path.chmod(0o644)  # safetensors keeps its files private
            _sync(path)
        part.chmod(0o755)
        sync_folder(part)
        replace_folder(part, folder)
        sync_folder(folder.parent)
    except (OSError, SafetensorError) as error:
        shutil.rmtree(part, ignore_errors=True)
        raise BundleError(
            f"{folder}: cannot be written ({error}); make room there, or choose another place"
        ) from error
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise


@overload
def read_bundle(
    folder: Path, kind: Literal["aligner"] = "aligner"
) -> Bundle[Config, AlignmentTask]: ...


@overload
def read_bundle(
    folder: Path, kind: Literal["predictor"]
) -> Bundle[PredictionConfig, GraphTask]: ...


def read_bundle(folder: Path, kind: KindName = "aligner") -> Bundle[Any, Any]:
    """Read and verify a bundle; any damage is a :class:`BundleError` that names the file.

    So is a bundle of another kind than asked for. The tensors of a large bundle are verified when
    they are first read; damage to them is told then.
    """
    manifest = _read_manifest(folder)
    found, wanted = _KINDS[manifest["kind"]], _KINDS[kind]
    if found is not wanted:
        raise BundleError(f"{folder}: this run is about {found.about}; {found.remedy}")
    files = {name: CheckedFile(folder / name, x) for name, x in manifest["files"].items()}
    small = sum(file.size for file in files.values()) < LARGE
    for file in files.values():
        if small or not file.in_blocks:
            file.verify_whole()
    tensors = {
        name: MappedTensors(file) for name, file in files.items() if name.endswith(".safetensors")
    }
    try:
        values = tomllib.loads(str(files["config.toml"].content(), "utf-8"))
        config = wanted.settings.from_stored(values)
        labels = _read_labels(files["labels.parquet"], wanted.labels)
        arrays = {k: t.numpy() for k, t in tensors["graphs.safetensors"].items()}
        return Bundle(
            config,
            wanted.task(manifest["name"], labels, arrays),
            tensors["weights.safetensors"],
            tensors["vectors.safetensors"],
            str(files["README.md"].content(), "utf-8"),
            dict(tensors.get("matching.safetensors", {})),  # older bundles have none
            tensors.get("memory.safetensors", {}),
            manifest.get("grown_from"),
            manifest["sha256"],
        )
    except (KeyError, ValueError, ConfigError) as error:
        raise BundleError(f"{folder}: this bundle cannot be read ({error})") from error


def bundle_folder(run: str | PathLike[str]) -> Path:
    """Where the bundle of a run lies; ``run`` may also be the bundle itself."""
    folder = Path(run)
    if not folder.is_dir():
        raise BundleError(f"{folder}: no such run; give the folder that a run has written")
    return folder if (folder / MANIFEST).exists() else folder / "bundle"


def kind_of(run: str | PathLike[str]) -> KindName:
    """Whether a run holds an aligner or a predictor."""
    kind: KindName = _read_manifest(bundle_folder(run))["kind"]
    return kind


def bundle_id(run: str | PathLike[str]) -> str:
    """The checksum over all of a run's bundle, which no other bundle has; nothing else is read."""
    return str(_read_manifest(bundle_folder(run))["sha256"])


def bundle_origin(run: str | PathLike[str]) -> dict[str, Any] | None:
    """Of which bundle, and how many additions, this one grew; None if it was trained."""
    origin: dict[str, Any] | None = _read_manifest(bundle_folder(run)).get("grown_from")
    return origin


def _read_manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    if not path.is_file():
        if (folder.parent / "config.toml").is_file():
            raise BundleError(
                f"{folder.parent}: this run is not finished; go on with it by `decentrl align` or "
                f"`complete` and `--resume -o {folder.parent}`"
            )
        raise BundleError(f"{path}: not found, so {folder} is not a bundle; give a finished run")
    content = path.read_bytes()
    try:
        manifest = dict(json.loads(content))
    except (ValueError, TypeError) as error:
        raise BundleError(
            f"{path}: damaged, it is not the JSON that a run writes; copy the run again"
        ) from error
    if manifest.get("format") != FORMAT:
        raise BundleError(f"{path}: this was not written by decentrl; give a finished run")
    if manifest.get("version") not in range(1, VERSION + 1):
        raise BundleError(
            f"{path}: format version {manifest.get('version')}, but this decentrl reads versions "
            f"up to {VERSION}; upgrade decentrl"
        )
    if _sealed({k: v for k, v in manifest.items() if k != "sha256"}).encode() != content:
        raise BundleError(f"{path}: damaged (its checksum differs); copy the run again")
    if manifest.get("kind") not in _KINDS:
        raise BundleError(
            f"{path}: it holds a {manifest.get('kind')}, which this decentrl does not know; "
            "upgrade decentrl"
        )
    return manifest


def _sealed(manifest: Mapping[str, Any]) -> str:
    """The manifest as JSON with a checksum of its own, so that no byte of it changes unseen."""
    seal = hashlib.sha256(json.dumps(manifest).encode()).hexdigest()
    return json.dumps({**manifest, "sha256": seal}, indent=2) + "\n"


def recover_bundle(run: Path) -> None:
    """Put the old bundle back where a process was killed between taking it away and the new one.

    That happens only where folders cannot change places in one step.
    """
    target = run / "bundle"
    left = sorted(run.glob(f".{target.name}.old-*")) if not target.exists() else []
    if left:
        left[-1].rename(target)


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _plain(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}


def _task_tensors(task: AlignmentTask | GraphTask) -> dict[str, Tensor]:
    import torch

    arrays = _graph_arrays(task) if isinstance(task, GraphTask) else _alignment_arrays(task)
    return {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}


def _alignment_arrays(task: AlignmentTask) -> Arrays:
    arrays: Arrays = {
        "left": task.left.triples,
        "right": task.right.triples,
        "train": task.train,
        "valid": task.valid,
        "test": task.test,
    }
    if task.auxiliary is not None and task.unknown is not None:
        arrays |= {
            "auxiliary.left": task.auxiliary[0],
            "auxiliary.right": task.auxiliary[1],
            "unknown": task.unknown,
        }
    return arrays


def _alignment_task(name: str, labels: Mapping[str, Vocabulary], arrays: Arrays) -> AlignmentTask:
    left = KnowledgeGraph(labels["left.entities"], labels["left.relations"], arrays["left"])
    right = KnowledgeGraph(labels["right.entities"], labels["right.relations"], arrays["right"])
    auxiliary = None
    if "unknown" in arrays:
        auxiliary = (arrays["auxiliary.left"], arrays["auxiliary.right"])
    return AlignmentTask(
        name,
        left,
        right,
        arrays["train"],
        arrays["valid"],
        arrays["test"],
        auxiliary,
        arrays.get("unknown"),
    )


def _graph_arrays(task: GraphTask) -> Arrays:
    arrays: Arrays = {"graph": task.graph.triples, "valid": task.valid, "test": task.test}
    later = {"auxiliary": task.auxiliary, "new_entities": task.new_entities}
    return arrays | {name: array for name, array in later.items() if array is not None}


def _graph_task(name: str, labels: Mapping[str, Vocabulary], arrays: Arrays) -> GraphTask:
    graph = KnowledgeGraph(labels["entities"], labels["relations"], arrays["graph"])
    later = arrays.get("auxiliary"), arrays.get("new_entities")
    return GraphTask(name, graph, arrays["valid"], arrays["test"], *later)


def _vocabularies(task: AlignmentTask | GraphTask) -> dict[str, Vocabulary]:
    if isinstance(task, GraphTask):
        return {"entities": task.graph.entities, "relations": task.graph.relations}
    return {
        "left.entities": task.left.entities,
        "left.relations": task.left.relations,
        "right.entities": task.right.entities,
        "right.relations": task.right.relations,
    }


def _write_labels(task: AlignmentTask | GraphTask, path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    tables = [
        pa.table({"vocabulary": pa.array([name] * len(words), pa.string()), "label": labels})
        for name, words in _vocabularies(task).items()
        for labels in [words.to_arrow()]
    ]
    pq.write_table(pa.concat_tables(tables), path)


def _read_labels(file: CheckedFile, names: tuple[str, ...]) -> dict[str, Vocabulary]:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    try:
        table = pq.ParquetFile(pa.BufferReader(file.content())).read()  # leaves no thread behind
    except (pa.ArrowException, OSError) as error:
        raise file.damaged(error) from error
    rows = {name: table.filter(pc.equal(table["vocabulary"], name)) for name in names}
    return {name: Vocabulary.from_arrow(x["label"].combine_chunks()) for name, x in rows.items()}


@dataclass(frozen=True)
class _Kind:
    """How a bundle of this kind is read, and what to say to who wanted another."""

    about: str
    remedy: str
    settings: type[Settings]
    labels: tuple[str, ...]
    task: Callable[[str, Mapping[str, Vocabulary], Arrays], AlignmentTask | GraphTask]


_KINDS = {
    "aligner": _Kind(
        about="alignment",
        remedy="ask it with `decentrl match`, or load it with Aligner.load",
        settings=Config,
        labels=("left.entities", "left.relations", "right.entities", "right.relations"),
        task=_alignment_task,
    ),
    "predictor": _Kind(
        about="prediction",
        remedy="ask it with `decentrl predict`, or load it with Predictor.load",
        settings=PredictionConfig,
        labels=("entities", "relations"),
        task=_graph_task,
    ),
}
