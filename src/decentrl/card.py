"""The card of a saved model: what it is, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from decentrl._version import __version__
from decentrl.config import Config
from decentrl.data.alignment_task import AlignmentTask


def alignment_card(
    task: AlignmentTask, config: Config, results: Sequence[Mapping[str, Any]] = ()
) -> str:
    """Markdown: data, protocol, quality, how to load."""
    lines = [
        f"# {task.name}: entity alignment",
        "",
        f"Made by decentrl {__version__}, preset `{config.preset}`, seed {config.seed}.",
        "",
        f"- left: {len(task.left.entities):,} entities, {len(task.left.triples):,} triples",
        f"- right: {len(task.right.entities):,} entities, {len(task.right.triples):,} triples",
        f"- links: {len(task.train):,} to train, {len(task.valid):,} to validate, "
        f"{len(task.test):,} to test",
    ]
    if task.auxiliary is not None:
        later = sum(len(triples) for triples in task.auxiliary)
        lines.append(f"- open world: {later:,} triples arrived after training")
    lines += [f"- data (SHA-256): `{task.content_hash()}`", ""]
    if results:
        lines += [
            "Quality on the test links, tie-aware, fractions:",
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
    lines += [
        "```python",
        "from decentrl import Aligner",
        'Aligner.load("RUN").match(top=5)',
        "```",
    ]
    return "\n".join(lines) + "\n"
