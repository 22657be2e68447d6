"""Modules that register encoders are imported when a name is unknown, and not before."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from decentrl.config import Config, PredictionConfig, preset_names
from decentrl.config.alignment import ENCODERS
from decentrl.config.plugins import GROUP, VARIABLE
from decentrl.config.settings import MORE_PRESETS
from decentrl.errors import ConfigError
from decentrl.views.registry import VIEWS

PLUGIN = """
from dataclasses import dataclass
from typing import ClassVar
from decentrl.config import EncoderSettings
from decentrl.views import View, register_view

@dataclass(frozen=True)
class Settings(EncoderSettings):
    encoder: ClassVar[str] = "foreign"

@register_view(Settings, {"propagation": {"weight": 0.0}})
class Foreign(View):
    pass
"""
ROOT = Path(__file__).parents[2]


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of a module in the working directory that registers the encoder `foreign`."""
    (tmp_path / "foreign_plugin.py").write_text(PLUGIN, "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield "foreign_plugin"
    sys.modules.pop("foreign_plugin", None)
    tables: tuple[dict[str, Any], ...] = (VIEWS.registered, ENCODERS, MORE_PRESETS[""])
    for known in tables:
        known.pop("foreign", None)


def installed(monkeypatch: pytest.MonkeyPatch, *values: str) -> None:
    """As if packages with these entry points were installed."""
    points = [EntryPoint(f"plugin {k}", value, GROUP) for k, value in enumerate(values)]
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: points)


def test_a_module_of_the_variable_is_imported_when_a_preset_is_unknown(
    plugin: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, f" ,{plugin} , {plugin}")
    Config.from_preset("tiny")
    assert plugin not in sys.modules
    assert Config.from_preset("foreign").propagation.weight == 0
    assert plugin in sys.modules


def test_it_is_imported_when_an_encoder_is_unknown(
    plugin: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, plugin)
    assert Config.from_dict({"model": {"encoder": "foreign"}}).model.encoder == "foreign"


@pytest.mark.parametrize("attribute", ["", ":Foreign", ":no_such_name"])
def test_an_installed_package_names_its_module_as_an_entry_point(
    plugin: str, monkeypatch: pytest.MonkeyPatch, attribute: str
) -> None:
    monkeypatch.syspath_prepend(".")
    installed(monkeypatch, plugin + attribute)
    assert "foreign" in preset_names()
    others = dict(Config.from_preset("strong").describe())["model"][0][2]
    assert "foreign" in others
    assert Config.from_preset("foreign").model.encoder == "foreign"


@pytest.mark.parametrize("name", ["no_such_module", ".relative", "not a name", "broken_plugin"])
@pytest.mark.parametrize("by", ["variable", "entry point"])
def test_a_plugin_that_cannot_be_imported_is_one_line_that_names_it(
    plugin: str, monkeypatch: pytest.MonkeyPatch, name: str, by: str
) -> None:
    Path("broken_plugin.py").write_text("raise RuntimeError('first\\nsecond')\n", "utf-8")
    monkeypatch.syspath_prepend(".")
    if by == "variable":
        monkeypatch.setenv(VARIABLE, name)
    else:
        installed(monkeypatch, name)
    for ask in (preset_names, lambda: Config.from_preset("foreign")):  # and again
        with pytest.raises(ConfigError, match=f"^cannot import '{name}', named by ") as found:
            ask()
        assert "\n" not in str(found.value)
    Config.from_preset("tiny")  # needs none


def test_an_unknown_encoder_says_where_more_are_found() -> None:
    says = r"it can be: dan.*; for an encoder from outside set DECENTRL_PLUGINS to the module that "
    says += r"registers it \(baselines of the paper: DECENTRL_PLUGINS=studies\.rivals"
    for job in (Config, PredictionConfig):
        with pytest.raises(ConfigError, match=says):
            job.from_dict({"model": {"encoder": "of tomorrow"}})
    with pytest.raises(ConfigError, match=r"decoder\.name is 'x'; it can be: [a-z, ]*$"):
        PredictionConfig.from_dict({"decoder": {"name": "x"}})


# From the command line.

Outcome = subprocess.CompletedProcess[str]
ENTRY = "import sys; sys.path.pop(0); from decentrl.cli import entry; entry()"
"""The installed command, which does not look for modules in the working directory."""


def command(*words: object, plugins: str = "", at: Path = ROOT) -> Outcome:
    search = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    elsewhere = os.pathsep.join(path for path in search if path and Path(path).resolve() != ROOT)
    given = {**os.environ, VARIABLE: plugins, "OMP_NUM_THREADS": "1", "PYTHONPATH": elsewhere}
    done = [sys.executable, "-c", ENTRY, *map(str, words)]
    return subprocess.run(done, capture_output=True, text=True, check=False, cwd=at, env=given)


def test_a_baseline_is_trained_and_asked_with_its_module_and_refused_without(
    tmp_path: Path,
) -> None:
    run = tmp_path / "run"
    train = ("align", "--dataset", "world", "--preset", "gcn", "--set", "model.dim=8")
    train += ("--set", "training.epochs=1", "--device", "cpu", "-o", run)
    refused = command(*train)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "no preset 'gcn'; there are: paper" in refused.stderr
    assert "DECENTRL_PLUGINS=studies.rivals" in refused.stderr
    assert not run.exists()
    done = command(*train, plugins="studies.rivals")
    assert done.returncode == 0, done.stderr
    done = command("match", run, "Spain", "--side", "right", plugins="studies.rivals")
    assert done.returncode == 0, done.stderr
    assert "Spain" in done.stdout
    for plugins, message in (
        ("", "model.encoder is 'gcn'; it can be: dan, reflection, none; for an encoder from"),
        ("studies.rival", "cannot import 'studies.rival', named by DECENTRL_PLUGINS: No module"),
    ):
        refused = command("match", run, "Spain", "--side", "right", plugins=plugins)
        assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (2, "", 1)
        assert message in refused.stderr


def test_the_example_is_used_from_the_command_line(tmp_path: Path) -> None:
    examples, run = ROOT / "examples", tmp_path / "run"
    train = ("align", "--dataset", "world", "--preset", "mean", "--set", "model.dim=8")
    train += ("--set", "training.epochs=1", "--device", "cpu", "-o", run)
    done = command(*train, plugins="own_encoder", at=examples)
    assert done.returncode == 0, done.stderr
    new = tmp_path / "new.tsv"
    new.write_text("Atlantis\tborders\tSpain\n", "utf-8")
    done = command("add", run, new, "--side", "right", plugins="examples.own_encoder")
    assert done.returncode == 0, done.stderr
    done = command("explain", run, "Atlantis", "--side", "right", plugins="examples.own_encoder")
    assert "Spain" in done.stdout


def test_help_imports_no_plugin() -> None:
    assert command("align", "--help", plugins="no_such_module").returncode == 0
