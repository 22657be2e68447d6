"""Starting a run from the command line."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

import typer

from decentrl.config import Settings


def start_run(job: Any, sources: Any, config: Settings, output: Path, **how: Any) -> None:
    """The course of a run, in :mod:`decentrl.cli.common`."""
    from decentrl.cli import common

    command = shlex.join(["decentrl", *sys.argv[1:]])
    try:
        common.run(job, sources, config, output, command=command, **how)
    except KeyboardInterrupt:  # typer would end here without a word
        typer.echo("interrupted; `--resume` goes on from the last checkpoint", err=True)
        raise typer.Exit(130) from None
