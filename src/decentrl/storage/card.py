"""The card of a saved model: a page of Markdown on its data, settings, quality and use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from decentrl._version import __version__
from decentrl.config import Settings
from decentrl.data.graph_task import GraphTask
from decentrl.storage.kinds import AnyTask, kind_for

QUALITY = "Quality on the test"
"""How the part about quality begins, for commands that print it in another way."""


@dataclass(frozen=True)
class _Words:
    """What the cards of the two kinds do not share."""

    measured: str
    places: dict[str, str]  # the columns that name a row, by their keys
    metrics: tuple[str, ...]
    use: str


_WORDS = {
    "aligner": _Words(
        "links, tie-aware",
        {"direction": "direction", "matcher": "matcher", "candidates": "candidates",
         "subset": "entities"},
        ("hits@1", "hits@10", "mrr"),
        'Aligner.load("RUN").match(top=5)',
    ),
    "predictor": _Words(
        "triples, filtered, tie-aware",
        {"name": "questions"},
        ("mrr", "hits@1", "hits@3", "hits@10"),
        'Predictor.load("RUN").predict(head="…", relation="…")',
    ),
}  # fmt: skip


def model_card(
    task: AnyTask, config: Settings, results: Sequence[Mapping[str, Any]] = (), quality: str = ""
) -> str:
    """Markdown: data, protocol, quality, how to load. Single relations are left to the report.

    ``quality`` is what an older card has on it (:func:`quality_of`), used if there are no results.
    """
    kind = kind_for(task)
    words = _WORDS[kind.name]
    lines = [
        f"# {task.name}: entity {kind.about}",
        "",
        f"Made by decentrl {__version__}, preset `{config.preset}`, seed {config.seed}.",
        "",
        *_data(task),
        f"- data (SHA-256): `{task.content_hash()}`",
        "",
    ]
    if results:
        names = [*words.places.values(), "n", *(_title(name) for name in words.metrics)]
        rule = ["---"] * len(words.places) + ["---:"] * (1 + len(words.metrics))
        rows = [
            [
                *(str(row[key]) for key in words.places),
                f"{row['n']:,}",
                *(f"{row[name]:.3f}" for name in words.metrics),
            ]
            for row in results
            if row.get("group") != "relation"
        ]
        lines += [f"{QUALITY} {words.measured}, fractions:", ""]
        lines += [f"| {' | '.join(cells)} |" for cells in (names, rule, *rows)] + [""]
    elif quality:
        lines += [quality, ""]
    code = ["```python", f"from decentrl import {kind.model}", words.use, "```"]
    return "\n".join([*lines, *code]) + "\n"


alignment_card = prediction_card = model_card


def quality_of(card: str) -> str:
    """The part of a card about quality; empty if there is none."""
    start = card.find(QUALITY)
    if start < 0:
        return ""
    part = card[start:]
    table = part.find("|")
    return part[: part.find("\n\n", table)] if table >= 0 else ""


def _title(metric: str) -> str:
    return metric.upper() if metric == "mrr" else metric.capitalize()


def _data(task: AnyTask) -> list[str]:
    """What the task holds, a line each."""
    held_out = f"{len(task.valid):,} to validate, {len(task.test):,} to test"
    if isinstance(task, GraphTask):
        graph, new = task.graph, task.new_entities
        lines = [
            f"- graph: {len(graph.entities):,} entities, {len(graph.relations):,} relations",
            f"- triples: {len(graph.triples):,} to train, {held_out}",
        ]
        later = 0 if task.auxiliary is None else len(task.auxiliary)
        arrived = f", with {0 if new is None else len(new):,} new entities"
    else:
        lines = [
            f"- {side}: {len(graph.entities):,} entities, {len(graph.triples):,} triples"
            for side, graph in (("left", task.left), ("right", task.right))
        ]
        lines.append(f"- links: {len(task.train):,} to train, {held_out}")
        later, arrived = sum(map(len, task.auxiliary or ())), ""
    if task.open_world:
        lines.append(f"- open world: {later:,} triples arrived after training{arrived}")
    return lines
