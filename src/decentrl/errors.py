"""One family of errors. Every message is one line that says what is wrong and what to do."""

from __future__ import annotations

from os import PathLike


class DecentRLError(Exception):
    """Whatever goes wrong at our border: the command line prints it and exits with code 2."""


class InputError(DecentRLError):
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


class UnknownLabelError(InputError):
    """A label that no vocabulary knows."""


class NotFittedError(DecentRLError, ValueError, AttributeError):
    """Something was asked of a model that has learned nothing yet."""


class ConfigError(DecentRLError):
    """A setting that does not exist or has an impossible value."""


class BundleError(DecentRLError):
    """A saved run that is missing, damaged, foreign or of an unknown format version."""


class MissingExtraError(DecentRLError):
    """An optional package is not installed."""

    def __init__(self, need: str, package: str, extra: str) -> None:
        super().__init__(
            f"{need} needs the package {package}; install it with: pip install 'decentrl[{extra}]'"
        )
