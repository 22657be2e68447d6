"""The command line: thin shells over the library. Nothing heavy is imported before it is needed."""

from __future__ import annotations

import os
import signal
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any

INTERRUPTED = 130
"""The exit code after SIGINT."""


def entry() -> None:
    """``decentrl``: run :func:`main` and end the process at once.

    ``os._exit`` skips the clean-up of other libraries' threads, one of which has been seen to
    abort a process after its work was done.
    """
    try:
        # Python's own handler raises KeyboardInterrupt wherever it may be, also where nothing
        # catches it. Before and after the command nothing is cleaned up: there SIGINT ends the
        # process.
        _set_handler(signal.default_int_handler, _end_interrupted)
        sys.unraisablehook = _interrupt_again
        from decentrl.cli.streams import open_standard_files

        open_standard_files()
        code = 0
        try:
            main()
        finally:
            _set_handler(signal.default_int_handler, _end_interrupted)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except KeyboardInterrupt:
        code = INTERRUPTED
    for stream in filter(None, (sys.stdout, sys.stderr)):
        with suppress(OSError):
            stream.flush()
    os._exit(code)


def _set_handler(old: Any, new: Any) -> None:
    """Replace a handler of SIGINT by another; where it is ignored, it stays so."""
    if signal.getsignal(signal.SIGINT) is old:
        signal.signal(signal.SIGINT, new)


def _end_interrupted(*_: object) -> None:
    with suppress(OSError):
        os.write(2, b"interrupted\n")
    os._exit(INTERRUPTED)


def _interrupt_again(unraisable: sys.UnraisableHookArgs) -> None:
    """Interrupt once more where the first time fell into a destructor or callback.

    Python drops what is raised there, after printing its traceback.
    """
    if issubclass(unraisable.exc_type, KeyboardInterrupt):
        from threading import Timer

        # Later, as Python would drop what is raised in this function, too.
        again = Timer(0.01, os.kill, (os.getpid(), signal.SIGINT))
        again.daemon = True
        again.start()
    else:
        sys.__unraisablehook__(unraisable)


def main() -> None:
    from decentrl.cli.streams import safe_streams

    def app() -> None:
        from decentrl.cli.commands import app

        # From here on, what is half done is cleaned up on the way out.
        _set_handler(_end_interrupted, signal.default_int_handler)
        app()

    with safe_streams():
        run_app(app)


def run_app(app: Callable[[], object]) -> None:
    """Run a command; one clear line and exit code 2 for anything that goes wrong."""
    from decentrl.cli.streams import DEBUG
    from decentrl.data.called import printable
    from decentrl.errors import DecentRLWarning, FormatWarning, line_of

    # Commands print what was left out in lines of their own.
    warnings.simplefilter("ignore", DecentRLWarning)
    warnings.simplefilter("always", FormatWarning)
    warnings.showwarning = _show_note(warnings.showwarning)
    try:
        app()
    except Exception as error:
        if _is_interruption(error):
            sys.exit(INTERRUPTED)
        if os.environ.get(DEBUG):
            import traceback

            print(printable(traceback.format_exc()), file=sys.stderr, end="")
        line = printable(line_of(error)).replace("\n", r"\n")
        print(f"error: {line}", file=sys.stderr)
        sys.exit(2)


def _show_note(otherwise: Callable[..., None]) -> Callable[..., None]:
    """Print how a file was read as one line; other warnings are shown ``otherwise``."""
    from decentrl.data.called import printable
    from decentrl.errors import FormatWarning

    def show(message: Warning | str, category: type[Warning], *where: Any) -> None:
        if not issubclass(category, FormatWarning):
            return otherwise(message, category, *where)
        line = printable(str(message)).replace("\n", r"\n")
        print(f"note: {line}", file=sys.stderr)
        return None

    return show


def _is_interruption(error: BaseException | None) -> bool:
    """Whether an error was made of a KeyboardInterrupt, as an import in C makes an ImportError."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None
