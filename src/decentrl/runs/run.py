"""Making a run: a folder with settings, metrics, results, answers, report, checkpoint and bundle.

Two jobs leave such folders, alignment and prediction; what differs is in :data:`JOBS`.
"""

from __future__ import annotations

import hashlib
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from os import PathLike
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pyarrow.parquet as pq

from decentrl._version import __version__
from decentrl.config import Settings, to_toml
from decentrl.data.graph_task import GraphTask
from decentrl.data.results import ResultTable
from decentrl.errors import (
    BundleError,
    ConfigError,
    DecentRLError,
    DivergedError,
    InputError,
)
from decentrl.runs.folder import CONFIG, RESULTS, clear, making, refuse_existing
from decentrl.runs.machine import device_name, peak_memory
from decentrl.runs.report.collect import make_report
from decentrl.runs.report.pages import render_report
from decentrl.runs.sources import (
    MODELS,
    AnySources,
    GraphSources,
    Grown,
    Sources,
    read_task,
    whole_paths,
)
from decentrl.storage.bundle import seal_of
from decentrl.storage.files import json_text, whole_files, write_text
from decentrl.storage.kinds import AnyTask, kind_about, kind_for
from decentrl.training.loop import Row

SMALL = 20_000
"""Triples up to which a graph is small: paths are learned in minutes on two cores."""


@dataclass(frozen=True)
class Job:
    """One of the two jobs: where its data come from, and what a run leaves."""

    sources: type[Sources | GraphSources]
    step: str  # what comes after training
    file: str  # of the answers
    tested: Callable[[Any], Any]  # the table of answers to the test
    answers: Callable[[Any], Any] | None  # the table in that file, if it is another one
    found: Callable[[Any, bool], dict[str, Any]]  # what else the results hold, if it was tested
    elsewhere: Callable[[Any], list[Any]] = lambda _: []  # results of another graph


def _started(aligner: Any) -> dict[str, Any]:
    """The links by names that a training without known links began with, if it did."""
    count, some = aligner.start_links()
    return {"started_from_names": {"pairs": count, "for_example": some}} if count else {}


JOBS = {
    "aligner": Job(
        sources=Sources,
        step="match",
        file="matches.parquet",
        tested=lambda aligner: aligner.test_matches(),
        answers=lambda aligner: aligner.match(top=1),
        found=lambda aligner, tested: {
            "matches": aligner.evaluate_matches() if tested else [],
            "apart": aligner.evaluate_apart() if tested else [],
            "self_training": {"rounds": aligner.chosen_rounds, "validation": aligner.rounds},
            **_started(aligner),
        },
    ),
    "predictor": Job(
        sources=GraphSources,
        step="evaluate",
        file="predictions.parquet",
        tested=lambda predictor: predictor.test_predictions(),
        answers=None,
        found=lambda predictor, tested: {"frequency": predictor.frequency() if tested else {}},
        elsewhere=lambda predictor: predictor.evaluate_elsewhere(),
    ),
}


def make_run(
    sources: AnySources,
    config: Settings,
    folder: Path,
    *,
    device: str = "auto",
    resume: bool = False,
    overwrite: bool = False,
    command: str | None = None,
    larger: Settings | None = None,
    on_start: Callable[[Any, Settings], None] | None = None,
    on_epoch: Callable[[Row], None] | None = None,
    on_trained: Callable[[], None] | None = None,
    on_estimate: Callable[[float], None] | None = None,
) -> tuple[Any, dict[str, Any]]:
    """Train, evaluate and leave the whole run in ``folder``: the model, and its results.

    Args:
        resume: go on with the run in that folder.
        overwrite: replace the run in that folder; it stays until there is another.
        command: shown in the report.
        larger: settings in place of ``config`` for a graph of more than :data:`SMALL` triples.
        on_start: called with the task, once it is read, and the settings.
        on_estimate: called with the seconds of training, where these can be estimated.
    """
    resume = resume and (folder / CONFIG).exists()
    if resume:  # what began the run says more
        command = _read_config(folder).get("run", {}).get("command", command)
    kind = kind_for(config)
    job, model = JOBS[kind.name], MODELS[kind.name](config, device)
    started = time.perf_counter()
    task, start = read_task(sources, model.config, device)
    reading = time.perf_counter() - started
    if larger is not None and isinstance(task, GraphTask) and len(task.graph.triples) > SMALL:
        model = MODELS[kind.name](larger, device)
    with making(folder, overwrite), _cleared_if_diverged(folder):
        with _begun(folder, sources, model.config, task, resume, command):
            if on_start is not None:
                on_start(task, model.config)
            if kind.name == "predictor":
                start = {**start, "on_estimate": on_estimate}
            model.fit(task, run=folder, resume=resume, on_epoch=on_epoch, **start)
            model.seconds["read"] += reading
            if on_trained is not None:
                on_trained()
            started = time.perf_counter()
            rows = model.evaluate().rows if len(task.test) else []
            rows += job.elsewhere(model)
        answers = (job.answers or job.tested)(model)
        with whole_files(folder / job.file) as (part,):
            pq.write_table(answers.to_arrow(), part)
        model.seconds[job.step] = time.perf_counter() - started
        results = _results(job, model, rows)
        model.save(folder, rows)
        write_text(folder / "report.html", _report(job, model, results, answers, command))
        write_results(folder, results)
    return model, results


def _results(job: Job, model: Any, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The content of results.json; ``rows`` are those of the test."""
    steps = ("read", "train", job.step)
    return {
        **about(model),
        "device": device_name(model),
        "seconds": {name: round(model.seconds.get(name, 0.0), 3) for name in steps},
        "peak_memory_bytes": peak_memory(model),
        "results": rows,
        **job.found(model, bool(rows)),
        "confidence": model.confidence(),
    }


def _report(
    job: Job, model: Any, results: dict[str, Any], answers: ResultTable, command: str | None
) -> str:
    """The page of a run; ``answers`` are all that the job gives."""
    tested = job.tested(model) if job.answers else answers
    shown = tested.to_pylist() if results["results"] else []
    matches = answers.to_pylist() if job.answers else []
    return render_report(make_report(model, results, shown, command, matches))


def write_report(model: Any, file: str | PathLike[str]) -> dict[str, Any]:
    """Evaluate a fitted aligner or predictor, and write the report that a run has.

    Args:
        model: an :class:`~decentrl.Aligner` or a :class:`~decentrl.Predictor`.
        file: the page to write, for instance ``report.html``.
    Returns:
        what ``results.json`` of a run holds.
    """
    job = JOBS[kind_for(model.config).name]
    rows = model.evaluate().rows if len(model.task.test) else []
    results = _results(job, model, rows)
    answers = (job.answers or job.tested)(model)
    write_text(Path(file), _report(job, model, results, answers, None))
    return results


def about(model: Any) -> dict[str, Any]:
    """What results begin with: of which data and settings they are."""
    task, config = model.task, model.config
    world = {"dataset": task.name, "open_world": task.open_world}
    return {**world, **_named(task), "preset": config.preset, "seed": config.seed}


def _named(task: AnyTask) -> dict[str, str]:
    """How results and settings name the job; those of alignment name none."""
    kind = kind_for(task)
    return {} if kind.two_graphs else {"task": kind.about}


def write_results(folder: Path, results: dict[str, Any]) -> None:
    """Write ``results.json``, the last file of a run: it marks the run as finished."""
    results.pop("sha256", None)  # of the runs that these are a mean of
    results["sha256"] = seal_of(results)
    text = json_text(results)
    write_text(folder / RESULTS, text + "\n")


def read_settings(folder: Path) -> tuple[Any, Any]:
    """Sources and settings that a run was started with."""
    path = folder / CONFIG
    try:
        values = _read_config(folder)
        origin = values.pop("run")
        kind = kind_about(origin.get("task"))
        sources: Any = Grown if "start" in origin else JOBS[kind.name].sources
        # A run that was begun before there were names says nothing of them.
        used = {f.name: origin[f.name] for f in fields(sources) if f.name in origin}
        return sources(**used), kind.settings.from_stored(values)
    except (FileNotFoundError, NotADirectoryError):
        raise BundleError(
            f"{path}: not found, so there is no run to resume; leave out --resume to start one"
        ) from None
    except (AttributeError, KeyError, ValueError, TypeError, ConfigError) as error:
        raise BundleError(f"{path}: this is not the settings file of a run ({error})") from error


@contextmanager
def _begun(
    folder: Path,
    sources: AnySources,
    config: Settings,
    task: AnyTask,
    resume: bool,
    command: str | None,
) -> Iterator[None]:
    """Write the settings of a run; refuse to mix two runs.

    If it turns out that there can be no run, nothing of it stays.
    """
    digest = task.content_hash()
    if resume:
        if (folder / RESULTS).exists():  # by another process, just now
            raise InputError("this run is finished", file=folder, remedy="`decentrl info` shows it")
        if _read_config(folder)["run"].get("data_sha256") != digest:
            raise InputError("the input has changed since this run began", file=folder,
                             remedy="start a new run")  # fmt: skip
    else:
        refuse_existing(folder)
        made = {"data_sha256": digest, "decentrl": __version__}
        if command:
            made["command"] = command.encode("utf-8", "backslashreplace").decode()
        origin = {**asdict(whole_paths(sources)), **made, **_named(task)}
        text = to_toml({**config.to_dict(), "run": origin})
        write_text(folder / CONFIG, text + _seal(text))
    try:
        yield
    except Exception as error:
        # What has a checkpoint can be resumed, on a larger disk or with more memory.
        lost = isinstance(error, DecentRLError) or not (folder / "checkpoint").exists()
        if not resume and lost:
            clear(folder)
        raise


@contextmanager
def _cleared_if_diverged(folder: Path) -> Iterator[None]:
    """Leave nothing of a run that diverged: from its checkpoint it would diverge again."""
    try:
        yield
    except DivergedError:
        clear(folder)
        raise


def _seal(text: str) -> str:
    """The last line of the settings: with it they are not edited unseen before a run goes on."""
    return f"# sha256 of the lines above: {hashlib.sha256(text.encode()).hexdigest()}\n"


def _read_config(folder: Path) -> dict[str, Any]:
    """The settings file of a run, as that wrote it."""
    path = folder / CONFIG
    text = path.read_text("utf-8")
    values = tomllib.loads(text)
    above = text[: text.rfind("# sha256")]
    if "run" in values and text != above + _seal(above):
        raise BundleError(
            f"{path}: was changed since this run began; undo that to go on, "
            "or start a new run with other settings"
        )
    return values


def average(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Mean and standard deviation over seeds, in the shape of ``results.json``."""
    each = {name: [run[name] for run in runs] for name in runs[0]}
    mean = {**runs[0], "seed": each["seed"], "results": _average_rows(each["results"])}
    seconds = _means(each["seconds"])
    mean["seconds"] = {name: round(value, 3) for name, value in seconds.items()}
    mean["peak_memory_bytes"] = max(each["peak_memory_bytes"])
    if chosen := each.get("self_training"):
        tried = zip(*(rounds["validation"] for rounds in chosen), strict=True)
        mean["self_training"] = {
            "rounds": [rounds["rounds"] for rounds in chosen],
            "validation": [_means(same) for same in tried],
        }
    for part in {"matches", "apart"} & set(each):
        mean[part] = _average_rows(each[part])
    for part in {"frequency", "confidence"} & set(each):
        mean[part] = _means([found for found in each[part] if found])
    return mean


def _means(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: fmean(row[name] for row in rows) for name in (rows[0] if rows else ())}


def _average_rows(runs: Sequence[Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """Average rows of the same name; where seeds hold out other triples, some lack a row."""
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
