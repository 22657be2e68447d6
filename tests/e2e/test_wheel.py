"""What is installed from the wheel works: data and presets are inside, the command is there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, so that the build leaves nothing in the repository."""
    source = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    skip = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "src", source / "src", ignore=skip)
    target = source / "dist"
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "-o", target, source)
    (found,) = target.iterdir()
    return found


def run(*command: object, cwd: Path | None = None) -> str:
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env=clean,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_wheel_holds_all_files_of_the_package_and_no_other(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    source = ROOT / "src"
    expected = {
        str(path.relative_to(source))
        for path in (source / "decentrl").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert names == expected
    assert {"decentrl/py.typed", "decentrl/config/presets/paper.toml"} <= names
    assert "decentrl/data/world/triples_1.tsv.gz" in names


def test_the_installed_command_aligns(wheel: Path, tmp_path: Path) -> None:
    place = tmp_path / "venv"
    venv.create(place, with_pip=False, symlinks=True)
    python = place / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-deps", "--no-index",
        wheel)  # fmt: skip
    # Torch and the others come from here; a line in a .pth file does not activate the .pth files
    # of the folder it names, so the editable installation stays out.
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(place)}))
    (packages / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")

    where = run(python, "-c", "import decentrl; print(decentrl.__file__)", cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(packages)
    command = place / "bin" / "decentrl"
    out = run(
        command, "align", "--dataset", "world", "--preset", "tiny", "--set", "training.epochs=2",
        "--device", "cpu", "--json", "-o", "run", cwd=tmp_path,
    )  # fmt: skip
    assert len(json.loads(out)["results"]) == 12
    assert (tmp_path / "run" / "report.html").exists()
    assert (
        len(run(command, "match", "run", "Albanie", "--top", "3", cwd=tmp_path).splitlines()) == 3
    )
