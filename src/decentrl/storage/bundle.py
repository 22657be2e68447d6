"""A trained model on disk: weights, vectors, labels, the task and a card.

A bundle is of one kind, aligner or predictor, and a folder of safetensors, Parquet, TOML, JSON and
Markdown; nothing in it is ever unpickled. ``bundle.json`` lists every file with its size and
SHA-256, large ones also with the CRC-32 of each block, and has a SHA-256 of its own. Loading checks
them; the large files of a large bundle are memory-mapped, and checked block by block when they are
first read.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from decentrl._version import __version__
from decentrl.config import Settings, to_toml
from decentrl.data.alignment_task import AlignmentTask
from decentrl.data.graph_task import GraphTask
from decentrl.data.scratch import scratch_folder
from decentrl.errors import BundleError, DivergedError
from decentrl.storage.files import put_aside, replace_folder, sync_file, sync_folder
from decentrl.storage.kinds import KINDS, Kind, KindName, kind_for
from decentrl.storage.mapped import CheckedFile, MappedTensors, fingerprint
from decentrl.storage.tables import (
    LABELS,
    read_described,
    read_labels,
    write_described,
    write_labels,
)
from decentrl.storage.validate import check_arrays, check_manifest

if TYPE_CHECKING:
    from torch import Tensor

FORMAT, VERSION = "decentrl-bundle", 3
LARGE = 256 * 2**20
"""Bundles of fewer bytes are verified in full when they are read."""
MANIFEST, CARD = "bundle.json", "README.md"

C = TypeVar("C", bound=Settings)
T = TypeVar("T", AlignmentTask, GraphTask)


@dataclass(frozen=True, eq=False)
class Bundle(Generic[C, T]):
    """The contents of a bundle; its kind is that of the task.

    Weights, vectors and memory of a bundle that was read stay in its files until they are used.
    """

    config: C
    task: T
    weights: Mapping[str, Tensor]
    vectors: Mapping[str, Tensor]
    card: str
    matching: dict[str, Tensor] = field(default_factory=dict)
    memory: Mapping[str, Tensor] = field(default_factory=dict)


def write_bundle(
    bundle: Bundle[Any, Any], folder: Path, grown_from: Mapping[str, Any] | None = None
) -> None:
    """Write to a temporary folder beside the target and rename it, so that no half is left.

    Args:
        grown_from: id of the bundle (``base``) and number of ``additions`` to it that are in this.
    """
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    kind = kind_for(bundle.task)
    arrays = {name: torch.tensor(array) for name, array in kind.task_arrays(bundle.task).items()}
    tensors = {"weights": bundle.weights, "vectors": bundle.vectors, "matching": bundle.matching}
    tensors |= {"memory": bundle.memory} if bundle.memory else {}
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with scratch_folder(folder) as part:

            def save(name: str, contents: Mapping[str, Tensor]) -> None:
                plain = {
                    key: tensor.detach().cpu().contiguous() for key, tensor in contents.items()
                }
                if name != "matching":  # where NaN stands for what takes no part
                    _refuse_not_finite(name, plain)
                save_file(plain, part / f"{name}.safetensors")

            with ThreadPoolExecutor() as pool:  # writing lets other threads run
                list(pool.map(save, *zip(*{**tensors, "graphs": arrays}.items(), strict=True)))
            write_labels(kind.task_labels(bundle.task), part / LABELS)
            write_described(kind.task_graphs(bundle.task), part)
            (part / "config.toml").write_text(to_toml(bundle.config.to_dict()), "utf-8")
            (part / "README.md").write_text(bundle.card, "utf-8")
            manifest = {
                "format": FORMAT,
                "version": VERSION,
                "kind": kind.name,
                "decentrl": __version__,
                "name": bundle.task.name,
                "data_sha256": bundle.task.content_hash(),
                "files": _fingerprints(part),
            }
            if grown_from is not None:
                manifest["grown_from"] = grown_from
            (part / MANIFEST).write_text(_sealed(manifest), "utf-8")
            mode = part.stat().st_mode & 0o666  # safetensors keeps its files private
            for path in part.iterdir():
                path.chmod(mode)
                sync_file(path)
            sync_folder(part)
            replace_folder(part, folder)
            sync_folder(folder.parent)
    except (OSError, SafetensorError) as error:
        raise BundleError(
            f"{folder}: cannot be written ({error}); make room there, or choose another place"
        ) from error


def _fingerprints(folder: Path) -> dict[str, dict[str, Any]]:
    """The fingerprints of all files of a folder by name; hashing lets other threads run."""
    paths = sorted(folder.iterdir())
    with ThreadPoolExecutor() as pool:
        found = pool.map(fingerprint, paths)
        return {path.name: made for path, made in zip(paths, found, strict=True)}


def _refuse_not_finite(name: str, tensors: Mapping[str, Tensor]) -> None:
    from decentrl.nn.running import all_finite

    for key, tensor in tensors.items():
        if tensor.is_floating_point() and not all_finite(tensor):
            raise DivergedError(f"the {name} are not finite ({key})")


@dataclass(frozen=True, eq=False)
class Manifest:
    """The verified ``bundle.json`` of a run; :func:`open_bundle` reads it once for all uses.

    It is also the path of the run, so that it goes wherever that does.
    """

    run: Path  # as it was given: the run, or the bundle itself
    folder: Path  # the bundle
    values: Mapping[str, Any]
    file: tuple[int, ...]  # which file it was read from
    kind: Kind
    id: str  # the checksum over all of the bundle, which no other bundle has
    origin: dict[str, Any] | None  # of which bundle, and how many additions, it grew, if it did

    def __fspath__(self) -> str:
        return str(self.run)

    __str__ = __fspath__

    def is_current(self) -> bool:
        """Whether the bundle is still the one that was opened; nothing is read again."""
        try:
            return _identity(self.folder / MANIFEST) == self.file
        except OSError:
            return False


def open_bundle(run: str | PathLike[str], write: bool = False) -> Manifest:
    """Read and verify ``bundle.json`` of a run, or of a bundle itself.

    Args:
        write: the run will be added to, so first finish what a killed process left half-done.
    """
    if isinstance(run, Manifest):
        return run
    target = Path(run, "bundle")
    if write and not target.exists():
        # Killed between moving the old bundle away and the new one in: where folders cannot change
        # places in one step.
        for left in sorted(target.parent.glob(f".{target.name}.old-*"))[-1:]:
            left.rename(target)
    folder = bundle_folder(run)
    path = folder / MANIFEST
    if not path.is_file():
        if aside := put_aside(folder.parent):
            raise BundleError(f"{folder.parent}: {aside}")
        if (folder.parent / "config.toml").is_file():
            raise BundleError(
                f"{folder.parent}: this run is not finished; go on with it by `decentrl align` or "
                f"`complete` and `--resume -o {folder.parent}`"
            )
        if seeds := sorted(folder.parent.glob("seed-*/bundle")):
            several = ", ".join(str(seed.parent) for seed in seeds[:5]) + ", …" * (len(seeds) > 5)
            raise BundleError(
                f"{folder.parent}: a run of several seeds; give one of them: {several}"
            )
        raise BundleError(f"{path}: not found, so {folder} is not a bundle; give a finished run")
    identity, content = _identity(path), path.read_bytes()
    try:
        manifest = dict(json.loads(content))
    except (ValueError, TypeError, RecursionError) as error:
        raise BundleError(
            f"{path}: damaged, it is not the JSON that a run writes; copy the run again"
        ) from error
    version, kind = manifest.get("version"), manifest.get("kind")
    if manifest.get("format") != FORMAT:
        raise BundleError(f"{path}: this was not written by decentrl; give a finished run")
    if type(version) is not int or version not in range(1, VERSION + 1):
        known = f"this decentrl reads versions up to {VERSION}; upgrade decentrl"
        raise BundleError(f"{path}: format version {version}, but {known}")
    if _sealed({k: v for k, v in manifest.items() if k != "sha256"}).encode() != content:
        raise BundleError(f"{path}: damaged (its checksum differs); copy the run again")
    if not isinstance(kind, str) or kind not in KINDS:
        remedy = "which this decentrl does not know; upgrade decentrl"
        raise BundleError(f"{path}: it holds a {kind}, {remedy}")
    try:
        check_manifest(manifest)
    except ValueError as error:
        raise BundleError(f"{path}: damaged ({error}); copy the run again") from error
    origin = manifest.get("grown_from")
    return Manifest(Path(run), folder, manifest, identity, KINDS[kind], manifest["sha256"], origin)


def read_bundle(run: Path | Manifest, kind: KindName = "aligner") -> Bundle[Any, Any]:
    """Read and verify a bundle; any damage is a :class:`BundleError` that names the file.

    So is a bundle of another kind than asked for. The tensors of a large bundle are verified when
    they are first read, and their damage is an error then.
    """
    opened = open_bundle(run)
    found, manifest, folder = opened.kind, opened.values, opened.folder
    if found.name != kind:
        raise BundleError(
            f"{folder}: this run is about {found.about}; ask it with `decentrl {found.ask}`, or "
            f"load it with {found.name.capitalize()}.load"
        )
    small = sum(x["bytes"] for x in manifest["files"].values()) < LARGE
    files = {name: CheckedFile(folder / name, x, small) for name, x in manifest["files"].items()}
    tensors = {
        name: MappedTensors(file) for name, file in files.items() if name.endswith(".safetensors")
    }
    try:
        values = tomllib.loads(str(files["config.toml"].content(), "utf-8"))
        total = sum(file.size for file in files.values())
        labels = read_labels(files[LABELS], found.label_names, total, total < LARGE)
        arrays = {name: tensor.numpy() for name, tensor in tensors["graphs.safetensors"].items()}
        try:
            check_arrays(found, labels, arrays)
        except ValueError as error:
            raise files["graphs.safetensors"].damaged(error) from error
        sizes = (len(labels[name]) for name in found.label_names[::2])
        described = read_described(files, dict(zip(found.graphs, sizes, strict=True)), total)
        return Bundle(
            found.settings.from_stored(values),
            found.make_task(manifest["name"], labels, arrays, described),
            tensors["weights.safetensors"],
            tensors["vectors.safetensors"],
            str(files["README.md"].content(), "utf-8"),
            dict(tensors.get("matching.safetensors", {})),  # older bundles have none
            tensors.get("memory.safetensors", {}),
        )
    except tomllib.TOMLDecodeError as error:
        raise files["config.toml"].damaged(error) from error
    except (
        LookupError, ValueError, TypeError, AttributeError, RecursionError, OverflowError,
    ) as error:  # fmt: skip
        raise BundleError(f"{folder}: this bundle cannot be read ({error})") from error


def read_card(opened: Manifest) -> str:
    """The card of a bundle, verified."""
    card = CheckedFile(opened.folder / CARD, opened.values["files"][CARD], whole=True)
    return str(card.content(), "utf-8", "replace")


def bundle_folder(run: str | PathLike[str]) -> Path:
    """Where the bundle of a run lies; ``run`` may also be the bundle itself."""
    folder = Path(run)
    if not folder.is_dir():
        raise BundleError(f"{folder}: no such run; give the folder that a run has written")
    itself = any((folder / name).exists() for name in (MANIFEST, LABELS))
    return folder if itself else folder / "bundle"


def bundle_id(run: str | PathLike[str]) -> str:
    """The checksum over all of the bundle that a run has now; nothing else is read."""
    return open_bundle(Path(run)).id


def _identity(path: Path) -> tuple[int, ...]:
    """Which file a path leads to: one that replaces it has another."""
    found = path.stat()
    return found.st_dev, found.st_ino, found.st_mtime_ns


def _sealed(manifest: Mapping[str, Any]) -> str:
    """The manifest as JSON with a checksum of its own, so that no byte of it changes unseen."""
    return json.dumps({**manifest, "sha256": seal_of(manifest)}, indent=2) + "\n"


def seal_of(values: Mapping[str, Any]) -> str:
    """SHA-256 over values as JSON has them."""
    return hashlib.sha256(json.dumps(values).encode()).hexdigest()
