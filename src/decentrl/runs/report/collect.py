"""What ``report.html`` shows of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from decentrl.aligner import Aligner
from decentrl.predictor import Predictor
from decentrl.runs.report import PredictionReport, Report


def make_report(aligner: Aligner, results: Mapping[str, Any], command: str | None) -> Report:
    """Of an alignment."""
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
    samples = aligner.test_matches().to_pylist() if len(task.test) else []
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
    """Of a prediction; ``answers`` are rows of :meth:`Predictor.test_predictions`."""
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


def _graph_fact(graph: Any) -> str:
    return f"{len(graph.entities):,} entities, {len(graph.triples):,} triples"
