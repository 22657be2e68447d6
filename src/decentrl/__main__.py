"""``python -m decentrl`` is the command ``decentrl``."""

from decentrl.cli import entry

entry()
