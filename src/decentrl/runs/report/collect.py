"""What ``report.html`` shows of a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from decentrl.data.alignment_task import AlignmentTask
from decentrl.runs.report.page import Row
from decentrl.runs.report.pages import Report
from decentrl.storage.card import task_facts
from decentrl.storage.kinds import AnyTask


def make_report(model: Any, results: Row, answers: Sequence[Row], command: str | None) -> Report:
    """The report of a finished run.

    Args:
        model: an aligner or a predictor.
        answers: rows of ``test_matches()`` or ``test_predictions()``.
    """
    alignment = isinstance(model.task, AlignmentTask)
    score = "score" if alignment else "probability"
    categories = [row for row in results["results"] if row.get("group") == "category"]
    return Report(
        job="alignment" if alignment else "prediction",
        title=model.task.name,
        facts=_facts(model.task, results),
        results=results["results"],
        # The epochs of all stages in one row.
        history=[{**row, "epoch": i} for i, row in enumerate(model.history, start=1)],
        scores={
            "right": [row[score] for row in answers if row["correct"]],
            "wrong": [row[score] for row in answers if not row["correct"]],
        },
        groups=_by_degree(answers) if alignment else categories,
        samples=pick_samples(answers, 12),
        command=command,
        matcher=model.config.matching.matcher if alignment else "",
        frequency=results.get("frequency"),
        confidence=results["confidence"],
    )


def _facts(task: AnyTask, results: Row) -> list[tuple[str, str]]:
    seconds = (f"{name} {value:.1f} s" for name, value in results["seconds"].items())
    return [
        *((name, str(results[name])) for name in ("preset", "seed", "device")),
        *task_facts(task).items(),
        ("time", ", ".join(seconds)),
        ("peak memory", f"{results['peak_memory_bytes'] / 2**20:,.0f} MiB"),
    ]


def pick_samples(samples: Sequence[Row], count: int) -> list[Row]:
    """Evenly spread over what was tested, so that neither the best nor the worst are chosen."""
    step = max(1, len(samples) // count)
    return list(samples[step // 2 :: step][:count])


def _by_degree(samples: Sequence[Row]) -> list[dict[str, Any]]:
    groups: dict[int, list[bool]] = {}
    for sample in samples:
        groups.setdefault(max(1, sample["degree"]).bit_length(), []).append(sample["correct"])
    rows = []
    for bits, right in sorted(groups.items()):
        low, high = 1 << (bits - 1), (1 << bits) - 1
        name = str(low) if low == high else f"{low}-{high}"
        rows.append({"name": name, "n": len(right), "hits@1": sum(right) / len(right)})
    return rows
