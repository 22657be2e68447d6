"""What ``report.html`` shows of a run."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

from decentrl.data.alignment_task import AlignmentTask
from decentrl.data.called import called
from decentrl.data.vocabulary import Ids
from decentrl.growth.pair_explanation import Called, in_words
from decentrl.matching.matchers import field_matcher
from decentrl.runs.report.page import Row
from decentrl.runs.report.pages import Report
from decentrl.storage.card import task_facts
from decentrl.storage.kinds import AnyTask


def make_report(
    model: Any,
    results: Row,
    answers: Sequence[Row],
    command: str | None,
    matches: Sequence[Row] = (),
) -> Report:
    """The report of a finished run.

    Args:
        model: an aligner or a predictor.
        answers: rows of ``test_matches()`` or ``test_predictions()``.
        matches: of an aligner, rows of ``match()``.
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
        matcher=field_matcher(model.config.matching.matcher) if alignment else "",
        frequency=results.get("frequency"),
        confidence=results["confidence"],
        explained=explained_matches(model, matches)
        if alignment
        else explained_answers(model, answers),
        matches=results.get("matches", ()),
    )


def explained_matches(aligner: Any, matches: Sequence[Row]) -> list[tuple[str, list[str]]]:
    """Three matches in words, each under a heading: a sure one, a doubtful one and a wrong one.

    Sure and doubtful ones are right where the truth is known; the wrong one is the surest of them.
    Where no truth is known the third is the least sure one. Encoders that cannot explain have none.
    """
    if not aligner.config.model.inductive:
        return []
    measure = "score" if all(row["confidence"] is None for row in matches) else "confidence"
    found = [row for row in matches if row["right"] is not None and row[measure] is not None]
    if not found:
        return []
    task = aligner.task
    truth = dict(zip(*_labels(task, task.test), strict=True))
    judged = [row for row in found if row["left"] in truth]
    right = [row for row in judged if row["right"] == truth[row["left"]]]
    wrong = [row for row in judged if row["right"] != truth[row["left"]]]
    right.sort(key=lambda row: -row[measure])
    pool = right if judged else sorted(found, key=lambda row: -row[measure])
    middle = 0.5 if measure == "confidence" else median(row[measure] for row in found)
    chosen = [("A sure match", row) for row in pool[:1]]
    doubtful = sorted(pool[1:], key=lambda row: abs(row[measure] - middle))
    chosen += [("A doubtful match", row) for row in doubtful[:1]]
    if judged:
        surest = sorted(wrong, key=lambda row: -row[measure])[:1]
        chosen += [
            (f"A wrong match, it should be {_called(task, truth[x['left']])}", x) for x in surest
        ]
    else:
        rest = [row for row in pool if all(row is not one for _, one in chosen)]
        chosen += [("The least sure match", row) for row in rest[-1:]]
    return [(title, in_words(aligner.explain(x["left"], x["right"]))) for title, x in chosen]


def explained_answers(predictor: Any, answers: Sequence[Row]) -> list[tuple[str, list[str]]]:
    """The paths to three best answers: a sure one, a doubtful one and a wrong one.

    They are of questions for tails. What answers by vectors has none.
    """
    found = [row for row in answers if row["asked"] == "tail" and row["probability"] is not None]
    if predictor.config.model.vectors or not found:
        return []
    right = sorted((x for x in found if x["correct"]), key=lambda x: -x["probability"])
    wrong = sorted((x for x in found if not x["correct"]), key=lambda x: -x["probability"])
    doubtful = sorted(right[1:], key=lambda x: abs(x["probability"] - 0.5))
    kinds = (("sure", right), ("doubtful", doubtful), ("wrong", wrong))
    explained = []
    for kind, (row, *_) in ((kind, rows) for kind, rows in kinds if rows):
        if row["tail"] is None:
            continue
        triple = {part: row[part] for part in ("head", "relation", "tail")}
        lines = [f" {reason.share:.0%} {reason.text}" for reason in predictor.explain(**triple)]
        question = f"{called(row, 'head')} – {row['relation']} → {called(row, 'tail')}"
        explained.append((f"A {kind} answer: {question}", lines or ["no path gives anything"]))
    return explained


def _called(task: AlignmentTask, label: str) -> Called:
    """A right entity with its name."""
    return Called(label, task.right.names.shown(task.right.entities.ids([label]))[0])


def _labels(task: AlignmentTask, links: Ids) -> tuple[list[str], list[str]]:
    """The labels of links, left and right."""
    return task.left.entities.take(links[:, 0]), task.right.entities.take(links[:, 1])


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
