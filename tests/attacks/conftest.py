"""What all attacks share: how many trials, the seed, and the count of what was found.

A test with the fixture ``trials`` says how many it makes with ``@pytest.mark.trials(quick, long)``.
It is there twice: quick, which every run of the tests does, and long, with the marker ``attack``,
which only ``make attacks`` does. ``DECENTRL_TRIALS=2`` makes twice as many trials, and
``DECENTRL_SEED`` others; ``DECENTRL_ATTACKS=FILE`` writes the counts as JSON.

    @pytest.mark.trials(5, 200)
    def test_flipped_bits(trials: int, chance: random.Random, tally: Tally) -> None:
        found = tally("files with a flipped bit")
        for _ in range(trials):
            found.trials += 1
            found.silent += ...  # it was loaded, and nobody said anything
        assert found.clean
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest

SCALE = float(os.environ.get("DECENTRL_TRIALS", "1"))
SEED = os.environ.get("DECENTRL_SEED", "0")
SETTINGS = (
    "model.dim=6", "propagation.dim=8", "propagation.relation_dim=3",
    "loss.entities=16", "training.epochs=2", "training.valid=0.0",
)  # fmt: skip


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "trials" not in metafunc.fixturenames:
        return
    marker = metafunc.definition.get_closest_marker("trials")
    assert marker, "say how many: @pytest.mark.trials(quick, long)"
    quick, long = (max(1, round(number * SCALE)) for number in marker.args)
    both = [
        pytest.param(quick, id="quick"),
        pytest.param(long, id="long", marks=pytest.mark.attack),
    ]
    metafunc.parametrize("trials", both)


@pytest.fixture
def chance(request: pytest.FixtureRequest) -> random.Random:
    """Random numbers of this test alone, the same every time."""
    return random.Random(f"{SEED} {request.node.name}")


@dataclass
class Found:
    """What one kind of attack did: all but ``trials`` should be 0."""

    kind: str
    trials: int = 0
    lost: int = 0  # acknowledged additions that are not there
    silent: int = 0  # changes that nobody noticed
    tracebacks: int = 0
    hangs: int = 0  # over 30 s
    outside: int = 0  # writes outside the run

    def take(self, story: dict[str, Any]) -> None:
        """The counts that a script returned; all else that it found wrong was silent."""
        self.silent = len(story.get("wrong", ()))
        for name in story.keys() & asdict(self).keys():
            setattr(self, name, story[name])

    @property
    def clean(self) -> bool:
        return not (self.lost or self.silent or self.tracebacks or self.hangs or self.outside)


Tally = Callable[[str], Found]


@pytest.fixture
def tally(request: pytest.FixtureRequest) -> Iterator[Tally]:
    """Begins the count of a kind of attack; all counts are printed at the end of a long run."""
    found: list[Found] = []

    def begin(kind: str) -> Found:
        found.append(Found(kind))
        return found[-1]

    yield begin
    # Reports carry these from the workers of xdist too.
    request.node.user_properties += [("attack", asdict(one)) for one in found]


Script = Callable[..., dict[str, Any]]


@pytest.fixture
def script(chance: random.Random) -> Script:
    """Runs a script beside this file and returns what it found: its JSON.

    Scripts of their own fork: so a child is at work a moment after the one before was killed.
    """

    def run(name: str, *arguments: object) -> dict[str, Any]:
        done = subprocess.run(
            [sys.executable, Path(__file__).with_name(name), *map(str, arguments)],
            capture_output=True, text=True, check=False,
            env={**os.environ, "OMP_NUM_THREADS": "1", "DECENTRL_SEED": str(chance.random())},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return dict(json.loads(done.stdout))

    return run


@pytest.fixture(scope="session")
def growing(
    twins: dict[str, list[tuple[str, ...]]], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    """``run``: a small aligner; ``later``: triples that arrive. Nobody writes to them."""
    from decentrl.aligner import Aligner
    from decentrl.data.alignment_task import AlignmentTask
    from decentrl.data.knowledge_graph import KnowledgeGraph

    folder = tmp_path_factory.mktemp("growing")
    names = {f"http://left.org/{i}" for i in range(20, 40)}
    known = [row for row in twins["left"] if not {row[0], row[2]} & names]
    arriving = [row for row in twins["left"] if {row[0], row[2]} & names]
    left = KnowledgeGraph.from_labels(*zip(*known, strict=True))
    right = KnowledgeGraph.from_labels(*zip(*twins["right"], strict=True))
    links = folder / "links.tsv"
    links.write_text("".join(f"{a}\t{b}\n" for a, b in twins["links"] if a not in names))
    task = AlignmentTask.read(left, right, links)
    Aligner.from_preset("strong", *SETTINGS, device="cpu").fit(task).save(folder / "run")
    for name, rows in {"left": known, "right": twins["right"], "later": arriving}.items():
        text = "".join("\t".join(row) + "\n" for row in rows)
        (folder / f"{name}.tsv").write_text(text, "utf-8")
    return {"run": folder / "run", "later": folder / "later.tsv"}


def pytest_terminal_summary(terminalreporter: Any) -> None:
    counts: dict[str, dict[str, Any]] = {}
    for report in (r for reports in terminalreporter.stats.values() for r in reports):
        if getattr(report, "when", "") != "teardown":
            continue
        for name, found in report.user_properties:
            if name == "attack":
                so_far = counts.setdefault(found["kind"], dict.fromkeys(found, 0))
                counts[found["kind"]] = {
                    key: value if key == "kind" else so_far[key] + value
                    for key, value in found.items()
                }
    rows = [counts[kind] for kind in sorted(counts)]
    if rows and terminalreporter.config.option.markexpr == "attack":
        terminalreporter.section("attacks")
        names = list(rows[0])
        # As in docs/reliability.md.
        terminalreporter.write_line(f"| {' | '.join(names)} |")
        terminalreporter.write_line(f"| --- |{' ---: |' * (len(names) - 1)}")
        for row in rows:
            numbers = (f"{row[name]:,}" for name in names[1:])
            terminalreporter.write_line(f"| {row['kind']} | {' | '.join(numbers)} |")
    if file := os.environ.get("DECENTRL_ATTACKS"):
        Path(file).write_text(json.dumps(rows, indent=2) + "\n", "utf-8")


Forked = Callable[[list[dict[str, Any]]], list[list[tuple[int, str, int]]]]


@pytest.fixture
def forked() -> Forked:
    """Runs trials of commands with ``forked.py``: exit status, stderr and operations of each."""

    def run(trials: list[dict[str, Any]]) -> list[list[tuple[int, str, int]]]:
        script = Path(__file__).with_name("forked.py")
        done = subprocess.run(
            [sys.executable, script],
            input=json.dumps(trials, default=str),
            capture_output=True,
            text=True,
            check=False,
            timeout=60 + 30 * len(trials),
        )
        assert done.returncode == 0, done.stderr
        found: list[list[tuple[int, str, int]]] = json.loads(done.stdout)
        return found

    return run
