"""A training on two threads gives the same bits in every process."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

ALIGN = """
from decentrl import Aligner
from decentrl.runs.sources import Sources, read_task
model = Aligner.from_preset("{preset}", "training.epochs=2", "model.dim=16", device="cpu")
model.fit(read_task(Sources(dataset="world"), model.config, "cpu")[0])
tensors = [model.vectors("left"), model.vectors("right")]
"""
PREDICT = """
from decentrl import Predictor
from decentrl.runs.sources import GraphSources, read_task
model = Predictor.from_preset("quick", "training.epochs=1", device="cpu")
model.fit(read_task(GraphSources(dataset="world/geonames"), model.config, "cpu")[0])
tensors = [model.vectors()]
"""
HASH = """
import hashlib, torch
assert torch.get_num_threads() == 2
print(hashlib.sha256(b"".join(t.numpy().tobytes() for t in tensors)).hexdigest())
"""


def digest(script: str) -> str:
    environment = os.environ | {"OMP_NUM_THREADS": "2", "MKL_NUM_THREADS": "2"}
    done = subprocess.run(
        [sys.executable, "-c", script + HASH],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize(
    "script",
    [ALIGN.format(preset="quick"), ALIGN.format(preset="strong"), PREDICT],
    ids=["quick", "strong", "predictor"],
)
def test_a_training_on_two_threads_is_the_same_in_another_process(script: str) -> None:
    assert digest(script) == digest(script)
