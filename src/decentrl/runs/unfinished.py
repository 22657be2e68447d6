"""What there is of a run that has not finished."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

from decentrl.runs.folder import CONFIG, RESULTS
from decentrl.runs.run import read_settings
from decentrl.runs.sources import Grown
from decentrl.storage.files import put_aside
from decentrl.storage.kinds import kind_for
from decentrl.training.checkpoint import FILE
from decentrl.training.loop import METRICS

FILES = ("dataset", "left", "right", "links", "triples", "start")
"""Fields of sources that say where the data come from."""


def has_checkpoint(folder: Path) -> bool:
    """Whether a training that stopped in this folder goes on from somewhere."""
    return any((folder / "checkpoint").rglob(FILE))


def describe_unfinished(folder: Path) -> dict[str, Any] | None:
    """Facts about a run that was begun in a folder; None if that is not all there is."""
    seeds = sorted(folder.glob("seed-*"))
    begun = [x for x in (folder, *seeds) if (x / CONFIG).is_file()]
    if (folder / RESULTS).exists() or put_aside(folder) or not begun:
        return None
    sources, config = read_settings(begun[0])
    command = "refit" if isinstance(sources, Grown) else kind_for(config).command
    facts: dict[str, Any] = {
        "finished": False,
        "task": kind_for(config).about,
        "preset": config.preset,
        "seed": config.seed,
        "data": {
            field.name: value
            for field in fields(sources)
            if field.name in FILES and (value := getattr(sources, field.name))
        },
    }
    if folder not in begun:
        done = [x.name for x in seeds if (x / RESULTS).exists()]
        facts |= {"seeds_begun": len(begun), "seeds_finished": len(done)}
    facts |= _progress(begun[-1])
    return facts | {"resume": f"decentrl {command} --resume -o {folder}"}


def _progress(folder: Path) -> dict[str, Any]:
    """The last epoch of a training, its stage if there are several, and its checkpoint."""
    last: dict[str, Any] = {}
    with suppress(OSError, ValueError, TypeError):  # a line may be half written
        for line in (folder / METRICS).read_text("utf-8").splitlines():
            last = dict(json.loads(line))
    stage = {"stage": last["stage"]} if last.get("stage") else {}
    return {**stage, "epochs": last.get("epoch", 0), "checkpoint": has_checkpoint(folder)}
