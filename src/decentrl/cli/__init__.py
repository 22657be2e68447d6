"""The command line: thin shells over the library. Nothing heavy is imported before it is needed."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress


def entry() -> None:
    """``decentrl``: run :func:`main` and end the process at once.

    ``os._exit`` skips the clean-up of other libraries' threads, one of which has been seen to
    abort a process after its work was done.
    """
    code = 0
    try:
        main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except KeyboardInterrupt:  # before a command has begun
        code = 130
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    os._exit(code)


def main() -> None:
    from decentrl.cli.commands import app

    run_app(app)


def run_app(app: Callable[[], object]) -> None:
    """Run a command; one clear line and exit code 2 for anything wrong with the input."""
    from decentrl.errors import DecentRLError, DecentRLWarning

    # Commands print what was left out in lines of their own.
    warnings.simplefilter("ignore", DecentRLWarning)
    try:
        app()
    except DecentRLError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:
        sys.exit(1)
    except OSError as error:  # a folder that cannot be written, a full disk
        place = f"{error.filename}: " if error.filename else ""
        print(f"error: {place}{error.strerror or error}", file=sys.stderr)
        sys.exit(2)
