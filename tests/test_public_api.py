"""The public names: complete, imported on first use, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from importlib.metadata import version

import pytest

import decentrl
from decentrl import errors


def test_every_public_name_is_there_and_has_one_home() -> None:
    assert sorted(decentrl.__all__) == decentrl.__all__ == dir(decentrl)
    assert len(set(decentrl.__all__)) == len(decentrl.__all__)
    public = {"Aligner", "AlignmentTask", "Config", "GraphTask", "KnowledgeGraph"}
    public |= {"PredictionConfig", "Predictor", "load_dataset", "ResultTable", "Evaluation"}
    public |= {name for name in dir(errors) if name.endswith(("Error", "Warning"))}
    assert public <= set(decentrl.__all__)
    assert set(decentrl._HOMES) | {"__version__"} == set(decentrl.__all__)
    for name, home in decentrl._HOMES.items():
        found = getattr(decentrl, name)
        assert found is getattr(import_module(home), name)
        assert f"{found.__module__}.".startswith(f"{home}.")
        assert found.__doc__


def test_everything_can_be_imported_at_once() -> None:
    names: dict[str, object] = {}
    exec("from decentrl import *", names)
    assert set(decentrl.__all__) <= set(names)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Alinger'"):
        _ = decentrl.Alinger


def test_the_version_is_that_of_the_distribution() -> None:
    assert decentrl.__version__ == version("decentrl")


def test_importing_the_package_is_light() -> None:
    code = (
        "import sys, decentrl, decentrl.errors, decentrl.data\n"
        "heavy = {'torch', 'pyarrow', 'numpy', 'safetensors', 'rich', 'typer'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "decentrl.Config, decentrl.PredictionConfig\n"
        "assert not {'torch', 'pyarrow', 'numpy'} & set(sys.modules)\n"
        "decentrl.KnowledgeGraph, decentrl.GraphTask\n"
        "assert 'torch' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_logger_is_quiet_by_default() -> None:
    code = "import logging, decentrl; logging.getLogger('decentrl.data').error('for a handler')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
