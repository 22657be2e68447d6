"""Which commit of the source tree the numbers of a run come from."""

from __future__ import annotations

import subprocess
from pathlib import Path

from decentrl.errors import InputError

UNCOMMITTED = "+"
"""Ends the commit of a result that was made from a tree with uncommitted changes."""
OUTPUTS = ("docs/results", "results")
"""What the studies write themselves; changes there change no number."""


def commit() -> str:
    """The commit of the source tree, with ``+`` if tracked files differ from it; "" outside git."""
    here = Path(__file__).resolve()

    def git(*words: str, at: Path = here.parent) -> str:
        command = ["git", "-C", str(at), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        # The files may lie in a checkout of another project, of which they are no part.
        git("ls-files", "--error-unmatch", here.name)
        top = Path(git("rev-parse", "--show-toplevel"))
        found = git("rev-parse", "--short", "HEAD")
        others = [f":(exclude){folder}" for folder in OUTPUTS]
        changed = git("status", "--porcelain", "--untracked-files=no", "--", ".", *others, at=top)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return found + UNCOMMITTED * bool(changed)


def check_committed(found: str) -> None:
    """Raise unless ``found`` (as of :func:`commit`) names a commit without changes."""
    if not found:
        raise InputError(
            "results are kept only from a git checkout, which this is not",
            remedy="clone the repository, or use --quick",
        )
    if found.endswith(UNCOMMITTED):
        raise InputError(
            "results are kept only from a committed tree, and tracked files have been changed",
            remedy="commit or stash the changes, or use --quick",
        )
