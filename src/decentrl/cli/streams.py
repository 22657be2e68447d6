"""Standard streams that end no work."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

DEBUG = "DECENTRL_DEBUG"
"""Environment variable that the option --debug sets: errors come with their traceback."""


class OutputStream:
    """A standard stream of which a failed write is kept as :attr:`error` and not raised.

    What comes after it is lost, too; what a command does besides printing goes on.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.error: OSError | None = None
        with suppress(AttributeError):  # a stream of another library
            # What is no terminal is read by programs, and all that decentrl writes is UTF-8.
            encoding = stream.encoding if stream.isatty() else "utf-8"
            stream.reconfigure(encoding=encoding, errors="backslashreplace")

    def write(self, text: str) -> int:
        if self.error is None:
            try:
                self._stream.write(text)
            except OSError as error:
                self.error = error
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        if self.error is None:
            try:
                self._stream.flush()
            except OSError as error:
                self.error = error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def safe_streams() -> Iterator[None]:
    """Standard streams that end no work while the block runs.

    Afterwards a lost standard output is an exit code: 1 if its reader went away, 2 with a line
    for any other reason.
    """
    before = sys.stdout, sys.stderr
    with open(os.devnull, "w", encoding="utf-8") as nothing:
        # A stream that was closed before the start is None.
        out, err = (OutputStream(stream or nothing) for stream in before)
        sys.stdout, sys.stderr = out, err
        code: Any = 0
        try:
            yield
        except SystemExit as end:
            code = end.code
        finally:
            out.flush()
            if out.error and not code:
                code = 1 if out.error.errno == errno.EPIPE else 2
                if code == 2:
                    why = out.error.strerror or out.error
                    print(f"error: the output could not be written ({why})", file=err)
            err.flush()
            sys.stdout, sys.stderr = before
    sys.exit(code)


def open_standard_files() -> None:
    """Give the closed ones of the descriptors 0, 1 and 2 a place.

    The next file that is opened would have that number otherwise, and take what C libraries print.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
