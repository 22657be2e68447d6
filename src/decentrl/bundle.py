"""What a run leaves behind for later use: weights, vectors, labels, graphs, links, a card.

A bundle is a folder of safetensors, Parquet, TOML, JSON and Markdown; nothing in it is ever
unpickled. ``bundle.json`` lists every file with its size and SHA-256, and has a SHA-256 of its own;
loading checks them.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from decentrl._version import __version__
from decentrl.config import Config, to_toml
from decentrl.data.alignment_task import AlignmentTask
from decentrl.data.knowledge_graph import KnowledgeGraph
from decentrl.data.vocabulary import Vocabulary
from decentrl.errors import BundleError, ConfigError

if TYPE_CHECKING:
    import numpy.typing as npt
    from torch import Tensor

FORMAT, VERSION = "decentrl-bundle", 1
MANIFEST = "bundle.json"
LABELS = ("left.entities", "left.relations", "right.entities", "right.relations")


@dataclass(frozen=True, eq=False)
class Bundle:
    """The contents of a bundle in memory."""

    config: Config
    task: AlignmentTask
    weights: dict[str, Tensor]
    vectors: dict[str, Tensor]
    card: str
    matching: dict[str, Tensor] = field(default_factory=dict)


def write_bundle(bundle: Bundle, folder: Path) -> None:
    """Write to a temporary folder beside the target and rename it, so that no half is left."""
    from safetensors.torch import save_file

    folder.parent.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(prefix=f".{folder.name}.part-", dir=folder.parent))
    try:
        save_file(_plain(bundle.weights), part / "weights.safetensors")
        save_file(_plain(bundle.vectors), part / "vectors.safetensors")
        save_file(_plain(bundle.matching), part / "matching.safetensors")
        save_file(_task_tensors(bundle.task), part / "graphs.safetensors")
        _write_labels(bundle.task, part / "labels.parquet")
        (part / "config.toml").write_text(to_toml(bundle.config.to_dict()), "utf-8")
        (part / "README.md").write_text(bundle.card, "utf-8")
        manifest = {
            "format": FORMAT,
            "version": VERSION,
            "kind": "aligner",
            "decentrl": __version__,
            "name": bundle.task.name,
            "data_sha256": bundle.task.content_hash(),
            "files": {p.name: _fingerprint(p) for p in sorted(part.iterdir())},
        }
        (part / MANIFEST).write_text(_sealed(manifest), "utf-8")
        for path in part.iterdir():
            path.chmod(0o644)  # safetensors keeps its files private
            _sync(path)
        part.chmod(0o755)
        _replace_folder(part, folder)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise


def read_bundle(folder: Path) -> Bundle:
    """Read and verify a bundle; any damage is a :class:`BundleError` that names the file."""
    manifest = _read_manifest(folder)
    for name, expected in manifest["files"].items():
        path = folder / name
        if not path.is_file():
            raise BundleError(f"{path}: this file of the bundle is missing; copy the run again")
        if _fingerprint(path) != expected:
            raise BundleError(
                f"{path}: this file is not what the run wrote (size or checksum differs); "
                "copy the run again"
            )
    try:
        config = Config.from_dict(tomllib.loads((folder / "config.toml").read_text("utf-8")))
        labels = _read_labels(folder / "labels.parquet")
        task = _task(manifest["name"], labels, _load(folder / "graphs.safetensors"))
        weights = _load(folder / "weights.safetensors")
        vectors = _load(folder / "vectors.safetensors")
        matching = {}
        if "matching.safetensors" in manifest["files"]:  # older bundles have none
            matching = _load(folder / "matching.safetensors")
        card = (folder / "README.md").read_text("utf-8")
    except (KeyError, ValueError, OSError, ConfigError) as error:
        raise BundleError(f"{folder}: this bundle cannot be read ({error})") from error
    return Bundle(config, task, weights, vectors, card, matching)


def _read_manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    if not path.is_file():
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
    if manifest.get("version") != VERSION:
        raise BundleError(
            f"{path}: format version {manifest.get('version')}, but this decentrl reads {VERSION}; "
            "upgrade decentrl"
        )
    manifest.pop("sha256", None)
    if _sealed(manifest).encode() != content:
        raise BundleError(f"{path}: damaged (its checksum differs); copy the run again")
    return manifest


def _sealed(manifest: Mapping[str, Any]) -> str:
    """The manifest as JSON with a checksum of its own, so that no byte of it changes unseen."""
    seal = hashlib.sha256(json.dumps(manifest).encode()).hexdigest()
    return json.dumps({**manifest, "sha256": seal}, indent=2) + "\n"


def _replace_folder(source: Path, target: Path) -> None:
    old = None
    if target.exists():
        old = target.with_name(f".{target.name}.old-{os.getpid()}")
        target.rename(old)
    try:
        source.rename(target)
    except BaseException:
        if old is not None:
            old.rename(target)
        raise
    # What this and killed writers left behind; only now, as the old one was the only whole one.
    for stale in target.parent.iterdir():
        if stale.name.startswith((f".{target.name}.part-", f".{target.name}.old-")):
            shutil.rmtree(stale, ignore_errors=True)


def _fingerprint(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        return {
            "bytes": path.stat().st_size,
            "sha256": hashlib.file_digest(file, "sha256").hexdigest(),
        }


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _plain(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}


def _load(path: Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return dict(load_file(path))
    except SafetensorError as error:
        raise BundleError(f"{path}: damaged ({error}); copy the run again") from error


def _task_tensors(task: AlignmentTask) -> dict[str, Tensor]:
    import torch

    arrays: dict[str, npt.NDArray[Any]] = {
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
    return {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}


def _task(name: str, labels: dict[str, Vocabulary], tensors: Mapping[str, Tensor]) -> AlignmentTask:
    arrays = {key: tensor.numpy() for key, tensor in tensors.items()}
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


def _vocabularies(task: AlignmentTask) -> dict[str, Vocabulary]:
    return {
        "left.entities": task.left.entities,
        "left.relations": task.left.relations,
        "right.entities": task.right.entities,
        "right.relations": task.right.relations,
    }


def _write_labels(task: AlignmentTask, path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    tables = [
        pa.table({"vocabulary": pa.array([name] * len(words), pa.string()), "label": labels})
        for name, words in _vocabularies(task).items()
        for labels in [words.to_arrow().cast(pa.string())]
    ]
    pq.write_table(pa.concat_tables(tables), path)


def _read_labels(path: Path) -> dict[str, Vocabulary]:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
    except (pa.ArrowException, OSError) as error:
        raise BundleError(f"{path}: damaged ({error}); copy the run again") from error
    return {
        name: Vocabulary(table.filter(pc.equal(table["vocabulary"], name))["label"].to_pylist())
        for name in LABELS
    }
