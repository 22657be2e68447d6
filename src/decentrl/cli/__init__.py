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
    from decentrl.cli.streams import open_standard_files

    open_standard_files()
    code = 0
    try:
        main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except KeyboardInterrupt:  # before a command has begun
        code = 130
    for stream in filter(None, (sys.stdout, sys.stderr)):
        with suppress(OSError):
            stream.flush()
    os._exit(code)


def main() -> None:
    from decentrl.cli.streams import safe_streams

    def app() -> None:
        from decentrl.cli.commands import app

        app()

    with safe_streams():
        run_app(app)


def run_app(app: Callable[[], object]) -> None:
    """Run a command; one clear line and exit code 2 for anything that goes wrong."""
    from decentrl.cli.streams import DEBUG, printable
    from decentrl.errors import DecentRLWarning, line_of

    # Commands print what was left out in lines of their own.
    warnings.simplefilter("ignore", DecentRLWarning)
    try:
        app()
    except Exception as error:
        if os.environ.get(DEBUG):
            import traceback

            print(printable(traceback.format_exc()), file=sys.stderr, end="")
        line = printable(line_of(error)).replace("\n", r"\n")
        print(f"error: {line}", file=sys.stderr)
        sys.exit(2)
