"""What all tests share."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import hypothesis
import pytest

# How long an example takes says more about the machine than about the code.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")

ABSENT = "benchmark files absent: set DECENTRL_DATA"
NO_BROWSER = "no browser: apt-get install chromium, and pip install playwright"


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say how many tests did not run for want of the benchmark files, or of a browser."""
    reasons = [str(report.longrepr) for report in terminalreporter.getreports("skipped")]
    for wanted, what in ((ABSENT, "benchmark files"), (NO_BROWSER, "a browser")):
        number = sum(wanted in reason for reason in reasons)
        terminalreporter.write_line(f"{number} tests skipped for want of {what}")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs the benchmark files where there are none."""
    folder = os.environ.get("DECENTRL_DATA")
    if folder and Path(folder).is_dir():
        return
    skip = pytest.mark.skip(reason=ABSENT)
    for item in items:
        if item.get_closest_marker("data"):
            item.add_marker(skip)


# Tiny tensors are not worth sharing out, and threads that wait busily for each other make them
# forty times slower on shared cores. Processes that tests start inherit it.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

QUICK = ("--preset", "tiny", "--set", "training.epochs=3", "--device", "cpu")


@pytest.fixture(autouse=True)
def own_random_state() -> Iterator[None]:
    """No test sees the random numbers of another."""
    import torch

    with torch.random.fork_rng(devices=[]):
        yield


@pytest.fixture(params=["dan", "reflection", "none"])
def encoder(request: pytest.FixtureRequest) -> str:
    """Every encoder of prediction."""
    return str(request.param)


class Outcome(NamedTuple):
    """What a command did."""

    code: int
    out: str
    err: str


@pytest.fixture
def decentrl(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Outcome]:
    """The command line in this process: ``decentrl("info", run)``."""
    from decentrl.cli import main

    def run(*arguments: object) -> Outcome:
        monkeypatch.setattr("sys.argv", ["decentrl", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        return Outcome(int(ended.value.code or 0), *capsys.readouterr())

    return run


@pytest.fixture(scope="session")
def twins() -> dict[str, list[tuple[str, ...]]]:
    """One random graph told twice with other names: rows of left, right, links and test links."""
    rng = random.Random(5)
    size, places = 40, {"left": "http://left.org/", "right": "http://right.org/e/"}
    triples = {(rng.randrange(size), rng.randrange(3), rng.randrange(size)) for _ in range(120)}
    # A ring, so that every entity is in the graph.
    triples |= {(i, 0, (i + 1) % size) for i in range(size)}
    rows: dict[str, list[tuple[str, ...]]] = {
        side: [(f"{at}{h}", f"{at}r{r}", f"{at}{t}") for h, r, t in sorted(triples)]
        for side, at in places.items()
    }
    links = [(f"{places['left']}{i}", f"{places['right']}{i}") for i in range(size)]
    rng.shuffle(links)
    return {**rows, "links": links[:25], "test": links[25:]}


@pytest.fixture(scope="session")
def twin_files(
    twins: dict[str, list[tuple[str, ...]]], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    """The twins as TSV files; nobody writes to them."""
    folder = tmp_path_factory.mktemp("twins")
    files = {name: folder / f"{name}.tsv" for name in twins}
    for name, file in files.items():
        file.write_text("".join("\t".join(row) + "\n" for row in twins[name]), "utf-8")
    return files


def _finished_run(folder: Path, *arguments: str) -> Path:
    from typer.testing import CliRunner

    from decentrl.cli.commands import app

    asked = ["align", "--dataset", "world", *arguments, *QUICK, "-o", str(folder)]
    result = CliRunner().invoke(app, asked, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return folder


@pytest.fixture(scope="session")
def world_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run over ``world``; nobody writes to it."""
    return _finished_run(tmp_path_factory.mktemp("runs") / "world")


@pytest.fixture(scope="session")
def open_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same in the open world."""
    return _finished_run(tmp_path_factory.mktemp("runs") / "open", "--open-world")


PREDICT = (
    "--preset", "paper", "--set", "model.dim=16", "--set", "training.epochs=4",
    "--set", "training.batch=64", "--set", "training.validate_every=2", "--device", "cpu",
)  # fmt: skip


@pytest.fixture(scope="session")
def people() -> list[tuple[str, str, str]]:
    """A small graph in which one thing follows from another: who lives where is citizen of what."""
    rng = random.Random(3)
    cities = {f"city {i}": f"country {i % 4}" for i in range(8)}
    rows = {(city, "lies in", country) for city, country in cities.items()}
    rows |= {(f"country {i}", "speaks", f"language {i % 3}") for i in range(4)}
    for i in range(32):
        city = f"city {rng.randrange(8)}"
        rows |= {(f"person {i}", "lives in", city), (f"person {i}", "citizen of", cities[city])}
        friend = (i + 1 + rng.randrange(30)) % 32
        rows |= {(f"person {i}", "knows", f"person {friend}")}
        rows |= {(f"person {friend}", "knows", f"person {i}")}
    return sorted(rows)


@pytest.fixture(scope="session")
def people_file(
    people: list[tuple[str, str, str]], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The same as a TSV file; nobody writes to it."""
    file = tmp_path_factory.mktemp("people") / "people.tsv"
    file.write_text("".join("\t".join(row) + "\n" for row in people), "utf-8")
    return file


@pytest.fixture(scope="session")
def people_run(people_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of prediction; nobody writes to it."""
    from typer.testing import CliRunner

    from decentrl.cli.commands import app

    folder = tmp_path_factory.mktemp("runs") / "people"
    asked = ["complete", str(people_file), *PREDICT, "-o", str(folder)]
    result = CliRunner().invoke(app, asked, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return folder
