"""A run is a folder: settings, metrics, results, answers, a report, a checkpoint and a bundle.

Two jobs leave such folders: :func:`align` (two graphs) and :func:`complete` (one graph).
"""

from __future__ import annotations

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
from typing import Any

from decentrl._version import __version__
from decentrl.aligner import Aligner
from decentrl.config import Config, PredictionConfig, Settings, to_toml
from decentrl.data.alignment_task import AlignmentTask
from decentrl.data.graph_task import GraphTask
from decentrl.data.registry import load_dataset
from decentrl.errors import BundleError, ConfigError, DecentRLError, InputError
from decentrl.predictor import Predictor
from decentrl.report import PredictionReport, Report, render_prediction_report, render_report
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


@dataclass(frozen=True)
class GraphSources:
    """The same for one graph."""

    dataset: str = ""
    open_world: bool = False
    triples: str = ""
    valid: str = ""
    test: str = ""
    format: str = ""
    holdout: float = 0.1

    def read(self, seed: int, valid: float = 0.1) -> GraphTask:
        """The task; without files of their own, shares of the triples become valid and test."""
        if self.dataset:
            task = load_dataset(self.dataset, self.open_world)
            if not isinstance(task, GraphTask):
                raise InputError(
                    f"{self.dataset} is two graphs, prediction needs one",
                    remedy="`decentrl data list` shows the datasets for prediction",
                )
            return task
        return GraphTask.read(
            self.triples,
            self.valid or None,
            self.test or None,
            self.format or None,
            valid_share=valid,
            test_share=self.holdout,
            seed=seed,
        )


AnySources = Sources | GraphSources
AnyTask = AlignmentTask | GraphTask
Model = Aligner | Predictor


def read_task(sources: AnySources, config: Any) -> AnyTask:
    """What a run with these settings learns from."""
    if isinstance(sources, GraphSources):
        return sources.read(config.seed, _validation(config))
    return sources.read(config.seed)


def _validation(config: PredictionConfig) -> float:
    """Share of a file's triples to choose by."""
    return config.training.valid


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
    with _run_folder(folder, sources, config, task, resume):
        if on_start is not None:
            on_start(task)
        aligner.fit(task, run=folder, resume=resume, on_epoch=on_epoch)
    aligner.seconds["read"] += reading
    if on_trained is not None:
        on_trained()

    started = time.perf_counter()
    rows = aligner.evaluate()[0] if len(task.test) else []
    _write_parquet(aligner.match(top=1), folder / "matches.parquet")
    aligner.seconds["match"] = time.perf_counter() - started
    results = {
        **_about(task),
        **_how(aligner, ("read", "train", "match")),
        "results": rows,
        "self_training": {"rounds": aligner.chosen_rounds, "validation": aligner.rounds},
        "confidence": aligner.confidence(),
    }
    aligner.save(folder, rows)
    _finish(folder, results, render_report(make_report(aligner, results, command)))
    return aligner, results


def complete(
    sources: GraphSources,
    config: PredictionConfig,
    folder: Path,
    *,
    device: str = "auto",
    resume: bool = False,
    command: str | None = None,
    on_start: Callable[[GraphTask], None] | None = None,
    on_epoch: Callable[[Row], None] | None = None,
    on_trained: Callable[[], None] | None = None,
) -> tuple[Predictor, dict[str, Any]]:
    """Train, answer the test questions, evaluate, and leave the whole run in ``folder``."""
    started = time.perf_counter()
    task = sources.read(config.seed, _validation(config))
    reading = time.perf_counter() - started
    predictor = Predictor(config, device)
    with _run_folder(folder, sources, config, task, resume):
        if on_start is not None:
            on_start(task)
        predictor.fit(task, run=folder, resume=resume, on_epoch=on_epoch)
    predictor.seconds["read"] += reading
    if on_trained is not None:
        on_trained()

    started = time.perf_counter()
    rows = predictor.evaluate()[0] if len(task.test) else []
    answers = predictor.test_predictions()
    _write_parquet(answers, folder / "predictions.parquet")
    predictor.seconds["evaluate"] = time.perf_counter() - started
    results = {
        **_about(task),
        "task": "prediction",
        **_how(predictor, ("read", "train", "evaluate")),
        "results": rows,
        "frequency": predictor.frequency() if rows else {},
        "confidence": predictor.confidence(),
    }
    predictor.save(folder, rows)
    report = make_prediction_report(predictor, results, answers.to_pylist(), command)
    _finish(folder, results, render_prediction_report(report))
    return predictor, results


def _about(task: AnyTask) -> dict[str, Any]:
    return {"dataset": task.name, "open_world": task.open_world}


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
        if origin.get("task") == "prediction":
            return _origin(GraphSources, origin), PredictionConfig.from_dict(values)
        return _origin(Sources, origin), Config.from_dict(values)
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


def make_report(aligner: Aligner, results: Mapping[str, Any], command: str | None) -> Report:
    """What ``report.html`` shows."""
    task = aligner.task
    facts = [
        *_settings_facts(results),
        ("left graph", _graph_fact(task.left)),
        ("right graph", _graph_fact(task.right)),
        ("links", f"{len(task.train):,} to train, {len(task.valid):,} to validate, "
                  f"{len(task.test):,} to test"),
        *_cost_facts(results),
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


def make_prediction_report(
    predictor: Predictor,
    results: Mapping[str, Any],
    answers: Sequence[Mapping[str, Any]],
    command: str | None,
) -> PredictionReport:
    """The same for prediction; ``answers`` are rows of :meth:`Predictor.test_predictions`."""
    task = predictor.task
    graph = f"{_graph_fact(task.graph)}, {len(task.graph.relations):,} relations"
    facts = [
        *_settings_facts(results),
        ("graph", graph),
        ("held out", f"{len(task.valid):,} triples to validate, {len(task.test):,} to test"),
        *_cost_facts(results),
    ]
    if task.auxiliary is not None:
        facts.append(("open world", f"{len(task.auxiliary):,} triples arrived after training"))
    return PredictionReport(
        title=task.name,
        facts=facts,
        results=results["results"],
        frequency=results["frequency"],
        confidence=results["confidence"],
        history=predictor.history,
        probabilities={
            "right": [row["probability"] for row in answers if row["correct"]],
            "wrong": [row["probability"] for row in answers if not row["correct"]],
        },
        samples=pick_samples(answers, 12),
        command=command,
    )


def _settings_facts(results: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(name, str(results[name])) for name in ("preset", "seed", "device")]


def _cost_facts(results: Mapping[str, Any]) -> list[tuple[str, str]]:
    words = {"read": "reading", "train": "training", "match": "matching", "evaluate": "evaluating"}
    steps, seconds = zip(*results["seconds"].items(), strict=True)
    return [
        (
            f"{', '.join(words[step] for step in steps)} took",
            ", ".join(f"{value:.1f} s" for value in seconds),
        ),
        ("peak memory", f"{results['peak_memory_bytes'] / 2**20:,.0f} MiB"),
    ]


def pick_samples(samples: Sequence[Mapping[str, Any]], count: int) -> list[Mapping[str, Any]]:
    """Evenly spread over what was tested, so that neither the best nor the worst are chosen."""
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


def _graph_fact(graph: Any) -> str:
    return f"{len(graph.entities):,} entities, {len(graph.triples):,} triples"


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
