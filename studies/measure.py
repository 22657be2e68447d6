"""Do one run and return its metrics, times and provenance."""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict
from statistics import median
from typing import Any

from decentrl._version import __version__
from decentrl.config import Config, PredictionConfig
from decentrl.data.alignment_task import AlignmentTask
from decentrl.data.graph_task import GraphTask
from decentrl.data.open_world import split_alignment, split_graph
from decentrl.data.registry import load_dataset
from studies.run import Run
from studies.source_tree import commit

Facts = dict[str, Any]


def measure(run: Run, device: str = "auto", at_once: int = 1) -> Facts:
    """Train and evaluate a run; return everything that a table or a figure reads.

    Args:
        at_once: how many runs share the device; kept beside the times.
    """
    started = time.perf_counter()
    task = read(run)
    reading = time.perf_counter() - started
    if run.job == "data":
        found: Facts = {"results": count(task), "device": "cpu", "seconds": {}}
    elif isinstance(task, AlignmentTask):
        found = _align(run, task, device)
    else:
        found = _complete(run, task, device)
    found["seconds"] |= {"read": reading, "whole": time.perf_counter() - started}
    about = {
        "key": run.key,
        "version": run.version,
        "run": asdict(run),
        "config": run.changed(),
        "command": run.command,
        "data_sha256": task.content_hash(),
        "at_once": 1 if run.alone else at_once,
        "commit": commit(),
        "versions": _versions(),
    }
    return {**about, **_rounded(found)}


def read(run: Run) -> AlignmentTask | GraphTask:
    """The data of a run: the published split, or another one made by the same splitter."""
    if run.published:
        return load_dataset(run.dataset, open_world=run.unseen > 0)
    task = load_dataset(run.dataset)
    if isinstance(task, AlignmentTask):
        return split_alignment(task, run.unseen, seed=run.split)
    return split_graph(task, run.unseen, seed=run.split)


def _align(run: Run, task: AlignmentTask, device: str) -> Facts:
    from decentrl.aligner import Aligner
    from studies.looks import by_degree, by_layer

    config = run.config()
    assert isinstance(config, Config)
    aligner = Aligner(config, device).fit(task)
    started = time.perf_counter()
    evaluation = aligner.evaluate()
    rows, ranks = evaluation.rows, evaluation.ranks
    facts = _learned(aligner, started)
    facts |= {
        "results": rows,
        "degrees": by_degree(task, ranks["csls"]),
        "convergence": convergence(aligner.history, "valid_hits@1"),
        "self_training": {"rounds": aligner.chosen_rounds, "validation": aligner.rounds},
    }
    if config.model.encoder == "dan" and not task.open_world:
        facts["layers"] = by_layer(aligner)
    return facts


def _complete(run: Run, task: GraphTask, device: str) -> Facts:
    from decentrl.predictor import Predictor

    config = run.config()
    assert isinstance(config, PredictionConfig)
    predictor = Predictor(config, device).fit(task)
    started = time.perf_counter()
    rows = [row for row in predictor.evaluate().rows if row["group"] != "relation"]
    facts = _learned(predictor, started)
    return facts | {
        "results": rows,
        "convergence": convergence(predictor.history, "valid_mrr"),
    }


def _learned(model: Any, evaluation_started: float) -> Facts:
    """Times, the device, and how validation went."""
    from decentrl.runs.machine import device_name, peak_memory

    epochs = [row for row in model.history if not any(x.startswith("valid_") for x in row)]
    epochs = epochs or model.history
    train = model.seconds["train"]
    return {
        "device": device_name(model),
        "peak_memory_bytes": peak_memory(model),
        "seconds": {"train": train, "evaluate": time.perf_counter() - evaluation_started},
        "time": [
            {
                "epochs": len(model.history),
                "epoch_seconds": median(row["seconds"] for row in epochs) if epochs else 0.0,
                "train_seconds": train,
            }
        ],
        "history": [
            {name: x for name, x in row.items() if name in ("stage", "epoch") or "valid" in name}
            for row in model.history
            if any(name.startswith("valid_") for name in row)
        ],
    }


def convergence(history: list[dict[str, Any]], name: str) -> list[Facts]:
    """After how many epochs a validation metric first reached most of its best value.

    Empty without validation; only the first stage of a training counts.
    """
    seen = [row for row in history if name in row and not row.get("stage")]
    if not seen:
        return []
    best = max(row[name] for row in seen)
    reached = {
        f"epochs_{share}": next(row["epoch"] for row in seen if row[name] >= share / 100 * best)
        for share in (90, 95, 99)
    }
    return [{"best": best, **reached}]


def count(task: AlignmentTask | GraphTask) -> list[Facts]:
    """Sizes of a dataset: one row per graph, and one of the training, validation and test data."""
    if isinstance(task, AlignmentTask):
        later = task.auxiliary or ((), ())
        graphs = {"left": (task.left, later[0]), "right": (task.right, later[1])}
        rest = {"train": len(task.train), "test": len(task.test)}
    else:
        graphs = {"graph": (task.graph, () if task.auxiliary is None else task.auxiliary)}
        rest = {"valid": len(task.valid), "test": len(task.test)}
    rows: list[Facts] = [
        {
            "name": name,
            "entities": len(graph.entities),
            "relations": len(graph.relations),
            "triples": len(graph.triples),
            "auxiliary": len(auxiliary),
        }
        for name, (graph, auxiliary) in graphs.items()
    ]
    return [*rows, {"name": "task", **rest}]


def _versions() -> dict[str, str]:
    import torch

    python = platform.python_version()
    return {
        "decentrl": __version__,
        "python": python,
        "torch": torch.__version__,
        "platform": sys.platform,
    }


def _rounded(value: Any) -> Any:
    """All floats with six decimals, which keeps result files small."""
    if isinstance(value, float):
        return round(value, 6)
    if isinstance(value, Mapping):
        return {key: _rounded(item) for key, item in value.items()}
    return [_rounded(item) for item in value] if isinstance(value, list) else value
