"""The card of a saved model: what it is, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from decentrl._version import __version__
from decentrl.config import Config, PredictionConfig, Settings
from decentrl.data.alignment_task import AlignmentTask
from decentrl.data.graph_task import GraphTask

QUALITY = "Quality on the test"
"""How the part about quality begins, for those who show it in another way."""


def alignment_card(
    task: AlignmentTask,
    config: Config,
    results: Sequence[Mapping[str, Any]] = (),
    quality: str = "",
) -> str:
    """Markdown: data, protocol, quality, how to load.

    ``quality`` is what an older card said of it (:func:`quality_of`), for want of results.
    """
    lines = [
        *_title(task, "entity alignment", config),
        f"- left: {len(task.left.entities):,} entities, {len(task.left.triples):,} triples",
        f"- right: {len(task.right.entities):,} entities, {len(task.right.triples):,} triples",
        f"- links: {len(task.train):,} to train, {len(task.valid):,} to validate, "
        f"{len(task.test):,} to test",
    ]
    if task.auxiliary is not None:
        later = sum(len(triples) for triples in task.auxiliary)
        lines.append(f"- open world: {later:,} triples arrived after training")
    lines += _fingerprint(task)
    if results:
        lines += [
            f"{QUALITY} links, tie-aware, fractions:",
            "",
            "| direction | matcher | candidates | entities | n | Hits@1 | Hits@10 | MRR |",
            "| --- | --- | --- | --- | ---: | ---: | ---: | ---: |",
        ]
        lines += [
            f"| {r['direction']} | {r['matcher']} | {r['candidates']} | {r['subset']} | {r['n']:,} "
            f"| {r['hits@1']:.3f} | {r['hits@10']:.3f} | {r['mrr']:.3f} |"
            for r in results
        ]
        lines.append("")
    elif quality:
        lines += [quality, ""]
    return _card(lines, "Aligner", 'Aligner.load("RUN").match(top=5)')


def quality_of(card: str) -> str:
    """The part of a card about quality; empty if there is none."""
    start = card.find(QUALITY)
    if start < 0:
        return ""
    part = card[start:]
    table = part.find("|")
    return part[: part.find("\n\n", table)] if table >= 0 else ""


def prediction_card(
    task: GraphTask,
    config: PredictionConfig,
    results: Sequence[Mapping[str, Any]] = (),
    quality: str = "",
) -> str:
    """Markdown: data, protocol, quality, how to load. Single relations are left to the report."""
    graph = task.graph
    lines = [
        *_title(task, "entity prediction", config),
        f"- graph: {len(graph.entities):,} entities, {len(graph.relations):,} relations",
        f"- triples: {len(graph.triples):,} to train, {len(task.valid):,} to validate, "
        f"{len(task.test):,} to test",
    ]
    if task.auxiliary is not None:
        new = 0 if task.new_entities is None else len(task.new_entities)
        lines.append(
            f"- open world: {len(task.auxiliary):,} triples arrived after training, "
            f"with {new:,} new entities"
        )
    lines += _fingerprint(task)
    if results:
        lines += [
            f"{QUALITY} triples, filtered, tie-aware, fractions:",
            "",
            "| questions | n | MRR | Hits@1 | Hits@3 | Hits@10 |",
            "| --- | ---: | ---: | ---: | ---: | ---: |",
        ]
        lines += [
            f"| {r['name']} | {r['n']:,} | {r['mrr']:.3f} | {r['hits@1']:.3f} "
            f"| {r['hits@3']:.3f} | {r['hits@10']:.3f} |"
            for r in results
            if r["group"] != "relation"
        ]
        lines.append("")
    elif quality:
        lines += [quality, ""]
    return _card(lines, "Predictor", 'Predictor.load("RUN").predict(head="…", relation="…")')


def _title(task: AlignmentTask | GraphTask, job: str, config: Settings) -> list[str]:
    return [
        f"# {task.name}: {job}",
        "",
        f"Made by decentrl {__version__}, preset `{config.preset}`, seed {config.seed}.",
        "",
    ]


def _fingerprint(task: AlignmentTask | GraphTask) -> list[str]:
    return [f"- data (SHA-256): `{task.content_hash()}`", ""]


def _card(lines: Sequence[str], name: str, use: str) -> str:
    code = ["```python", f"from decentrl import {name}", use, "```"]
    return "\n".join([*lines, *code]) + "\n"
