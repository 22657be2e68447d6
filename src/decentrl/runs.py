"""A run is a folder: settings, metrics, results, matches, a report, a checkpoint and a bundle."""

from __future__ import annotations

import json
import resource
import shutil
import sys
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from decentrl._version import __version__
from decentrl.aligner import Aligner
from decentrl.config import Config, to_toml
from decentrl.data.alignment_task import AlignmentTask
from decentrl.data.registry import load_dataset
from decentrl.errors import BundleError, ConfigError, DecentRLError, InputError
from decentrl.report import Report, render_report
from decentrl.training.loop import Row

RESULTS = "results.json"
CONFIG = "config.toml"


@dataclass(frozen=True)
class Sources:
    """Where a task comes from, so that a run can be resumed from its folder alone."""

    dataset: str = ""
    open_world: bool = False
    left: str = ""
    right: str = ""
    links: str = ""
    test_links: str = ""
    valid_links: str = ""
    format: str = ""
    holdout: float = 0.1

    def read(self, seed: int) -> AlignmentTask:
        """The task; without test links the share ``holdout`` of the links becomes some."""
        if self.dataset:
            task = load_dataset(self.dataset, self.open_world)
            if not isinstance(task, AlignmentTask):
                raise InputError(
                    f"{self.dataset} is one graph, alignment needs two",
                    remedy="`decentrl data list` shows the datasets for alignment",
                )
            return task
        task = AlignmentTask.read(
            self.left,
            self.right,
            self.links,
            self.test_links or None,
            self.valid_links or None,
            self.format or None,
        )
        if self.holdout and not len(task.test):
            task = task.hold_out(self.holdout, seed, into="test")
        return task


def align(
    sources: Sources,
    config: Config,
    folder: Path,
    *,
    device: str = "auto",
    resume: bool = False,
    command: str | None = None,
    on_start: Callable[[AlignmentTask], None] | None = None,
    on_epoch: Callable[[Row], None] | None = None,
    on_trained: Callable[[], None] | None = None,
) -> tuple[Aligner, dict[str, Any]]:
    """Train, match, evaluate, and leave the whole run in ``folder``."""
    started = time.perf_counter()
    task = sources.read(config.seed)
    reading = time.perf_counter() - started
    aligner = Aligner(config, device)
    new = [path for path in (folder, *folder.parents) if not path.exists()]
    _open_folder(folder, sources, config, task, resume)
    if on_start is not None:
        on_start(task)
    try:
        aligner.fit(task, run=folder, resume=resume, on_epoch=on_epoch)
    except DecentRLError:
        if not resume:
            _take_back(folder, new)
        raise
    aligner.seconds["read"] += reading
    if on_trained is not None:
        on_trained()

    started = time.perf_counter()
    rows = aligner.evaluate()[0] if len(task.test) else []
    _write_parquet(aligner, folder)
    aligner.seconds["match"] = time.perf_counter() - started
    results = {
        "dataset": task.name,
        "open_world": task.open_world,
        "preset": config.preset,
        "seed": config.seed,
        "device": device_name(aligner),
        "seconds": {name: round(aligner.seconds[name], 3) for name in ("read", "train", "match")},
        "peak_memory_bytes": peak_memory(aligner),
        "results": rows,
        "self_training": {"rounds": aligner.chosen_rounds, "validation": aligner.rounds},
        "confidence": aligner.confidence(),
    }
    aligner.save(folder, rows)
    page = render_report(make_report(aligner, results, command))
    _write(folder / "report.html", page)
    _write(folder / RESULTS, json.dumps(results, indent=2, ensure_ascii=False) + "\n")
    return aligner, results


def read_settings(folder: Path) -> tuple[Sources, Config]:
    """Sources and settings that a run was started with."""
    path = folder / CONFIG
    try:
        values = tomllib.loads(path.read_text("utf-8"))
        origin = values.pop("run")
        known = {f.name: origin[f.name] for f in fields(Sources)}
        return Sources(**known), Config.from_dict(values)
    except (FileNotFoundError, NotADirectoryError):
        raise BundleError(
            f"{path}: not found, so there is no run to resume; leave out --resume to start one"
        ) from None
    except (KeyError, ValueError, TypeError, ConfigError) as error:
        raise BundleError(f"{path}: this is not the settings file of a run ({error})") from error


def _open_folder(
    folder: Path, sources: Sources, config: Config, task: AlignmentTask, resume: bool
) -> None:
    """Make the folder and write the settings; refuse to mix two runs."""
    digest = task.content_hash()
    if resume and (folder / CONFIG).exists():
        before = tomllib.loads((folder / CONFIG).read_text("utf-8"))["run"].get("data_sha256")
        if before != digest:
            raise InputError("the input has changed since this run began", file=folder,
                             remedy="start a new run")  # fmt: skip
        return
    refuse_existing(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make this folder ({error.strerror})", file=folder,
                         remedy="choose another -o") from None  # fmt: skip
    origin = {**asdict(sources), "data_sha256": digest, "decentrl": __version__}
    _write(folder / CONFIG, to_toml({**config.to_dict(), "run": origin}))


def refuse_existing(folder: Path) -> None:
    """Raise if a new run would mix with what is there.

    A run killed before its settings were whole has left nothing worth keeping.
    """
    inside = folder.rglob("*") if folder.is_dir() else [folder] if folder.exists() else []
    if any(not path.is_dir() and path.name != f"{CONFIG}.part" for path in inside):
        raise InputError(
            "already exists",
            file=folder,
            remedy="choose another -o, or add --resume or --overwrite",
        )


def _take_back(folder: Path, new: Sequence[Path]) -> None:
    """Empty the folder of a run that cannot be, and remove those folders made for it."""
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    for path in new:
        path.rmdir()


def _is_run(folder: Path) -> bool:
    try:
        return "data_sha256" in tomllib.loads((folder / CONFIG).read_text("utf-8"))["run"]
    except (OSError, ValueError, KeyError, TypeError):
        return False


def remove_run(folder: Path) -> None:
    """Delete a run folder, and nothing that is not one."""
    if folder.is_dir() and any(folder.iterdir()):
        if not any(map(_is_run, (folder, *folder.glob("seed-*")))):
            raise InputError("is not a run, so it is not overwritten", file=folder,
                             remedy="choose another -o")  # fmt: skip
        shutil.rmtree(folder)


def average(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Mean and standard deviation over seeds, in the shape of ``results.json``."""
    first = dict(runs[0])
    first["seed"] = [run["seed"] for run in runs]
    first["seconds"] = {
        name: round(fmean(run["seconds"][name] for run in runs), 3) for name in first["seconds"]
    }
    first["peak_memory_bytes"] = max(run["peak_memory_bytes"] for run in runs)
    rows = []
    for same in zip(*(run["results"] for run in runs), strict=True):
        row = dict(same[0])
        for name, value in same[0].items():
            if isinstance(value, float):
                values = [other[name] for other in same]
                row[name] = fmean(values)
                row[f"{name}_std"] = stdev(values) if len(values) > 1 else 0.0
        rows.append(row)
    first["results"] = rows
    first["self_training"] = {
        "rounds": [run["self_training"]["rounds"] for run in runs],
        "validation": [
            {name: fmean(row[name] for row in same) for name in same[0]}
            for same in zip(*(run["self_training"]["validation"] for run in runs), strict=True)
        ],
    }
    first["confidence"] = {
        name: fmean(run["confidence"][name] for run in runs) for name in first["confidence"]
    }
    return first


def make_report(aligner: Aligner, results: Mapping[str, Any], command: str | None) -> Report:
    """What ``report.html`` shows."""
    task = aligner.task
    seconds = results["seconds"]
    facts = [
        ("preset", results["preset"]),
        ("seed", str(results["seed"])),
        ("device", results["device"]),
        ("left graph", _graph_fact(task.left)),
        ("right graph", _graph_fact(task.right)),
        ("links", f"{len(task.train):,} to train, {len(task.valid):,} to validate, "
                  f"{len(task.test):,} to test"),
        ("reading, training, matching took",
         f"{seconds['read']:.1f} s, {seconds['train']:.1f} s, {seconds['match']:.1f} s"),
        ("peak memory", f"{results['peak_memory_bytes'] / 2**20:,.0f} MiB"),
    ]  # fmt: skip
    if task.auxiliary is not None:
        later = sum(len(triples) for triples in task.auxiliary)
        facts.append(("open world", f"{later:,} triples arrived after training"))
    samples = aligner.test_matches() if len(task.test) else []
    return Report(
        title=task.name,
        facts=facts,
        results=results["results"],
        # The epochs of all stages in one row.
        history=[{**row, "epoch": i} for i, row in enumerate(aligner.history, start=1)],
        matcher=aligner.config.matching.matcher,
        scores={
            "right": [sample["score"] for sample in samples if sample["correct"]],
            "wrong": [sample["score"] for sample in samples if not sample["correct"]],
        },
        by_degree=_by_degree(samples),
        samples=pick_samples(samples, 12),
        command=command,
    )


def pick_samples(samples: Sequence[Mapping[str, Any]], count: int) -> list[Mapping[str, Any]]:
    """Evenly spread over the test links, so that neither the best nor the worst are chosen."""
    if not samples:
        return []
    step = max(1, len(samples) // count)
    return list(samples[step // 2 :: step][:count])


def _by_degree(samples: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    groups: dict[int, list[bool]] = {}
    for sample in samples:
        groups.setdefault(max(1, sample["degree"]).bit_length(), []).append(sample["correct"])
    rows = []
    for bits, right in sorted(groups.items()):
        low, high = 1 << (bits - 1), (1 << bits) - 1
        name = str(low) if low == high else f"{low}-{high}"
        rows.append({"degree": name, "n": len(right), "hits@1": sum(right) / len(right)})
    return rows


def _write_parquet(aligner: Aligner, folder: Path) -> None:
    import pyarrow.parquet as pq

    temporary = folder / "matches.parquet.part"
    pq.write_table(aligner.match(top=1), temporary)
    temporary.replace(folder / "matches.parquet")


def _write(path: Path, text: str) -> None:
    """Whole or not at all."""
    temporary = path.with_name(path.name + ".part")
    temporary.write_text(text, "utf-8")
    temporary.replace(path)


def _graph_fact(graph: Any) -> str:
    return f"{len(graph.entities):,} entities, {len(graph.triples):,} triples"


def device_name(aligner: Aligner) -> str:
    """``cpu``, or the card's name."""
    import torch

    cuda = aligner.device.type == "cuda"
    return f"cuda ({torch.cuda.get_device_name()})" if cuda else "cpu"


def peak_memory(aligner: Aligner) -> int:
    """Bytes: of the card where one was used, of the process otherwise."""
    import torch

    if aligner.device.type == "cuda":
        return int(torch.cuda.max_memory_allocated())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
