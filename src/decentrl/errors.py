"""Errors and warnings of the package. A message is one line: what is wrong; what to do."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike


class DecentRLError(Exception):
    """Base of all errors about input; the command line prints them and exits with code 2."""


class InputError(DecentRLError, ValueError):
    """A file, line or value from outside cannot be used.

    The message reads ``file:line: what is wrong; what to do``.
    """

    def __init__(
        self,
        problem: str,
        *,
        file: str | PathLike[str] | None = None,
        line: int | None = None,
        remedy: str | None = None,
    ) -> None:
        place = "" if file is None else f"{file}: " if line is None else f"{file}:{line}: "
        super().__init__(f"{place}{problem}" + (f"; {remedy}" if remedy else ""))
        self.file, self.line, self.problem, self.remedy = file, line, problem, remedy


class UnknownLabelError(InputError, KeyError):
    """A label that is not in the vocabulary."""

    __str__ = Exception.__str__  # KeyError would print the message in quotes


class ConfigError(DecentRLError, ValueError):
    """A setting that does not exist or has an impossible value."""


class NotFittedError(DecentRLError, ValueError, AttributeError):
    """A model is asked before ``fit`` or ``load``; related to the same errors as scikit-learn's."""


class DivergedError(DecentRLError):
    """A training has left numbers that are not finite."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}; lower training.learning_rate and start again")


class BundleError(DecentRLError):
    """A saved run that is missing, damaged, foreign or of an unknown format version."""


class MissingExtraError(DecentRLError):
    """An optional package is not installed."""

    def __init__(self, need: str, package: str, extra: str | None = None) -> None:
        wanted = f"'decentrl[{extra}]'" if extra else package
        super().__init__(
            f"{need} needs the package {package}; install it with: pip install {wanted}"
        )


@contextmanager
def writing(*files: PathLike[str]) -> Iterator[None]:
    """Name the file in an error of writing it: that of a full disk names none, or a temporary one.

    Temporary names begin with the name of the file; what names no file is about the first.
    """
    try:
        yield
    except OSError as error:
        named = str(error.filename or "")
        for file in map(str, files):
            if not named or named.startswith(file):
                why = f"cannot be written ({error.strerror or error})"
                remedy = "make room there, or choose another place"
                raise OSError(error.errno, f"{why}; {remedy}", file) from error
        raise


class DecentRLWarning(UserWarning):
    """A part of the input was left out, or read in a way that it does not say itself."""


class FormatWarning(DecentRLWarning):
    """How a file was read or written where that does not go without saying."""


def warn_left_out(message: str, kind: type[DecentRLWarning] = DecentRLWarning) -> None:
    """Give a :class:`DecentRLWarning` at the line outside this package that led here."""
    level, frame = 1, sys._getframe()
    while frame.f_back and frame.f_globals.get("__name__", "").split(".")[0] == "decentrl":
        level, frame = level + 1, frame.f_back
    warnings.warn(message, kind, stacklevel=level)


def warn_format(message: str) -> None:
    """Give a :class:`FormatWarning`; the command line prints it."""
    warn_left_out(message, FormatWarning)


_NO_MEMORY = re.compile(r"out of memory|(alloc|reserve)\w* memory|bad_alloc", re.IGNORECASE)


def line_of(error: Exception) -> str:
    """The line that a user sees of an error; an unforeseen one is called internal."""
    if isinstance(error, DecentRLError):
        return str(error)
    # torch has no class of its own for it on a CPU
    if isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and _NO_MEMORY.search(str(error))
    ):
        return "not enough memory; use a smaller model, batch or input, or a larger machine"
    if isinstance(error, OSError):  # a folder that cannot be written, a full disk
        place = f"{error.filename}: " if error.filename else ""
        return f"{place}{error.strerror or error}"
    if isinstance(error, UnicodeEncodeError):
        return f"{error.object[:200]!r} cannot be written as UTF-8; rename it"
    if isinstance(error, ValueError) and "embedded null" in str(error):
        return "a path contains a NUL character, which no file's name can; correct it"
    first = (str(error).splitlines() or [""])[0]
    return (
        f"internal: {type(error).__name__}: {first[:300]}; "
        "`decentrl --debug …` shows where: please report it"
    )
