"""Entities that are in no graph: asked about, and never taken in."""

from __future__ import annotations

from pathlib import Path

import torch

from decentrl import Aligner
from decentrl.growth.strangers import prepare


def test_preparing_changes_nothing(world_run: Path) -> None:
    """What is made ahead is what an addition would have made; nothing is there that was not."""
    ready, other = Aligner.load(world_run, "cpu"), Aligner.load(world_run, "cpu")
    before = ready.vectors("left").clone()
    sizes = [len(graph.entities) for graph in ready.growing.sides.values()]
    prepare(ready)
    assert [len(graph.entities) for graph in ready.growing.sides.values()] == sizes
    assert torch.equal(ready.vectors("left"), before)
    assert not ready.log()
    for aligner in (ready, other):
        graph = aligner.growing.sides["left"]
        relation, tail = graph.trained.relations[0], graph.entities[5]
        aligner.add([("?new", relation, tail)], side="left")
    assert torch.equal(ready.vectors("left"), other.vectors("left"))
    assert ready.match("?new", top=5).to_pylist() == other.match("?new", top=5).to_pylist()
