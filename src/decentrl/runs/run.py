"""A run is a folder: settings, metrics, results, answers, a report, a checkpoint and a bundle.

Two jobs leave such folders: :func:`align` (two graphs) and :func:`complete` (one graph).
"""

from __future__ import annotations

import fcntl
import json
import resource
import shutil
import sys
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, TypedDict, Unpack

from decentrl._version import __version__
from decentrl.aligner import Aligner
from decentrl.config import Config, PredictionConfig, Settings, to_toml
from decentrl.data.graph_task import GraphTask
from decentrl.errors import BundleError, ConfigError, DecentRLError, InputError
from decentrl.predictor import Predictor
from decentrl.runs.report import render_prediction_report, render_report
from decentrl.runs.report.collect import make_prediction_report, make_report
from decentrl.runs.sources import (
    AnySources,
    AnyTask,
    GraphSources,
    Grown,
    Model,
    Sources,
    read_task,
)
from decentrl.training.loop import Row

RESULTS = "results.json"
CONFIG = "config.toml"


class RunOptions(TypedDict, total=False):
    """RunOptions a run is made."""

    device: str
    resume: bool  # go on in its folder
    command: str | None  # for the report
    on_start: Callable[[Any], None] | None  # called with the task
    on_epoch: Callable[[Row], None] | None
    on_trained: Callable[[], None] | None


def align(
    sources: Sources | Grown, config: Config, folder: Path, **how: Unpack[RunOptions]
) -> tuple[Aligner, dict[str, Any]]:
    """Train, match, evaluate, and leave the whole run in ``folder``."""
    aligner = Aligner(config, how.get("device", "auto"))
    return aligner, _make(aligner, _ALIGN, sources, folder, **how)


def complete(
    sources: GraphSources | Grown, config: PredictionConfig, folder: Path, **how: Unpack[RunOptions]
) -> tuple[Predictor, dict[str, Any]]:
    """Train, answer the test questions, evaluate, and leave the whole run in ``folder``."""
    predictor = Predictor(config, how.get("device", "auto"))
    return predictor, _make(predictor, _COMPLETE, sources, folder, **how)


@dataclass(frozen=True)
class _Job:
    """What differs between the two."""

    step: str  # what comes after training
    file: str  # what it leaves
    about: dict[str, str]
    answers: Callable[[Any], Any]  # the table in that file
    found: Callable[[Any, bool], dict[str, Any]]  # what else the results tell, if it was tested
    page: Callable[[Any, Mapping[str, Any], Any, str | None], str]


_ALIGN = _Job(
    step="match",
    file="matches.parquet",
    about={},
    answers=lambda aligner: aligner.match(top=1),
    found=lambda aligner, _: {
        "self_training": {"rounds": aligner.chosen_rounds, "validation": aligner.rounds},
        "confidence": aligner.confidence(),
    },
    page=lambda aligner, results, _, command: render_report(make_report(aligner, results, command)),
)
_COMPLETE = _Job(
    step="evaluate",
    file="predictions.parquet",
    about={"task": "prediction"},
    answers=lambda predictor: predictor.test_predictions(),
    found=lambda predictor, tested: {
        "frequency": predictor.frequency() if tested else {},
        "confidence": predictor.confidence(),
    },
    page=lambda predictor, results, answers, command: render_prediction_report(
        make_prediction_report(predictor, results, answers.to_pylist(), command)
    ),
)


def _make(
    model: Any,
    job: _Job,
    sources: AnySources,
    folder: Path,
    *,
    device: str = "auto",
    resume: bool = False,
    command: str | None = None,
    on_start: Callable[[Any], None] | None = None,
    on_epoch: Callable[[Row], None] | None = None,
    on_trained: Callable[[], None] | None = None,
) -> dict[str, Any]:
    started = time.perf_counter()
    task, start = read_task(sources, model.config, device)
    reading = time.perf_counter() - started
    with _run_folder(folder, sources, model.config, task, resume):
        if on_start is not None:
            on_start(task)
        model.fit(task, run=folder, resume=resume, on_epoch=on_epoch, **start)
    model.seconds["read"] += reading
    if on_trained is not None:
        on_trained()

    started = time.perf_counter()
    rows = model.evaluate()[0] if len(task.test) else []
    answers = job.answers(model)
    _write_parquet(answers, folder / job.file)
    model.seconds[job.step] = time.perf_counter() - started
    results = {
        "dataset": task.name,
        "open_world": task.open_world,
        **job.about,
        **_how(model, ("read", "train", job.step)),
        "results": rows,
        **job.found(model, bool(rows)),
    }
    model.save(folder, rows)
    _finish(folder, results, job.page(model, results, answers, command))
    return results


def _how(model: Model, steps: Sequence[str]) -> dict[str, Any]:
    """With which settings, on what, in what time and memory."""
    return {
        "preset": model.config.preset,
        "seed": model.config.seed,
        "device": device_name(model),
        "seconds": {name: round(model.seconds[name], 3) for name in steps},
        "peak_memory_bytes": peak_memory(model),
    }


def _finish(folder: Path, results: Mapping[str, Any], page: str) -> None:
    """The results come last: they say that a run is finished."""
    _write(folder / "report.html", page)
    _write(folder / RESULTS, json.dumps(results, indent=2, ensure_ascii=False) + "\n")


def read_settings(folder: Path) -> tuple[Any, Any]:
    """Sources and settings that a run was started with; their types say what it is about."""
    path = folder / CONFIG
    try:
        values = tomllib.loads(path.read_text("utf-8"))
        origin = values.pop("run")
        one_graph = origin.get("task") == "prediction"
        kind = Grown if "start" in origin else GraphSources if one_graph else Sources
        return _origin(kind, origin), (PredictionConfig if one_graph else Config).from_stored(
            values
        )
    except (FileNotFoundError, NotADirectoryError):
        raise BundleError(
            f"{path}: not found, so there is no run to resume; leave out --resume to start one"
        ) from None
    except (AttributeError, KeyError, ValueError, TypeError, ConfigError) as error:
        raise BundleError(f"{path}: this is not the settings file of a run ({error})") from error


def _origin(kind: Any, values: Mapping[str, Any]) -> Any:
    return kind(**{f.name: values[f.name] for f in fields(kind)})


@contextmanager
def _run_folder(
    folder: Path, sources: AnySources, config: Settings, task: AnyTask, resume: bool
) -> Iterator[None]:
    """Open the folder of a run; if it turns out that there can be none, nothing of it stays."""
    new = [path for path in (folder, *folder.parents) if not path.exists()]
    _open_folder(folder, sources, config, task, resume)
    with (folder / CONFIG).open("rb") as settings:
        try:
            fcntl.flock(settings, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError("another process is training this run", file=folder,
                             remedy="wait until it has finished") from None  # fmt: skip
        try:
            yield
        except DecentRLError:
            if not resume:
                _take_back(folder, new)
            raise


def _open_folder(
    folder: Path, sources: AnySources, config: Settings, task: AnyTask, resume: bool
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
    if isinstance(task, GraphTask):
        origin["task"] = "prediction"
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


@contextmanager
def replacing(folder: Path) -> Iterator[None]:
    """Put a run folder aside, and back if there will be no other; nothing that is not a run.

    A run that is interrupted can be resumed, so it has taken the place of the old one.
    """
    if not (folder.is_dir() and any(folder.iterdir())):
        yield
        return
    if folder.is_symlink():
        raise InputError("is a link", file=folder, remedy="give the folder that it leads to as -o")
    if not _is_run(folder) and not _is_seeds(folder):
        raise InputError("is not a run, so it is not overwritten", file=folder,
                         remedy="choose another -o")  # fmt: skip
    aside = folder.with_name(f"{folder.name}.replaced")
    try:
        if aside.exists() and (_is_run(aside) or _is_seeds(aside)):
            shutil.rmtree(aside)  # left by a command that was killed
        folder.rename(aside)
    except OSError as error:
        raise InputError(f"cannot be put aside ({error.strerror})", file=folder,
                         remedy="choose another -o") from None  # fmt: skip
    try:
        yield
    except BaseException as error:
        interrupted = not isinstance(error, Exception)
        if interrupted and folder.exists():
            shutil.rmtree(aside)
        else:
            shutil.rmtree(folder, ignore_errors=True)
            aside.rename(folder)
        raise
    shutil.rmtree(aside)


def _is_seeds(folder: Path) -> bool:
    """A folder of runs made by ``--seeds``, with nothing else in it."""
    others = [path for path in folder.iterdir() if path.name != RESULTS]
    return all(path.name.startswith("seed-") and _is_run(path) for path in others)


def average(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Mean and standard deviation over seeds, in the shape of ``results.json``."""
    first = dict(runs[0])
    first["seed"] = [run["seed"] for run in runs]
    first["seconds"] = {
        name: round(fmean(run["seconds"][name] for run in runs), 3) for name in first["seconds"]
    }
    first["peak_memory_bytes"] = max(run["peak_memory_bytes"] for run in runs)
    first["results"] = _average_rows([run["results"] for run in runs])
    if "self_training" in first:
        first["self_training"] = {
            "rounds": [run["self_training"]["rounds"] for run in runs],
            "validation": [
                {name: fmean(row[name] for row in same) for name in same[0]}
                for same in zip(*(run["self_training"]["validation"] for run in runs), strict=True)
            ],
        }
    for part in ("frequency", "confidence"):
        if part in first:
            first[part] = {
                name: fmean(run[part][name] for run in runs if run[part]) for name in first[part]
            }
    return first


def _average_rows(runs: Sequence[Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """Rows that say the same are one; where seeds hold out other triples, some have no such row."""
    same: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in (row for rows in runs for row in rows):
        same.setdefault(tuple(v for v in row.values() if isinstance(v, str)), []).append(row)
    result = []
    for rows in same.values():
        mean = dict(rows[0])
        mean["n"] = round(fmean(row["n"] for row in rows))
        for name in [name for name, value in mean.items() if isinstance(value, float)]:
            values = [row[name] for row in rows]
            mean[name] = fmean(values)
            mean[f"{name}_std"] = stdev(values) if len(values) > 1 else 0.0
        result.append(mean)
    # A group that only a later seed has stays beside its like.
    groups = list(dict.fromkeys(row.get("group") for row in result))
    return sorted(result, key=lambda row: groups.index(row.get("group")))


def _write_parquet(table: Any, path: Path) -> None:
    import pyarrow.parquet as pq

    temporary = path.with_name(path.name + ".part")
    pq.write_table(table, temporary)
    temporary.replace(path)


def _write(path: Path, text: str) -> None:
    """Whole or not at all."""
    temporary = path.with_name(path.name + ".part")
    temporary.write_text(text, "utf-8")
    temporary.replace(path)


def device_name(model: Model) -> str:
    """``cpu``, or the card's name."""
    import torch

    cuda = model.device.type == "cuda"
    return f"cuda ({torch.cuda.get_device_name()})" if cuda else "cpu"


def peak_memory(model: Model) -> int:
    """Bytes: of the card where one was used, of the process otherwise."""
    import torch

    if model.device.type == "cuda":
        return int(torch.cuda.max_memory_allocated())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
