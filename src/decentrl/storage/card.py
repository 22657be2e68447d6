"""The card of a saved model: a page of Markdown on its data, settings, quality and use."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from decentrl._version import __version__
from decentrl.config import Settings
from decentrl.data.called import UNFIT
from decentrl.data.graph_task import GraphTask
from decentrl.storage.kinds import AnyTask, kind_for

QUALITY = "Quality on the test"
"""How the part about quality begins, for commands that print it in another way."""
_TITLES = {
    "subset": "entities", "name": "questions",
    "hits@1": "Hits@1", "hits@3": "Hits@3", "hits@10": "Hits@10", "mrr": "MRR",
}  # fmt: skip


def model_card(
    task: AnyTask, config: Settings, results: Sequence[Mapping[str, Any]] = (), quality: str = ""
) -> str:
    """Markdown: data, protocol, quality, how to load. Single relations are left to the report.

    ``quality`` is what an older card has on it (:func:`quality_of`), used if there are no results.
    """
    kind = kind_for(task)
    if results:
        names = kind.quality
        titles = [_TITLES.get(name, name) for name in names]
        rule = ["---" if isinstance(results[0][name], str) else "---:" for name in names]
        rows = [
            [_cell(name, row[name]) for name in names]
            for row in results
            if row.get("group") != "relation"
        ]
        table = [f"| {' | '.join(cells)} |" for cells in (titles, rule, *rows)]
        quality = "\n".join([f"{QUALITY} {kind.measured}, fractions:", "", *table])
    lines = [
        f"# {_plain(task.name)}: entity {kind.about}",
        "",
        f"Made by decentrl {__version__}, preset `{_line(config.preset)}`, seed {config.seed}.",
        "",
        *(f"- {part}: {what}" for part, what in task_facts(task).items()),
        f"- data (SHA-256): `{task.content_hash()}`",
        "",
        *([quality, ""] if quality else []),
        "```python",
        f"from decentrl import {kind.name.capitalize()}",
        kind.example,
        "```",
    ]
    return "\n".join(lines) + "\n"


def _line(name: str) -> str:
    """A name from outside on one line, for a code span."""
    unfit = rf"[{UNFIT}\ud800-\udfff]"
    return re.sub(unfit, "\ufffd", " ".join(name.split())).replace("`", "'")


def _plain(name: str) -> str:
    """A name from outside as Markdown that reads as it is."""
    # An underscore inside a word is an ordinary character.
    return re.sub(r"[\\*\[\]<>|~&$]|(?<!\w)_|_(?!\w)", r"\\\g<0>", _line(name))


def quality_of(card: str) -> str:
    """The part of a card about quality; empty if there is none."""
    found = re.search(rf"{QUALITY}.*?\|(?=\n\n)", card, re.DOTALL)
    return found[0] if found else ""


def _cell(name: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    return f"{value:,}" if name == "n" else f"{value:.3f}"


def task_facts(task: AnyTask) -> dict[str, str]:
    """What a task holds, part by part."""
    held_out = f"{len(task.valid):,} to validate, {len(task.test):,} to test"
    facts, arrived = {}, ""
    if isinstance(task, GraphTask):
        graph, new = task.graph, task.new_entities
        facts["graph"] = f"{len(graph.entities):,} entities, {len(graph.relations):,} relations"
        facts["triples"] = f"{len(graph.triples):,} to train, {held_out}"
        later = 0 if task.auxiliary is None else len(task.auxiliary)
        arrived = f", with {0 if new is None else len(new):,} new entities"
    else:
        for side, graph in (("left", task.left), ("right", task.right)):
            facts[side] = f"{len(graph.entities):,} entities, {len(graph.triples):,} triples"
        facts["links"] = f"{len(task.train):,} to train, {held_out}"
        later = sum(map(len, task.auxiliary or ()))
    if task.open_world:
        facts["open world"] = f"{later:,} triples arrived after training{arrived}"
    return facts
