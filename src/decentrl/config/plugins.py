"""Encoders from outside the package: the modules that register them, and when they are imported."""

from __future__ import annotations

import os
import sys
from importlib import import_module

from decentrl.errors import ConfigError

VARIABLE = "DECENTRL_PLUGINS"
"""Environment variable with the names of modules, separated by commas."""
GROUP = "decentrl.encoders"
"""Group of entry points by which an installed package names its module."""
REMEDY = (
    f"for an encoder from outside set {VARIABLE} to the module that registers it "
    f"(baselines of the paper: {VARIABLE}=studies.rivals, in a checkout)"
)


def load_plugins() -> None:
    """Import the modules that ``DECENTRL_PLUGINS`` and entry points name; each registers encoders.

    Python imports a module once, however often this is called. Those of the variable may lie in the
    working directory.
    """
    from importlib.metadata import entry_points

    named = filter(None, map(str.strip, os.environ.get(VARIABLE, "").split(",")))
    modules = dict.fromkeys(named, VARIABLE)
    if modules and "" not in sys.path:  # the command, unlike `python -m`, does not look there
        sys.path.append("")
    for point in entry_points(group=GROUP):
        modules.setdefault(point.value.partition(":")[0], f"the entry point {point.name!r}")
    for module, source in modules.items():
        try:
            import_module(module)
        except Exception as error:  # whatever may be wrong with it
            problem = (str(error).splitlines() or [type(error).__name__])[0]
            raise ConfigError(f"cannot import {module!r}, named by {source}: {problem}") from error
