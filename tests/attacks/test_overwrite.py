"""``--overwrite`` killed at any moment; settings edited before a run goes on."""

from __future__ import annotations

import json
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from decentrl.config import Config
from decentrl.runs.run import make_run
from decentrl.runs.sources import Sources
from tests.attacks.conftest import Forked, Tally

TINY = ("--preset", "tiny", "--set", "model.dim=8", "--set", "training.epochs=2",
        "--set", "training.checkpoint_every=0", "--device", "cpu")  # fmt: skip


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.fixture(scope="module")
def align(twin_files: dict[str, Path]) -> list[str]:
    left, right, links = (str(twin_files[name]) for name in ("left", "right", "links"))
    return ["align", left, right, "--links", links, *TINY]


@pytest.fixture(scope="module")
def old_run(align: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    from typer.testing import CliRunner

    from decentrl.cli.commands import app

    run = tmp_path_factory.mktemp("old") / "run"
    CliRunner().invoke(app, [*align, "-o", str(run)], catch_exceptions=False)
    return run


@pytest.mark.trials(3, 150)
def test_overwrite_killed_at_any_moment(
    trials: int,
    chance: random.Random,
    tally: Tally,
    forked: Forked,
    decentrl: Callable[..., Any],
    align: list[str],
    old_run: Path,
    tmp_path: Path,
) -> None:
    found, old = tally("kills of --overwrite"), contents(old_run)

    def trial(name: str, kill_at: int) -> dict[str, Any]:
        place = tmp_path / name
        shutil.copytree(old_run, place / "run")
        shutil.copytree(old_run, place / "run.replaced")  # the user's own
        command = [*align, "--seed", "1", "--overwrite", "-o", place / "run"]
        return {"commands": [command], "watch": str(place), "kill_at": kill_at}

    ((_, said, operations),) = forked([trial("whole", 0)])[0]
    assert json.loads((tmp_path / "whole/run/results.json").read_bytes())["seed"] == 1, said
    # Half of the moments are before training, when the old run is put aside.
    last = [operations // 4, operations]
    moments = [chance.randint(1, last[i % 2]) for i in range(trials)]
    killed = forked([trial(str(i), moment) for i, moment in enumerate(moments)])
    for i, ((code, _, _),) in enumerate(killed):
        place, run = tmp_path / str(i), tmp_path / str(i) / "run"
        assert code == -9
        found.trials += 1
        where = f"killed at {moments[i]} of {operations}"
        assert contents(place / "run.replaced") == old, f"{where}: the user's own folder is gone"
        reading = decentrl("info", run)
        assert (
            reading.code == 0
            or "before-overwrite" in reading.err
            or "puts it back" in (reading.err)
        ), f"{where}: {reading.err}"
        if i % 4 < 2:
            resumed = decentrl("align", "--resume", "--device", "cpu", "-o", run)
            assert resumed.code == 0 or "is finished" in resumed.err, f"{where}: {resumed.err}"
        else:
            again = decentrl(*align, "--seed", "1", "--overwrite", "-o", run)
            assert again.code == 0, f"{where}: {again.err}"
        now = contents(run)
        if now != old:
            found.lost += json.loads(now["results.json"])["seed"] != 1
            if now.keys() != old.keys():
                found.silent += 1
                print(where, sorted(now.keys() ^ old.keys()))
        assert {path.name for path in place.iterdir()} == {"run", "run.replaced"}, where
        assert contents(place / "run.replaced") == old, f"{where}: the user's own folder is gone"
    assert found.clean


def test_a_folder_of_the_users_is_not_taken_for_a_run_put_aside(
    decentrl: Callable[..., Any], align: list[str], old_run: Path, tmp_path: Path
) -> None:
    for name, more in (("site", []), ("site", ["--overwrite"]), ("empty", [])):
        place = tmp_path / name
        (place / "before-overwrite").mkdir(parents=True, exist_ok=True)
        (place / "before-overwrite" / "draft.txt").write_text("dear")
        if name == "site":
            (place / "index.html").write_text("mine")
        before = contents(place)
        done = decentrl(*align, *more, "-o", place)
        assert done.code == 2, more
        assert contents(place) == before


def test_what_a_killed_command_has_not_deleted_is_in_nobodys_way(
    decentrl: Callable[..., Any], align: list[str], old_run: Path, tmp_path: Path
) -> None:
    run = shutil.copytree(old_run, tmp_path / "run")
    shutil.copytree(old_run, run / "before-overwrite")
    shutil.copytree(old_run / "bundle", run / ".before-overwrite.old")
    assert decentrl("info", run).code == 0
    assert decentrl(*align, "--seed", "1", "--overwrite", "-o", run).code == 0
    assert {path.name for path in run.iterdir()} == {path.name for path in old_run.iterdir()}


def test_what_a_killed_command_has_not_deleted_is_deleted_by_the_next_one(
    decentrl: Callable[..., Any], align: list[str], old_run: Path, tmp_path: Path
) -> None:
    """It was killed after the new run was finished, while it deleted the old one."""
    for name in ("before-overwrite", ".before-overwrite.old"):
        run = shutil.copytree(old_run, tmp_path / name)
        shutil.copytree(old_run, run / name)
        assert "this run is finished" in decentrl("align", "--resume", "-o", run).err
        assert contents(run) == contents(old_run)


@pytest.mark.trials(10, 200)
def test_settings_edited_before_a_run_goes_on(
    trials: int,
    chance: random.Random,
    tally: Tally,
    decentrl: Callable[..., Any],
    twin_files: dict[str, Path],
    tmp_path: Path,
) -> None:
    class Killed(BaseException):
        pass

    def kill(_: Any) -> None:
        raise Killed

    left, right, links = (str(twin_files[name]) for name in ("left", "right", "links"))
    config = Config.from_preset("tiny", ("model.dim=8", "training.epochs=2"))
    with pytest.raises(Killed):
        make_run(Sources(left=left, right=right, links=links), config, tmp_path / "killed",
                 device="cpu", on_epoch=kill)  # fmt: skip
    found = tally("settings edited before a run goes on")
    for i in range(trials):
        run = shutil.copytree(tmp_path / "killed", tmp_path / str(i))
        lines = (run / "config.toml").read_text("utf-8").splitlines(True)
        place = chance.choice([n for n, line in enumerate(lines) if re.search(r"= .*\d", line)])
        digit = re.search(r"\d(?=\D*$)", lines[place])
        assert digit
        other = str((int(digit[0]) + 1) % 10)
        edited = lines[place][: digit.start()] + other + lines[place][digit.end() :]
        lines[place] = chance.choice([edited, edited, f"# {lines[place]}", ""])
        (run / "config.toml").write_text("".join(lines), "utf-8")
        done = decentrl("align", "--resume", "--device", "cpu", "-o", run)
        found.trials += 1
        found.silent += "config.toml: " not in done.err
        if done.code == 0:
            print("accepted:", lines[place])
        else:
            assert (done.code, done.err.count("\n")) == (2, 1)
    assert found.clean, found
