"""Pages of reference that are made of the program itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import click
from typer.main import get_command

PYTHON = {
    "The two jobs": ["decentrl.aligner.Aligner", "decentrl.predictor.Predictor"],
    "Data": [
        "decentrl.data.knowledge_graph.KnowledgeGraph",
        "decentrl.data.alignment_task.AlignmentTask",
        "decentrl.data.graph_task.GraphTask",
        "decentrl.data.headers.Reading",
        "decentrl.data.registry.load_dataset",
        "decentrl.data.sparql.ask_endpoint",
    ],
    "Results and files": [
        "decentrl.data.results.ResultTable",
        "decentrl.data.results.Evaluation",
        "decentrl.storage.interchange.write_sssom",
        "decentrl.storage.interchange.write_alignment",
        "decentrl.storage.export.export_vectors",
        "decentrl.storage.pretrained.save_pretrained",
        "decentrl.storage.pretrained.load_pretrained",
        "decentrl.storage.narrow.narrowed",
    ],
    "Layers": ["decentrl.nn.dan.DAN", "decentrl.nn.conv.DANConv", "decentrl.graph.view.GraphView",
               "decentrl.nn.pykeen.DANRepresentation"],
    "Encoders and scorers of your own": [
        "decentrl.views.base.View",
        "decentrl.scorers.encoder.PredictionEncoder",
        "decentrl.scorers.base.Scorer",
    ],
    "Errors": ["decentrl.errors"],
}  # fmt: skip


def pages() -> dict[str, str]:
    """All of them by their place on the site."""
    return {
        "reference/commands.md": commands(),
        "reference/settings.md": settings(),
        "reference/api.md": api(),
    }


def api() -> str:
    """What programs may rely on, for mkdocstrings."""
    parts = ["# Python", "", "Made of the docstrings. [How to use it](../python.md)."]
    for title, names in PYTHON.items():
        parts += ["", f"## {title}"]
        parts += [line for name in names for line in ("", f"::: {name}")]
    return "\n".join(parts) + "\n"


def commands() -> str:
    """Every command with its options, as the program has them."""
    from decentrl.cli.commands import app

    parts = [
        "# All commands",
        "",
        "Made of the program, as `--help` is. [How they are used](../cli.md).",
    ]
    for name, command in _walk(get_command(app), "decentrl"):
        arguments = [
            x
            for x in command.params
            if isinstance(x, click.Argument) or not x.opts[0].startswith("-")
        ]
        options = [x for x in command.params if x not in arguments and "--help" not in x.opts]
        usage = " ".join([name, *(_metavar(x) for x in arguments), "[OPTIONS]" * bool(options)])
        parts += ["", f"## {name}", "", "```", usage.strip(), "```", "", _text(command.help)]
        if rows := [*map(_argument, arguments), *map(_option, options)]:
            parts += ["", "| | meaning | default |", "| --- | --- | --- |", *rows]
    return "\n".join(parts) + "\n"


def _walk(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    """All commands below a group, by their full names."""
    for own, below in getattr(command, "commands", {}).items():
        if getattr(below, "commands", None):
            yield from _walk(below, f"{name} {own}")
        else:
            yield f"{name} {own}", below


def _metavar(parameter: Any) -> str:
    return parameter.metavar or parameter.name.upper()


def _argument(parameter: Any) -> str:
    return f"| `{_metavar(parameter)}` | {_cell(parameter.help)} | |"


def _option(parameter: Any) -> str:
    names = ", ".join(f"`{x}`" for x in parameter.opts)
    default = (
        parameter.show_default if isinstance(parameter.show_default, str) else parameter.default
    )
    empty = default is None or default in ("", False) or callable(default)
    return f"| {names} | {_cell(parameter.help)} | {'' if empty else f'`{default}`'} |"


def _cell(text: str | None) -> str:
    return _text(text).replace("|", "\\|").replace("\n", " ")


def _text(text: str | None) -> str:
    """Help as Markdown: examples are code, and what looks like HTML is not."""
    lines = (text or "").replace("\f", "").split("\n")
    return "\n".join(
        f"    {line}" if line.startswith("decentrl ") else re.sub(r"([<*_])", r"\\\1", line)
        for line in lines
    )


def settings() -> str:
    """Every setting with its meaning and its value in each preset."""
    from decentrl.config import Config, PredictionConfig, preset_names

    parts = ["# All settings", "", "Made of the program. `--set KEY=VALUE` changes one of them."]
    kinds: tuple[tuple[str, Any], ...] = (("Alignment", Config), ("Prediction", PredictionConfig))
    for title, kind in kinds:
        folder = kind.from_preset("strong").folder
        presets = [x for x in preset_names(folder) if not x.startswith("table-")]
        meanings: dict[str, str] = {}
        values: dict[str, dict[str, str]] = {}
        for preset in presets:
            for section, rows in kind.from_preset(preset).describe():
                for name, value, meaning in rows:
                    key = f"{section}.{name}"
                    meanings[key] = meaning
                    values.setdefault(key, {})[preset] = str(value)
        heads = " | ".join(f"`{x}`" for x in presets)
        parts += ["", f"## {title}", "", f"| setting | meaning | {heads} |"]
        parts += [f"| --- | --- |{' --- |' * len(presets)}"]
        for key, meaning in meanings.items():
            cells = " | ".join(values[key].get(x, "") for x in presets)
            parts.append(f"| `{key}` | {_cell(meaning)} | {cells} |")
    return "\n".join(parts) + "\n"
