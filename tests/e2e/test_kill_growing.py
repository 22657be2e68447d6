"""What `add` acknowledged is there after kill -9, and nothing half is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from decentrl.aligner import Aligner
from decentrl.data.alignment_task import AlignmentTask
from decentrl.data.knowledge_graph import KnowledgeGraph

KILLS = 60
SETTINGS = (
    "model.dim=6", "propagation.dim=8", "propagation.relation_dim=3",
    "loss.entities=16", "training.epochs=2", "training.valid=0.0",
)  # fmt: skip


@pytest.mark.slow
def test_killed_again_and_again_while_adding(
    twins: dict[str, list[tuple[str, ...]]], tmp_path: Path
) -> None:
    later = {f"http://left.org/{i}" for i in range(20, 40)}
    known = [row for row in twins["left"] if not {row[0], row[2]} & later]
    arriving = [row for row in twins["left"] if {row[0], row[2]} & later]
    left = KnowledgeGraph.from_labels(*zip(*known, strict=True))
    right = KnowledgeGraph.from_labels(*zip(*twins["right"], strict=True))
    links = tmp_path / "links.tsv"
    links.write_text("".join(f"{a}\t{b}\n" for a, b in twins["links"] if a not in later))
    task = AlignmentTask.read(left, right, links)
    Aligner.from_preset("strong", *SETTINGS, device="cpu").fit(task).save(tmp_path / "trained")
    triples = tmp_path / "later.tsv"
    triples.write_text("".join("\t".join(row) + "\n" for row in arriving), "utf-8")
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("kill_growing.py"),
         tmp_path / "trained", tmp_path, str(KILLS), triples],
        capture_output=True, text=True, check=False, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["kills"] >= 50
    assert found["wrong"] == []
