"""A run of answers by paths keeps what it acknowledged, whenever it is killed."""

from __future__ import annotations

import random
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from textwrap import dedent

import pytest

from decentrl.predictor import Predictor

QUICK = ("model.dim=8", "model.layers=2", "training.epochs=1", "training.steps=3")
CHILD = """
    import sys
    from decentrl.predictor import Predictor
    with Predictor.load(sys.argv[1], "cpu", durable=True) as predictor:
        for i in range(len(predictor.log()), 10_000):
            new = f"new {i}"
            predictor.add([(new, "knows", "person 1"), (new, "knows", f"new {i - 1}")])
            print(i, flush=True)
            if i % 5 == 4:
                predictor.compact()
"""


@pytest.mark.trials(3, 60)
def test_what_was_acknowledged_is_asked_about(
    people: list[tuple[str, str, str]], trials: int, tmp_path: Path
) -> None:
    run, chance, last = tmp_path / "run", random.Random(0), -1
    Predictor.from_preset("paths", *QUICK, device="cpu").fit(people, test=0.1).save(run)
    for _ in range(trials):
        command = [sys.executable, "-c", dedent(CHILD), str(run)]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        assert select.select([child.stdout], [], [], 120)[0]
        time.sleep(chance.random() * 0.3)
        child.send_signal(signal.SIGKILL)
        said = child.communicate()[0].split()
        assert int(said[0]) > last - 1
        last = int(said[-1])
        with Predictor.load(run, "cpu") as found:
            done = len(found.log())
            assert last < done <= last + 2
            names = found.task.graph.entities
            assert all(f"new {i}" in names for i in range(done))
            table = found.predict(head=f"new {last}", relation="knows", top=3)
            assert table.num_rows == 3
