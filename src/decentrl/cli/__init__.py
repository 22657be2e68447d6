"""The command line: thin shells over the library. Nothing heavy is imported before it is needed."""

from __future__ import annotations

import sys


def main() -> None:
    """Run a command; one clear line and exit code 2 for anything wrong with the input."""
    from decentrl.cli.commands import app
    from decentrl.errors import DecentRLError

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
