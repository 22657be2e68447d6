"""What stands around the package agrees with it: versions, extras, the workflow, the linters."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from decentrl import __version__

ROOT = Path(__file__).parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def test_the_newest_section_of_the_changelog_is_this_version() -> None:
    found = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert found[0] == __version__
    assert len(found) == len(set(found)) == 2


def test_the_workflow_runs_what_ci_runs_on_all_versions_and_systems() -> None:
    plan = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text("utf-8"))["jobs"]
    matrix = plan["others"]["strategy"]["matrix"]
    declared = [x for x in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", x)]
    assert matrix["python"] == [x.rpartition(" ")[2] for x in declared]
    assert {x.partition("-")[0] for x in matrix["os"]} == {"ubuntu", "macos", "windows"}
    assert ".ci/run" in [step.get("run") for step in plan["linux"]["steps"]]
    commands = " ".join(step.get("run", "") for step in plan["others"]["steps"])
    lint = (ROOT / "Makefile").read_text("utf-8").split("\nlint:")[1].split("\n\n")[0]
    for command in re.findall(r"\$\(BIN\)/(.+)", lint):
        assert f"python -m {command}" in commands


def test_extras_are_explained() -> None:
    page = (ROOT / "docs/install.md").read_text("utf-8")
    for extra in PROJECT["optional-dependencies"]:
        assert f"| `{extra}` |" in page
    for package in PROJECT["dependencies"]:
        assert re.split(r"[>=<]", package)[0] in page


def test_the_hooks_before_a_commit_are_the_linters() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))
    entries = [hook["entry"] for repo in hooks["repos"] for hook in repo["hooks"]]
    assert [x.removeprefix(".venv/bin/").removesuffix(" --force-exclude") for x in entries] == [
        "ruff check", "ruff format", "mypy",
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["bug.md", "idea.md", "config.yml"])
def test_templates_of_issues_can_be_read(name: str) -> None:
    text = (ROOT / ".github/ISSUE_TEMPLATE" / name).read_text("utf-8")
    head = text.split("---\n")[1] if name.endswith(".md") else text
    assert isinstance(yaml.safe_load(head), dict)
