"""Runs are done once, in order, within a budget, and no finished result is lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from decentrl.errors import InputError
from studies import execute as module
from studies.execute import Outcome, do_missing, execute
from studies.plan import expected_seconds
from studies.run import Run
from studies.store import Store, write_result

DATA = Run("data", "world")
TINY = Run("alignment", "world", "paper", ("model.dim=8", "training.epochs=2", "model.layers=2"))


def test_a_run_that_fails_does_not_stop_the_others(tmp_path: Path) -> None:
    store = Store(tmp_path)
    bad = replace(TINY, settings=("model.dim=8", "training.learning_rate=1e30"))
    runs = [DATA, bad, TINY, replace(DATA, unseen=0.2)]
    problems: list[str] = []

    def report(run: Run, problem: str, outcome: Outcome, left: float) -> None:
        problems.append(problem)

    outcome = execute(runs, store, jobs=2, device="cpu", trial=True, report=report)
    assert set(outcome.done) == {DATA, TINY, replace(DATA, unseen=0.2)}
    assert [run for run, _ in outcome.failed] == [bad]
    assert "training.learning_rate" in outcome.failed[0][1]
    assert sorted(map(bool, problems)) == [False, False, False, True]
    assert {path.name for path in tmp_path.iterdir()} == {run.file for run in outcome.done}
    again = Store(tmp_path)
    result = again.get(TINY)
    assert result is not None
    assert [row["name"] for row in result["layers"]] == [
        "input", "context", "layer 1", "layer 2", "concatenation",
    ]  # fmt: skip
    assert sum(row["n"] for row in result["degrees"]) == 654
    assert result["time"][0]["epochs"] == 2
    assert not again.has(bad)


def test_only_what_has_left_no_result_is_done(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store, opened = Store(tmp_path), replace(DATA, unseen=0.2)
    bad = Run("alignment", "world", "paper", ("model.dim=8", "training.learning_rate=1e30"))
    assert do_missing([DATA], store, jobs=1, trial=True) == []
    capsys.readouterr()
    failed = do_missing([replace(bad, seed=1), DATA, bad, opened], store, jobs=1, trial=True)
    assert [run for run, _ in failed] == [bad, replace(bad, seed=1)]
    named = [line.split()[0] for line in capsys.readouterr().err.splitlines()]
    assert named == [bad.name, opened.name, replace(bad, seed=1).name]
    assert store.has(opened)


def test_an_unforeseen_error_is_reported_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "write_result", full)
    problem = module._attempt(DATA, tmp_path, "cpu", 1, True)
    assert problem == "OSError: [Errno 28] No space left on device"


def test_a_run_for_a_worker_that_has_died_fails_alone(tmp_path: Path) -> None:
    worker = module.Worker(tmp_path, "cpu", 1, True)
    worker.process.kill()
    worker.process.join()
    worker.start(DATA)
    assert worker.finish() is None
    worker.end()


LONG = """
from pathlib import Path
from studies.execute import execute
from studies.run import Run
from studies.store import Store

if __name__ == "__main__":
    run = Run("alignment", "world", "paper", ("training.epochs=100000",))
    execute([run], Store(Path("results")), device="cpu", trial=True)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="children are looked up in /proc")
def test_workers_of_a_killed_command_end_too(tmp_path: Path) -> None:
    script = tmp_path / "long.py"
    script.write_text(LONG, "utf-8")
    root = Path(__file__).parents[2]
    paths = [str(root), *filter(None, [os.environ.get("PYTHONPATH")])]  # studies are not installed
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    with subprocess.Popen([sys.executable, str(script)], cwd=tmp_path, env=env) as command:
        children = Path(f"/proc/{command.pid}/task/{command.pid}/children")

        def workers() -> list[str]:
            found = children.read_text("utf-8").split()
            return [x for x in found if b"spawn_main" in Path(f"/proc/{x}/cmdline").read_bytes()]

        try:
            wait_until(lambda: bool(workers()))
            (worker,) = workers()
            # It must be at work, not only about to start: torch is there, and threads with it.
            wait_until(lambda: "libtorch" in Path(f"/proc/{worker}/maps").read_text("utf-8"))
        finally:
            command.kill()
    wait_until(lambda: has_ended(worker))


def has_ended(pid: str) -> bool:
    try:
        return "State:\tZ" in Path(f"/proc/{pid}/status").read_text("utf-8")
    except OSError:
        return True


def wait_until(true: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.1)


def test_two_processes_may_write_the_same_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one writes while this one is about to put its file in place."""
    replaced = Path.replace

    def meanwhile(self: Path, target: Path) -> Path:
        monkeypatch.setattr(Path, "replace", replaced)
        with monkeypatch.context() as other:
            other.setattr(os, "getpid", lambda: -1)
            write_result(tmp_path, DATA, {"key": "other"}, trial=True)
        return replaced(self, target)

    monkeypatch.setattr(Path, "replace", meanwhile)
    write_result(tmp_path, DATA, {"key": "this"}, trial=True)
    assert json.loads((tmp_path / DATA.file).read_bytes()) == {"key": "this"}
    assert [path.name for path in tmp_path.iterdir()] == [DATA.file]


def test_a_run_alone_has_all_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []
    given = [TINY, replace(TINY, alone=True)]
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    monkeypatch.setattr("torch.set_num_threads", taken.append)

    class Pipe:
        def recv(self) -> tuple[Run, str]:
            if not given:
                raise EOFError
            run = given.pop(0)
            return run, run.key

        def send(self, problem: str) -> None:
            pass

    monkeypatch.setattr(module, "_attempt", lambda *_: "")
    monkeypatch.setattr("signal.signal", lambda *_: None)
    module._work(Pipe(), Path(), "cpu", 4, True)  # type: ignore[arg-type]
    assert taken == [2, 8]


class FakeWorker:
    """Ends every run at once, in the order of the workers."""

    log: list[list[Run]]

    def __init__(self, folder: Path, device: str, at_once: int, trial: bool) -> None:
        self.folder, self.run = folder, None
        self.connection = self

    def start(self, run: Run) -> None:
        self.run = run  # type: ignore[assignment]

    def finish(self) -> str:
        assert self.run is not None
        write_result(self.folder, self.run, {"key": self.run.key, "run": vars(self.run),
                                             "seconds": {"whole": 1.0}}, trial=True)  # fmt: skip
        self.run = None
        return ""

    def end(self) -> None:
        pass


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> list[list[Run]]:
    """Which runs were under way together, time by time."""
    log: list[list[Run]] = []

    def wait(connections: list[FakeWorker]) -> list[FakeWorker]:
        log.append([worker.run for worker in connections if worker.run is not None])
        return connections[:1]

    monkeypatch.setattr(module, "Worker", FakeWorker)
    monkeypatch.setattr(module, "wait", wait)
    return log


def test_a_timed_run_has_the_device_to_itself(store: Store, at_once: list[list[Run]]) -> None:
    timed = [replace(TINY, alone=True, seed=seed) for seed in range(2)]
    others = [replace(TINY, seed=seed) for seed in range(5)]
    outcome = execute([*others, *timed], store, jobs=3, trial=True)
    assert len(outcome.done) == 7
    assert max(map(len, at_once)) == 3
    assert all(len(runs) == 1 for runs in at_once if any(run.alone for run in runs))


def test_nothing_is_started_that_does_not_fit(
    store: Store, at_once: list[list[Run]], keep: Callable[..., None]
) -> None:
    slow, quick = replace(TINY, preset="strong"), TINY
    keep(slow, [0.5], seconds=100)
    keep(quick, [0.5], seconds=1)
    slow, quick = replace(slow, seed=1), replace(quick, seed=1)
    outcome = execute([slow, quick], store, budget=50, trial=True)
    assert outcome.done == [quick]
    assert outcome.left == [slow]


def test_the_time_left_counts_what_is_under_way(
    store: Store, at_once: list[list[Run]], keep: Callable[..., None]
) -> None:
    keep(replace(TINY, preset="strong"), [0.5], seconds=100)
    runs = [replace(TINY, preset="strong", seed=1), replace(TINY, preset="strong", seed=2)]
    timed = replace(TINY, preset="strong", seed=3, alone=True)
    seconds: list[float] = []

    def report(run: Run, problem: str, outcome: Outcome, left: float) -> None:
        seconds.append(left)

    execute([*runs, timed], store, jobs=2, trial=True, report=report)
    # After the first one: the other, and then the one that is alone, at 100 and 1 seconds' mean.
    assert seconds[0] == pytest.approx(2 * 50.5, abs=1)
    assert seconds[-1] == 0


def test_expected_time_is_that_of_the_runs_most_alike(
    store: Store, keep: Callable[..., None]
) -> None:
    assert expected_seconds(TINY, []) == 0
    keep(replace(TINY, preset="strong"), [0.5], seconds=100)
    assert expected_seconds(TINY, store.all()) == 100
    keep(replace(TINY, dataset="dbp15k/zh-en"), [0.5], seconds=30)
    assert expected_seconds(TINY, store.all()) == 30
    keep(TINY, [0.5, 0.6], seconds=7)
    assert expected_seconds(replace(TINY, seed=9), store.all()) == 7
    assert expected_seconds(DATA, store.all()) == 0


def test_half_a_file_is_no_result(store: Store, keep: Callable[..., None]) -> None:
    keep(TINY, [0.5])
    path = store.folder / TINY.file
    text = path.read_text("utf-8")
    assert list(json.loads(text)) == sorted(json.loads(text))
    (store.folder / "x.json.part").write_text(text[:50])
    assert Store(store.folder).has(TINY)
    path.write_text(text[:50])
    with pytest.raises(InputError, match=r"not a result file.*delete it"):
        Store(store.folder)


@pytest.mark.parametrize(
    ("found", "problem"), [("abc1234+", "commit or stash"), ("", "clone the repository")]
)
def test_nothing_is_trained_or_kept_from_an_uncommitted_tree(
    found: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def started(*_: object) -> None:
        raise AssertionError("a worker was started")

    monkeypatch.setattr(module, "commit", lambda: found)
    monkeypatch.setattr(module, "Worker", started)
    with pytest.raises(InputError, match=problem) as raised:
        do_missing([DATA], Store(tmp_path), jobs=1)
    assert len(str(raised.value).splitlines()) == 1
    with pytest.raises(InputError, match=problem):  # the tree may change while a run is trained
        write_result(tmp_path, DATA, {"key": "x", "commit": found})
    assert not list(tmp_path.iterdir())
    write_result(tmp_path, DATA, {"key": "x", "commit": "abc1234"})
    assert [path.name for path in tmp_path.iterdir()] == [DATA.file]
